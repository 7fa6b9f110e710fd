"""The sandbox: everything passes through it, and no way of ending it leaves anything behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from testbed.emulation.sandbox.sandbox import in_sandbox, probe_sandbox, sandbox_command
from tests.helpers.ordinary_user import as_ordinary_user
from tests.helpers.paths import ROOT
from tests.helpers.sandboxes import run_in_sandbox
from tests.helpers.signals import heed_signals

pytestmark = [pytest.mark.emulation, pytest.mark.unclocked]
UP = [sys.executable, "-m", "testbed.cli", "up", "ring:3"]


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


def interfaces() -> set[str]:
    return {p.name for p in Path("/sys/class/net").iterdir()}


def wait_until_gone(mark: str, limit_s: float = 60.0) -> list[str]:
    limit = time.monotonic() + limit_s
    while (left := marked_processes(mark)) and time.monotonic() < limit:
        time.sleep(0.05)
    return left


ENDINGS = {signal.SIGKILL: -9, signal.SIGTERM: 143, signal.SIGINT: 130, signal.SIGHUP: 129}
"""Signal to the outer process -> its exit code."""


def ignore_hangups() -> None:
    """In a child, before its program: what nohup does."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)


@contextmanager
def running_prompt(
    tmp_path: Path, prepare: Callable[[], None] = heed_signals
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """``testbed up`` waiting for its first command, and the mark in the environment of everything it started."""
    mark = f"TESTBED_TEST_MARK={uuid.uuid4().hex}"
    environment = {
        **os.environ,
        "TMPDIR": str(tmp_path),
        "HOME": str(tmp_path),
        mark.split("=")[0]: mark.split("=")[1],
    }
    process = subprocess.Popen(
        UP,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,
        preexec_fn=prepare,
        cwd=ROOT,
    )
    try:
        assert process.stdout is not None
        first = process.stdout.readline()
        assert "3 switches" in first, first + process.stderr.read() if process.stderr else first
        yield process, mark
    finally:
        process.kill()
        process.communicate()


def test_sandbox_passes_exit_code_input_and_output_through() -> None:
    done = run_in_sandbox(
        ["sh", "-c", "cat; echo wrong >&2; exit 7"], input_text="through the pipe"
    )
    assert (done.stdout, done.stderr, done.returncode) == ("through the pipe", "wrong\n", 7)


def test_signal_that_ends_the_command_is_its_exit_code() -> None:
    assert run_in_sandbox(["sh", "-c", "kill -KILL $$"]).returncode == 128 + signal.SIGKILL


def test_sandbox_has_only_a_loopback_interface_and_its_own_processes() -> None:
    done = run_in_sandbox(
        ["sh", "-c", "ip -o link | wc -l; ls /proc | grep -c '^[0-9]*$'; ip -o link show lo up"]
    )
    links, processes, *up = done.stdout.splitlines()
    assert links == "1"
    assert int(processes) < 8
    assert len(up) == 1 and up[0].startswith("1: lo: <"), (
        done.stdout
    )  # `ip link show lo up` names it only where it is up


def test_programs_in_the_sandbox_talk_over_its_loopback() -> None:
    listening = (
        "s=socket.create_server(('127.0.0.1', 0)); c=socket.create_connection(s.getsockname(), 5)"
    )
    script = (
        f"import socket; {listening}; c.sendall(b'here'); print(s.accept()[0].recv(9).decode())"
    )
    assert run_in_sandbox([sys.executable, "-c", script]).stdout == "here\n"


def test_private_directories_lie_on_a_tmpfs_that_others_do_not_see() -> None:
    script = "touch $TMPDIR/left $OVS_RUNDIR/left; stat -f -c %T $TMPDIR; echo $TMPDIR"
    kind, directory = run_in_sandbox(["sh", "-c", script]).stdout.split()
    assert kind == "tmpfs"
    assert not Path(directory).exists()


def test_background_process_of_the_command_does_not_outlive_it() -> None:
    mark = f"TESTBED_TEST_MARK={uuid.uuid4().hex}"
    name, value = mark.split("=")
    done = run_in_sandbox(["sh", "-c", "sleep 300 & sleep 300 & exit 0"], environment={name: value})
    assert done.returncode == 0
    assert wait_until_gone(mark) == []


@pytest.mark.parametrize("ending", ENDINGS)
def test_signal_to_the_outer_process_leaves_nothing(ending: signal.Signals, tmp_path: Path) -> None:
    before = interfaces()
    with running_prompt(tmp_path) as (process, mark):
        assert any("ovs-vswitchd" in words for words in marked_processes(mark))
        process.send_signal(ending)
        process.wait(60)
        assert process.returncode == ENDINGS[ending]
    assert wait_until_gone(mark) == []
    assert interfaces() == before
    assert list(tmp_path.iterdir()) == []


def test_prompt_started_under_nohup_outlives_a_hangup(tmp_path: Path) -> None:
    with running_prompt(tmp_path, ignore_hangups) as (process, _):
        process.send_signal(signal.SIGHUP)
        said, _ = process.communicate("h0 ping -c 1 h1\n", timeout=60)
        assert "1 received" in said
        assert process.returncode == 0


def test_death_of_the_parent_ends_the_sandbox(tmp_path: Path) -> None:
    mark = f"TESTBED_TEST_MARK={uuid.uuid4().hex}"
    name, value = mark.split("=")
    inner = sandbox_command(["sleep", "300"], die_with_parent=True)
    script = f"import subprocess, sys, time; subprocess.Popen({inner!r}); print('up', flush=True); time.sleep(300)"
    parent = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, env={**os.environ, name: value}
    )
    assert parent.stdout is not None
    parent.stdout.readline()
    limit = time.monotonic() + 60
    while (
        not any(words.startswith("sleep 300") for words in marked_processes(mark))
        and time.monotonic() < limit
    ):
        time.sleep(0.05)
    assert any(words.startswith("sleep 300") for words in marked_processes(mark))
    parent.kill()
    parent.communicate()
    assert wait_until_gone(mark) == []


