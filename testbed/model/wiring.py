"""Wirings: bridges, ports, veth pairs and addresses of a network.

A wiring is a pure function of the network and the end points. Flow rules, the controller and the
emulated fabric all take ports and addresses from it, so that none of them has to ask another.
"""

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import filterfalse

from testbed.model.naming.device_names import device_names, end_point_name, interface_name
from topologies import JsonObject, LinkId, Network, TopologyError, reverse_of

# Largest OpenFlow port. Open vSwitch does not accept a higher one in ``ofport_request``.
MAX_PORT = 0xFEFF

# Ports at the first and second end of a cable. None: the network does not specify the port.
Ports = tuple[int | None, int | None]

# Bytes that a tunnel adds to a packet of the inner MTU: Ethernet 14, IPv4 20, UDP 8, VXLAN 8
# (RFC 7348).
VXLAN_BYTES = 50


@dataclass(frozen=True, kw_only=True)
class WiredHost:
    """A host of the wiring.

    A host is a node of the network, or stands for the end point of a switch. The cable of an end
    point (``outside``) is no link of the model: it is not shaped, never fails and is not counted.

    Attributes:
        name: Id of the node, or for an end point a name that no node has.
        device: The beginning of the names of its interfaces.
        node: Id of the node, or of the switch of the end point.
        outside: Whether the host is an end point.
        ip: IPv4 address of all interfaces: the address in the network if there is one, else one
            that is derived from the number of the host.
        mac: MAC address of all interfaces, chosen like the IPv4 address.
    """

    name: str
    device: str
    node: str
    outside: bool
    ip: str
    mac: str


@dataclass(frozen=True, kw_only=True)
class WiredSwitch:
    """A switch of the wiring, which is a bridge.

    Attributes:
        name: Id of the node.
        device: Name of the bridge.
        node: Id of the node.
        dpid: OpenFlow datapath id, 64 bits and not 0.
    """

    name: str
    device: str
    node: str
    dpid: int


@dataclass(frozen=True, kw_only=True)
class Cable:
    """A veth pair between two devices.

    Attributes:
        a: Name of the host or switch at the first end.
        b: Name of the host or switch at the second end.
        a_port: Port at the first end: the OpenFlow port of a switch, from 1, or the number of a
            host's interface, from 0.
        b_port: Port at the second end.
        a_interface: Name of the interface at the first end.
        b_interface: Name of the interface at the second end.
        forward: The link from a to b, or None if the model has no link in this direction.
        backward: The link from b to a, or None.
    """

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
        """The links of the cable, at most two."""
        return tuple(link for link in (self.forward, self.backward) if link is not None)

    @property
    def ends(self) -> tuple[tuple[str, int], ...]:
        """The name of the host or switch, and the port, at both ends."""
        return (self.a, self.a_port), (self.b, self.b_port)


