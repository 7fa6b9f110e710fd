"""Packets walked through hosts too, by what ``testbed.openflow.rules`` says that hosts do with a plan's packets."""

from __future__ import annotations

from collections.abc import Iterable

from testbed.model.wiring import WiredHost, Wiring
from testbed.openflow.flow_table import Packet, RuleWalker
from testbed.openflow.rules import FlowRule, HostRoute, step_of


class RouteWalker(RuleWalker):
    """A wiring's switches with their rules, and its hosts with their ``routes``."""

    def __init__(
        self, wiring: Wiring, rules: Iterable[FlowRule], routes: Iterable[HostRoute]
    ) -> None:
        super().__init__(wiring, rules)
        self._routes = tuple(routes)

    def _route_at_host(self, host: WiredHost, packet: Packet) -> tuple[int, Packet] | None:
        ends, label = (packet.get("ipv4_src"), packet.get("ipv4_dst")), packet.get("udp_src", -1)
        own = [
            r
            for r in self._routes
            if (r.source_ip, r.sink_ip) == ends and r.udp_port in (None, packet.get("udp_dst"))
        ]
        step = step_of(own, host.name, label if isinstance(label, int) else -1)
        if step is None or ends[1] == host.ip:
            return None
        return step.port, {**packet, "eth_dst": self._hosts[step.node].mac}
