"""A flow table that evaluates rules as a switch would, and walks packets through a wiring: rules tested without a
switch."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from testbed.errors import InputError
from testbed.model.wiring import WiredHost, Wiring
from testbed.openflow.rules import BACK, ETH_IPV4, PROTOCOL_UDP, FailoverGroup, FlowRule, by_switch
from topologies import LinkId

Packet = Mapping[str, int | str]
"""Header fields in OpenFlow's names."""
_MAX_HOPS = 256


@dataclass(frozen=True, kw_only=True)
class Walk:
    """Where one packet went: the links it crossed and the host it reached, or None with the switch that dropped it.

    ``dropped_by``: the rule that dropped it, None where no rule matched. ``packet``: its header in the end, ``in_port``
    of the last switch included.
    """

    links: tuple[LinkId, ...]
    host: str | None
    dropped_at: str | None
    dropped_by: FlowRule | None = None
    packet: Packet = field(default_factory=dict)


class FlowTable:
    """The rules of one switch; the highest priority that matches wins, nothing matching drops.

    Two rules of one priority that both match a packet are an error of the plan, not of the packet: InputError.
    """

    def __init__(self, rules: Iterable[FlowRule]) -> None:
        self.rules = tuple(sorted(rules, key=lambda r: -r.priority))

    def rule_for(self, packet: Packet) -> FlowRule | None:
        """The rule that the packet meets, None where none matches."""
        found: FlowRule | None = None
        for rule in self.rules:
            if found is not None and rule.priority < found.priority:
                break
            if all(_field_matches(packet.get(name), want) for name, want in rule.match):
                if found is not None and _does(found) != _does(rule):
                    raise InputError(
                        f"switch {rule.dpid}: two rules of priority {rule.priority} match {dict(packet)}"
                    )
                found = rule
        return found


def _does(rule: FlowRule) -> tuple[object, ...]:
    return rule.out_port, rule.set_fields, rule.group, rule.dec_ttl


def _field_matches(value: int | str | None, want: int | str | tuple[int, int]) -> bool:
    if isinstance(want, tuple):
        return isinstance(value, int) and value & want[1] == want[0]
    return value == want


class RuleWalker:
    """All switches of a wiring with their rules and failover groups, and its hosts.

    ``down``: links without carrier, which the switches at both ends of each know of; packets put onto one are lost.
    """

    def __init__(
        self,
        wiring: Wiring,
        rules: Iterable[FlowRule],
        *,
        groups: Iterable[FailoverGroup] = (),
        down: Iterable[LinkId] = (),
    ) -> None:
        self.wiring = wiring
        self._groups = {(group.dpid, group.number): group for group in groups}
        self._hosts = {host.name: host for host in wiring.hosts}
        cut = [wiring.cable_of(link) for link in down]
        self._dead = {end for cable in cut for end in cable.ends}
        self.tables = {dpid: FlowTable(listed) for dpid, listed in by_switch(rules).items()}
        self._switches = {s.name: s for s in wiring.switches}
        self._far: dict[tuple[str, int], tuple[str, LinkId | None, int]] = {}
        for cable in wiring.cables:
            self._far[cable.a, cable.a_port] = (cable.b, cable.forward, cable.b_port)
            self._far[cable.b, cable.b_port] = (cable.a, cable.backward, cable.a_port)

    def stream_packet(self, source: str, sink: str, udp_port: int) -> dict[str, int | str]:
        """The header of a stream packet between two end points, without its label."""
        a, b = self.wiring.host_at(source), self.wiring.host_at(sink)
        return {
            "eth_type": ETH_IPV4,
            "ip_proto": PROTOCOL_UDP,
            "ipv4_src": a.ip,
            "ipv4_dst": b.ip,
            "udp_dst": udp_port,
        }

    def walk(self, source: str, packet: Packet) -> Walk:
        """Follow one packet from the host of ``source``. InputError where it goes round in a circle."""
        host = self.wiring.host_at(source)
        return self._follow(
            host.name, *(self._sent(host, packet) or (self.wiring.first_port(host.name), packet))
        )

    def walk_over(self, link: LinkId, packet: Packet) -> Walk:
        """Follow one packet that is put onto a link (its first), whatever the switch before it would have said."""
        cable = self.wiring.cable_of(link)
        return self._follow(*cable.ends[cable.forward != link], packet)

    def _follow(self, device: str, port: int, packet: Packet) -> Walk:
        """The way of a packet that leaves the device through the port."""
        links: list[LinkId] = []
        for _ in range(_MAX_HOPS):
            device, link, entered = self._far[device, port]
            if link is not None:
                links.append(link)
            switch, packet = self._switches.get(device), {**packet, "in_port": entered}
            if switch is None:
                host = self._hosts[device]
                if packet.get("eth_dst", host.mac) != host.mac:
                    return Walk(links=tuple(links), host=None, dropped_at=host.node, packet=packet)
                if (sent := self._sent(host, packet)) is None:
                    return Walk(links=tuple(links), host=device, dropped_at=None, packet=packet)
                port, packet = sent
                continue
            table = self.tables.get(switch.dpid)
            rule = table.rule_for(packet) if table is not None else None
            exit_ = None if rule is None else self._exit(device, rule, packet)
            if (
                exit_ is None
                or (device, exit_[0]) not in self._far
                or (device, exit_[0]) in self._dead
            ):
                return Walk(
                    links=tuple(links),
                    host=None,
                    dropped_at=switch.node,
                    dropped_by=rule,
                    packet=packet,
                )
            port, packet = exit_
        raise InputError(f"packet goes round in a circle: {links[-4:]}")

    def _sent(self, host: WiredHost, packet: Packet) -> tuple[int, Packet] | None:
        """The port by which a host sends the packet on and its header then; None: it keeps what comes. For what hosts
        do that forward see ``testbed.openflow.rules``."""
        return None

    def _exit(self, device: str, rule: FlowRule, packet: Packet) -> tuple[int, Packet] | None:
        """The port by which the packet leaves and its header then; None where the rule drops it."""
        packet = {**packet, **dict(rule.set_fields)}
        if rule.dec_ttl:
            left = packet.get("ttl", 64)
            if not isinstance(left, int) or left <= 1:
                return None
            packet["ttl"] = left - 1
        port: int | str | None = rule.out_port
        if rule.group:
            buckets = self._groups[rule.dpid, rule.group].buckets
            live = next((b for b in buckets if (device, b.watch_port) not in self._dead), None)
            if live is None:
                return None
            port, packet = live.out_port, {**packet, **dict(live.set_fields)}
        if port == packet["in_port"]:
            return None
        if port == BACK:
            port = packet["in_port"]
        assert isinstance(port, int)
        return port, packet
