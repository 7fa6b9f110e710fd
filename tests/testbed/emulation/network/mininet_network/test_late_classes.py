"""Mininet over late classes: what its documentation says of a network that is up, on real switches; and a topology that
is described, not built."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Callable
from typing import Any

import pytest

from testbed.errors import InputError

pytestmark = [pytest.mark.emulation, pytest.mark.unclocked]


def on_a_running_network() -> dict[str, Any]:
    """A tree with shaped links; then a host, a switch and a link more, cuts, and what commands see of them."""
    from mininet.link import TCLink
    from mininet.topolib import TreeTopo

    from testbed.emulation.network.mininet_network.net import TestbedMininet

    net = TestbedMininet(topo=TreeTopo(depth=2, fanout=2), link=TCLink, autoSetMacs=True)
    net.start()
    found: dict[str, Any] = {
        "lost": [net.pingAll(timeout="2")],
        "macs": [host.MAC() for host in net.hosts],
    }
    extra, switch = net.addHost("h9", ip="10.0.0.99/8"), net.addSwitch("s9")
    near, far = net.addLink(extra, switch, bw=5), net.addLink(switch, net["s1"])
    switch.start([])
    net["s1"].attach(far.intf2)
    extra.configDefault()
    pair = [extra, net["h4"]]
    found["lost"].append(net.ping(pair, timeout="2"))
    found["queue"] = extra.cmd("tc qdisc show dev h9-eth0")
    for status in ("down", "up"):
        net.configLinkStatus("h9", "s9", status)
        found["lost"].append(net.ping(pair, timeout="1"))
    found["iperf"] = net.iperf(pair, seconds=1)
    found["connected"] = net.waitConnected(timeout=5)
    extra.setIP("10.0.0.98/8")
    found["plain"] = extra.cmd("echo $NO_COLOR").strip()
    found["locked"] = extra.cmd('exec 9>"$TMPDIR/lock"; flock 9; echo mine; exec 9>&-').strip()
    found["addresses"] = re.findall(r"inet (\S+)", extra.cmd("ip -4 addr show dev h9-eth0"))
    net.delLink(near)
    found["gone"] = extra.cmd("ip -o link").count("\n")
    net["s1"].attach(net.addLink(extra, net["s1"]).intf2)
    extra.configDefault()
    found["lost"].append(net.ping(pair, timeout="2"))
    found["popen"] = net["h1"].popen(["hostname"]).communicate()[0].decode().strip()
    net.stop()
    found["closed"] = net["h1"].cmd("hostname")
    return found


def test_running_network_takes_hosts_switches_links_and_cuts(sandboxed: Callable[..., Any]) -> None:
    found = sandboxed(on_a_running_network)
    assert found["lost"] == [0, 0, 100, 0, 0]
    assert found["macs"] == [f"00:00:00:00:00:0{n}" for n in range(1, 5)]
    assert "tbf" in found["queue"] and "rate 5Mbit" in found["queue"]
    assert found["iperf"] and all(float(rate.split()[0]) < 9 for rate in found["iperf"])
    assert found["connected"] is True
    assert found["addresses"] == ["10.0.0.98/8"] and found["plain"] == "1"
    assert found["locked"] == "mine"
    assert found["gone"] == 1
    assert found["popen"] == "h1"
    assert found["closed"] is None


def by_plain_mininet() -> dict[str, Any]:
    """Mininet itself with late classes and nothing else of the testbed's."""
    import subprocess

    from mininet.link import TCLink
    from mininet.net import Mininet
    from mininet.node import Host, OVSBridge
    from mininet.topo import LinearTopo

    from testbed.emulation.network.mininet_network.nodes import late

    net = Mininet(
        topo=LinearTopo(k=3),
        host=late(Host),
        switch=late(OVSBridge),
        link=late(TCLink),
        controller=None,
    )
    net.start()
    lost = net.pingAll(timeout="2")
    net.stop()
    left = subprocess.run(["ip", "-j", "link"], capture_output=True, text=True, check=True).stdout
    return {"lost": lost, "left": [one["ifname"] for one in json.loads(left)]}


