"""Evaluates flow rules as switches would, and follows packets through a wiring.

Rules can be tested in this way without a switch.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from testbed.errors import InputError
from testbed.model.wiring import WiredHost, Wiring
from testbed.openflow.rules import BACK, ETH_IPV4, PROTOCOL_UDP, FailoverGroup, FlowRule, by_switch
from topologies import LinkId

# The header fields of a packet, by their names in OpenFlow.
Packet = Mapping[str, int | str]
# A packet that has crossed more links than this is in a cycle.
_MAX_HOPS = 256
# The time to live of a packet that does not state one, as Linux sets it.
_DEFAULT_TTL = 64


@dataclass(frozen=True, kw_only=True)
class Walk:
    """The path of one packet.

    Attributes:
        links: The links that the packet crossed, in order.
        host: Name of the host that it reached, or None if it was dropped.
        dropped_at: Node at which it was dropped, or None.
        dropped_by: The rule that dropped it, or None if no rule matched.
        packet: Its header at the end, with ``in_port`` at the last device.
    """

    links: tuple[LinkId, ...]
    host: str | None
    dropped_at: str | None
    dropped_by: FlowRule | None = None
    packet: Packet = field(default_factory=dict)


class FlowTable:
    """The rules of one switch.

    The matching rule with the highest priority wins. A packet that matches no rule is dropped.
    """

    def __init__(self, rules: Iterable[FlowRule]) -> None:
        self.rules = tuple(sorted(rules, key=lambda rule: -rule.priority))

    def rule_for(self, packet: Packet) -> FlowRule | None:
        """Return the rule that applies to a packet, or None if no rule matches.

        Raises:
            InputError: Two rules of the same priority match and do different things. This is an
                error of the plan and not of the packet.
        """
        winner: FlowRule | None = None
        for rule in self.rules:
            if winner is not None and rule.priority < winner.priority:
                break
            if all(_field_matches(packet.get(name), wanted) for name, wanted in rule.match):
                if winner is not None and _actions(winner) != _actions(rule):
                    raise InputError(
                        f"switch {rule.dpid}: two rules of priority {rule.priority} match"
                        f" {dict(packet)}"
                    )
                winner = rule
        return winner


def _actions(rule: FlowRule) -> tuple[object, ...]:
    return rule.out_port, rule.set_fields, rule.group, rule.dec_ttl


def _field_matches(value: int | str | None, wanted: int | str | tuple[int, int]) -> bool:
    """Return whether a header field has a value, or the value under a mask: (value, mask)."""
    if isinstance(wanted, tuple):
        wanted_value, mask = wanted
        return isinstance(value, int) and value & mask == wanted_value
    return value == wanted


class RuleWalker:
    """Follows packets through the switches of a wiring.

    Args:
        wiring: The wiring.
        rules: The rules of all switches.
        groups: The failover groups of all switches.
        down: Links without carrier. The switches at both ends of each know about it. Packets that
            are sent on such a link are lost.
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
        # The ports, as (device, port), of cables without carrier.
        self._dead: set[tuple[str, int]] = set()
        for down_link in down:
            self._dead.update(wiring.cable_of(down_link).ends)
        self.tables = {dpid: FlowTable(own_rules) for dpid, own_rules in by_switch(rules).items()}
        self._switches = {switch.name: switch for switch in wiring.switches}
        # For each (device, port): the device at the far end of the cable, the link, and its port.
        self._far_end: dict[tuple[str, int], tuple[str, LinkId | None, int]] = {}
        for cable in wiring.cables:
            self._far_end[cable.a, cable.a_port] = (cable.b, cable.forward, cable.b_port)
            self._far_end[cable.b, cable.b_port] = (cable.a, cable.backward, cable.a_port)

    def stream_packet(self, source: str, sink: str, udp_port: int) -> dict[str, int | str]:
        """Return the header of a stream packet between two end points, without its label."""
        return {
            "eth_type": ETH_IPV4,
            "ip_proto": PROTOCOL_UDP,
            "ipv4_src": self.wiring.host_at(source).ip,
            "ipv4_dst": self.wiring.host_at(sink).ip,
            "udp_dst": udp_port,
        }

    def walk(self, source: str, packet: Packet) -> Walk:
        """Follow a packet that the host of an end point sends.

        Raises:
            InputError: The packet is forwarded in a cycle.
        """
        host = self.wiring.host_at(source)
        exit_ = self._route_at_host(host, packet)
        if exit_ is None:
            exit_ = (self.wiring.first_port(host.name), packet)
        return self._follow(host.name, *exit_)

    def walk_over(self, link: LinkId, packet: Packet) -> Walk:
        """Follow a packet over a given first link, whatever the rules of the switch there say.

        Raises:
            InputError: The packet is forwarded in a cycle.
        """
        cable = self.wiring.cable_of(link)
        end_a, end_b = cable.ends
        device, port = end_a if cable.forward == link else end_b
        return self._follow(device, port, packet)

    def _follow(self, device: str, port: int, packet: Packet) -> Walk:
        """Return the path of a packet that leaves the device through the port."""
        links: list[LinkId] = []
        for _ in range(_MAX_HOPS):
            device, link, in_port = self._far_end[device, port]
            if link is not None:
                links.append(link)
            packet = {**packet, "in_port": in_port}
            if device in self._hosts:
                host = self._hosts[device]
                if packet.get("eth_dst", host.mac) != host.mac:
                    return Walk(links=tuple(links), host=None, dropped_at=host.node, packet=packet)
                exit_ = self._route_at_host(host, packet)
                if exit_ is None:
                    return Walk(links=tuple(links), host=device, dropped_at=None, packet=packet)
            else:
                switch = self._switches[device]
                table = self.tables.get(switch.dpid)
                rule = table.rule_for(packet) if table is not None else None
                exit_ = self._exit(device, rule, packet)
                if exit_ is None:
                    return Walk(
                        links=tuple(links),
                        host=None,
                        dropped_at=switch.node,
                        dropped_by=rule,
                        packet=packet,
                    )
            port, packet = exit_
        raise InputError(f"packet goes round in a cycle: {links[-4:]}")

    def _route_at_host(self, host: WiredHost, packet: Packet) -> tuple[int, Packet] | None:
        """Return the port by which a host sends a packet, and the header that it sends.

        This class knows no hosts that forward, and returns None: every packet ends at a host. A
        subclass may return more (see ``HostRoute`` in ``testbed.openflow.rules``).
        """
        return None

    def _exit(
        self, device: str, rule: FlowRule | None, packet: Packet
    ) -> tuple[int, Packet] | None:
        """Return the port by which a switch sends a packet, and the header that it sends.

        Args:
            device: Name of the switch.
            rule: The rule that applies, or None.
            packet: The header of the packet, with ``in_port``.

        Returns:
            None if the packet is dropped.
        """
        if rule is None:
            return None
        header: dict[str, int | str] = {**packet, **dict(rule.set_fields)}
        if rule.dec_ttl:
            ttl = header.get("ttl", _DEFAULT_TTL)
            if not isinstance(ttl, int) or ttl <= 1:
                return None
            header["ttl"] = ttl - 1
        port: int | str | None = rule.out_port
        if rule.group:
            for bucket in self._groups[rule.dpid, rule.group].buckets:
                if (device, bucket.watch_port) not in self._dead:
                    port = bucket.out_port
                    header |= dict(bucket.set_fields)
                    break
            else:
                return None
        # A switch sends a packet back only if the rule says BACK.
        if port == header["in_port"]:
            return None
        if port == BACK:
            port = header["in_port"]
        assert isinstance(port, int)
        if (device, port) not in self._far_end or (device, port) in self._dead:
            return None
        return port, header
