"""Wiring: how a network is laid out on bridges, ports, veth cables and addresses; a pure function of network and end points.

Rules, controller and emulated fabric all read ports and addresses here, so that none of them has to ask another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from topologies.network import LinkId, Network, reverse_of


@dataclass(frozen=True, kw_only=True)
class WiredHost:
    """One host: ``node`` is its network node, or the switch whose end point it stands for (then ``outside`` is true:
    its cable is no link of the model: not shaped, never failed, not counted)."""

    name: str
    node: str
    outside: bool
    ip: str
    mac: str


@dataclass(frozen=True, kw_only=True)
class WiredSwitch:
    """One bridge; ``dpid`` is its OpenFlow datapath id, 1 and up."""

    name: str
    node: str
    dpid: int


@dataclass(frozen=True, kw_only=True)
class Cable:
    """One veth pair between two devices. ``a`` and ``b`` are device names (WiredHost.name or WiredSwitch.name), the ports their
    port numbers (switches: OpenFlow port, 1 and up; hosts: index of the interface, 0 and up). ``forward`` is the link
    a -> b, ``backward`` the link b -> a; either may be None where the model has no link that way."""

    a: str
    b: str
    a_port: int
    b_port: int
    forward: LinkId | None
    backward: LinkId | None

    @property
    def a_interface(self) -> str:
        return f"{self.a}-e{self.a_port}"

    @property
    def b_interface(self) -> str:
        return f"{self.b}-e{self.b_port}"


@dataclass(frozen=True, kw_only=True)
class Wiring:
    """The layout of one network. Names are at most 10 characters of [a-z0-9], so that interfaces fit in 15."""

    network: Network
    hosts: tuple[WiredHost, ...]
    switches: tuple[WiredSwitch, ...]
    cables: tuple[Cable, ...]
    out_ports: Mapping[LinkId, int] = field(repr=False, hash=False)

    def host_at(self, node: str) -> WiredHost:
        """The host that is, or stands for, the end point of that node; KeyError where it has none."""
        return self._hosts[node]

    def switch_at(self, node: str) -> WiredSwitch:
        """The bridge of that switch node; KeyError where the node is no switch."""
        return self._switches[node]

    def out_port(self, link: LinkId) -> int:
        """Port number, at the link's source device, through which packets enter the link."""
        return self.out_ports[link]

    @cached_property
    def _cable_of(self) -> Mapping[LinkId, Cable]:
        return {link: c for c in self.cables for link in (c.forward, c.backward) if link is not None}

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

    Complexity linear in nodes and links. Raises TopologyError for an unknown end point.
    """
    hosts = [
        WiredHost(name=f"h{i}", node=n.id, outside=False, ip=_ip(i), mac=_mac(i)) for i, n in enumerate(network.hosts)
    ]
    switches = tuple(WiredSwitch(name=f"s{i + 1}", node=n.id, dpid=i + 1) for i, n in enumerate(network.switches))
    device = {h.node: h.name for h in hosts} | {s.node: s.name for s in switches}
    bridges = {s.name for s in switches}
    next_port = {name: (1 if name in bridges else 0) for name in device.values()}

    def take(name: str) -> int:
        next_port[name] += 1
        return next_port[name] - 1

    cables: list[Cable] = []
    out_ports: dict[LinkId, int] = {}
    for link in network.links:
        if link.id in out_ports:
            continue
        a, b = device[link.source], device[link.target]
        back: LinkId | None = reverse_of(link.id)
        if back not in network.link_index:
            back = None
        cable = Cable(a=a, b=b, a_port=take(a), b_port=take(b), forward=link.id, backward=back)
        cables.append(cable)
        out_ports[link.id] = cable.a_port
        if back is not None:
            out_ports[back] = cable.b_port
    for node_id in dict.fromkeys(end_points):
        if network.node(node_id).kind == "host":
            continue
        number = len(hosts)
        host = WiredHost(name=f"h{number}", node=node_id, outside=True, ip=_ip(number), mac=_mac(number))
        hosts.append(host)
        cables.append(
            Cable(a=device[node_id], b=host.name, a_port=take(device[node_id]), b_port=0, forward=None, backward=None)
        )
    return Wiring(network=network, hosts=tuple(hosts), switches=switches, cables=tuple(cables), out_ports=out_ports)


def _ip(number: int) -> str:
    return f"10.{(number + 1) >> 16 & 255}.{(number + 1) >> 8 & 255}.{(number + 1) & 255}"


def _mac(number: int) -> str:
    return f"02:00:{number >> 24 & 255:02x}:{number >> 16 & 255:02x}:{number >> 8 & 255:02x}:{number & 255:02x}"
