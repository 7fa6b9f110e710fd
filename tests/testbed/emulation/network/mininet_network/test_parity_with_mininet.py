"""What late classes build is what Mininet's own commands build: interfaces, ports, addresses, routes, bridges."""

from __future__ import annotations

import importlib
import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import pytest

pytestmark = [pytest.mark.emulation, pytest.mark.unclocked]
NEEDED = ("mnexec", "ifconfig", "arp", "ovs-vsctl")
KINDS: dict[str, dict[str, Any]] = {
    "single": {},
    "reversed": {"autoStaticArp": True},
    "linear": {"autoSetMacs": True},
    "linear_of_pairs": {"ipBase": "192.168.7.0/24"},
    "tree": {"autoStaticArp": True},
    "linuxrouter": {},
    "own_ports": {},
    "multilink": {},
    "direct_cable": {},
    "without_switches": {},
    "shut": {},
}
"""Topology -> Mininet's options for it."""
MORE = {"linear", "linear_of_pairs", "reversed", "single", "tree"}
"""Left to `make soak`: shapes of what others have, too."""


def some(names: Iterable[str], more: set[str]) -> list[Any]:
    return [pytest.param(name, marks=[pytest.mark.soak] if name in more else []) for name in names]


def topology(name: str) -> Any:
    """A Topo of that kind."""
    from mininet.link import TCLink
    from mininet.topo import LinearTopo, SingleSwitchReversedTopo, SingleSwitchTopo, Topo
    from mininet.topolib import TreeTopo

    class OwnPorts(Topo):  # type: ignore[misc]
        def build(self) -> None:
            s1, s2 = self.addSwitch("s1", dpid="a1"), self.addSwitch("core7")
            a = self.addHost("alice", ip="10.9.0.1/16", mac="02:aa:00:00:00:01")
            b = self.addHost("bob", ip="10.9.0.2/16")
            self.addLink(a, s1, port1=0, port2=5)
            self.addLink(b, s2, port1=3, port2=9)
            self.addLink(s1, s2, port1=2, port2=4, bw=10, cls=TCLink)

    class DirectCable(Topo):  # type: ignore[misc]
        def build(self) -> None:
            s = self.addSwitch("s1")
            hosts = [self.addHost(f"h{i}", ip=f"10.0.0.{i}/24") for i in (1, 2, 3)]
            for host in hosts:
                self.addLink(host, s)
            self.addLink(*hosts[:2], params1={"ip": "10.1.0.1/30"}, params2={"ip": "10.1.0.2/30"})

    class WithoutSwitches(Topo):  # type: ignore[misc]
        def build(self) -> None:
            self.addLink(self.addHost("h1"), self.addHost("h2"))

    class Shut(Topo):  # type: ignore[misc]
        """A switch that waits for a controller, and forwards nothing."""

        def build(self) -> None:
            from mininet.node import OVSSwitch

            s = self.addSwitch("s1", cls=OVSSwitch, datapath="user", protocols="OpenFlow13")
            for n in (1, 2):
                self.addLink(self.addHost(f"h{n}"), s)

    own = {
        "own_ports": OwnPorts,
        "direct_cable": DirectCable,
        "without_switches": WithoutSwitches,
        "shut": Shut,
    }
    known: dict[str, Callable[[], Any]] = {
        "single": partial(SingleSwitchTopo, k=4),
        "reversed": partial(SingleSwitchReversedTopo, k=3),
        "linear": partial(LinearTopo, k=3),
        "linear_of_pairs": partial(LinearTopo, k=2, n=2),
        "tree": partial(TreeTopo, depth=2, fanout=3),
        **own,
    }
    if name in known:
        return known[name]()
    module = importlib.import_module(f"mininet.examples.{name}")
    return module.NetworkTopo() if name == "linuxrouter" else module.simpleMultiLinkTopo(n=2)


def facts(net: Any) -> dict[str, Any]:
    """Of Mininet's objects, of the kernel and of the switch database."""

    def rows(table: str, *columns: str) -> list[list[Any]]:
        words = ["ovs-vsctl", "--format=json", f"--columns={','.join(columns)}", "list", table]
        done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60)
        return [list(row) for row in json.loads(done.stdout)["data"]]

    found: dict[str, Any] = {}
    if net.switches:
        found["bridges"] = sorted(rows("Bridge", "name", "datapath_id", "fail_mode", "protocols"))
    ports = dict(rows("Interface", "name", "ofport")) if net.switches else {}
    for host in net.hosts:
        lines = host.cmd(
            "ip -o -4 addr; ip -4 route; cat /proc/sys/net/ipv4/ip_forward"
        ).splitlines()
        told = [
            re.sub(r"@if\d+|^\d+: |\\.*|brd \S+|scope \S+|secondary|proto \S+", " ", line)
            for line in lines
        ]
        link = host.cmd(f"ip -o link show dev {host.defaultIntf()}")
        neighbours = host.cmd("ip neigh").splitlines()
        found[host.name] = {
            "interfaces": {interface.name: port for port, interface in sorted(host.intfs.items())},
            "ip": [(interface.IP(), str(interface.prefixLen)) for interface in host.intfList()],
            "kernel": sorted(" ".join(line.split()) for line in told),
            "given mac": host.params.get("mac") and re.findall(r"link/ether (\S+)", link),
            "neighbours": sorted(line.split()[0] for line in neighbours if "PERMANENT" in line),
        }
    for switch in net.switches:
        own = {
            i.name: [p, ports.get(i.name)]
            for p, i in sorted(switch.intfs.items())
            if i.name != "lo"
        }
        found[switch.name] = {"dpid": switch.dpid, "interfaces": own}
    found["lost"] = net.pingAll(timeout="1")
    return found