def test_plain_mininet_builds_with_late_classes_and_leaves_nothing(
    sandboxed: Callable[..., Any],
) -> None:
    assert sandboxed(by_plain_mininet) == {"lost": 0, "left": ["lo"]}


def controller_in_the_switches_network() -> dict[str, Any]:
    """Switches that wait for a controller, which begins to listen only later; one switch class that chooses its own."""
    import time

    from mininet.node import OVSSwitch, RemoteController
    from mininet.topo import LinearTopo

    from testbed.emulation.control.controller_link import ControllerLink
    from testbed.emulation.network.mininet_network.net import TestbedMininet

    class Alone(OVSSwitch):  # type: ignore[misc]
        """The second switch has no controller."""

        def start(self, controllers: list[Any]) -> None:
            OVSSwitch.start(self, controllers if self.name == "s1" else [])

    controller = ControllerLink(0)
    controller.start()
    remote = RemoteController("c0", ip="127.0.0.1", port=controller.port)
    net = TestbedMininet(topo=LinearTopo(k=2), switch=Alone, controller=remote)
    net.start()
    began = time.monotonic()
    connected = net.waitConnected(timeout=5)
    took = time.monotonic() - began
    known = controller.wait_for_switches([1])
    second = net["s2"].cmd("ovs-vsctl get-controller s2").strip()
    net.stop()
    controller.stop()
    return {"connected": connected, "took": took, "known": known is None, "second": second}


def test_switches_wait_for_their_controller_and_a_users_class_has_its_say(
    sandboxed: Callable[..., Any],
) -> None:
    found = sandboxed(controller_in_the_switches_network)
    assert found["connected"] is True and found["took"] < 5, found
    assert found["second"] == ""


def described() -> dict[str, Any]:
    """A topology whose requests are recorded only."""
    from mininet.link import TCLink
    from mininet.node import Node, OVSSwitch
    from mininet.topo import Topo

    from testbed.emulation.network.mininet_network.net import TestbedMininet
    from testbed.emulation.network.mininet_network.recording import RecordedRequests

    class Router(Node):  # type: ignore[misc]
        """As in Mininet's examples."""

        def config(self, **params: Any) -> None:
            super().config(**params)
            self.cmd("sysctl net.ipv4.ip_forward=1")
            self.cmd("vconfig add r0-eth0 10")

    class Two(Topo):  # type: ignore[misc]
        def build(self) -> None:
            self.addHost("r0", cls=Router, ip="10.1.0.1/16")
            self.addSwitch("core")
            self.addLink("r0", "core", bw=20, delay="10ms", loss=9)

    requests = RecordedRequests()
    net = TestbedMininet(
        topo=Two(), switch=OVSSwitch, controller=None, link=TCLink, requests=requests
    )
    net.start()
    return {
        "queues": sorted(
            (str(interface), dict(values)) for interface, values in requests.queues.items()
        ),
        "ip": net["r0"].IP(),
        "sysctls": requests.sysctls,
        "commands": requests.commands,
        "dpid": int(net["core"].dpid, 16) > 0,
        "bridges": [str(switch) for switch, _ in requests.bridges],
    }


def test_recorded_topology_says_what_was_requested_and_makes_nothing(
    sandboxed: Callable[..., Any],
) -> None:
    values = {"bw": 20, "delay": "10ms", "loss": 9}
    assert sandboxed(described) == {
        "queues": [["core-eth1", values], ["r0-eth0", values]],
        "ip": "10.1.0.1",
        "sysctls": [["r0", "net.ipv4.ip_forward", "1"]],
        "commands": [["r0", "vconfig add r0-eth0 10"]],
        "dpid": True,
        "bridges": ["core"],
    }


