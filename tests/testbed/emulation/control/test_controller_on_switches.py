"""The controller on real switches: labels over their links to the packet, changes without loss, its death, refusals,
events."""

from __future__ import annotations

import os
import resource
import signal
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import Any

import pytest

from testbed.emulation.control import base_rules

pytestmark = pytest.mark.emulation
PORT, SHARES = 5000, (Fraction(1, 2), Fraction(1, 3), Fraction(1, 6))


def three_ways() -> Any:
    """Switch a to switch d directly, over b, over c; b and c are joined too. End points outside: h0 on a, h1 on d."""
    from testbed.model.wiring import wire
    from topologies.network import Link, Network, Node

    cables = [("a", "d"), ("a", "b"), ("b", "d"), ("a", "c"), ("c", "d"), ("b", "c")]
    links = tuple(
        Link(source=s, target=t, capacity_bps=1e8) for a, b in cables for s, t in ((a, b), (b, a))
    )
    nodes = tuple(Node(id=n, kind="switch") for n in "abcd")
    return wire(Network(name="three ways", nodes=nodes, links=links), ["a", "d"])


def split_over(wiring: Any, *ways: tuple[str, Fraction]) -> Any:
    """A label split over paths written as their nodes: "abd"."""
    from itertools import pairwise

    from testbed.routing.label_split.spraying import paths_split

    index = wiring.network.link_index
    paths = [([index[a, b, 0] for a, b in pairwise(way)], weight) for way, weight in ways]
    return paths_split(wiring.network, "a", "d", paths)


def split_in_three(wiring: Any) -> Any:
    return split_over(wiring, *zip(("ad", "abd", "acd"), SHARES, strict=True))


def rules_of(wiring: Any, split: Any) -> Any:
    from testbed.openflow.rules import stream_rules

    return stream_rules(wiring, split, udp_port=PORT)


@contextmanager
def controlled(wiring: Any) -> Iterator[tuple[Any, Any, float]]:
    """The network, its controller, and how much of the controller's start-up ``start`` waited for: a fraction."""
    from testbed.emulation.control.controller_link import ControllerLink
    from testbed.emulation.network.emulated_network import EmulatedNetwork

    controller = ControllerLink(port=0)
    times = [time.monotonic()]
    controller.start()
    times.append(time.monotonic())

    def ready() -> None:
        controller.wait_until_ready()
        times.append(time.monotonic())

    try:
        with EmulatedNetwork(wiring, controller_port=controller.port, before_bridges=ready) as net:
            controller.wait_for_switches([s.dpid for s in wiring.switches], timeout_s=60)
            yield net, controller, (times[1] - times[0]) / (times[2] - times[0])
    finally:
        controller.stop()


class Labelled:
    """Datagrams from a's end point to d's with any source port, counted where they arrive."""

    def __init__(self, net: Any) -> None:
        self._net = net
        self._sender = net.open_socket("h_a", socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
        self._receiver = net.open_socket("h_d", socket.AF_INET, socket.SOCK_DGRAM)
        self._receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
        self._receiver.bind(("0.0.0.0", PORT))
        self._receiver.setblocking(False)

    def send(self, label: int) -> None:
        source, sink = (socket.inet_aton(self._net.host(name).ip) for name in ("h_a", "h_d"))
        ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 32, 0, 0, 64, 17, 0, source, sink)
        self._sender.sendto(
            ip + struct.pack("!HHHHI", label, PORT, 12, 0, label), (self._net.host("h_d").ip, 0)
        )

    def arrived(self, expected: int, wait_s: float = 10.0) -> list[int]:
        """Labels of the packets that came, in order; waits for all that are expected."""
        limit, labels = time.monotonic() + wait_s, list[int]()
        while len(labels) < expected and time.monotonic() < limit:
            try:
                labels.append(struct.unpack("!I", self._receiver.recv(64))[0])
            except BlockingIOError:
                time.sleep(0.002)
        return labels

    def exchange(self, labels: list[int]) -> list[int]:
        """Send the labels, 64 and, once they are there or two seconds over, the next; those that arrived, sorted."""
        came: list[int] = []
        for k in range(0, len(labels), 64):
            for label in labels[k : k + 64]:
                self.send(label)
            came += self.arrived(min(k + 64, len(labels)) - len(came), 2.0)
            if k + 64 - len(came) > 1000:  # nothing gets through: do not wait on and on
                break
        return sorted(came)


