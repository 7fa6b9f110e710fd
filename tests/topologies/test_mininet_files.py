"""Mininet's files of the kinds that people write, each with what is said of it: read in the sandbox, or refused.

The first line of each file: ``# NAME: H hosts, S switches, C cables; part of the note`` or ``# NAME: error: part of
it``; ``forwarding`` and names in the note's place: the hosts that forward.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import pytest

import testbed
from testbed.emulation.sandbox.sandbox import probe_sandbox
from tests.helpers.warm import TESTBED, run
from topologies import Network, load_network
from topologies.adapters import python_files
from topologies.errors import TopologyError
from topologies.files.foreign import NetworkNote
from topologies.mininet import topo
from topologies.mininet.address_commands import address_commands
from topologies.mininet.topo import forwarding_of_command

FILES = sorted((Path(__file__).parent / "mininet_files").glob("*.py"))
_HEAD = re.compile(
    r"# (?P<name>[^:]+): (?:error: (?P<error>.*)|(?P<counts>\d+ hosts, \d+ switches, \d+ cables); (?P<note>.*))"
)


@pytest.fixture(autouse=True, scope="module")
def _sandbox() -> None:
    refused = probe_sandbox()
    if refused:
        pytest.skip(f"no sandbox here: {refused}")


def read(name: object) -> tuple[Network, str]:
    with warnings.catch_warnings(record=True) as noted:
        warnings.simplefilter("always", NetworkNote)
        network = load_network(str(name))
    return network, " ".join(str(one.message) for one in noted)


def forked(words: list[str], **options: Any) -> subprocess.CompletedProcess[bytes]:
    """``subprocess.run`` of the program that reads a file, in a sandbox as it makes one, without imports."""
    return run([*words[:3], "tests.helpers.topology_in_fork", *words[4:]], **options)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_of_mininet_is_read_or_refused_in_one_line(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subprocess, "run", forked)
    head = _HEAD.match(path.read_text().splitlines()[0])
    assert head is not None
    if head["error"] is not None:
        with pytest.raises(TopologyError) as caught:
            read(f"{path}:{head['name']}")
        assert head["error"] in str(caught.value) and "\n" not in str(caught.value)
        assert str(caught.value).startswith(str(path)[:100])
        return
    network, note = read(f"{path}:{head['name']}")
    counts = f"{len(network.hosts)} hosts, {len(network.switches)} switches, {len(network.links) // 2} cables"
    assert counts == head["counts"] and "\n" not in note
    forwarding = [node.id for node in network.hosts if node.attributes.get("forwarding")]
    if head["note"].startswith("forwarding"):
        assert forwarding == head["note"].split()[1:]
    else:
        assert head["note"] in note and not forwarding
        assert note or not head["note"]


def corpus(name: str) -> str:
    return str(Path(__file__).parent / "mininet_files" / name)


def test_link_parameters_of_mininet_files_are_read() -> None:
    link = read(corpus("double_links.py") + ":mytopo")[0].link("s2", "s1", 1)
    assert (link.capacity_bps, link.delay_s, link.impairments) == (2e7, 0.01, "loss:0.09")
    assert link.attributes["max_queue_size"] == 400
    ends = read(corpus("each_end.py") + ":mytopo")[0]
    assert [
        (ends.link(*one).capacity_bps, ends.link(*one).delay_s)
        for one in (("h1", "s1"), ("s1", "h1"))
    ] == [
        (2e6, 0.001),
        (8e6, 0),
    ]
    assert {k.capacity_bps for k in read(corpus("parameters.py") + ":grid,3,bw=5")[0].links} == {
        5e6
    }
    assert {k.capacity_bps for k in read(corpus("link_classes.py") + ":lab")[0].links} == {3e6}
    router = read(corpus("linux_router.py") + ":NetworkTopo")[0].node("r0")
    assert router.attributes["ip"] == ["192.168.1.1/24", "172.16.0.1/12"]


def test_addresses_that_a_program_sets_are_in_the_network() -> None:
    network = read(corpus("own_addresses.py") + ":lab")[0]
    assert [host.addresses for host in network.hosts] == [
        (("192.168.7.7", 24),),
        (("192.168.5.2", 24),),
        (("192.168.5.3", 24),),
    ]
    assert network.node("h2").mac == "00:00:00:00:00:22"


def test_address_commands_act_as_set_ip() -> None:
    """``ip addr add`` to an interface with an address would leave it two: that one is noted."""
    network = read(corpus("addresses_by_commands.py") + ":lab")[0]
    assert [host.addresses for host in network.hosts] == [
        (("192.168.1.1", 24),),
        (("192.168.1.22", 24),),
        (("192.168.1.3", 24), ("192.168.2.3", 24)),
    ]


@pytest.mark.parametrize(
    ("command", "address"),
    [
        ("ifconfig h1-eth0 10.1.2.3", "10.1.2.3/8"),
        ("sudo /sbin/ifconfig h1-eth0 inet 172.16.2.3 up", "172.16.2.3/16"),
        ("ifconfig h1-eth0 192.168.2.3 broadcast 192.168.2.255", "192.168.2.3/24"),
        ("ifconfig h1-eth0 10.1.2.3 netmask 255.255.0.0 up", "10.1.2.3/16"),
        ("ip a add 10.1.2.3/24 brd + dev h1-eth0", "10.1.2.3/24"),
        ("ip address replace 10.1.2.3 dev h1-eth0", "10.1.2.3/32"),
    ],
)
def test_address_of_a_command(command: str, address: str) -> None:
    commands = address_commands(command)
    assert commands is not None
    assert [(entry.interface, entry.address) for entry in commands] == [("h1-eth0", address)]


@pytest.mark.parametrize(
    "command",
    [
        "ifconfig h1-eth0",
        "ifconfig h1-eth0 0.0.0.0",
        "ifconfig h1-eth0 inet 0",
        "ifconfig h1-eth0 10.1.2.300",
        "ifconfig h1-eth0 10.1.2.3 netmask 255.0.255.0",
        "ifconfig h1-eth0 10.1.2.3 down",
        "ip addr del 10.1.2.3/24 dev h1-eth0",
        "ip addr add 10.1.2.3/24 dev h1-eth0 || true",
        "ip addr add fd00::1/64 dev h1-eth0",
        "",
    ],
)
def test_other_commands_set_no_address(command: str) -> None:
    assert address_commands(command) is None


@pytest.mark.parametrize(
    ("command", "forwards"),
    [
        ("sysctl net.ipv4.ip_forward=1", True),
        ("sudo sysctl -w net.ipv4.conf.all.forwarding = 1", True),
        ("sysctl -w net/ipv4/ip_forward=1", True),
        ("sysctl -w 'net.ipv4.conf.r1-eth0.forwarding=1'", True),
        ("echo 1 > /proc/sys/net/ipv4/ip_forward", True),
        ("echo '1' >/proc/sys/net/ipv4/conf/all/forwarding", True),
        ("sh -c 'echo 1 >> /proc/sys/net/ipv4/ip_forward'", True),
        ("echo 1 | sudo tee /proc/sys/net/ipv4/ip_forward", True),
        ("printf 1 > /proc/sys/net/ipv4/ip_forward", True),
        ("sysctl net.ipv4.ip_forward=0", False),
        ("echo 0 > /proc/sys/net/ipv4/ip_forward", False),
        ("sysctl -w net.ipv6.conf.all.forwarding=1", None),
        ("cat /proc/sys/net/ipv4/ip_forward", None),
        ("sysctl -n net.ipv4.ip_forward", None),
        ("echo 1 > /tmp/x; cat /proc/sys/net/ipv4/ip_forward", None),
    ],
)
def test_command_says_whether_host_forwards(command: str, forwards: bool | None) -> None:
    assert forwarding_of_command(command) is forwards


_SETTING = "net.ipv4.ip_forward"


def _switch_on(node: Any) -> None:
    node.cmd(f"sysctl -w {_SETTING}=1")


class _CallsFunction:
    def config(self) -> None:
        _switch_on(self)


class _NamesConstant:
    def config(self) -> None:
        self.cmd(f"sysctl -w {_SETTING}=1")  # type: ignore[attr-defined]


class _SwitchesOff:
    def terminate(self) -> None:
        self.cmd("sysctl net.ipv4.ip_forward=0")  # type: ignore[attr-defined]


def test_class_of_hosts_forwards_by_what_it_calls() -> None:
    assert topo.forwards(_CallsFunction)
    assert topo.forwards(_NamesConstant)
    assert not topo.forwards(_SwitchesOff)


def test_a_topo_and_its_file_are_the_same_network() -> None:
    found: dict[str, Any] = {}
    exec(Path(corpus("double_links.py")).read_text(), found)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NetworkNote)
        topo = testbed.network(found["topos"]["mytopo"]())
    network = read(corpus("double_links.py") + ":mytopo")[0]
    assert (topo.nodes, topo.links) == (network.nodes, network.links)


def test_a_file_is_not_run_unless_what_it_builds_is_named(tmp_path: Path) -> None:
    (tmp_path / "lab.py").write_text(
        "from mininet.topo import Topo\n1 / 0\ntopos = {'a': Topo}\nclass B(Topo): pass\n"
    )
    for name in (tmp_path / "lab.py", str(tmp_path / "lab.py"), f"{tmp_path / 'lab.py'}:"):
        with pytest.raises(
            TopologyError,
            match=r"say what it is to build, as lab.py:a or :B; it is then run in the sandb",
        ):
            load_network(name)
    with pytest.raises(TopologyError, match=r"line 2: ZeroDivisionError"):
        load_network(f"{tmp_path / 'lab.py'}:a")
    with pytest.raises(TopologyError, match=r"none.py: cannot be read \(No such file"):
        load_network(f"{tmp_path / 'none.py'}:a")


HARM = """
import os, socket, subprocess
from mininet.topo import Topo

