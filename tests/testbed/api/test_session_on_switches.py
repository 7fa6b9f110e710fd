"""A session: an ordinary process works on a network of real switches, and nothing outlives it."""

from __future__ import annotations

import asyncio
import json
import os
import pwd
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import testbed
from testbed.errors import InputError, SessionClosedError, TimeLimitError, UsageError
from tests.helpers.ordinary_user import as_ordinary_user
from tests.helpers.paths import ROOT
from tests.helpers.warm import TESTBED, WarmProcess, run

pytestmark = [pytest.mark.emulation, pytest.mark.unclocked]

OWNER = """
import sys, testbed
with testbed.session("ring:4", name=sys.argv[1]) as session:
    session.fail("s0->s1")
    lost = session.ping("h0", "h1", 1, wait_s=0.2).received
    session.restore("s0->s1")
    back = session.ping("h0", "h1", 1).received
    session.fail("s1->s2", "blackhole")
    left_running = session.popen("h0", ["sleep", "1000"])
    recording = session.capture("h0->s0", sys.argv[2])
    print("READY", lost, back, flush=True)
    sys.stdin.read()
"""


@pytest.fixture(scope="module")
def session() -> Iterator[testbed.Session]:
    with testbed.session("ring:4") as held:
        yield held


def marked_processes(mark: str) -> list[str]:
    """Processes whose environment carries the mark."""
    found = []
    for directory in Path("/proc").iterdir():
        if directory.name.isdigit():
            try:
                if mark.encode() in (directory / "environ").read_bytes():
                    found.append((directory / "cmdline").read_bytes().replace(b"\0", b" ").decode())
            except OSError:
                continue
    return found


def wait_until_gone(mark: str, limit_s: float = 30.0) -> list[str]:
    limit = time.monotonic() + limit_s
    while (left := marked_processes(mark)) and time.monotonic() < limit:
        time.sleep(0.05)
    return left


def test_program_in_a_host_has_the_hosts_address_and_its_own_exit_code(
    session: testbed.Session,
) -> None:
    done = session.exec("h0", ["ip", "-o", "-4", "address"])
    assert session.address("h0") in done.stdout and done.returncode == 0
    assert session.exec("h1", ["sh", "-c", "cat; exit 7"], input="words").stdout == "words"
    assert session.exec("h1", ["sh", "-c", "exit 7"]).returncode == 7
    assert session.exec("h1", ["sh", "-c", "kill -TERM $$"]).returncode == -signal.SIGTERM
    assert len(session.exec("s0", ["ovs-vsctl", "list-br"]).stdout.split()) == 4


@pytest.mark.parametrize(
    "words", [{"argv": ["echo", "a\0b"]}, {"env": {"A=B": "1"}}, {"env": {"A": "\0"}}]
)
def test_refused_program_ends_what_reads_its_output(
    session: testbed.Session, words: dict[str, Any]
) -> None:
    done = session.exec("h0", **{"argv": ["true"], **words, "timeout_s": 10})
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.startswith("testbed: ") and "met an error" not in done.stderr


def test_program_begins_where_popen_says(session: testbed.Session) -> None:
    with session.popen("h0", ["pwd"], cwd="/usr", stdout=subprocess.PIPE, text=True) as program:
        assert program.communicate()[0] == "/usr\n"


def test_values_of_other_types_are_refused(session: testbed.Session) -> None:
    wrong: Any = "x"
    nothing: Any = None
    for call in (
        lambda: session.fail("s0->s1", kind=nothing),
        lambda: session.fail("s0->s1", "loss", loss=wrong),
        lambda: session.ping("h0", "h1", wait_s=wrong),
        lambda: session.exec("h0", ["true"], timeout_s=wrong),
    ):
        with pytest.raises(UsageError, match="; give "):
            call()
    for wait_s in (0, -1, float("nan"), float("inf")):
        with pytest.raises(InputError, match=r"timeout_s .*: give more than 0"):
            session.exec("h0", ["true"], timeout_s=wait_s)


def test_bytes_that_are_no_text_are_kept(session: testbed.Session) -> None:
    said = session.exec("h0", ["printf", r"\377a"]).stdout
    assert said.encode(errors="surrogateescape") == b"\xffa"


def test_popen_is_ended_by_its_stand_ins_end(session: testbed.Session) -> None:
    word = uuid.uuid4().hex
    program = session.popen("h2", ["sh", "-c", f"sleep 1000; : {word}"])
    limit = time.monotonic() + 10
    while not _running(session, word) and time.monotonic() < limit:
        time.sleep(0.05)
    assert _running(session, word)
    program.kill()
    program.wait(5)
    while _running(session, word) and time.monotonic() < limit:
        time.sleep(0.05)
    assert not _running(session, word)
    with pytest.raises(TimeLimitError, match="timed out after"):
        session.exec("h2", ["sleep", "1000"], timeout_s=0.2)


def _running(session: testbed.Session, word: str) -> bool:
    """Whether a process of the sandbox has the word among its own; the one that looks does not spell it out."""
    looking = f"grep -la '{word[:8]}''{word[8:]}' /proc/[0-9]*/cmdline"
    return "cmdline" in session.exec("s0", ["sh", "-c", looking]).stdout