def labels_over_links() -> dict[str, Any]:
    """Every eighth label, and the edges of every interval, through the split in three."""
    wiring = three_ways()
    split = split_in_three(wiring)
    edges = [x for path in split.paths for x in (path.start, path.stop - 1)]
    labels = sorted({*range(0, 65536, 8), *edges})
    with controlled(wiring) as (net, controller, waited):
        rules = rules_of(wiring, split)
        controller.install(rules, plan_id=1)
        before = net.link_counters()
        came = Labelled(net).exchange(labels)
        after = net.link_counters()
        limit, matched = time.monotonic() + 10, 0
        while (
            matched < len(labels) and time.monotonic() < limit
        ):  # switches add up their counters every half second
            counters = [
                one
                for one in base_rules.rules_of(wiring.switch_at("a").device)
                if "priority=300," in one
            ]
            matched = sum(int(one.partition("n_packets=")[2].partition(",")[0]) for one in counters)
            time.sleep(0.1)
    expected = dict.fromkeys(wiring.network.link_index, 0)
    for label in labels:
        for i in split.path_of(label).links:
            expected[wiring.network.links[i].id] += 1
    counted = {
        f"{a}->{b}": [after[a, b, k][0] - before[a, b, k][0], n]
        for (a, b, k), n in expected.items()
    }
    rules_there = len(rules)
    return {
        "lost": len(labels) - len(came),
        "same": came == labels,
        "links": counted,
        "sent": len(labels),
        "matched": matched,
        "rules": rules_there,
        "waited": waited,
    }


@pytest.mark.unclocked
def test_each_link_carries_exactly_the_packets_of_its_labels(sandboxed: Callable[..., Any]) -> None:
    found = sandboxed(labels_over_links)
    assert found["same"], f"{found['lost']} of {found['sent']} lost"
    assert all(counted == expected for counted, expected in found["links"].values()), found["links"]
    shares = [found["links"][link][0] / found["sent"] for link in ("a->d", "a->b", "a->c")]
    assert shares == pytest.approx([float(s) for s in SHARES], abs=1e-3)
    assert found["matched"] == found["sent"]
    assert found["waited"] < 0.5  # the start-up passes while the network is built


def changes_under_traffic() -> dict[str, Any]:
    """Three changes of the split, among them one that turns the link between b and c round, under 4,000 packets a
    second.

    Each is a version of its own: inner switches first, then the entry; the old one goes when its packets have arrived.
    """
    import threading

    from testbed.emulation.network.open_vswitch.switches import flush_flow_cache
    from testbed.openflow.rules import versioned_rules

    wiring = three_ways()
    half = Fraction(1, 2)
    plans = [
        split_over(wiring, ("abcd", half), ("acd", half)),
        split_over(wiring, ("acbd", half), ("abd", half)),
        split_over(wiring, ("ad", half), ("abcd", half)),
    ]
    sent: list[int] = []
    stop = threading.Event()
    with controlled(wiring) as (net, controller, _):

        def install(number: int, split: Any) -> int:
            rules = versioned_rules(wiring, split, number=number, udp_port=PORT)
            controller.install(rules.inner, plan_id=2 * number + 1)
            controller.install(rules.entry, plan_id=2 * number + 2)
            return len(rules.inner) + len(rules.entry)

        install(0, split_in_three(wiring))
        traffic = Labelled(net)
        came: list[int] = []

        def stream() -> None:
            label = 0
            while not stop.is_set():
                for _ in range(20):
                    label = (label + 40503) % 65536  # spread over all of the labels
                    traffic.send(label)
                    sent.append(label)
                came.extend(traffic.arrived(20, 0.0))
                if len(sent) - len(came) > 100:
                    came.extend(traffic.arrived(20, 0.1))
                time.sleep(0.005)

        thread = threading.Thread(target=stream)
        thread.start()
        wanted = 0
        for number, split in enumerate(plans, start=1):
            time.sleep(0.1)
            wanted = install(number, split)
            flush_flow_cache()
            time.sleep(0.3)
            for plan_id in (2 * number, 2 * number - 1):
                controller.remove(plan_id)
        stop.set()
        thread.join()
        came += traffic.arrived(len(sent) - len(came))
        rules = sum(len(base_rules.rules_of(switch.device)) for switch in wiring.switches)
    return {
        "sent": len(sent),
        "lost": len(sent) - len(came),
        "rules": [rules, wanted],
    }


@pytest.mark.unclocked
def test_changes_of_a_plan_under_traffic_lose_no_packet(sandboxed: Callable[..., Any]) -> None:
    found = sandboxed(changes_under_traffic)
    assert found["sent"] > 1000
    assert found["lost"] == 0, found
    assert found["rules"][0] == found["rules"][1]  # nothing is left of the versions before


def death() -> dict[str, Any]:
    """Packets before and after kill -9 of the controller, and what a call to it then says."""
    from testbed.errors import CapabilityError

    wiring = three_ways()
    labels = list(range(0, 65536, 64))
    with controlled(wiring) as (net, controller, _):
        controller.install(rules_of(wiring, split_in_three(wiring)), plan_id=1)
        traffic = Labelled(net)
        before = len(traffic.exchange(labels))
        os.kill(controller.pid, signal.SIGKILL)
        time.sleep(1.5)  # longer than the switches wait before they try to connect again
        after = len(traffic.exchange(labels))
        try:
            controller.port_events()
            said = ""
        except CapabilityError as error:
            said = str(error)
    return {"sent": len(labels), "before": before, "after": after, "said": said}


