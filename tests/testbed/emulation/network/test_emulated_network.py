"""The emulated network: what the wiring says is what stands there, and faults, shaping and counters act on real
packets."""

from __future__ import annotations

import errno
import json
import socket
import struct
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.emulation
PORT = 9000


def small_network(delay_s: float = 0.0) -> Any:
    """Hosts a, b on switches x, y; two parallel cables x-y; a one-way link y -> z; host c on z."""
    from topologies.network import Link, Network, Node

    def both(a: str, b: str, capacity: float, key: int = 0) -> list[Any]:
        return [
            Link(source=s, target=t, key=key, capacity_bps=capacity, delay_s=delay_s)
            for s, t in ((a, b), (b, a))
        ]

    nodes = [
        Node(id=n, kind="host" if n in "abc" else "switch") for n in ("a", "b", "c", "x", "y", "z")
    ]
    links = [
        *both("a", "x", 2e7),
        *both("b", "y", 2e7),
        *both("c", "z", 2e7),
        *both("x", "y", 1e7),
        *both("x", "y", 5e6, 1),
    ]
    links.append(Link(source="y", target="z", capacity_bps=1e7))
    return Network(name="small", nodes=tuple(nodes), links=tuple(links))


def _said(words: str) -> str:
    return subprocess.run(
        words.split(), capture_output=True, text=True, timeout=60, check=True
    ).stdout


class Pair:
    """Numbered packets from one host to another, counted at their arrival."""

    def __init__(self, net: Any, source: str, sink: str) -> None:
        self.to = (net.host(sink).ip, PORT)
        self.sender = net.open_socket(source, socket.AF_INET, socket.SOCK_DGRAM)
        self.receiver = net.open_socket(sink, socket.AF_INET, socket.SOCK_DGRAM)
        self.receiver.bind(("0.0.0.0", PORT))
        self.receiver.setblocking(False)
        self.receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)

    def arrivals(
        self, count: int = 50, size: int = 100, wait_s: float = 10.0, patience_s: float = 0.0
    ) -> int:
        """Packets that come within ``wait_s`` after the last was sent; ``patience_s``: for each ten before the next are
        sent."""
        arrived = 0
        for number in range(count):
            self.sender.sendto(struct.pack("=I", number) + bytes(size - 4), self.to)
            time.sleep(0.0005)
            if number % 10 == 9:
                arrived += self.heard(number + 1 - arrived, patience_s)
        return arrived + self.heard(count - arrived, wait_s)

    def heard(self, most: int, wait_s: float) -> int:
        """Packets that come within ``wait_s``; returns at once when there are ``most``."""
        limit, arrived = time.monotonic() + wait_s, 0
        while arrived < most:
            try:
                self.receiver.recv(65536)
                arrived += 1
            except BlockingIOError:
                if time.monotonic() >= limit:
                    break
                time.sleep(0.002)
        return arrived

    def close(self) -> None:
        self.sender.close()
        self.receiver.close()


def survey() -> dict[str, Any]:
    """What stands in the kernel and in the switches, once built."""
    from testbed.emulation.network.emulated_network import EmulatedNetwork
    from testbed.model.wiring import wire

    wiring = wire(small_network(), ["x"])
    with EmulatedNetwork(wiring, mtu=1600) as net:
        ports = {s.name: _said(f"ovs-ofctl -O OpenFlow13 show {s.name}") for s in wiring.switches}
        fail = {s.name: _said(f"ovs-vsctl get-fail-mode {s.name}").strip() for s in wiring.switches}
        hosts = {}
        for host in wiring.hosts:
            out = {}
            for name, words in (
                ("link", "ip -j address"),
                ("neighbours", "ip -j neigh"),
                ("queues", "tc -j qdisc"),
            ):
                done = net.run_in_host(host.name, words.split(), stdout=subprocess.PIPE, text=True)
                out[name] = json.loads(done.communicate(timeout=60)[0] or "[]")
            hosts[host.name] = out
        queues = json.loads(_said("tc -j qdisc show"))
        links = json.loads(_said("ip -j link"))
        controller = _said("ovs-vsctl get-controller x").strip()
        built_by, described = (
            net.built_by(),
            json.loads(_said("ovs-vsctl --format=json list Bridge")),
        )
    left = [link["ifname"] for link in json.loads(_said("ip -j link"))]
    return {
        "ports": ports,
        "fail": fail,
        "hosts": hosts,
        "queues": queues,
        "links": links,
        "controller": controller,
        "built_by": built_by,
        "descriptions": sorted(
            dict(row[described["headings"].index("other_config")][1])["dp-desc"]
            for row in described["data"]
        ),
        "left": left,
    }