PATHS = {paths!r}
done = []
# The file may write in memory; the test looks at the disk.
for path in PATHS:
    try:
        open(path, "w")
    except OSError:
        pass
os.unlink({folder!r} + "/there")
import ctypes
if ctypes.CDLL(None).mount(b"none", b"/", None, 32 | 4096, None) == 0:
    done.append("mounted")
try:
    socket.create_connection(("127.0.0.1", {port}), 1)
    done.append("connected")
except OSError:
    pass
if os.fork() == 0:
    while True:
        pass


class Lab(Topo):
    def build(self):
        for name in ["s1", *done]:
            self.addSwitch(name)
"""


def test_a_file_can_neither_write_nor_connect_nor_leave_a_process(tmp_path: Path) -> None:
    import socket

    (tmp_path / "there").write_text("there")
    folders = (str(tmp_path), str(Path.home()), "/tmp", "/var/tmp")
    paths = [f"{folder}/new_of_a_topology_file" for folder in folders]
    with socket.create_server(("127.0.0.1", 0)) as listening:
        text = HARM.format(folder=str(tmp_path), paths=paths, port=listening.getsockname()[1])
        (tmp_path / "harm.py").write_text(text)
        assert [node.id for node in read(f"{tmp_path / 'harm.py'}:Lab")[0].nodes] == ["s1"]
    assert sorted(one.name for one in tmp_path.iterdir()) == ["harm.py", "there"]
    assert [path for path in paths if Path(path).exists()] == []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            assert str(tmp_path / "harm.py") not in entry.read_text()
        except OSError:
            continue


def test_a_file_that_never_ends_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(python_files, "TIME_LIMIT_S", 1.0)
    (tmp_path / "loop.py").write_text("while True: pass\n")
    began = time.monotonic()
    with pytest.raises(
        TopologyError,
        match="it has built no network after 1 s; does it wait for something, or loop",
    ):
        load_network(f"{tmp_path / 'loop.py'}:a")
    assert time.monotonic() - began < 30


def test_a_file_is_run_once_until_it_changes(tmp_path: Path) -> None:
    path = tmp_path / "lab.py"
    text = "from mininet.topo import SingleSwitchTopo\ntopos = {'a': lambda n=%d: SingleSwitchTopo(n)}\n"
    path.write_text(text % 2)
    assert len(read(f"{path}:a")[0].hosts) == len(read(f"{path}:a")[0].hosts) == 2
    path.write_text(text % 10)
    assert len(read(f"{path}:a")[0].hosts) == 10 and len(read(f"{path}:a,4")[0].hosts) == 4


def test_modules_next_to_the_file_are_found(tmp_path: Path) -> None:
    (tmp_path / "parts_of_lab.py").write_text("from mininet.topo import SingleSwitchTopo as Part\n")
    (tmp_path / "lab.py").write_text("from parts_of_lab import Part\ntopos = {'a': Part}\n")
    assert len(read(f"{tmp_path / 'lab.py'}:a,3")[0].hosts) == 3
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NetworkNote)
        assert len(testbed.network(tmp_path / "lab.py:a,4").hosts) == 4


@pytest.mark.emulation
@pytest.mark.unclocked
def test_a_file_s_network_is_up_on_switches_under_its_names() -> None:
    """The file is read again within the sandbox of the network."""
    words = [*TESTBED, "up", corpus("old_style_init.py") + ":mytopo"]
    done = run(
        words, input="pingall\nexit\n", capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert (
        "mytopo: 2 hosts, 1 switches" in done.stdout and "0% dropped (2/2 received)" in done.stdout
    )


def test_a_program_in_this_one_s_place_runs_no_file_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lab.py").write_text(
        "from mininet.topo import SingleSwitchTopo\ntopos = {'a': SingleSwitchTopo}\n"
    )
    network, note = read(f"{tmp_path / 'lab.py'}:a,3")
    monkeypatch.setenv(python_files._HANDOVER_VARIABLE, "")
    python_files.hand_over()
    memory = int(os.environ[python_files._HANDOVER_VARIABLE])
    assert os.get_inheritable(memory)
    python_files._answers.clear()
    monkeypatch.setattr(python_files, "_run", lambda *_: pytest.fail("it was run again"))
    assert read(f"{tmp_path / 'lab.py'}:a,3") == (network, note)
    assert python_files._HANDOVER_VARIABLE not in os.environ
    monkeypatch.setenv(
        python_files._HANDOVER_VARIABLE, "1"
    )  # strayed: that descriptor is another's
    assert read(f"{tmp_path / 'lab.py'}:a,3") == (network, note)


COUNTED = """
import subprocess
run = subprocess.run
def counted(words, *more, **options):
    if "testbed.api.emulated.topology_program" in words:
        open({place!r}, "a").write("x")
    return run(words, *more, **options)
