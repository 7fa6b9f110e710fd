"""Wiring: how a network is laid out on bridges, ports, veth cables and addresses; a pure function of network and end
points.

Rules, controller and emulated fabric all read ports and addresses here, so that none of them has to ask another.
"""

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import filterfalse

from testbed.model.naming.device_names import device_names, end_point_name, interface_name
from topologies import JsonObject, LinkId, Network, TopologyError, reverse_of

MOST_PORT = 0xFEFF
"""Of an OpenFlow port: Open vSwitch lets nobody ask for a higher one (``ofport_request``)."""
Ports = tuple[int | None, int | None]
"""Of a cable, at its first and its second end; None where nobody says."""


@dataclass(frozen=True, kw_only=True)
class WiredHost:
    """One host: ``node`` is its network node, or the switch whose end point it stands for (then ``outside`` is true:
    its cable is no link of the model: not shaped, never failed, not counted).

    ``name``: the node's id, or of an outside host one that no node has. ``device``: what its interfaces are called
    after. ``ip`` and ``mac``: its own where the network gives it one, else by its number; on all its interfaces.
    """

    name: str
    device: str
    node: str
    outside: bool
    ip: str
    mac: str


@dataclass(frozen=True, kw_only=True)
class WiredSwitch:
    """One bridge; ``dpid`` is its OpenFlow datapath id, 64 bits and not 0. ``name``: the node's id; ``device``: the
    bridge's own name."""

    name: str
    device: str
    node: str
    dpid: int


@dataclass(frozen=True, kw_only=True)
class Cable:
    """One veth pair between two devices. ``a`` and ``b`` are names (WiredHost.name or WiredSwitch.name), the ports
    their port numbers (switches: OpenFlow port, 1 and up; hosts: index of the interface, 0 and up). ``forward`` is the
    link a -> b, ``backward`` the link b -> a; either may be None where the model has no link that way."""

    a: str
    b: str
    a_port: int
    b_port: int
    a_interface: str
    b_interface: str
    forward: LinkId | None
    backward: LinkId | None

    @property
    def links(self) -> tuple[LinkId, ...]:
        """Those that it carries, two at most."""
        return tuple(link for link in (self.forward, self.backward) if link is not None)

    @property
    def ends(self) -> tuple[tuple[str, int], ...]:
        """(device, port) at either end."""
        return (self.a, self.a_port), (self.b, self.b_port)


@dataclass(frozen=True, kw_only=True)
class Wiring:
    """The layout of one network. Names are ids, and unlike each other; devices are as of ``device_names``."""

    network: Network
    hosts: tuple[WiredHost, ...]
    switches: tuple[WiredSwitch, ...]
    cables: tuple[Cable, ...]

    def host_at(self, node: str) -> WiredHost:
        """The host that is, or stands for, the end point of that node; KeyError where it has none."""
        return self._hosts[node]

    def switch_at(self, node: str) -> WiredSwitch:
        """The bridge of that switch node; KeyError where the node is no switch."""
        return self._switches[node]

    def out_port(self, link: LinkId) -> int:
        """Port number, at the link's source device, through which packets enter the link."""
        cable = self.cable_of(link)
        return cable.a_port if cable.forward == link else cable.b_port

    def in_port(self, link: LinkId) -> int:
        """Port number, at the link's target device, through which its packets come."""
        cable = self.cable_of(link)
        return cable.b_port if cable.forward == link else cable.a_port

    @cached_property
    def _cable_of(self) -> Mapping[LinkId, Cable]:
        return {link: c for c in self.cables for link in c.links}

    def cables_by_port(self) -> dict[tuple[int, int], Cable]:
        """(datapath id, port) -> the cable there."""
        dpids = {switch.name: switch.dpid for switch in self.switches}
        return {
            (dpids[name], port): c for c in self.cables for name, port in c.ends if name in dpids
        }

    @cached_property
    def routed(self) -> bool:
        """Whether some host has to choose a way: it has several cables, or the network gives hosts their addresses."""
        joined = Counter(name for cable in self.cables for name, _ in cable.ends)
        several = any(joined[host.name] > 1 for host in self.hosts)
        return several or any(node.addresses for node in self.network.hosts)

    @cached_property
    def _first_ports(self) -> Mapping[str, int]:
        return dict(reversed([end for cable in self.cables for end in cable.ends]))

    def first_port(self, name: str) -> int:
        """The port of a host's or switch's first cable; KeyError where it has none."""
        return self._first_ports[name]

    def access_port(self, host: WiredHost) -> int | None:
        """Switch port towards an outside host (None for a host of the model: its link's own port is meant)."""
        for cable in self.cables:
            if cable.b == host.name and cable.forward is None and cable.backward is None:
                return cable.a_port
        return None

    def cable_of(self, link: LinkId) -> Cable:
        """The cable that carries the directed link."""
        return self._cable_of[link]

    @cached_property
    def _hosts(self) -> dict[str, WiredHost]:
        return {h.node: h for h in self.hosts}

    @cached_property
    def _switches(self) -> dict[str, WiredSwitch]:
        return {s.node: s for s in self.switches}