@pytest.fixture(scope="module")
def surveyed(sandboxed: Callable[..., Any]) -> dict[str, Any]:
    return dict(sandboxed(survey))


@pytest.mark.unclocked
def test_mininet_has_built_it_and_says_with_what_classes_and_in_what_time(
    surveyed: dict[str, Any],
) -> None:
    built_by = surveyed["built_by"]
    assert built_by["mininet"].startswith("2.3")
    assert built_by["classes"] == {"Host": 4, "OVSSwitch": 3, "Link": 7}
    assert {"host namespaces", "cables", "bridges", "shaping"} <= built_by["setup_seconds"].keys()
    assert surveyed["descriptions"] == ["x", "y", "z"]


@pytest.fixture(scope="module")
def wiring() -> Any:
    from testbed.model.wiring import wire

    return wire(small_network(), ["x"])


@pytest.mark.unclocked
def test_ports_and_datapath_ids_are_those_of_the_wiring(
    surveyed: dict[str, Any], wiring: Any
) -> None:
    for switch in wiring.switches:
        assert f"dpid:{switch.dpid:016x}" in surveyed["ports"][switch.name]
        assert surveyed["fail"][switch.name] == "secure"
    for cable in wiring.cables:
        for device, port, interface in (
            (cable.a, cable.a_port, cable.a_interface),
            (cable.b, cable.b_port, cable.b_interface),
        ):
            if device in surveyed["ports"]:
                assert f" {port}({interface}): " in surveyed["ports"][device]


@pytest.mark.unclocked
def test_hosts_have_the_addresses_of_the_wiring_and_know_all_others(
    surveyed: dict[str, Any], wiring: Any
) -> None:
    for host in wiring.hosts:
        interface = next(
            i for i in surveyed["hosts"][host.name]["link"] if i["ifname"] == f"{host.name}-eth0"
        )
        assert interface["address"] == host.mac
        assert interface["mtu"] == 1600
        assert [a["local"] for a in interface["addr_info"]] == [host.ip]  # and no IPv6 address
        neighbours = {n["dst"]: n["lladdr"] for n in surveyed["hosts"][host.name]["neighbours"]}
        assert neighbours == {h.ip: h.mac for h in wiring.hosts if h is not host}


@pytest.mark.unclocked
def test_every_sending_end_has_its_links_rate_and_outside_hosts_none(
    surveyed: dict[str, Any], wiring: Any
) -> None:
    rates = {q["dev"]: q["options"]["rate"] * 8 for q in surveyed["queues"] if q["kind"] == "tbf"}
    for host in wiring.hosts:
        rates |= {
            q["dev"]: q["options"]["rate"] * 8
            for q in surveyed["hosts"][host.name]["queues"]
            if q["kind"] == "tbf"
        }
    expected = {}
    for cable in wiring.cables:
        for link, interface in (
            (cable.forward, cable.a_interface),
            (cable.backward, cable.b_interface),
        ):
            if link is not None:
                expected[interface] = wiring.network.link(*link).capacity_bps
    assert rates == expected
    assert not any("h_x" in name for name in rates)  # h_x stands for switch x


@pytest.mark.unclocked
def test_network_that_is_stopped_leaves_no_interface(surveyed: dict[str, Any]) -> None:
    assert [name for name in surveyed["left"] if name != "lo"] == []
    assert surveyed["controller"] == ""


