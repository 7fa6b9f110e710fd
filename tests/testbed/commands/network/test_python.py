"""``testbed python``: users' Mininet scripts, unchanged."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.helpers.warm import TESTBED, run

pytestmark = [pytest.mark.emulation, pytest.mark.unclocked]
OWN_CLASSES = """
import os, sys
from functools import partial
from mininet.cli import CLI
from mininet.link import Intf, TCLink
from mininet.net import Mininet
from mininet.node import Controller, Host, Node, OVSSwitch
from mininet.topo import Topo
import helper

class Router(Node):
    def config(self, **params):
        super().config(**params)
        self.cmd("sysctl net.ipv4.ip_forward=1")

class Marked(Host):
    def config(self, mark=None, **params):
        self.mark = mark
        return super().config(**params)

class OwnIntf(Intf):
    pass

class Two(Topo):
    def build(self):
        r = self.addHost("r", cls=Router, ip="10.0.1.1/24")
        for n in (1, 2):
            s = self.addSwitch(f"s{n}")
            h = self.addHost(f"h{n}", ip=f"10.0.{n}.2/24", defaultRoute=f"via 10.0.{n}.1", mark=n)
            self.addLink(h, s, cls1=OwnIntf)
            self.addLink(s, r, intfName2=f"r-eth{n}", params2={"ip": f"10.0.{n}.1/24"}, bw=5)

net = Mininet(topo=Two(), host=Marked, switch=partial(OVSSwitch, protocols="OpenFlow10"), link=TCLink,
              controller=Controller, waitConnected=True)
net.start()
print("LOST", net.pingAll(timeout="2"))
print("MARKS", [h.mark for h in net.hosts if isinstance(h, Marked)], type(net["r"]).__name__, helper.VALUE)
print("QUEUE", "tbf" in net["r"].cmd("tc qdisc show dev r-eth1"))
CLI(net)
net.stop()
from mininet.clean import cleanup
cleanup()
print("FILES", os.path.exists("kept.log"), os.path.exists("/tmp/kept_by_the_machine.log"))
sys.exit(int(sys.argv[1]))
"""


def run_python(*words: str, folder: Path, typed: str = "") -> subprocess.CompletedProcess[str]:
    command = [*TESTBED, "python", *words]
    return run(
        command, input=typed, capture_output=True, text=True, cwd=folder, timeout=120, check=False
    )


@pytest.fixture
def script(tmp_path: Path) -> Path:
    (tmp_path / "helper.py").write_text("VALUE = 7\n")
    (tmp_path / "kept.log").touch()
    path = tmp_path / "own_classes.py"
    path.write_text(OWN_CLASSES)
    return path


def test_own_classes_partials_and_the_prompt(script: Path) -> None:
    done = run_python(
        script.name, "5", folder=script.parent, typed="h1 echo from $((40+2))\nnodes\n"
    )
    assert done.returncode == 5, done.stderr[-3000:]
    assert "LOST 0" in done.stdout
    assert "MARKS [1, 2] Router 7" in done.stdout
    assert "QUEUE True" in done.stdout
    assert "from 42" in done.stdout + done.stderr
    assert "FILES True False" in done.stdout


def test_clean_up_of_mininet_leaves_the_machines_files(
    script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = Path("/tmp") / f"kept_by_{script.parent.name}_{script.parent.parent.name}.log"
    kept.touch()
    key = script.parent / "home/.ssh/mn/key"
    key.parent.mkdir(parents=True)
    key.touch()
    monkeypatch.setenv("HOME", str(script.parent / "home"))
    (script.parent / "clean.py").write_text("from mininet.clean import cleanup\ncleanup()\n")
    try:
        done = run_python("clean.py", folder=script.parent)
        assert done.returncode == 0, done.stderr[-2000:]
        assert kept.exists() and key.exists()
    finally:
        kept.unlink(missing_ok=True)


LEFT_UP = """
from mininet.clean import cleanup
from mininet.net import Mininet
from mininet.topo import SingleSwitchTopo
from mininet.util import quietRun
first = Mininet(topo=SingleSwitchTopo(2))
first.start()
try:
    Mininet(topo=SingleSwitchTopo(2))
except Exception as error:
    print("SECOND", type(error).__name__, error)
cleanup()
print("SERVED", "for_mn serve" in quietRun("ps -e -o args"))
net = Mininet(topo=SingleSwitchTopo(2))
net.addNAT().configDefault()
net.start()
print("LOST", net.ping(net.get("h1", "h2"), timeout="2"))
net.stop()
"""


def test_remaining_network_is_named_and_cleaned_up_and_nat_writes_no_file(
    tmp_path: Path,
) -> None:
    (tmp_path / "left.py").write_text(LEFT_UP)
    noted = Path("/etc/network/interfaces")
    before = noted.read_bytes() if noted.exists() else None
    done = run_python("left.py", folder=tmp_path)
    assert "SECOND InputError the program's first network still runs" in done.stdout
    assert "SERVED False" in done.stdout and "LOST 0" in done.stdout, done.stderr[-2000:]
    assert (noted.read_bytes() if noted.exists() else None) == before


UNNUMBERED = """
from mininet.net import Mininet
from mininet.topo import SingleSwitchTopo
first = Mininet(controller=None)
try:
    first.addSwitch("test")