def test_failed_link_takes_its_packets_until_it_is_restored(session: testbed.Session) -> None:
    assert session.ping("h0", "h1").received == 3
    began = time.monotonic()
    assert began <= session.fail("s0->s1") <= time.monotonic()
    assert session.ping("h0", "h1", wait_s=0.2).loss == 1
    assert session.ping("h0", "h3").received == 3
    with pytest.raises(InputError, match="no active fault"):
        session.restore("s1->s2")
    session.restore("s0->s1")
    assert session.ping("h0", "h1").received == 3


def test_switches_have_end_points_of_their_own(session: testbed.Session) -> None:
    assert session.ping("s0", "s2").received == 3


def test_threads_call_at_once(session: testbed.Session) -> None:
    found: list[Any] = [None] * 8

    def call(number: int) -> None:
        found[number] = session.ping(f"h{number % 4}", f"h{(number + 1) % 4}", every_s=0.1).received
        session.counters()

    began = time.monotonic()
    threads = [threading.Thread(target=call, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [3] * 8
    assert time.monotonic() - began < 8 * 0.2 + 3


def test_installed_route_carries_the_pairs_packets(session: testbed.Session) -> None:
    def over(first: str) -> int:
        before = session.counters()
        session.ping("h0", "h1", 5, every_s=0.1)
        after = session.counters()
        return after["s0", first, 0].packets - before["s0", first, 0].packets

    assert over("s1") == 5
    network = testbed.network("ring:4")
    links = [link for link in network.links if {link.source, link.target} != {"s0", "s1"}]
    from dataclasses import replace
    from fractions import Fraction

    around = testbed.route(replace(network, links=tuple(links)), "h0", "h1", "single")
    loads = {link.id: load for link, load in zip(links, around.loads, strict=True)}
    route = replace(
        around,
        network=network,
        loads=tuple(loads.get(link.id, Fraction(0)) for link in network.links),
    )
    installed = session.install(route)
    assert installed.rules > 0 and over("s3") == 5 and over("s1") == 0
    session.install(testbed.route(network, "h0", "h1", "single"))
    assert over("s1") == 5


def test_capture_holds_what_arrived(session: testbed.Session, tmp_path: Path) -> None:
    with session.capture("h0->s0", tmp_path / "link.pcap") as recording:
        session.ping("h0", "h2", 4, every_s=0.1)
    assert recording.path.stat().st_size == 24 + 4 * (16 + 98)


def test_stream_over_a_session_is_judged_as_the_commands_is(session: testbed.Session) -> None:
    session.install(
        testbed.route(testbed.network("ring:4"), "s0", "s2", "single")
    )  # the stream installs its own
    outcome = session.stream("s0", "s2", faults=["s0->s1@1.8-2.6"], duration_s=3.4, rate_pps=200)
    assert outcome.verdict.invalid is not None or outcome.passed, outcome.verdict.to_json()[
        "failed"
    ]
    assert outcome.document["fabric"] == "emulation" and outcome.rows[0]["link"] == "s0->s1"
    assert session.ping("h0", "h2").received == 3


@pytest.mark.long
def test_bulk_over_a_session_verifies_every_message(
    session: testbed.Session, valid_run: Any
) -> None:
    outcome = valid_run(lambda: session.bulk(message_bytes=200_000, inject_packets=5))
    assert outcome.document["verified"] and outcome.document["transfers"] == 12
    assert session.ping("h0", "h2").received == 3
    session.fail("s0->s1")
    with pytest.raises(InputError, match="is active; restore it first"):
        session.bulk(message_bytes=50_000)
    session.restore("s0->s1")


def test_plan_of_another_network_is_refused(session: testbed.Session) -> None:
    with pytest.raises(InputError, match="no host 'h9'"):
        session.exec("h9", ["true"])
    with pytest.raises(InputError, match=r"is up here|this session holds"):
        session.install(testbed.route("ring:5", "h0", "h1"))


def test_exec_and_attach_reach_a_session(session: testbed.Session) -> None:
    def said(*words: str, text: str = "") -> subprocess.CompletedProcess[str]:
        return run(
            [*TESTBED, *words], input=text, capture_output=True, text=True, timeout=60, check=False
        )

    listed = json.loads(said("attach", "--json").stdout)
    assert session.name in listed["networks"]
    (row,) = [row for row in listed["running"] if row["name"] == session.name]
    network = session.network
    size = (len(network.switches), len(network.hosts), len(network.links) // 2)
    assert (row["switches"], row["hosts"], row["cables"]) == size
    assert 0 < row["age_s"] < 3600 and row["owner"] == pwd.getpwuid(os.geteuid()).pw_name
    assert row["pid"] == os.getpid() and "python" in row["command"]
    shown = said("attach").stdout
    assert session.name in shown and row["owner"] in shown and " s" in shown
    done = said("exec", session.name, "h1", "--", "sh", "-c", "cat; exit 5", text="through")
    assert (done.returncode, done.stdout) == (5, "through")
    wrong = said("exec", "nobody", "h1", "--", "true")
    assert wrong.returncode == 2 and "no network named 'nobody' is up" in wrong.stderr
    prompt = said(
        "attach",
        session.name,
        text="h0 ping -c 1 -W 1 10.0.0.2\nfault s0->s1\nrestore s0->s1\nnonsense\n",
    )
    assert "1 received" in prompt.stdout and "s0->s1 restored" in prompt.stdout
    assert prompt.returncode == 2 and "unknown command 'nonsense'" in prompt.stderr


@pytest.mark.long
def test_run_from_an_ordinary_process_builds_a_sandbox_of_its_own(valid_run: Any) -> None:
    plan = testbed.stream_plan("ring:4", "s0", "s2", faults="none", duration_s=1.5, rate_pps=200)
    told: list[str] = []
    outcome = valid_run(
        lambda: testbed.run(
            plan, "emulation", progress=lambda progress: told.append(progress.doing)
        )
    )
    assert outcome.fabric == "emulation" and len(outcome.measurements.sent.time_s) >= 200
    assert "streaming" in told


@pytest.mark.parametrize("user", [pytest.param("own", marks=pytest.mark.long), "ordinary"])
def test_killed_owner_leaves_nothing(user: str, tmp_path: Path) -> None:
    if user == "ordinary" and os.geteuid() != 0:
        pytest.skip("runs as an ordinary user already")
    name, value = "TESTBED_TEST_MARK", uuid.uuid4().hex
    pcap = tmp_path / "link.pcap" if user == "own" else Path("/mnt/home/link.pcap")
    words = [sys.executable, "-c", OWNER, f"killed-{value[:8]}", str(pcap)]
    before = {path.name for path in Path("/sys/class/net").iterdir()}
    owner = subprocess.Popen(
        words if user == "own" else as_ordinary_user(words),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={
            **os.environ,
            name: value,
            "TMPDIR": str(tmp_path) if user == "own" else "/tmp",
            "PYTHONPATH": str(ROOT),
        },
    )
    assert owner.stdout is not None and owner.stdin is not None
    assert owner.stdout.readline() == "READY 0 1\n"
    assert len(marked_processes(f"{name}={value}")) > 6
    owner.kill()
    owner.wait()
    assert wait_until_gone(f"{name}={value}") == []
    assert f"killed-{value[:8]}" not in Path("/proc/net/unix").read_text()
    assert {path.name for path in Path("/sys/class/net").iterdir()} == before
    assert [path.name for path in tmp_path.iterdir()] == (["link.pcap"] if user == "own" else [])
    owner.stdin.close()
    owner.stdout.close()


@pytest.mark.parametrize("wait_s", [0.0, pytest.param(0.5, marks=pytest.mark.long)])
@pytest.mark.parametrize("end", ["held.close()", "pass"])
def test_finished_script_leaves_no_message(wait_s: float, end: str) -> None:
    """A program that is left in a host ends with the session, whether it has begun or not."""
    lines = [
        "import time, testbed",
        "held = testbed.session('ring:3')",
        "held.popen('h0', ['sleep', '60'])",
        f"time.sleep({wait_s})",
        end,
    ]
    words = [sys.executable, "-c", "\n".join(lines)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, cwd=ROOT, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_session_whose_sandbox_was_killed_says_so() -> None:
    with testbed.session("ring:3") as held:
        os.kill(held._process.pid, signal.SIGKILL)
        limit = time.monotonic() + 10
        with pytest.raises(SessionClosedError, match=r"not up any more|has gone"):
            while time.monotonic() < limit:
                held.counters()


def test_name_that_is_taken_is_refused() -> None:
    name = f"twice-{uuid.uuid4().hex[:8]}"
    with testbed.session("ring:3", name=name), pytest.raises(InputError, match="is up already"):
        testbed.session("ring:3", name=name)


def test_network_of_up_is_reached_from_another_terminal() -> None:
    name = f"up-{uuid.uuid4().hex[:8]}"
    prompt = WarmProcess(
        [*TESTBED, "up", "ring:3", "--name", name],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    assert prompt.stdin is not None and prompt.stdout is not None
    with prompt:
        assert f"testbed attach {name} reaches it too" in prompt.stdout.readline()
        done = run(
            [*TESTBED, "exec", name, "h0", "--", "ping", "-c", "1", "10.0.0.2"],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0 and "1 received" in done.stdout
        prompt.stdin.write("exit\n")
        prompt.stdin.close()
        assert prompt.wait(30) == 0


def test_session_outlives_its_first_thread_and_works_in_an_event_loop() -> None:
    """A notebook's kernel runs its cells inside a running loop, and libraries begin things in threads that end."""
    begun: list[testbed.Session] = []
    thread = threading.Thread(target=lambda: begun.append(testbed.session("ring:3")))
    thread.start()
    thread.join()
    time.sleep(0.5)

    async def cell() -> int:
        with begun[0] as session:
            return session.ping("h0", "h1").received

    assert asyncio.run(cell()) == 3