def faults() -> dict[str, Any]:
    """Arrivals from a to b over the first x-y cable, before, during and after each kind of fault."""
    from testbed.emulation.control.base_rules import install_shortest_paths
    from testbed.emulation.network.emulated_network import EmulatedNetwork
    from testbed.model.wiring import wire

    wiring = wire(small_network())
    link, back = ("x", "y", 0), ("y", "x", 0)
    found: dict[str, Any] = {}
    latencies: list[float] = []
    with EmulatedNetwork(wiring) as net:
        install_shortest_paths(wiring)
        there, home = Pair(net, "a", "b"), Pair(net, "b", "a")

        def both_ways(*blocked: Pair) -> list[int]:
            """As many as come; where none should, for a time in which they all would."""
            return [
                pair.arrivals(wait_s=0.4 if pair in blocked else 10.0) for pair in (there, home)
            ]

        def timed(action: Callable[[], float]) -> float:
            began = time.monotonic()
            return action() - began

        found["before"] = both_ways()
        for name, begin, end, *blocked in (
            (
                "down",
                lambda: net.set_link(link, False),
                lambda: net.set_link(link, True),
                there,
                home,
            ),
            (
                "down one way",
                lambda: net.set_link(link, False, "forward"),
                lambda: net.set_link(link, True, "forward"),
                there,
            ),
            (
                "blackhole",
                lambda: net.set_loss(link, 1.0),
                lambda: net.set_loss(link, 0.0),
                there,
                home,
            ),
            (
                "blackhole back",
                lambda: net.set_loss(back, 1.0, "forward"),
                lambda: net.set_loss(back, 0.0, "forward"),
                home,
            ),
            (
                "host link down",
                lambda: net.set_link(("a", "x", 0), False),
                lambda: net.set_link(("a", "x", 0), True),
                there,
                home,
            ),
        ):
            took = [[timed(begin)]]
            found[name] = both_ways(*blocked)
            found[name + " carrier"] = Path("/sys/class/net").exists() and "NO-CARRIER" in _said(
                "ip link show y-eth2"
            )
            took.append([timed(end)])
            for _ in range(3):  # the quickest of four counts: a busy machine is late now and then
                took[0].append(timed(begin))
                took[1].append(timed(end))
            latencies += [min(times) for times in took]
            found[name + " mended"] = both_ways()
        net.set_loss(link, 0.3, "forward")
        found["loss"] = [
            there.arrivals(2000, wait_s=0.5, patience_s=0.003),
            home.arrivals(200, patience_s=2.0),
        ]
        drops = net.link_counters()[link][2]
        net.set_loss(link, 0.0, "forward")
        found["after loss"] = both_ways()
        found["counters"] = {
            f"{k[0]}->{k[1]}#{k[2]}": list(v) for k, v in net.link_counters().items()
        }
        found["drops"] = drops
        found["queues"] = [
            q["dev"] for q in json.loads(_said("tc -j qdisc show")) if q["kind"] == "tbf"
        ]
    found["latencies"] = latencies
    return found


@pytest.fixture(scope="module")
def broken(sandboxed: Callable[..., Any]) -> dict[str, Any]:
    return dict(sandboxed(faults))


@pytest.mark.parametrize(
    ("fault", "there", "back"),
    [
        ("down", 0, 0),
        ("down one way", 0, 50),
        ("blackhole", 0, 0),
        ("blackhole back", 50, 0),
        ("host link down", 0, 0),
    ],
)
def test_fault_stops_exactly_its_direction_until_it_is_mended(
    broken: dict[str, Any], fault: str, there: int, back: int
) -> None:
    assert broken["before"] == [50, 50]
    assert broken[fault] == [there, back]
    assert broken[fault + " mended"] == [50, 50]


def test_only_a_cut_of_the_whole_cable_takes_the_carrier(broken: dict[str, Any]) -> None:
    faults_without_carrier = [k for k in broken if k.endswith(" carrier") and broken[k]]
    assert faults_without_carrier == ["down carrier"]