@pytest.mark.unclocked
def test_switches_keep_forwarding_when_the_controller_is_killed(
    sandboxed: Callable[..., Any],
) -> None:
    found = sandboxed(death)
    assert found["before"] == found["after"] == found["sent"]
    assert "has died" in found["said"]
    assert "keep their rules" in found["said"]


def refusals() -> dict[str, Any]:
    """What is said of a rule with an impossible port, of a switch that is not there, and whether work goes on then."""
    from dataclasses import replace

    from testbed.errors import CapabilityError

    wiring = three_ways()
    said, good = {}, rules_of(wiring, split_in_three(wiring))
    with controlled(wiring) as (net, controller, _):
        for name, rules in (
            ("port", [*good[1:], replace(good[0], out_port=0xFF01)]),
            ("switch", [replace(good[0], dpid=99)]),
        ):
            try:
                controller.install(rules, plan_id=1)
            except CapabilityError as error:
                said[name] = str(error)
            if name == "port":
                controller.remove(1)
        try:
            controller.wait_for_switches([1, 2, 77], timeout_s=0.2)
        except CapabilityError as error:
            said["missing"] = str(error)
        controller.install(good, plan_id=2)
        came = len(Labelled(net).exchange(list(range(0, 65536, 512))))
    return {"said": said, "came": came, "dpid": good[0].dpid}


@pytest.mark.unclocked
def test_refused_rule_is_reported_with_its_switch_and_the_rule(
    sandboxed: Callable[..., Any],
) -> None:
    found = sandboxed(refusals)
    assert f"switch {found['dpid']} refused" in found["said"]["port"]
    assert "out_port=65281" in found["said"]["port"]
    assert "udp_src" in found["said"]["port"]
    assert "switch 99 is not connected" in found["said"]["switch"]
    assert "1 of 3 switches" in found["said"]["missing"]
    assert found["came"] == 128


def port_events() -> dict[str, Any]:
    """How long after a link goes down and comes up the controller hears of it from both ends; four times."""
    wiring = three_ways()
    link = ("a", "b", 0)
    cable = wiring.cable_of(link)
    ports = {
        (s.dpid, p)
        for s in wiring.switches
        for n, p in ((cable.a, cable.a_port), (cable.b, cable.b_port))
        if s.name == n
    }
    heard: dict[str, list[list[float]]] = {"down": [], "up": []}
    with controlled(wiring) as (net, controller, _):
        for name, up in (("down", False), ("up", True)) * 4:
            began = time.monotonic()
            net.set_link(link, up)
            limit = began + 10
            first: dict[tuple[int, int], float] = {}
            while time.monotonic() < limit and len(first) < len(ports):
                events = [e for e in controller.port_events() if e.at_s >= began and e.up == up]
                first = {
                    key: min(e.at_s for e in events if (e.dpid, e.port) == key)
                    for key in ports & _ends(events)
                }
                time.sleep(0.01)
            heard[name].append(sorted(at - began for at in first.values()))
        others = [
            e for e in controller.port_events() if (e.dpid, e.port) not in ports and e.port < 0xFF00
        ]
    return {"heard": heard, "others": len(others)}


def _ends(events: list[Any]) -> set[tuple[int, int]]:
    return {(e.dpid, e.port) for e in events}


def test_port_changes_are_heard_within_some_tens_of_milliseconds(
    sandboxed: Callable[..., Any],
) -> None:
    found = sandboxed(port_events)
    for name in ("down", "up"):
        assert [len(ends) for ends in found["heard"][name]] == [2] * 4, (
            "both ends tell every change"
        )
        assert min(ends[-1] for ends in found["heard"][name]) < 0.2, found  # mostly 5 to 30 ms
    assert found["others"] == 0


@pytest.mark.unclocked
def test_taken_port_is_said_at_once() -> None:
    from testbed.emulation.control.controller_link import ControllerLink
    from testbed.errors import CapabilityError

    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(CapabilityError, match=r"port \d+ of 127.0.0.1 is not available"),
    ):
        ControllerLink(taken.getsockname()[1]).start()


@pytest.mark.unclocked
def test_controller_without_memory_says_so_at_once(
    capfd: pytest.CaptureFixture[str], timely: Callable[..., None]
) -> None:
    """It ends when it cannot start the thread of a connection, and so does the wait for switches.

    A thread may still find memory that another one has left: then there is no such end.
    """
    from testbed.emulation.control.controller_link import ControllerLink
    from testbed.errors import CapabilityError

    def run() -> str | None:
        controller = ControllerLink(port=0)
        controller.start()
        try:
            controller.wait_until_ready()
            resource.prlimit(controller.pid, resource.RLIMIT_AS, (1 << 20, 1 << 20))
            with socket.create_connection(("127.0.0.1", controller.port)):
                with pytest.raises(CapabilityError) as error:
                    controller.wait_for_switches([1], timeout_s=5)
        finally:
            controller.stop()
        said = str(error.value)
        return None if "controller: not enough memory: raise" in said else said

    timely(run)
    assert "Traceback" not in capfd.readouterr().err
