"""A large network's bridges in shares, a switch daemon each: who has which, and that the network is one all the
same."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

PORT = 9000


def ports(counts: list[int]) -> dict[str, list[tuple[str, int]]]:
    """Bridges with so many ports each, beside their own."""
    return {
        f"s{n}": [(f"s{n}-e{p}", p) for p in range(1, count + 1)] for n, count in enumerate(counts)
    }


def test_bridges_up_to_the_most_ports_have_one_daemon() -> None:
    from testbed.emulation.network.open_vswitch.bridges import shares_of

    assert shares_of(ports([4] * 20), 100, 10) == (tuple(f"s{n}" for n in range(20)),)
    assert len(shares_of(ports([4] * 21), 100, 10)) > 1
    assert shares_of({}, 100, 10) == ((),)


@pytest.mark.parametrize("counts", [[7] * 400, [1, 90, 3] * 60, [1000, 1, 1, 1], [1] * 900])
def test_shares_hold_each_bridge_once_in_order_and_similar_numbers(
    counts: list[int],
) -> None:
    from testbed.emulation.network.open_vswitch.bridges import shares_of

    given = ports(counts)
    shares = shares_of(given, 500, 200)
    assert [name for share in shares for name in share] == list(given)
    assert all(shares)
    held = [sum(1 + len(given[name]) for name in share) for share in shares]
    assert max(held) <= max(200 + max(counts) + 1, 1001)


def test_datapath_of_daemons_that_share_a_namespace_makes_no_taps() -> None:
    from testbed.emulation.network.open_vswitch.switch_daemon import SwitchDaemon

    kinds = [
        SwitchDaemon(d, Path(), alone=alone).datapath_type
        for d in ("user", "kernel")
        for alone in (True, False)
    ]  # type: ignore[arg-type]
    assert kinds == ["netdev", "dummy", "system", "system"]


def test_bridges_bear_with_a_controller_that_is_busy_for_a_minute() -> None:
    from testbed.emulation.network.open_vswitch.bridges import Bridge, bridge_operations

    target = ("tcp:127.0.0.1:6653",)
    bridges = [
        Bridge(name=n, device=n, dpid=1, ports=p, controllers=target)
        for n, p in ports([3] * 6).items()
    ]
    operations = bridge_operations(bridges, "netdev")
    rows = [one["row"] for one in operations if one.get("table") == "Controller"]
    assert len(rows) == 6 and all(
        row["inactivity_probe"] >= 60_000 for row in rows
    )  # Open vSwitch's own: 5 s


def networks_one_after_the_other() -> list[list[str]]:
    """Which daemons take orders in a network of one daemon, in one of three after it, and in one of one again; each
    takes one."""
    from testbed.emulation.network import emulated_network
    from testbed.emulation.network.mininet_network import batch
    from testbed.emulation.network.open_vswitch.switches import flush_flow_cache
    from testbed.model.wiring import wire
    from topologies import load_network

    found = []
    for most_ports in (1000, 10, 1000):
        batch.MAX_PORTS, batch.SHARE_PORTS = most_ports, 8
        with emulated_network.EmulatedNetwork(wire(load_network("ring:6"))):
            flush_flow_cache()
            found.append(
                sorted(
                    path.name for path in Path(os.environ["OVS_RUNDIR"]).glob("ovs-vswitchd*.ctl")
                )
            )
    return found


@pytest.mark.emulation
@pytest.mark.unclocked
def test_daemons_of_a_network_that_is_gone_take_no_orders(sandboxed: Callable[..., Any]) -> None:
    found = sandboxed(networks_one_after_the_other)
    assert [len(names) for names in found] == [1, 3, 1], found


def ring_of_shares() -> dict[str, Any]:
    """A ring of six switches over three daemons: packets across all, a purge of all, a cut that the controller is told
    of."""
    import socket

    from testbed.emulation.control.base_rules import install_shortest_paths
    from testbed.emulation.control.controller_link import ControllerLink
    from testbed.emulation.network import emulated_network, links
    from testbed.emulation.network.mininet_network import batch
    from testbed.emulation.network.open_vswitch.switches import flush_flow_cache
    from testbed.model.wiring import wire
    from topologies import load_network

    batch.MAX_PORTS, batch.SHARE_PORTS, links.MAX_HOOKS = 10, 8, 1
    wiring = wire(load_network("ring:6"))
    controller = ControllerLink(0)
    controller.start()
    with emulated_network.EmulatedNetwork(wiring, controller_port=controller.port) as net:
        controller.wait_for_switches([s.dpid for s in wiring.switches])
        install_shortest_paths(wiring)
        names = [host.name for host in wiring.hosts]
        receivers = {n: net.open_socket(n, socket.AF_INET, socket.SOCK_DGRAM) for n in names}
        for receiver in receivers.values():
            receiver.bind(("0.0.0.0", PORT))
            receiver.settimeout(5)
        came = []
        for source in names:
            with net.open_socket(source, socket.AF_INET, socket.SOCK_DGRAM) as sender:
                for sink in set(names) - {source}:
                    sender.sendto(source.encode(), (net.host(sink).ip, PORT))
                    came.append(receivers[sink].recv(100).decode() == source)
        targets = sorted(Path(os.environ["OVS_RUNDIR"]).glob("ovs-vswitchd*.ctl"))
        before = [remembered(target) for target in targets]
        flush_flow_cache()
        after = [remembered(target) for target in targets]
        link = next(
            c.forward
            for c in wiring.cables
            if c.forward and c.forward[0] == "s0" and c.forward[1] == "s1"
        )
        hooks = [hooks_now()]
        for dead, expected in ((True, None), (False, b"again")):
            net.set_loss(link, float(dead))
            hooks.append(hooks_now())
            with net.open_socket("h0", socket.AF_INET, socket.SOCK_DGRAM) as sender:
                receivers["h1"].settimeout(5 if expected else 0.3)
                sender.sendto(b"again", (net.host("h1").ip, PORT))
                try:
                    heard = receivers["h1"].recv(100)
                except TimeoutError:
                    heard = None
            came.append(heard == expected)
        processes = {
            line for n in names for line in status(net.host_pid(n)) if line.startswith("Tgid")
        }
        hostnames = [
            net.run_in_host(n, ["hostname"], stdout=subprocess.PIPE, text=True).communicate()[0]
            for n in names
        ]
        net.set_link(link, False)
        told = controller.port_events(0, 5)
        shown = subprocess.run(
            ["ovs-vsctl", f"--db=unix:{targets[-1].parent}/db-1.sock", "list-br"], **quiet()
        ).stdout
    controller.stop()
    left = subprocess.run(["ip", "-br", "link"], **quiet()).stdout.split("\n")
    return {
        "came": came,
        "daemons": len(targets),
        "before": before,
        "after": after,
        "told": len(told),
        "shown": shown.split(),
        "left": [line.split()[0] for line in left if line],
        "hooks": hooks,
        "processes": len(processes),
        "hostnames": [name.strip() for name in hostnames],
        "nodes": [host.node for host in wiring.hosts],
    }


def hooks_now() -> int:
    """Hooks for drop rules at the ends beside the switches."""
    return subprocess.run(["tc", "qdisc", "show"], **quiet()).stdout.count("clsact")


def status(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/status").read_text().splitlines()


def quiet() -> dict[str, Any]:
    return {"capture_output": True, "text": True, "timeout": 20, "check": True}


def remembered(target: Path) -> int:
    """Flows that a daemon remembers."""
    words = ["ovs-appctl", "-t", str(target), "dpctl/dump-flows", "dummy@ovs-dummy"]
    return len(subprocess.run(words, **quiet()).stdout.strip().splitlines())


@pytest.mark.emulation
@pytest.mark.unclocked
def test_network_over_three_daemons_is_one(sandboxed: Callable[..., Any]) -> None:
    found = sandboxed(ring_of_shares)
    assert found["daemons"] == 3
    assert len(found["came"]) == 32 and all(found["came"])
    assert all(found["before"]) and not any(found["after"]), (
        found
    )  # the rival: only the first daemon is told to forget
    assert found["told"] >= 1
    assert found["shown"] and set(found["shown"]) < {f"s{n}" for n in range(1, 7)} | {
        f"s{n}" for n in range(6)
    }
    assert found["left"] == ["lo"]
    assert found["hooks"] == [
        1,
        2,
        2,
    ]  # one to try, the end of s0->s1, and the end of s1->s0 when that failed
    assert found["processes"] == 1  # one thread a host
    assert found["hostnames"] == found["nodes"]


def too_slow() -> dict[str, Any]:
    """Daemons that get no processor, then a machine without memory: what is said, how soon, and what is left."""
    from testbed.emulation.network import emulated_network
    from testbed.emulation.network.mininet_network import batch
    from testbed.emulation.network.open_vswitch import switches
    from testbed.errors import CapabilityError, InvalidRunError
    from testbed.model.wiring import wire
    from topologies import load_network

    batch.MAX_PORTS, batch.SHARE_PORTS = 10, 8
    switches._BRIDGES_LIMIT_S, switches._OPERATION_LIMIT_S = 0.3, 0.0
    awake = switches.SwitchDaemon.pause
    switches.SwitchDaemon.pause = lambda self, on=True: (
        awake(self, on=True) if self._suffix else awake(self, on=on)
    )  # type: ignore[method-assign]
    net, began, said, code = (
        emulated_network.EmulatedNetwork(wire(load_network("ring:6"))),
        time.monotonic(),
        "",
        0,
    )
    try:
        net.start()
    except InvalidRunError as error:
        said, code = str(error), error.exit_code
    took = time.monotonic() - began
    emulated_network._available_bytes = lambda: 100_000_000
    refused = ""
    try:
        emulated_network.EmulatedNetwork(wire(load_network("ring:6"))).start()
    except CapabilityError as error:
        refused = str(error)
    left = subprocess.run(["ip", "-br", "link"], **quiet()).stdout.split("\n")
    return {
        "refused": refused,
        "said": said,
        "code": code,
        "took": took,
        "left": [n.split()[0] for n in left if n],
    }


@pytest.mark.emulation
@pytest.mark.unclocked
def test_daemons_that_do_not_finish_in_time_end_the_set_up_with_the_figure(
    sandboxed: Callable[..., Any],
) -> None:
    found = sandboxed(too_slow)
    assert found["said"].startswith(
        "ovs-vswitchd set up 2 of 6 switches within 0 s: this machine is too slow"
    )
    assert found["code"] == 4 and found["took"] < 10
    assert found["refused"].startswith(
        "a network of 6 switches, 6 hosts and 12 cables needs about 0.2 GB of memory, 0.1 GB available"
    )
    assert found["left"] == ["lo"]


def two_of_four() -> list[list[str]]:
    """Whom each host of a ring of four knows, when the first and the third talk."""
    import json

    from testbed.emulation.network.emulated_network import EmulatedNetwork
    from testbed.model.wiring import wire
    from topologies import load_network

    wiring = wire(load_network("ring:4"))
    nodes = [host.node for host in wiring.hosts]
    known = []
    with EmulatedNetwork(wiring, talking=(nodes[0], nodes[2])) as net:
        for host in wiring.hosts:
            said = net.run_in_host(
                host.name, ["ip", "-j", "neigh"], stdout=subprocess.PIPE, text=True
            ).communicate()[0]
            known.append([entry["dst"] for entry in json.loads(said or "[]")])
        known.append([net.host("h2").ip, net.host("h0").ip])
    return known


@pytest.mark.emulation
@pytest.mark.unclocked
def test_only_hosts_that_talk_know_each_other(sandboxed: Callable[..., Any]) -> None:
    *known, (third, first) = sandboxed(two_of_four)
    assert known == [[third], [], [first], []]