def test_random_loss_has_the_asked_share_in_the_asked_direction(broken: dict[str, Any]) -> None:
    there, back = broken["loss"]
    assert 1 - there / 2000 == pytest.approx(0.3, abs=0.05)  # five standard deviations
    assert back == 200
    assert broken["after loss"] == [50, 50]
    assert (
        broken["drops"] == 0
    )  # a sender that is told of a drop gives up the rest of its batch: what faults take is silent


def test_links_are_still_shaped_after_all_faults(broken: dict[str, Any]) -> None:
    assert len(broken["queues"]) == 8  # two x-y cables, y -> z, one switch end towards each host


def test_counters_count_each_direction_and_unused_links_not(broken: dict[str, Any]) -> None:
    counters = broken["counters"]
    assert counters["a->x#0"][0] > 2000
    assert counters["x->y#0"][0] > 1400
    assert counters["x->y#1"][0] == 0
    assert counters["y->z#0"][0] == 0


def test_faults_are_in_force_within_milliseconds(broken: dict[str, Any]) -> None:
    assert sorted(broken["latencies"])[len(broken["latencies"]) // 2] < 0.01


def shaped_and_recorded(path: str) -> dict[str, Any]:
    """Throughput of a 10 Mbit/s link offered twice that, and a recording of it; again where the machine was too busy to
    fill it."""
    from testbed.emulation.control.base_rules import install_shortest_paths
    from testbed.emulation.network.emulated_network import EmulatedNetwork
    from testbed.model.wiring import wire

    wiring = wire(small_network())
    with EmulatedNetwork(wiring) as net:
        install_shortest_paths(wiring)
        net.start_capture(("x", "y", 0), path)
        pair = Pair(net, "a", "b")
        rates, arrived = list[float](), 0
        while len(rates) < 5 and max(rates, default=0.0) < 0.92e7:
            came = flooded(pair)
            rates.append(came * 1242 * 8 / 1.0)
            arrived += came + pair.heard(1_000_000, 0.5)
        shell = net.mininet["a"].cmd("ping -c 1 -W 10", net.host("b").ip)
        names = [
            net.interface_of("a"),
            net.mininet["a"].IP(),
            str(net.host_pid("a") > 0),
            net.datapath,
        ]
    return {"rates": rates, "arrived": arrived, "shell": shell, "names": names}


def flooded(pair: Pair) -> int:
    """Packets that arrive in one second while 20 Mbit/s are sent."""
    began, arrived, sent = time.monotonic(), 0, 0
    while (now := time.monotonic() - began) < 1.0:
        while sent * 1242 * 8 < 2e7 * now:
            pair.sender.sendto(bytes(1200), pair.to)
            sent += 1
        try:
            while True:
                pair.receiver.recv(2000)
                arrived += 1
        except BlockingIOError:
            time.sleep(0.001)
    return arrived


def test_link_carries_its_capacity_and_recordings_hold_arrived_packets(
    sandboxed: Callable[..., Any], tmp_path: Path
) -> None:
    path = tmp_path / "link.pcap"
    found = sandboxed(shaped_and_recorded, str(path))
    assert max(found["rates"]) == pytest.approx(1e7, rel=0.08), found["rates"]
    assert "1 received" in found["shell"]
    assert found["names"][:3] == ["a-eth0", "10.0.0.1", "True"]
    content = path.read_bytes()
    assert struct.unpack_from("=I", content)[0] == 0xA1B23C4D
    packets, at = [], 24
    while at < len(content):
        size = struct.unpack_from("=IIII", content, at)[2]
        packets.append(content[at + 16 : at + 16 + size])
        at += 16 + size
    datagrams = [p for p in packets if len(p) == 1242]
    assert found["arrived"] <= len(datagrams) <= found["arrived"] + 100
    assert all(p[0:6] == bytes.fromhex("020000000001") for p in datagrams)


def delayed() -> dict[str, Any]:
    """A network whose links take 10 ms: the round trip a - b, or what the machine says against it."""
    from testbed.emulation.control.base_rules import install_shortest_paths
    from testbed.emulation.network.emulated_network import EmulatedNetwork
    from testbed.errors import CapabilityError
    from testbed.model.wiring import wire

    wiring = wire(small_network(delay_s=0.01))
    try:
        with EmulatedNetwork(wiring) as net:
            install_shortest_paths(wiring)
            there, home = Pair(net, "a", "b"), Pair(net, "b", "a")
            times, first = list[float](), 0
            for _ in range(10):
                began = time.monotonic()
                first += there.arrivals(1)
                times.append(time.monotonic() - began)
            return {"one_way_s": min(times), "arrived": first + home.arrivals(1)}
    except CapabilityError as error:
        return {"refused": str(error), "left": _said("ip -o link").count("\n")}


def test_delay_is_kept_or_refused_but_never_left_out(sandboxed: Callable[..., Any]) -> None:
    found = sandboxed(delayed)
    if "refused" in found:
        assert "netem" in found["refused"]
        assert "modprobe" in found["refused"]
        assert found["left"] == 1
    else:
        assert found["arrived"] == 11
        assert 0.03 <= found["one_way_s"] < 0.06  # three links


def wrong_uses() -> list[str]:
    from testbed.emulation.network.emulated_network import EmulatedNetwork
    from testbed.errors import TestbedError
    from testbed.model.wiring import wire

    wiring = wire(small_network())
    said = []
    for action in (
        lambda: EmulatedNetwork(wiring, mtu=10),
        lambda: EmulatedNetwork(wiring).set_link(("x", "y", 0), False),
        lambda: EmulatedNetwork(wiring).host_pid("h77"),
    ):
        try:
            action()
        except TestbedError as error:
            said.append(str(error))
    return said


@pytest.mark.unclocked
def test_wrong_use_is_told_in_one_line(sandboxed: Callable[..., Any]) -> None:
    said = sandboxed(wrong_uses)
    assert len(said) == 3
    assert "MTU 10" in said[0]
    assert "not running" in said[1]
    assert "h77" in said[2]


@pytest.mark.unclocked
def test_network_outside_the_sandbox_is_refused(wiring: Any) -> None:
    from testbed.emulation.network.emulated_network import EmulatedNetwork
    from testbed.errors import CapabilityError

    with pytest.raises(CapabilityError, match="sandbox"):
        EmulatedNetwork(wiring)


def large() -> dict[str, float]:
    from testbed.emulation.network.emulated_network import EmulatedNetwork
    from testbed.model.wiring import wire
    from topologies import load_network

    network = load_network("manet:nodes=115,seed=3,frame=0")
    net = EmulatedNetwork(wire(network))
    began = time.monotonic()
    net.start()
    up = time.monotonic() - began
    began = time.monotonic()
    net.stop()
    return {
        "up": up,
        "down": time.monotonic() - began,
        "links": len(network.links),
        "left": _said("ip -o link").count("\n"),
    }


@pytest.mark.unclocked
def test_network_of_115_switches_is_built_and_leaves_nothing(sandboxed: Callable[..., Any]) -> None:
    found = sandboxed(large)
    assert found["left"] == 1
    assert found["links"] > 500
    assert found["up"] < 60  # a hang, not a benchmark: benchmarks/bench_setup.py measures


def test_a_recording_outlives_that_its_interface_is_down() -> None:
    from testbed.emulation.network.kernel import packet_capture

    arrived = [
        (b"packet", [], 0, ("eth0", 0, 0, 1, b"")),
        OSError(errno.ENETDOWN, "Network is down"),
    ]

    class Interface:
        def recvmsg(self, *_: int) -> Any:
            if isinstance(next_one := arrived.pop(), OSError):
                raise next_one
            return next_one

    interface: Any = Interface()
    assert packet_capture._waiting_packets(interface) == b""
    arrived.insert(0, BlockingIOError())
    assert packet_capture._waiting_packets(interface).endswith(b"packet")