def delayed_links() -> dict[str, Any]:
    """A switch, two hosts, their links delayed by 10 ms each way; then 30 ms at one end, and losses."""
    from mininet.link import TCLink
    from mininet.node import OVSBridge
    from mininet.topo import SingleSwitchTopo

    from testbed.emulation.network.mininet_network.net import TestbedMininet

    net = TestbedMininet(SingleSwitchTopo(k=2, lopts={"delay": "10ms"}), OVSBridge, link=TCLink)
    net.start()
    host, found = net["h1"], {}

    def said(count: int) -> str:
        return str(host.cmd(f"ping -q -c {count} -i 0.02 -W 1 10.0.0.2"))

    host.intf().config(delay="10ms", bw=5)
    said(2)
    for name, values in (
        ("before", {}),
        ("after", {"delay": "30ms"}),
        ("lossy", {"delay": "0ms", "loss": 50}),
    ):
        host.intf().config(**values)
        text = said(40)
        found[name] = float(re.findall(r"= ([\d.]+)/", text)[0])
        found["lost"] = float(re.findall(r"([\d.]+)% packet loss", text)[0])
    host.intf().config(bw=5)
    found["delay replaced"] = float(re.findall(r"= ([\d.]+)/", said(10))[0])
    host.intf().config()
    found["queues"] = [host.cmd("tc qdisc show dev h1-eth0").count("tbf")]
    host.intf().config(delay="1ms", jitter="1ms")
    found["queues"].append(host.cmd("tc qdisc show dev h1-eth0").count("tbf"))
    net.stop()
    return found


def test_delays_and_losses_of_scripts_need_no_netem(sandboxed: Callable[..., Any]) -> None:
    found = sandboxed(delayed_links)
    assert 20 <= found["before"] + 10 < found["after"] and 20 <= found["lost"] <= 80
    assert found["lossy"] < found["after"] - 25
    assert 10 <= found["delay replaced"] < found["before"] - 5 and found["queues"] == [1, 0]


def with_a_node_of_ones_own() -> dict[str, Any]:
    """As examples/sshd.py: next to the switches, made before the network starts, and after; and one that is apart."""
    from mininet.node import Node
    from mininet.topo import SingleSwitchTopo

    from testbed.emulation.network.mininet_network.net import TestbedMininet

    net, said = TestbedMininet(topo=SingleSwitchTopo(1)), {}
    root = Node("root", inNamespace=False)
    root.setIP("10.0.0.99/8", intf=net.addLink(root, net["s1"]).intf1)
    net.start()
    said["answers"] = " 0% packet loss" in net["h1"].cmd("ping -c1 -W2 10.0.0.99")
    # TCP needs checksums, which the switches do not compute.
    with socket.create_server(("10.0.0.99", 0)) as server:
        server.settimeout(5)
        port = server.getsockname()[1]
        net["h1"].cmd(f"bash -c 'cat </dev/tcp/10.0.0.99/{port} >$TMPDIR/received' &")
        with server.accept()[0] as connection:
            connection.sendall(b"text")
    net["h1"].cmd("wait")
    said["received"] = net["h1"].cmd("cat $TMPDIR/received")
    apart = Node("apart")
    try:
        net.addLink(apart, net["s1"])
    except Exception as error:  # noqa: BLE001 - what it is, is the question
        said["refused"] = f"{type(error).__name__}: {error}"
    apart.terminate()
    net.stop()
    return said


def test_a_node_made_outside_the_network_joins_it_or_is_refused(
    sandboxed: Callable[..., Any],
) -> None:
    refused = (
        "InputError: apart was made outside the network, which cannot join it; make it by addHost"
    )
    assert sandboxed(with_a_node_of_ones_own) == {
        "answers": True,
        "received": "text",
        "refused": refused,
    }


def restarted() -> dict[str, Any]:
    """Its one switch is started again, and then the network."""
    from mininet.topo import SingleSwitchTopo

    from testbed.emulation.network.mininet_network.net import TestbedMininet

    net = TestbedMininet(SingleSwitchTopo(k=2, lopts={"bw": 5}))
    net.start()
    switch, said = net["s1"], {}
    for name, start in (("switch", lambda: switch.start([])), ("network", net.start)):
        start()
        queue = switch.cmd("tc qdisc show dev s1-eth1")
        said[name] = net.ping(net.hosts, timeout="2"), "tbf" in queue and "5Mbit" in queue
    net.stop()
    return said