def wire(network: Network, end_points: Sequence[str] = ()) -> Wiring:
    """Lay the network out; every node of ``end_points`` that is a switch gets an outside host on a cable of its own.

    Ports and datapath ids are those of the network where it gives any, else the next numbers that are free. Complexity
    linear in nodes and links. Raises TopologyError for an unknown end point, and where a number that the network gives
    is out of range or there twice.
    """
    outside = _end_points(network, end_points)
    hosts = {node.id: node.id for node in network.hosts} | outside
    firsts = dict.fromkeys(hosts, 0) | {node.id: 1 for node in network.switches}
    laid = [
        *_laid(network),
        *((switch, name, None, None, (None, None)) for name, switch in outside.items()),
    ]
    ports = _numbered_ports(firsts, [(a, b, given) for a, b, _, _, given in laid])
    tops = dict.fromkeys(firsts, 0)
    for (a, b, *_), (a_port, b_port) in zip(laid, ports, strict=True):
        tops |= {a: max(tops[a], a_port), b: max(tops[b], b_port)}
    device = device_names(
        {name: tops[name] for name in hosts}, {node.id: tops[node.id] for node in network.switches}
    )
    cables = tuple(
        Cable(
            a=a,
            b=b,
            a_port=a_port,
            b_port=b_port,
            a_interface=interface_name(device[a], a_port),
            b_interface=interface_name(device[b], b_port),
            forward=forward,
            backward=backward,
        )
        for (a, b, forward, backward, _), (a_port, b_port) in zip(laid, ports, strict=True)
    )
    return Wiring(
        network=network,
        hosts=tuple(
            WiredHost(
                name=name, device=device[name], node=node, outside=name in outside, ip=ip, mac=mac
            )
            for (name, node), (ip, mac) in zip(
                hosts.items(), _addresses(network, len(hosts)), strict=True
            )
        ),
        switches=tuple(
            WiredSwitch(name=node.id, device=device[node.id], node=node.id, dpid=dpid)
            for node, dpid in zip(network.switches, _datapath_ids(network), strict=True)
        ),
        cables=cables,
    )


def _laid(network: Network) -> Iterator[tuple[str, str, LinkId | None, LinkId | None, Ports]]:
    """(a, b, forward, backward, the ports that the network gives) of each cable, in the order of the links."""
    seen: set[LinkId] = set()
    for link in network.links:
        if link.id in seen:
            continue
        place = network.link_index.get(reverse_of(link.id))
        back = link.ports[::-1] if place is None else network.links[place].ports
        for one, other in zip(link.ports, back[::-1], strict=True):
            if None not in (one, other) and one != other:
                raise TopologyError(
                    f"{link.label}: port {one} one way and {other} the other; give one"
                )
        ports = [
            one if one is not None else other
            for one, other in zip(link.ports, back[::-1], strict=True)
        ]
        yield (
            link.source,
            link.target,
            link.id,
            None if place is None else reverse_of(link.id),
            (ports[0], ports[1]),
        )
        seen.update((link.id, reverse_of(link.id)))


def _numbered_ports(
    firsts: Mapping[str, int], cables: Sequence[tuple[str, str, Ports]]
) -> list[tuple[int, int]]:
    """The ports of each cable: those given, else the next from the node's first that no cable has."""
    taken: dict[str, set[int]] = {node: set() for node in firsts}
    for a, b, given in cables:
        for node, other, port in ((a, b, given[0]), (b, a, given[1])):
            if port is None:
                continue
            if not firsts[node] <= port <= MOST_PORT:
                raise TopologyError(
                    f"{node!r}: port {port} towards {other!r}; give {firsts[node]} to {MOST_PORT}"
                )
            if port in taken[node]:
                raise TopologyError(
                    f"{node!r}: two cables have its port {port}, one of them to {other!r}; change one"
                )
            taken[node].add(port)
    free = {
        node: filterfalse(taken[node].__contains__, itertools.count(first))
        for node, first in firsts.items()
    }

    def number(node: str, port: int | None) -> int:
        return next(free[node]) if port is None else port

    return [(number(a, given[0]), number(b, given[1])) for a, b, given in cables]