def test_command_that_ignores_sigterm_is_given_up() -> None:
    words = sandbox_command(
        ["sh", "-c", "trap '' TERM; echo up; sleep 60; sleep 60"], die_with_parent=True
    )
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, preexec_fn=heed_signals)
    assert process.stdout is not None
    process.stdout.readline()
    process.terminate()
    assert process.wait(60) == 128 + signal.SIGKILL
    process.stdout.close()


def test_two_sandboxes_at_once_do_not_meet(tmp_path: Path) -> None:
    said: list[str] = []

    def prompt() -> None:
        text = "h0 ping -c 2 -i 0.2 h1\n"
        done = subprocess.run(
            UP,
            input=text,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            cwd=ROOT,
            env={**os.environ},
        )
        said.append(f"{done.returncode} {done.stdout} {done.stderr}")

    threads = [threading.Thread(target=prompt) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(said) == 2
    for text in said:
        assert text.startswith("0 ")
        assert "2 received" in text


@pytest.mark.skipif(os.geteuid() != 0, reason="runs as an ordinary user already")
def test_ordinary_user_builds_a_network_and_leaves_nothing(tmp_path: Path) -> None:
    mark = f"TESTBED_TEST_MARK={uuid.uuid4().hex}"
    name, value = mark.split("=")
    words = as_ordinary_user(UP)
    text = "h0 ping -c 2 -i 0.2 h1\nfault s0->s1 blackhole\nsh cat /proc/self/uid_map\n"
    done = subprocess.run(
        words,
        input=text,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, name: value, "TMPDIR": str(tmp_path)},
    )
    assert "2 received" in done.stdout, done.stdout + done.stderr
    assert "54321" in done.stdout
    assert wait_until_gone(mark) == []


def test_probe_finds_no_obstacle_where_emulation_works() -> None:
    assert probe_sandbox() is None


def test_a_machine_without_namespaces_is_probed_once(tmp_path: Path) -> None:
    script = (
        "import subprocess, testbed.cli as cli; run, probes = subprocess.run, []; "
        "refused = subprocess.CompletedProcess([], 3, '', 'testbed: refused'); "
        "subprocess.run = lambda w, **o: probes.append(w) or refused if 'sandbox_entry' in str(w) else run(w, **o); "
        "cli.main(['stream', 'ring:4', '--from', 's0', '--to', 's2', '--duration', '8', '--faults', 'none']); "
        "print(sum('offset_s\": 0.0' in str(words) for words in probes))"
    )
    words = [sys.executable, "-c", script]
    done = subprocess.run(
        words, capture_output=True, text=True, timeout=60, check=False, cwd=tmp_path
    )
    assert done.stdout.splitlines()[-1:] == ["1"], done.stderr[-2000:]
    assert done.stderr.count("running on the simulated fabric: refused") == 1


def test_refusal_of_namespaces_is_one_line_and_exit_code_3() -> None:
    words = sandbox_command(["true"], die_with_parent=True)
    script = 'echo 0 > /proc/sys/user/max_net_namespaces; exec "$@"'
    limited = ["unshare", "-U", "-r", "sh", "-c", script, "sh", *words]
    done = subprocess.run(limited, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 3
    assert done.stderr.startswith("testbed: ")
    assert done.stderr.count("\n") == 1


def test_variables_that_strayed_out_of_a_sandbox_are_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "run").mkdir()
    monkeypatch.setenv("TESTBED_SANDBOX", str(tmp_path))
    assert not in_sandbox()
    script = "from testbed.emulation.sandbox.sandbox import in_sandbox as i; print(i())"
    inside = run_in_sandbox(
        ["sh", "-c", f'{sys.executable} -c "{script}"; echo $TESTBED_SANDBOX_NETWORK']
    )
    believed, network = inside.stdout.split()
    assert believed == "True"
    monkeypatch.setenv("TESTBED_SANDBOX_NETWORK", network)
    assert not in_sandbox()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM])
def test_killed_process_that_measures_is_explained(number: signal.Signals) -> None:
    """One line and exit code 4; a signal that asks it to end is that user's own."""
    words = sandbox_command(["sh", "-c", f"kill -{number.value} $$"], explain_kill=True)
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if number == signal.SIGTERM:
        assert (done.returncode, done.stderr) == (143, "")
    else:
        assert done.returncode == 4
        assert len(done.stderr.splitlines()) == 1
        assert f"signal {number.value}," in done.stderr