def test_running_network_is_restarted_unchanged(sandboxed: Callable[..., Any]) -> None:
    assert sandboxed(restarted) == {"switch": [0, True], "network": [0, True]}


@pytest.mark.parametrize(
    "values",
    [{"bw": -1}, {"bw": float("nan")}, {"bw": "x"}, {"max_queue_size": -3}, {"loss": "1%"}],
)
def test_link_values_that_are_no_numbers_are_one_line(values: dict[str, Any]) -> None:
    from testbed.emulation.network.mininet_network.messages import queue_messages

    with pytest.raises(
        InputError, match=f"{next(iter(values))}=.* of a link; give a number from 0 on"
    ):
        queue_messages(2, values, 1500)


def with_several_daemons() -> dict[str, Any]:
    """A line of switches over several databases: a port of the last, then the last itself, are taken away."""
    import os
    import subprocess
    from pathlib import Path

    from mininet.topo import LinearTopo

    from testbed.emulation.network.mininet_network import batch
    from testbed.emulation.network.mininet_network.net import TestbedMininet

    def bridges() -> dict[str, list[str]]:
        found = {}
        for place in sorted(Path(os.environ["OVS_RUNDIR"]).glob("db*.sock")):
            words = ["ovs-vsctl", f"--db=unix:{place}"]
            listed = subprocess.run(
                [*words, "list-br"], capture_output=True, text=True, check=True
            ).stdout.split()
            for name in listed:
                ports = subprocess.run(
                    [*words, "list-ports", name], capture_output=True, text=True, check=True
                ).stdout
                found[f"{place.name} {name}"] = sorted(ports.split())
        return found

    batch.MAX_PORTS, batch.SHARE_PORTS = 4, 4
    net = TestbedMininet(topo=LinearTopo(k=4))
    net.start()
    found = {"lost": net.pingAll(timeout="2"), "before": bridges()}
    net["s4"].detach("s4-eth1")
    found["port less"] = bridges()
    net.delSwitch(net["s4"])
    found["switch less"] = bridges()
    found["still"] = net.ping([net["h1"], net["h3"]], timeout="2")
    net.stop()
    return found


def test_ports_and_switches_go_whatever_daemon_has_them(sandboxed: Callable[..., Any]) -> None:
    found = sandboxed(with_several_daemons)
    place = next(key for key in found["before"] if key.endswith(" s4"))
    assert not place.startswith("db.sock") and found["lost"] == 0
    assert found["before"][place] == ["s4-eth1", "s4-eth2"] and found["port less"][place] == [
        "s4-eth2"
    ]
    assert set(found["before"]) - set(found["switch less"]) == {place} and found["still"] == 0


@pytest.mark.parametrize(
    ("hosts", "switch", "said"),
    [
        (["New York"], "s1", "called 'New York-eth0': give its node a name without spaces"),
        (["a/b"], "s1", "called 'a/b-eth0': give its node a name without"),
        (
            ["h1"],
            "lo",
            "a switch called 'lo': give its node a name without spaces, / and :, and not lo",
        ),
        (["h1", "h1"], "s1", "have one name; call each node otherwise"),
    ],
)
def test_names_that_the_kernel_does_not_take_are_one_line(
    hosts: list[str], switch: str, said: str, sandboxed: Callable[..., Any]
) -> None:
    assert said in sandboxed(named, hosts, switch)


def named(hosts: list[str], switch: str) -> str:
    """What the error says."""
    from testbed.emulation.network.mininet_network.net import TestbedMininet

    net = TestbedMininet()
    at = net.addSwitch(switch)
    try:
        for name in hosts:
            net.addLink(net.addHost(name), at)
        net.start()
    except Exception as error:  # noqa: BLE001 - what it is, is the question
        return f"{type(error).__name__}: {error}"
    finally:
        net.stop()
    return ""