subprocess.run = counted
"""


@pytest.mark.emulation
@pytest.mark.unclocked
def test_up_runs_a_file_once(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(COUNTED.format(place=str(tmp_path / "runs")))
    words = [
        sys.executable,
        "-P",
        "-m",
        "testbed.cli",
        "up",
        corpus("old_style_init.py") + ":mytopo",
    ]
    variables = os.environ | {"PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        words,
        input="nodes\nexit\n",
        env=variables,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0 and "mytopo: 2 hosts, 1 switches" in done.stdout, done.stderr
    assert (tmp_path / "runs").read_text() == "x"


@pytest.mark.parametrize(
    ("code", "words", "exit_code", "said"),
    [
        (
            3,
            "testbed: the kernel refuses new namespaces (EPERM); allow them",
            3,
            "no sandbox to run it in: the kernel",
        ),
        (3, "its own end", 2, "it ended without a network (exit 3: its own end)"),
        (1, "x\nModuleNotFoundError: No module named 'mininet'", 3, "Mininet is missing"),
    ],
)
def test_missing_software_for_a_file_is_exit_code_3(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    code: int,
    words: str,
    exit_code: int,
    said: str,
) -> None:
    from testbed.cli import main

    (tmp_path / "lab.py").write_text(f"# {code} {words!r}\n")

    def refuse(command: list[str], **options: Any) -> subprocess.CompletedProcess[bytes]:
        options["stderr"].write(words.encode())
        return subprocess.CompletedProcess(command, code)

    monkeypatch.setattr(subprocess, "run", refuse)
    assert main(["topology", "show", f"{tmp_path / 'lab.py'}:a"]) == exit_code
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1


def test_classes_of_links_of_ones_own_do_what_they_say() -> None:
    network, _ = read(f"{FILES[0].parent / 'own_link_classes.py'}:own")
    assert {link.capacity_bps for link in network.links} == {4e6}
    assert network.node("h3").mac == "02:00:00:00:00:33"
