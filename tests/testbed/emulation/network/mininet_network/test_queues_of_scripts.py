"""Links of Mininet scripts are limited at both ends, in whatever order the script builds its network."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.helpers.warm import TESTBED, run

pytestmark = [pytest.mark.emulation, pytest.mark.unclocked]
ORDERS = Path(__file__).with_name("queue_orders.py")
INTERFACES_OF_A_CASE = 26
SLOW_PORT = """
from mininet.link import TCLink
from mininet.net import Mininet
from mininet.topo import Topo

class Pair(Topo):
    def build(self):
        a, b = self.addSwitch("s1"), self.addSwitch("s2")
        self.addLink(self.addHost("h1"), a, bw=80)
        self.addLink(self.addHost("h2"), b, bw=80)
        self.addLink(a, b, bw=4)

net = Mininet(topo=Pair(), link=TCLink)
net.start()
for server, client in (net.hosts, net.hosts[::-1]):
    print("RATE", net.iperf([client, server], seconds=2)[0])
net.stop()
"""


@pytest.mark.parametrize(
    "arguments", [pytest.param([], id="each-call"), pytest.param(["all"], marks=pytest.mark.long)]
)
def test_parameters_hold_in_every_order(tmp_path: Path, arguments: list[str]) -> None:
    words = [*TESTBED, "python", str(ORDERS), *arguments]
    done = run(words, capture_output=True, text=True, timeout=250, cwd=tmp_path, check=False)
    lost = [line for line in done.stdout.splitlines() if line.startswith("LOST")]
    compared = re.search(r"^COMPARED (\d+)$", done.stdout, re.MULTILINE)
    assert compared is not None, done.stderr[-3000:]
    assert lost == []
    assert int(compared[1]) == INTERFACES_OF_A_CASE * (40 if arguments else 10)


def test_slowest_switch_port_limits_throughput(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(SLOW_PORT)
    words = [*TESTBED, "python", "slow.py"]
    done = run(words, capture_output=True, text=True, timeout=120, cwd=tmp_path, check=False)
    rates = [float(rate) for rate in re.findall(r"RATE ([0-9.]+) Mbits/sec", done.stdout)]
    assert len(rates) == 2, done.stderr[-3000:]
    assert all(2 < rate < 4.1 for rate in rates), rates


def test_mn_limits_switch_ports(tmp_path: Path) -> None:
    mn = shutil.which("mn")
    if mn is None:
        pytest.skip("mn is not installed")
    words = [*TESTBED, "python", mn, "--link", "tc,bw=2", "--topo", "linear,2"]
    typed = "s1 tc qdisc show dev s1-eth2\ns2 tc qdisc show dev s2-eth2\nexit\n"
    done = run(
        words, input=typed, capture_output=True, text=True, timeout=60, cwd=tmp_path, check=False
    )
    assert (done.stdout + done.stderr).count("rate 2Mbit") == 2, done.stdout + done.stderr