def both(name: str) -> dict[str, Any]:
    """By Mininet's own classes on an Open vSwitch that runs, then by late ones."""
    from mininet.net import Mininet
    from mininet.node import OVSBridge

    from testbed.emulation.network.mininet_network.net import TestbedMininet
    from testbed.emulation.network.open_vswitch.switches import PrivateSwitches, choose_datapath

    Mininet.inited = True  # its start-up would change limits of the whole machine
    datapath, found = choose_datapath(), {}
    for kind, made in (("stock", Mininet), ("late", TestbedMininet)):
        private = PrivateSwitches(datapath) if kind == "stock" else None
        if private is not None:
            private.start()
        switch = partial(OVSBridge, datapath=datapath)
        net = made(topo=topology(name), switch=switch, controller=None, **KINDS[name])
        net.start()
        found[kind] = facts(net)
        net.stop()
        if private is not None:
            private.stop()
    return found


@pytest.mark.parametrize("name", some(KINDS, MORE))
@pytest.mark.skipif(
    not all(map(shutil.which, NEEDED)), reason=f"Mininet's own commands need {', '.join(NEEDED)}"
)
def test_late_classes_build_what_mininets_commands_build(
    sandboxed: Callable[..., Any], name: str
) -> None:
    if name in ("linuxrouter", "multilink"):
        pytest.importorskip(
            f"mininet.examples.{name}", reason="Mininet is installed without its examples"
        )
    found = sandboxed(both, name)
    assert found["late"] == found["stock"]
    assert found["late"]["lost"] == (100 if name == "shut" else 0)


def numbers(name: str) -> dict[str, Any]:
    """Ports and, where the topology gives them, datapath ids: by Mininet's own classes, and by the network that a
    command makes of the topology."""
    from mininet.net import Mininet
    from mininet.node import OVSBridge

    import testbed
    from testbed.emulation.network.emulated_network import EmulatedNetwork
    from testbed.emulation.network.open_vswitch.switches import PrivateSwitches, choose_datapath
    from testbed.model.wiring import wire

    def of(net: Any) -> dict[str, Any]:
        done = subprocess.run(
            ["ovs-vsctl", "--format=json", "list", "Interface"], capture_output=True, check=True
        )
        listed = json.loads(done.stdout)
        rows = [dict(zip(listed["headings"], row, strict=True)) for row in listed["data"]]
        found: dict[str, Any] = {
            row["name"]: row["ofport"] for row in rows if "-eth" in row["name"]
        }
        for switch in net.switches:
            words = ["ovs-vsctl", "get", "Bridge", switch.name, "datapath_id"]
            if topo.nodeInfo(switch.name).get("dpid"):
                found[switch.name] = subprocess.run(
                    words, capture_output=True, text=True, check=True
                ).stdout
        return found | {
            h.name: sorted(port for port in h.intfs if h.intfs[port].name != "lo")
            for h in net.hosts
        }

    Mininet.inited = True
    datapath, topo = choose_datapath(), topology(name)
    private = PrivateSwitches(datapath)
    private.start()
    net = Mininet(topo=topo, switch=partial(OVSBridge, datapath=datapath), controller=None)
    net.start()
    found = {"stock": of(net)}
    net.stop()
    private.stop()
    with EmulatedNetwork(wire(testbed.network(topology(name)))) as own:
        found["ours"] = of(own.mininet)
    return found


@pytest.mark.parametrize(
    "name", some(["reversed", "tree", "own_ports", "multilink"], {"reversed", "tree"})
)
@pytest.mark.skipif(
    not all(map(shutil.which, NEEDED)), reason=f"Mininet's own commands need {', '.join(NEEDED)}"
)
def test_ports_and_datapath_ids_of_a_network_are_those_of_mininet(
    sandboxed: Callable[..., Any], name: str
) -> None:
    if name == "multilink":
        pytest.importorskip(
            "mininet.examples.multilink", reason="Mininet is installed without its examples"
        )
    found = sandboxed(numbers, name)
    assert found["ours"] == found["stock"]
    if name == "own_ports":
        assert (
            found["ours"]["s1"].strip().strip('"') == "00000000000000a1"
            and found["ours"]["s1-eth5"] == 5
        )