@dataclass(frozen=True, kw_only=True)
class Wiring:
    """The hosts, switches and cables of a network.

    Names are unique. The device names are those of ``device_names``.
    """

    network: Network
    hosts: tuple[WiredHost, ...]
    switches: tuple[WiredSwitch, ...]
    cables: tuple[Cable, ...]

    def host_at(self, node: str) -> WiredHost:
        """Return the host of a node or of its end point; KeyError if there is none."""
        return self._hosts[node]

    def switch_at(self, node: str) -> WiredSwitch:
        """Return the bridge of a node; KeyError if the node is not a switch."""
        return self._switches[node]

    def out_port(self, link: LinkId) -> int:
        """Return the port of the link's source through which packets enter the link."""
        cable = self.cable_of(link)
        return cable.a_port if cable.forward == link else cable.b_port

    def in_port(self, link: LinkId) -> int:
        """Return the port of the link's target at which packets arrive."""
        cable = self.cable_of(link)
        return cable.b_port if cable.forward == link else cable.a_port

    @cached_property
    def _cable_of(self) -> Mapping[LinkId, Cable]:
        cable_of: dict[LinkId, Cable] = {}
        for cable in self.cables:
            for link in cable.links:
                cable_of[link] = cable
        return cable_of

    def cables_by_port(self) -> dict[tuple[int, int], Cable]:
        """Return the cable at each datapath id and port."""
        dpids = {switch.name: switch.dpid for switch in self.switches}
        cables: dict[tuple[int, int], Cable] = {}
        for cable in self.cables:
            for name, port in cable.ends:
                if name in dpids:
                    cables[dpids[name], port] = cable
        return cables

    @cached_property
    def routed(self) -> bool:
        """True if hosts need routes: one has several cables, or the network specifies addresses."""
        cable_counts: Counter[str] = Counter()
        for cable in self.cables:
            cable_counts[cable.a] += 1
            cable_counts[cable.b] += 1
        several_cables = any(cable_counts[host.name] > 1 for host in self.hosts)
        return several_cables or any(node.addresses for node in self.network.hosts)

    @cached_property
    def _first_ports(self) -> Mapping[str, int]:
        first_ports: dict[str, int] = {}
        for cable in self.cables:
            for name, port in cable.ends:
                first_ports.setdefault(name, port)
        return first_ports

    def first_port(self, name: str) -> int:
        """Return the port of the first cable of a host or switch; KeyError if it has none."""
        return self._first_ports[name]

    def access_port(self, host: WiredHost) -> int | None:
        """Return the port of the switch to which an end point is connected.

        Returns:
            None if the host is a node of the network.
        """
        for cable in self.cables:
            if cable.b == host.name and cable.forward is None and cable.backward is None:
                return cable.a_port
        return None

    def cable_of(self, link: LinkId) -> Cable:
        """Return the cable of a directed link."""
        return self._cable_of[link]

    @cached_property
    def _hosts(self) -> dict[str, WiredHost]:
        return {host.node: host for host in self.hosts}

    @cached_property
    def _switches(self) -> dict[str, WiredSwitch]:
        return {switch.node: switch for switch in self.switches}


@dataclass(frozen=True, kw_only=True)
class _UnnumberedCable:
    """A cable whose ports may not be known yet.

    Attributes:
        a: Name of the host or switch at the first end.
        b: Name of the host or switch at the second end.
        ports: The ports that the network specifies.
        forward: The link from a to b, or None.
        backward: The link from b to a, or None.
    """

    a: str
    b: str
    ports: Ports = (None, None)
    forward: LinkId | None = None
    backward: LinkId | None = None


def wire(network: Network, end_points: Sequence[str] = ()) -> Wiring:
    """Return the wiring of a network.

    Ports and datapath ids are those of the network if it specifies them, else the next free
    numbers. The time is linear in the number of nodes and links.

    Args:
        network: The network.
        end_points: Ids of nodes that send or receive. Each that is a switch gets an outside host
            with a cable.

    Raises:
        TopologyError: An end point is unknown, or a number in the network is out of range or used
            twice.
    """
    outside = _end_points(network, end_points)
    node_of_host = {node.id: node.id for node in network.hosts} | outside
    first_ports = dict.fromkeys(node_of_host, 0) | {node.id: 1 for node in network.switches}
    unnumbered = list(_cables_of_links(network))
    for name, switch in outside.items():
        unnumbered.append(_UnnumberedCable(a=switch, b=name))
    ports = _numbered_ports(first_ports, unnumbered)

    highest_ports = dict.fromkeys(first_ports, 0)
    for cable, (a_port, b_port) in zip(unnumbered, ports, strict=True):
        highest_ports[cable.a] = max(highest_ports[cable.a], a_port)
        highest_ports[cable.b] = max(highest_ports[cable.b], b_port)
    device = device_names(
        {name: highest_ports[name] for name in node_of_host},
        {node.id: highest_ports[node.id] for node in network.switches},
    )

    cables = []
    for cable, (a_port, b_port) in zip(unnumbered, ports, strict=True):
        cables.append(
            Cable(
                a=cable.a,
                b=cable.b,
                a_port=a_port,
                b_port=b_port,
                a_interface=interface_name(device[cable.a], a_port),
                b_interface=interface_name(device[cable.b], b_port),
                forward=cable.forward,
                backward=cable.backward,
            )
        )
    hosts = []
    addresses = _addresses(network, len(node_of_host))
    for (name, node_id), (ip, mac) in zip(node_of_host.items(), addresses, strict=True):
        host = WiredHost(
            name=name, device=device[name], node=node_id, outside=name in outside, ip=ip, mac=mac
        )
        hosts.append(host)
    switches = []
    for node, dpid in zip(network.switches, _datapath_ids(network), strict=True):
        switches.append(WiredSwitch(name=node.id, device=device[node.id], node=node.id, dpid=dpid))
    return Wiring(
        network=network, hosts=tuple(hosts), switches=tuple(switches), cables=tuple(cables)
    )


