"""Programs in hosts find other hosts by name, and the machine's own files stay as they are."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.helpers.warm import TESTBED, run

pytestmark = [pytest.mark.emulation, pytest.mark.unclocked]
SCRIPT = """
import socket, time
from mininet.net import Mininet
from mininet.topo import SingleSwitchTopo

net = Mininet(topo=SingleSwitchTopo(2), controller=None)
net["h1"].cmd("echo 10.0.0.9 gateway >> /etc/hosts")
net.start()
h1, h2 = net.hosts

def addresses(*names):
    for name in names:
        print("NAME", name, h1.cmd(f"getent hosts {name}").split()[0])

addresses("h1", "h2", "gateway")
print("SCRIPT", socket.gethostbyname("h2"))
h2.setIP("10.0.0.77/8")
late = net.addHost("late", ip=None)
net["s1"].attach(net.addLink(late, net["s1"]).intf2)
late.setIP("10.0.0.78/8")
addresses("h2", "late", "gateway")
began = time.monotonic()
h2.cmd("python3 -m http.server 80 > /dev/null 2>&1 &")
while "refused" in h1.cmd("curl -sS http://h2/ 2>&1"):
    time.sleep(0.02)
print("SERVED", time.monotonic() - began)
net.stop()
"""


def test_hosts_of_a_script_have_names(tmp_path: Path) -> None:
    machine = [Path("/etc/hosts").read_bytes(), Path("/etc/resolv.conf").read_bytes()]
    (tmp_path / "names.py").write_text(SCRIPT)
    words = [*TESTBED, "python", "names.py"]
    done = run(words, capture_output=True, text=True, timeout=60, cwd=tmp_path, check=False)
    assert re.findall(r"^NAME (\S+) (\S+)$", done.stdout, re.MULTILINE) == [
        ("h1", "10.0.0.1"),
        ("h2", "10.0.0.2"),
        ("gateway", "10.0.0.9"),
        ("h2", "10.0.0.77"),
        ("late", "10.0.0.78"),
        ("gateway", "10.0.0.9"),
    ], done.stderr
    assert "SCRIPT 10.0.0.2" in done.stdout
    served = re.search(r"SERVED (\S+)", done.stdout)
    assert served is not None
    assert float(served[1]) < 5
    assert [Path("/etc/hosts").read_bytes(), Path("/etc/resolv.conf").read_bytes()] == machine


def test_hosts_of_a_session_have_names() -> None:
    import testbed

    with testbed.session("swiss-t1") as held:
        done = held.exec("t0", ["ping", "-c", "1", "-W", "2", "r31"])
        assert done.returncode == 0, done.stderr
        process = held.popen("t0", ["getent", "hosts", "s3"], stdout=subprocess.PIPE, text=True)
        output, _ = process.communicate()
        assert (
            output.split()[0] == held.exec("s3", ["hostname", "-I"], end_point=True).stdout.strip()
        )