def _datapath_ids(network: Network) -> list[int]:
    """Of the switches: their own, or the next numbers from 1 that nobody has."""
    taken: dict[int, str] = {}
    for node in network.switches:
        if node.dpid is not None and taken.setdefault(node.dpid, node.id) != node.id:
            raise TopologyError(
                f"{taken[node.dpid]!r} and {node.id!r} have the datapath id {node.dpid:x}; change one"
            )
    free = filterfalse(taken.__contains__, itertools.count(1))
    return [next(free) if node.dpid is None else node.dpid for node in network.switches]


def wiring_document(wiring: Wiring, *, cables: bool = False) -> JsonObject:
    """What of a wiring others than its process need to know, as JSON has it: ``network``, ``hosts``, ``switches`` and,
    where asked, ``cables`` (``link``: one that the cable carries, None outside the model) and the ids of ``links``."""
    document: JsonObject = {
        "network": wiring.network.name,
        "hosts": [asdict(host) for host in wiring.hosts],
        "switches": [asdict(switch) for switch in wiring.switches],
    }
    if cables:
        document["cables"] = [
            {
                "a": [cable.a, cable.a_port, cable.a_interface],
                "b": [cable.b, cable.b_port, cable.b_interface],
                "link": cable.forward or cable.backward,
            }
            for cable in wiring.cables
        ]
        document["links"] = [link.id for link in wiring.network.links]
    return document


def _end_points(network: Network, nodes: Sequence[str]) -> dict[str, str]:
    """Name of the outside host -> its switch, of those of the nodes that are switches."""
    names = {node.id for node in network.nodes}
    found: dict[str, str] = {}
    for node in dict.fromkeys(nodes):
        if network.node(node).kind == "switch":
            name = end_point_name(node, names)
            names.add(name)
            found[name] = node
    return found


def _addresses(network: Network, count: int) -> list[tuple[str, str]]:
    """(IPv4, MAC) of the hosts, those of the network first: their own, or the next numbers that nobody has."""
    given = [(next((ip for ip, _ in node.addresses), None), node.mac) for node in network.hosts]
    taken = {ip for node in network.hosts for ip, _ in node.addresses} | {mac for _, mac in given}
    ips, macs = (
        filter(lambda one: one not in taken, map(made, itertools.count())) for made in (_ip, _mac)
    )
    given += [(None, None)] * (count - len(given))
    return [(ip or next(ips), mac or next(macs)) for ip, mac in given]


def _ip(number: int) -> str:
    return f"10.{(number + 1) >> 16 & 255}.{(number + 1) >> 8 & 255}.{(number + 1) & 255}"


def _mac(number: int) -> str:
    return f"02:00:{number >> 24 & 255:02x}:{number >> 16 & 255:02x}:{number >> 8 & 255:02x}:{number & 255:02x}"


VXLAN_BYTES = 50
"""What a tunnel puts before a packet of the inner MTU: Ethernet 14, IPv4 20, UDP 8, VXLAN 8 (RFC 7348)."""


@dataclass(frozen=True, kw_only=True)
class Tunnel:
    """One crossing cable as this machine sees it: ``vni`` its VXLAN network identifier, ``remote`` the other machine's
    IPv4 address."""

    vni: int
    remote: str


@dataclass(frozen=True, kw_only=True)
class WiringPart:
    """``devices``: the bridges and hosts here, by the wiring's names. ``tunnels``: by index into the wiring's cables,
    those with one end here.

    ``underlay``: this machine's interface towards the others, ``local`` its IPv4 address, ``port`` the tunnels' UDP
    port on all machines. ``framed``: whether packets on the interface have an Ethernet header (WireGuard's have none).
    """

    devices: frozenset[str]
    tunnels: Mapping[int, Tunnel]
    underlay: str
    local: str
    port: int
    framed: bool = True