def _cables_of_links(network: Network) -> Iterator[_UnnumberedCable]:
    """Yield the cables of the network's links. A link and its reverse share a cable."""
    cabled: set[LinkId] = set()
    for link in network.links:
        if link.id in cabled:
            continue
        reverse: LinkId | None = reverse_of(link.id)
        reverse_index = network.link_index.get(reverse_of(link.id))
        if reverse_index is None:
            reverse = None
            reverse_ports = link.ports
        else:
            second, first = network.links[reverse_index].ports
            reverse_ports = (first, second)
        ports = []
        for port, reverse_port in zip(link.ports, reverse_ports, strict=True):
            if port is not None and reverse_port is not None and port != reverse_port:
                raise TopologyError(
                    f"{link.label}: port {port} one way and {reverse_port} the other; give one"
                )
            specified_port = reverse_port if port is None else port
            ports.append(specified_port)
        yield _UnnumberedCable(
            a=link.source,
            b=link.target,
            ports=(ports[0], ports[1]),
            forward=link.id,
            backward=reverse,
        )
        cabled.update((link.id, reverse_of(link.id)))


def _numbered_ports(
    first_ports: Mapping[str, int], cables: Sequence[_UnnumberedCable]
) -> list[tuple[int, int]]:
    """Return the ports of each cable.

    A port that the network does not specify is the lowest free one of its node.

    Args:
        first_ports: The lowest allowed port of each host and switch.
        cables: The cables.
    """
    taken: dict[str, set[int]] = {node: set() for node in first_ports}
    for cable in cables:
        for node, peer, port in (
            (cable.a, cable.b, cable.ports[0]),
            (cable.b, cable.a, cable.ports[1]),
        ):
            if port is None:
                continue
            if not first_ports[node] <= port <= MAX_PORT:
                raise TopologyError(
                    f"{node!r}: port {port} towards {peer!r}; "
                    f"give {first_ports[node]} to {MAX_PORT}"
                )
            if port in taken[node]:
                raise TopologyError(
                    f"{node!r}: two cables have its port {port}, one of them to {peer!r}; "
                    "change one"
                )
            taken[node].add(port)
    free_ports = {
        node: filterfalse(taken[node].__contains__, itertools.count(first))
        for node, first in first_ports.items()
    }
    ports = []
    for cable in cables:
        a_port, b_port = cable.ports
        if a_port is None:
            a_port = next(free_ports[cable.a])
        if b_port is None:
            b_port = next(free_ports[cable.b])
        ports.append((a_port, b_port))
    return ports


def _datapath_ids(network: Network) -> list[int]:
    """Return the datapath id of each switch: the specified one, or the next free one from 1."""
    taken: dict[int, str] = {}
    for node in network.switches:
        if node.dpid is not None and taken.setdefault(node.dpid, node.id) != node.id:
            raise TopologyError(
                f"{taken[node.dpid]!r} and {node.id!r} have the datapath id {node.dpid:x}; "
                "change one"
            )
    free = filterfalse(taken.__contains__, itertools.count(1))
    return [next(free) if node.dpid is None else node.dpid for node in network.switches]