except Exception as error:
    print("REFUSED", error)
def fail():
    lost = Mininet(topo=SingleSwitchTopo(2), controller=None)
    lost.start()
    raise ValueError

try:
    fail()
except ValueError:
    pass
second = Mininet(topo=SingleSwitchTopo(2), controller=None)
second.addSwitch("named", dpid="5")
second.start()
print("LOST", second.pingAll(timeout="2"))
second.stop()
"""


def test_switch_without_number_is_refused_as_in_mininet(tmp_path: Path) -> None:
    """Networks that never started, or that nobody holds any more, do not hinder another one."""
    (tmp_path / "unnumbered.py").write_text(UNNUMBERED)
    done = run_python("unnumbered.py", folder=tmp_path)
    assert "REFUSED Unable to derive default datapath ID" in done.stdout, done.stderr
    assert "LOST " in done.stdout, done.stderr


CABLES = """
from mininet.link import Intf, OVSLink
from mininet.net import Mininet
from mininet.topo import LinearTopo
net = Mininet(LinearTopo(2), link=OVSLink, controller=None)
Intf("eth0", node=net["s1"])
net.start()
print("LOST", net.pingAll(timeout="2"), net["s1"].intfNames())
for host in net.hosts:
    host.intf().config(bw=5, enable_ecn=True)
net.stop()
"""


def test_patch_links_are_cables_and_hardware_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "cables.py").write_text(CABLES)
    done = run_python("cables.py", folder=tmp_path)
    assert "LOST 0.0 ['lo', 's1-eth1', 's1-eth2']" in done.stdout, done.stdout + done.stderr[-2000:]
    assert "s1: no interface eth0 in the sandbox; left out" in done.stderr
    assert done.stderr.count("enable_ecn of links is not carried out here") == 1


LINES = """
from mininet.clean import cleanup
cleanup()
from mininet.net import Mininet
from mininet.topo import SingleSwitchTopo
net = Mininet(SingleSwitchTopo(1), controller=None)
net.start()
print(net["h1"].cmd("seq 3").split("\\r\\n"))
net.stop()
cleanup()
"""


def test_lines_of_commands_end_as_mininets_and_cleaning_up_is_quiet(tmp_path: Path) -> None:
    (tmp_path / "lines.py").write_text(LINES)
    done = run_python("lines.py", folder=tmp_path)
    assert (done.stdout, done.stderr) == ("['1', '2', '3', '']\n", "")


PRIVATE = """
import os, sys
from functools import partial
from mininet.net import Mininet
from mininet.node import Host
from mininet.topo import SingleSwitchTopo
at = os.path.abspath("made/seen")
host = partial(Host, privateDirs=[at, (at + "2", "/tmp/%(name)s/own"), "/proc/none/here"])
net = Mininet(topo=SingleSwitchTopo(2), host=host)
net.start()
net["h1"].cmd(f"echo mine > {at}/a; echo bound > {at}2/b")
for name in ("h1", "h2"):
    out, _, _ = net[name].pexec("sh", "-c", f"ls {at} {at}2 | tr '\\n' ' '")
    print(name, out.replace(at, "AT"))
print("KEPT", open("/tmp/h1/own/b").read().strip(), os.listdir(at), net["h1"].cmd("hostname").strip())
net.stop()
"""


def test_private_directories_are_a_hosts_own(tmp_path: Path) -> None:
    (tmp_path / "private.py").write_text(PRIVATE)
    done = run_python("private.py", folder=tmp_path)
    assert "h1 AT: a  AT2: b" in done.stdout and "h2 AT:  AT2:" in done.stdout, (
        done.stdout + done.stderr[-2000:]
    )
    assert "KEPT bound [] h1" in done.stdout
    assert not (tmp_path / "made").exists()
    assert done.stderr.count("/proc/none/here is not private; all nodes see it (mkdir:") == 2


@pytest.mark.parametrize("words", [[], ["none_here.py"], ["."]])
def test_no_script_is_one_line(words: list[str], tmp_path: Path) -> None:
    done = run_python(*words, folder=tmp_path)
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1 and "no such file" in done.stderr


def test_errors_are_the_scripts(tmp_path: Path) -> None:
    (tmp_path / "wrong.py").write_text("from mininet.net import Mininet\nraise KeyError('mine')\n")
    done = run_python("wrong.py", folder=tmp_path)
    assert done.returncode == 1
    assert "KeyError: 'mine'" in done.stderr


def test_file_for_mn_is_printed(tmp_path: Path) -> None:
    done = run_python("--mn", folder=tmp_path)
    assert done.returncode == 0
    assert "topos" in Path(done.stdout.strip()).read_text()
