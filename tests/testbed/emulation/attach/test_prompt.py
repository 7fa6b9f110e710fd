"""The prompt of ``testbed up`` and ``testbed attach``: names mean one thing, and no line ends the network or hangs."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

import testbed
from tests.helpers.drawn import SOAK
from tests.helpers.paths import ROOT
from tests.helpers.warm import TESTBED, WarmProcess, run
from topologies import load_network

pytestmark = [pytest.mark.emulation, pytest.mark.unclocked]
LONG = "東京の大変長い名前の大学院生が居る三十五文字の研究所の建物である"

COMMANDS: dict[str, str] = {
    # line: what is printed, with "testbed: " where it is wrong
    "x nosuch": "testbed: x: give a node",
    f"h0 echo {'a' * 200_000} | wc -c": "200001",
    "x": "testbed: x: give a node",
    "source /nofile": "testbed: source /nofile: No such file",
    "source": "testbed: source: give a file",
    "source /": "testbed: source /: Is a directory",
    "noecho": "testbed: node: give a node",
    "noecho h0 echo quiet": "quiet",
    "noecho nosuch ls": "testbed: unknown command 'nosuch'",
    "py 1/0": "testbed: py: ZeroDivisionError",
    "py exit()": "testbed: py: SystemExit",
    "py h1.name, net['s0'].name": "('h1', 's0')",
    "py h1.cmd('hostname')": "h1",
    "px x =": "testbed: px: SyntaxError",
    "px import os; os.abort_": "testbed: px: AttributeError",
    "h0 exit": "exit",
    "h0 echo back": "back",
    "h0 exec echo instead": "instead",
    "h0 echo again": "again",
    "h0 cat": "",
    "h0 read x; echo read $?": "read 1",
    "h0 bash": "",
    "h0 sh -c 'cat; echo $?'": "0",
    "h0 echo 'unclosed": "testbed: h0: the shell does not understand",
    "'unclosed": "testbed: 'unclosed: a quote that does not end",
    "s0 ( asdf": "testbed: s0: the shell does not understand",
    "h0 ls |": "testbed: h0: the shell does not understand",
    "h0 if true": "testbed: h0: the shell does not understand",
    "h0 exec 2>/dev/null": "",
    "h0 exec >/dev/null": "",
    "h0 PS1=mine PROMPT_COMMAND=": "",
    "h0 kill -9 $$": "",
    "h0 set -e; false": "",
    "h0 cd /tmp; word=kept": "",
    "h0 echo $PWD $word": "/tmp kept",
    "h0 sleep 1000 &": "",
    "h0 echo 'a # b' # comment": "a # b",
    "h0 head -c 4 /bin/ls; printf '\\001\\377'": "ELF",
    r"h0 printf '\177\n'; echo after": "after",
    f"h0 echo {'a' * 9000} | wc -c": "9001",
    "h0 nosuchprogram": "command not found",
    "h0": "testbed: h0: say what to run there",
    "nosuch": "testbed: unknown command 'nosuch'",
    "h0 hostname": "h0",
    "'h1' hostname": "h1",
    "node h2 hostname": "h2",
    "node": "testbed: node: give a node",
    "h0 ping -c 1 -W 10 h1": "1 received",
    "h0 echo h1 'h1'": "10.0.0.2 h1",
    "s1 ovs-vsctl list-br": "s0",
    "link": "testbed: invalid number of args",
    "link s0 s2 down": "testbed: link: no cable",
    "link s0 nosuch down": "testbed: link: no cable",
    "link s0 s1 sideways": "testbed: invalid type",
    "fault nothing": "testbed: link 'nothing'",
    "fault s0->s1 loss much": "testbed: fault",
    "fault s0->s1 loss 7": "testbed: fault",
    "fault s0->s1@1-2": "times are not allowed here",
    "fault s0->s1 loss 0.2 one-way": "s0->s1 loss 20 % one-way",
    "fault": "s0->s1 loss 20 % one-way",
    "restore s0->s1": "s0->s1 restored",
    "restore s1->s2": "testbed: restore s1->s2: no active fault on this link",
    "restore": "testbed: restore: give a link",
    "restore all": "",
    "capture s0->s1": "testbed: capture: give a link",
    "capture s0->s1 /no/such/directory/a.pcap": "testbed: pcap file /no/such/directory/a.pcap",
    "capture s0->s1 /dev/full": "testbed: pcap file /dev/full: No space left on device",
    "capture nosuch a.pcap": "testbed: link 'nosuch'",
    "iperf h0": "testbed: invalid number of args",
    "iperf h0 h0": "testbed: iperf measures between two hosts",
    "iperf h0 s1": "testbed: iperf measures between two hosts",
    "iperf h0 nosuch": "testbed: node 'nosuch' not in network",
    "iperfudp 1M h0": "testbed: invalid number of args",
    "switch s9 stop": "testbed: switch s9 stop",
    "switch s1 dance": "testbed: switch s1 dance",
    "switch s1 stop": "",
    "switch s1 start": "",
    "pingall 2": "0% dropped (12/12 received)",
    "pingall soon": "testbed: pingall soon: give seconds",
    "pingpair": "0% dropped (2/2 received)",
    "nodes": "h0 h1 h2 h3 s0 s1 s2 s3",
    "net": "h1 h1-eth0:s1-eth3",
    "dump": "h1-eth0:10.0.0.2",
    "ports": "s1-eth3:3",
    "intfs": "h3: h3-eth0",
    "links": "s0-eth1<->s1-eth1 (OK OK)",
    "names": "10.0.0.4",
    "loads": "s0->s1",
    "dpctl dump-flows": "arp_tpa=10.0.0.1",
    "dpctl": "testbed: usage: dpctl",
    "xterm nosuch": "testbed: node 'nosuch' not in network",
    "xterm": "testbed: usage: xterm",
    "time nosuch": "testbed: unknown command 'nosuch'",
    "help fault": "Break or impair a link",
    "help nosuch": "testbed: no command 'nosuch'",
    "sh echo $((6 * 7))": "42",
    "sh cat": "",
    "# a comment": "",
    "   ": "",
    "a\0b": "testbed: a line with a zero byte",
    "\udcff\udcfe": "testbed: unknown command",
}


def network_file(
    folder: Path, hosts: Sequence[str], switches: Sequence[str], links: Sequence[tuple[str, str]]
) -> str:
    nodes = [
        {"id": name, "kind": kind}
        for names, kind in ((hosts, "host"), (switches, "switch"))
        for name in names
    ]
    path = folder / "network.json"
    path.write_text(
        json.dumps({"nodes": nodes, "links": [{"source": a, "target": b} for a, b in links]})
    )
    return str(path)


def obeyed(
    words: Sequence[str], lines: Sequence[str], **options: object
) -> tuple[int, list[str], str]:
    """Exit code, what each line led to (both streams), and what came before the first."""
    marked = [
        text for number, line in enumerate(lines) for text in (f"sh echo MARK {number}", line)
    ]
    done = run(
        [*TESTBED, *words],
        input="\n".join(marked).encode(errors="surrogateescape") + b"\n",
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=240,
        check=False,
        cwd=ROOT,
        env={**os.environ, "DISPLAY": ""},
    )
    before, *parts = done.stdout.decode(errors="replace").split("MARK ")
    return done.returncode, [part.partition("\n")[2] for part in parts], before


def require_answers(lines: Sequence[str], answers: Sequence[str], expected: dict[str, str]) -> None:
    assert len(answers) == len(lines)
    for line, answer in zip(lines, answers, strict=True):
        assert expected[line] in answer, (line[:80], answer)
        complaints = [said for said in answer.splitlines() if said.startswith("testbed: ")]
        assert (
            len(complaints) == expected[line].startswith("testbed: ")
            or "times are not allowed here" in answer
        ), (
            line,
            answer,
        )
        assert "Traceback" not in answer


def test_every_line_is_answered_and_the_network_lives() -> None:
    assert len(COMMANDS) >= 60
    code, answers, _ = obeyed(["up", "ring:4"], list(COMMANDS))
    require_answers(list(COMMANDS), answers, COMMANDS)
    assert code == 2


@pytest.fixture(scope="module")
def held() -> Iterator[str]:
    """The name of a network of four switches that is up."""
    name = f"prompt-{os.getpid()}"
    words = [*TESTBED, "up", "ring:4", "--name", name]
    with WarmProcess(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as up:
        assert up.stdout is not None and name in up.stdout.readline()
        yield name
        up.communicate()


def test_attached_prompt_answers_alike(held: str) -> None:
    left_out = ("xterm", "a\0b")
    lines = [line for line in COMMANDS if not line.startswith(left_out)]
    code, answers, _ = obeyed(["attach", held], lines)
    require_answers(lines, answers, COMMANDS)
    assert code == 2


def test_exit_code_says_whether_a_line_was_wrong(held: str) -> None:
    assert obeyed(["attach", held], ["h0 false", "nodes", "h0 exit", "exit"])[0] == 0
    assert obeyed(["attach", held], ["nodes", "nosuch", "exit"])[0] == 2


def test_sourced_lines_are_obeyed_and_a_file_that_reads_itself_ends(
    held: str, tmp_path: Path
) -> None:
    file = tmp_path / "lines"
    file.write_text(f"h1 hostname\nnosuch\nsource {file}\n")
    _, (answer,), _ = obeyed(["attach", held], [f"source {file}"])
    assert answer.count("h1\n") == 10 and answer.count("unknown command") == 10
    assert "files that read files, 10 deep" in answer


def test_closed_input_ends_the_prompt() -> None:
    words = " ".join([*TESTBED, "up", "ring:3", "<&-"])
    done = subprocess.run(
        words, shell=True, capture_output=True, text=True, timeout=90, check=False, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr


def test_interrupt_ends_the_program_and_not_the_prompt(held: str) -> None:
    """At a terminal: a program that ends with the first Ctrl-C, and one that hears none and ends with the second."""
    ours, its = pty.openpty()
    child = WarmProcess(
        [*TESTBED, "attach", held],
        stdin=its,
        stdout=its,
        stderr=its,
        cwd=ROOT,
        start_new_session=True,
    )
    os.close(its)

    def until(word: str, limit_s: float = 30.0) -> str:
        seen, limit = "", time.monotonic() + limit_s
        while word not in seen and time.monotonic() < limit:
            if select.select([ours], [], [], 0.1)[0]:
                seen += os.read(ours, 4096).decode(errors="replace")
        assert word in seen, seen
        return seen

    def typed(text: str) -> None:
        os.write(ours, text.encode() + b"\n")

    until(f"{held}> ")
    typed("h0 echo begun; sleep 1000; echo not so")
    until("begun\r\n")
    time.sleep(0.5)  # a shell that is just starting a program may hand an interrupt to nobody
    os.kill(child.pid, signal.SIGINT)
    until(f"{held}> ")
    typed("h0 bash -c 'trap : INT; echo deaf; while :; do sleep 1; done'")
    until("deaf\r\n")
    for _ in range(2):
        time.sleep(0.5)
        os.kill(child.pid, signal.SIGINT)
    until(f"{held}> ")
    typed("h0 echo $((6 * 7)); nosuchprogram")
    assert "not found" in until(f"{held}> ")
    typed("nosuch")
    until("unknown command")
    typed("exit")
    assert child.wait(30) == 0
    os.close(ours)


@pytest.mark.parametrize(
    "second",
    [
        "switches called h1 and h2, hosts called s1 and s2",
        pytest.param("hosts called h1 and h2", marks=pytest.mark.long),
    ],
)
def test_a_name_means_one_node_everywhere(second: str, tmp_path: Path) -> None:
    hosts, switches = (
        (["s1", "s2"], ["h2", "h1"])
        if second.startswith("switches")
        else (["h2", "h1"], ["s1", "s2"])
    )
    (a, b), (x, y) = sorted(hosts), sorted(switches)
    file = network_file(tmp_path, hosts, switches, [(a, x), (b, y), (x, y)])
    ping = f"{a} ping -c 1 -W 1 {b}"
    cut = [
        f"{a} hostname",
        f"{b} hostname",
        ping,
        f"link {x} {y} down",
        ping,
        "links",
        f"link {x} {y} up",
        ping,
    ]
    broken = [
        f"fault {x}->{y} down",
        ping,
        "links",
        f"link {y} {x} up",
        ping,
        f"fault {a}->{x}",
        ping,
        "restore all",
        ping,
    ]
    iperf = (
        f"iperf {b} {a}" if SOAK and second.startswith("switches") else "nodes"
    )  # it takes five seconds
    code, answers, _ = obeyed(["up", file], [*cut, *broken, iperf, "names", "net", f"{x} hostname"])
    told = dict(enumerate(answers))
    assert code == 0 and [told[0].strip(), told[1].strip()] == [a, b]
    assert ["1 received" in told[n] for n in (2, 4, 7, 9, 12, 14, 16)] == [
        True,
        False,
        True,
        False,
        True,
        False,
        True,
    ]
    for n in (5, 10):
        assert [line for line in told[n].splitlines() if "down down" in line] == [
            f"{x}-eth2<->{y}-eth2 (down down)"
        ]
    assert iperf == "nodes" or (f"between {b} and {a}" in told[17] and "Mbits/sec" in told[17])
    assert f"{a} {a}-eth0:{x}-eth1" in told[19] and told[20].strip() == x


def test_link_and_fault_cut_the_same_cable(held: str) -> None:
    pairs = [("s0", "s1"), ("s1", "s2"), ("s2", "s3"), ("s3", "s0")]
    lines = [
        line
        for a, b in pairs
        for line in (
            f"link {a} {b} down",
            "links",
            f"link {a} {b} up",
            f"fault {a}->{b} down",
            "links",
            "restore all",
        )
    ]
    code, answers, _ = obeyed(["attach", held], lines)
    assert code == 0
    for k, (a, b) in enumerate(pairs):
        both = (answers[6 * k + 1], answers[6 * k + 4])
        cut, broken = (
            [said for said in answer.splitlines() if "down down" in said] for answer in both
        )
        assert cut == broken and len(cut) == 1
        assert all(f"{end}-eth" in cut[0] for end in (a, b))


def test_names_that_no_device_can_have(tmp_path: Path) -> None:
    hosts, switches = ["São Paulo", "a->b", "x", "1", "2", "--help"], [LONG, "link", "10"]
    joins = [
        ("São Paulo", LONG),
        ("a->b", LONG),
        (LONG, "link"),
        ("x", "link"),
        ("1", "link"),
        ("2", "10"),
        ("--help", "10"),
        ("link", "10"),
    ]
    lines = {
        "'São Paulo' hostname": "São Paulo",
        '"a->b" hostname': "a->b",
        "node x hostname": "x",
        '"x" hostname': "x",
        "x hostname": "testbed: x: give a node and a command; nodes lists the nodes; node x COMMAND",
        "1 hostname": "1",
        "--help hostname": "--help",
        "1 ping -c 1 -W 5 10.0.0.5": "1 received",
        "1 echo 2 -c 2; sleep 0.1": "2 -c 2",
        "2 ping -c 1 -W 5 'São Paulo'": "1 received",
        f"link '{LONG}' link down": "",
        "links": "(down down)",
        "São\\ Paulo ping -c 1 -W 1 x": "0 received",
        f"fault '{LONG}->link'": f"{LONG}->link down",
        f"restore '{LONG}->link'": "restored",
        f"fault São Paulo -> {LONG} down": f"São Paulo->{LONG} down",
        f'fault "a->b"->{LONG}': f'"a->b"->{LONG} down',
        f'restore São Paulo->{LONG} "a->b"->{LONG} # both': f'"a->b"->{LONG} restored',
        '2 ping -c 1 -W 5 "a->b"': "1 received",
        "link 'São Paulo' x down": "testbed: link: no cable",
        "pingall 2": "0% dropped (30/30 received)",
        "py net['São Paulo'].cmd('hostname')": "São Paulo",
    }
    code, answers, before = obeyed(
        ["up", network_file(tmp_path, hosts, switches, joins)], list(lines)
    )
    require_answers(list(lines), answers, lines)
    assert code == 2
    assert "also commands of this prompt: link, x; node NAME COMMAND runs one there" in before


def test_every_node_of_a_large_network_is_itself() -> None:
    network = load_network("optical-cloud")
    hosts, switches = ([node.id for node in nodes] for nodes in (network.hosts, network.switches))
    assert (len(hosts), len(switches)) == (14, 28)
    lines = [f"{name} hostname; hostname -I" for name in hosts]
    named = [f"py net[{name!r}].name" for name in (*hosts, *switches)]
    code, answers, _ = obeyed(["up", "optical-cloud"], [*lines, *named, "nodes", "names"])
    *answers, listed, table = answers
    assert code == 0 and sorted(listed.splitlines()[1].split()) == sorted([*hosts, *switches])
    assert [answer.strip() for answer in answers[len(hosts) :]] == [*hosts, *switches]
    addresses = [line.split()[0::2] for line in table.splitlines() if line.startswith("h")]
    assert sorted(answer.split() for answer in answers[: len(hosts)]) == sorted(addresses)


def test_line_breaks_in_names_are_written_out(tmp_path: Path) -> None:
    file = network_file(
        tmp_path,
        ["a\nforged: 100%", "h2"],
        ["s\x1b[2J\r", "t"],
        [("a\nforged: 100%", "s\x1b[2J\r"), ("h2", "t"), ("s\x1b[2J\r", "t")],
    )
    described = {"graph": {"name": "n\nforged"}, **json.loads(Path(file).read_text())}
    Path(file).write_text(json.dumps(described))
    host, switch = r"a\nforged: 100%", r"s\u001b[2J\r"
    shown = dict.fromkeys(
        ("nodes", "net", "dump", "intfs", "pingall 5", "names", "links", "loads"), host
    )
    lines = {
        **shown,
        f"h2 ping -c 1 -W 5 '{host}'": "1 received",
        f"iperfudp 1M h2 '{host}'": f"between h2 and {host}",
        f"link '{switch}' t down": "",
        "links ": "(down down)",
        f"'{host}' ping -c 1 -W 1 h2": "0 received",
        "fault 't->nosuch'": "testbed: link",
    }
    _, answers, before = obeyed(["up", file], list(lines))
    require_answers(list(lines), answers, lines)
    said = before + "".join(answers)
    assert "\nforged" not in said and "\x1b" not in said and "\r" not in said


def test_library_and_exec_mean_the_same_nodes(tmp_path: Path) -> None:
    file = network_file(
        tmp_path,
        ["h2", "h1", "São Paulo"],
        ["s1", LONG],
        [("h1", "s1"), ("h2", LONG), ("São Paulo", LONG), ("s1", LONG)],
    )
    with testbed.session(file) as session:
        for name in ("h1", "h2", "São Paulo"):
            words = [*TESTBED, "exec", session.name, name, "--", "hostname"]
            done = run(words, capture_output=True, text=True, timeout=60, check=False, cwd=ROOT)
            assert done.stdout.strip() == session.exec(name, ["hostname"]).stdout.strip() == name
        session.fail(f"s1->{LONG}")
        assert session.ping("h1", "h2", 1, wait_s=0.2).received == 0
        lines = [f"link s1 {LONG} up", "fault", "h1 ping -c 1 -W 5 h2"]
        code, answers, _ = obeyed(["attach", session.name], lines)
        assert code == 0 and answers[1].strip() == "" and "1 received" in answers[2]
        assert session.ping("h1", "São Paulo", 1).received == 1


UDP = ["iperfudp 1M h1 h0"] if SOAK else []
"""It ends at the same limit of time, seven seconds later."""


@pytest.mark.long
def test_iperf_over_a_broken_path_ends(tmp_path: Path) -> None:
    code, answers, _ = obeyed(
        ["up", "ring:3"], ["switch s1 stop", "iperf h0 h1", *UDP, "h0 ping -c 1 -W 10 h2"]
    )
    assert code == 2
    assert "testbed: iperf from h0 to h1 measured nothing" in answers[1]
    assert not UDP or "testbed: iperf from h1 to h0 measured nothing" in answers[2]
    assert "1 received" in answers[-1]


def test_hosts_that_stand_for_switches_have_names_of_their_own(tmp_path: Path) -> None:
    file = network_file(tmp_path, [], ["s1", "h1", "0"], [("s1", "h1"), ("h1", "0")])
    lines = [
        "h_s1 hostname",
        "h_h1 hostname",
        "h0 hostname",
        "h_s1 ping -c 1 -W 5 h0",
        "link h_s1 s1 down",
    ]
    _, answers, _ = obeyed(["up", file], lines)
    assert [answer.strip() for answer in answers[:3]] == ["h_s1", "h_h1", "h0"]
    assert "1 received" in answers[3] and "no cable" in answers[4]


def test_a_network_that_ends_meanwhile_ends_the_prompt_in_one_line() -> None:
    name = f"ending-{os.getpid()}"
    words = [*TESTBED, "up", "ring:3", "--name", name]
    with WarmProcess(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as up:
        assert up.stdout is not None and name in up.stdout.readline()
        words = {
            "stdin": subprocess.PIPE,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
            "text": True,
        }
        with WarmProcess([*TESTBED, "attach", name], **words) as attached:  # type: ignore[call-overload]
            attached.stdin.write("h0 hostname\n")
            attached.stdin.flush()
            assert attached.stdout.readline() == "h0\n"
            up.kill()
            while (
                name in Path("/proc/net/unix").read_text()
            ):  # what is inside ends a moment later than what is outside
                time.sleep(0.01)
            _, said = attached.communicate("h0 hostname\nnodes\n", timeout=60)
    assert attached.returncode == 3 and said.count("\n") == 1 and f"{name!r} has gone" in said