def wiring_document(wiring: Wiring, *, cables: bool = False) -> JsonObject:
    """Return the JSON document of a wiring for other processes.

    Args:
        wiring: The wiring.
        cables: Whether the document has the keys ``cables`` and ``links`` too.

    Returns:
        ``network`` is the network's name. ``hosts`` and ``switches`` have the fields of WiredHost
        and WiredSwitch. Each of the ``cables`` has its two ends and one ``link`` that it carries,
        None for the cable of an end point. ``links`` are the ids of all links.
    """
    document: JsonObject = {
        "network": wiring.network.name,
        "hosts": [asdict(host) for host in wiring.hosts],
        "switches": [asdict(switch) for switch in wiring.switches],
    }
    if cables:
        document["cables"] = [_cable_document(cable) for cable in wiring.cables]
        document["links"] = [link.id for link in wiring.network.links]
    return document


def _cable_document(cable: Cable) -> JsonObject:
    return {
        "a": [cable.a, cable.a_port, cable.a_interface],
        "b": [cable.b, cable.b_port, cable.b_interface],
        "link": cable.forward or cable.backward,
    }


def _end_points(network: Network, nodes: Sequence[str]) -> dict[str, str]:
    """Return the names of the outside hosts, each with its switch."""
    taken = {node.id for node in network.nodes}
    switch_of_host: dict[str, str] = {}
    for node in dict.fromkeys(nodes):
        if network.node(node).kind == "switch":
            name = end_point_name(node, taken)
            taken.add(name)
            switch_of_host[name] = node
    return switch_of_host


def _addresses(network: Network, count: int) -> list[tuple[str, str]]:
    """Return IPv4 and MAC address of each host: the specified ones, or the next free ones.

    Args:
        network: The network.
        count: Number of hosts with the outside ones, which follow those of the network.
    """
    specified: list[tuple[str | None, str | None]] = []
    taken: set[str | None] = set()
    for node in network.hosts:
        node_ips = [ip for ip, _ in node.addresses]
        first_ip = node_ips[0] if node_ips else None
        specified.append((first_ip, node.mac))
        taken.update(node_ips)
        taken.add(node.mac)
    specified += [(None, None)] * (count - len(specified))
    free_ips = filterfalse(taken.__contains__, map(_ip, itertools.count()))
    free_macs = filterfalse(taken.__contains__, map(_mac, itertools.count()))
    return [(ip or next(free_ips), mac or next(free_macs)) for ip, mac in specified]


def _ip(index: int) -> str:
    """Return the IPv4 address of a host by its index: 10.0.0.1, 10.0.0.2 and so on."""
    number = index + 1
    return f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"


def _mac(index: int) -> str:
    """Return the MAC address of a host by its index, in the locally administered range."""
    octets = [f"{index >> shift & 255:02x}" for shift in (24, 16, 8, 0)]
    return "02:00:" + ":".join(octets)


@dataclass(frozen=True, kw_only=True)
class Tunnel:
    """A cable between two machines, as one of them sees it.

    Attributes:
        vni: VXLAN network identifier.
        remote: IPv4 address of the other machine.
    """

    vni: int
    remote: str


@dataclass(frozen=True, kw_only=True)
class WiringPart:
    """The part of a wiring that runs on one machine.

    Attributes:
        devices: Names of the bridges and hosts on this machine, as in the wiring.
        tunnels: The cables with one end on this machine, by their index in the wiring's cables.
        underlay: The interface to the other machines.
        local: IPv4 address of this interface.
        port: UDP port of the tunnels on all machines.
        framed: Whether packets on the interface have an Ethernet header. WireGuard's have none.
    """

    devices: frozenset[str]
    tunnels: Mapping[int, Tunnel]
    underlay: str
    local: str
    port: int
    framed: bool = True
