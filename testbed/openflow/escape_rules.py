"""FT-DRB's routers as OpenFlow rules: known paths by label, and escapes prepared in fast-failover groups (document 003, 3.2).

A packet's header state lies in two fields. The label: a path's interval, or the escape bit and the link that was dead. The
six bits of DSCP: the second intermediate router that it is bound for, 0 once it is bound for its destination.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from testbed.errors import InputError
from testbed.model.label_split import LABELS
from testbed.model.wiring import Wiring
from testbed.openflow.failover import BACK, Bucket, FailoverGroup
from testbed.openflow.rules import (
    ETH_IPV4,
    OTHER_PRIORITY,
    PROTOCOL_UDP,
    STREAM_PRIORITY,
    FlowRule,
    Match,
    label_prefixes,
    pair_rules,
)
from testbed.streaming.known_paths import ESCAPED, KnownPaths, cable_number, near, path_interval
from topologies.network import LinkId

MOST_INTERMEDIATES = 63
_ESCAPED_PREFIX = (ESCAPED, LABELS - ESCAPED)


@dataclass(frozen=True, kw_only=True)
class Escape:
    """A way round a dead link: out by ``link`` to a live neighbour, by ``second`` (None: straight) to the destination.

    ``hops``: links between switches up to the last switch. ``back``: the packet returns by the cable it came over.
    """

    link: LinkId
    second: str | None
    hops: int
    back: bool


@dataclass(frozen=True, kw_only=True)
class EscapeRules:
    """What the switches are told: ``groups`` first. ``intermediates[c - 1]`` is the router that DSCP c stands for."""

    rules: tuple[FlowRule, ...]
    groups: tuple[FailoverGroup, ...]
    intermediates: tuple[str, ...]


def escapes(known: KnownPaths, came: LinkId | None, dead: LinkId) -> tuple[Escape, ...]:
    """The ways out of a switch whose link ``dead`` is down, in the order in which they are tried, for packets that came by ``came``.

    One for each other neighbour; each avoids the dead links of this switch that its turn supposes, and turns round on no
    cable. The shortest first; back where it came from last. The second intermediate is a neighbour of the first; any
    switch where none of those leads on.
    """
    found: list[Escape] = []
    cables = {cable_number(known.network, dead)}
    at = dead[0]
    while True:
        options = [e for link in _inner_links(known, at) if (e := _best(known, link, cables, came)) is not None]
        if not options:
            return tuple(found)
        best = min(options, key=lambda e: (e.back, e.hops, known.network.link_index[e.link]))
        found.append(best)
        cables.add(cable_number(known.network, best.link))


def _inner_links(known: KnownPaths, at: str) -> list[LinkId]:
    links = (known.network.links[i].id for i in known.network.out_links(at))
    return [link for link in links if known.network.node(link[1]).kind == "switch"]


def _best(known: KnownPaths, link: LinkId, cables: set[int], came: LinkId | None) -> Escape | None:
    """The shortest way that begins with this link, None where there is none."""
    if cable_number(known.network, link) in cables:
        return None
    back = came is not None and cable_number(known.network, link) == cable_number(known.network, came)
    middle, switches = link[1], [s.id for s in known.network.switches]
    for seconds in ([None, *near(known.network, middle)[0]], switches):
        ways = []
        for place, second in enumerate(seconds):
            if second in (middle, link[0]):
                continue
            steps = [second, known.exit] if second is not None else [known.exit]
            way, at = [link], middle
            for goal in steps:
                way += known.routing(at, goal)
                at = goal
            if _leads_on(known, way, cables):
                ways.append((len(way), place, second))
        if ways:
            hops, _, second = min(ways)
            return Escape(link=link, second=second, hops=hops, back=back)
    return None


def _leads_on(known: KnownPaths, way: Sequence[LinkId], cables: set[int]) -> bool:
    if any(cable_number(known.network, link) in cables for link in way):
        return False
    return all(a[0] != b[1] or a[2] != b[2] for a, b in pairwise(way))


@dataclass
class _Builder:
    """Rules and groups in the making; states (switch, link it came by, code) that packets can be in are followed once."""

    wiring: Wiring
    known: KnownPaths
    stream: Match
    first_group: int
    rules: list[FlowRule] = field(default_factory=list)
    groups: dict[tuple[str, LinkId | None, LinkId], FailoverGroup] = field(default_factory=dict)
    codes: dict[str, int] = field(default_factory=dict)
    waiting: list[tuple[str, LinkId, int]] = field(default_factory=list)
    seen: set[tuple[str, LinkId, int]] = field(default_factory=set)

    def path(self, number: int) -> None:
        """Rules of one known path."""
        match = (*self.stream, ("udp_src", label_prefixes(*path_interval(number))[0]))
        came: LinkId | None = None
        for link in self.known.inner[number]:
            self._send(link[0], came, link, match)
            came = link
        self._leave(self.known.exit, match)

    def _send(self, at: str, came: LinkId | None, link: LinkId, match: Match, clear: bool = False) -> None:
        group = self._group(at, came, link)
        fields = (("ip_dscp", 0),) if clear else ()
        self.rules.append(
            FlowRule(
                dpid=self.wiring.switch_at(at).dpid,
                priority=STREAM_PRIORITY,
                match=match,
                out_port=0,
                set_fields=fields,
                group=group.number,
                dec_ttl=True,
            )
        )

    def _leave(self, at: str, match: Match) -> None:
        """Out to the sink's host."""
        sink = self.wiring.host_at(self.known.sink)
        port = self.wiring.access_port(sink)
        if port is None:
            port = self.wiring.out_port(self.known.paths[0][-1])
        dpid = self.wiring.switch_at(at).dpid
        self.rules.append(FlowRule(dpid=dpid, priority=STREAM_PRIORITY, match=match, out_port=port))

    def _group(self, at: str, came: LinkId | None, link: LinkId) -> FailoverGroup:
        key = (at, came, link)
        if key in self.groups:
            return self.groups[key]
        port = self.wiring.out_port(link)
        buckets = [Bucket(watch_port=port, out_port=port)]
        label = ESCAPED + self.known.network.link_index[link]
        for way in escapes(self.known, came, link):
            code = self._code(way.second)
            out = self.wiring.out_port(way.link)
            fields = (("ip_dscp", code), ("udp_src", label))
            buckets.append(Bucket(watch_port=out, out_port=BACK if way.back else out, set_fields=fields))
            self._follow(way.link, code)
        dpid = self.wiring.switch_at(at).dpid
        number = self.first_group + sum(g.dpid == dpid for g in self.groups.values())
        group = self.groups[key] = FailoverGroup(dpid=dpid, number=number, buckets=tuple(buckets))
        return group

    def _code(self, second: str | None) -> int:
        if second is None:
            return 0
        if second not in self.codes and len(self.codes) == MOST_INTERMEDIATES:
            raise InputError(
                f"ft-drb: escapes from {self.known.source!r} to {self.known.sink!r} need more than {MOST_INTERMEDIATES} "
                "second intermediate routers, which six bits of the header cannot name; choose a smaller network"
            )
        return self.codes.setdefault(second, len(self.codes) + 1)

    def _follow(self, came: LinkId, code: int) -> None:
        state = (came[1], came, code)
        if state not in self.seen:
            self.seen.add(state)
            self.waiting.append(state)

    def escaped(self) -> None:
        """Rules of every state that an escaped packet can be in."""
        while self.waiting:
            at, came, code = self.waiting.pop(0)
            port = self._entered_by(came)
            match = (("in_port", port), self.stream[0], ("ip_dscp", code), *self.stream[1:])
            match = (*match, ("udp_src", _ESCAPED_PREFIX))
            goal = self._node(code)
            reached = at == goal
            goal = self.known.exit if reached or goal is None else goal
            if at == goal:
                self._leave(at, match)
                continue
            link = self.known.routing(at, goal)[0]
            self._send(at, came, link, match, clear=reached)
            self._follow(link, 0 if reached else code)

    def _node(self, code: int) -> str | None:
        return next((node for node, own in self.codes.items() if own == code), None)

    def _entered_by(self, link: LinkId) -> int:
        cable = self.wiring.cable_of(link)
        return cable.b_port if cable.forward == link else cable.a_port


def escape_rules(wiring: Wiring, known: KnownPaths, *, udp_port: int, first_group: int = 1) -> EscapeRules:
    """Rules and groups that carry a pair's stream (UDP to ``udp_port``) over its known paths and round every dead link.

    Groups are numbered from ``first_group`` at each switch. An escape overwrites what an earlier one wrote. Whatever is not
    of the stream takes the minimal path. O(states) rules: switches * neighbours * second intermediates at most. Raises
    InputError where six bits cannot name the intermediates.
    """
    source, sink = wiring.host_at(known.source), wiring.host_at(known.sink)
    stream: Match = (
        ("eth_type", ETH_IPV4),
        ("ip_proto", PROTOCOL_UDP),
        ("ipv4_src", source.ip),
        ("ipv4_dst", sink.ip),
        ("udp_dst", udp_port),
    )
    builder = _Builder(wiring=wiring, known=known, stream=stream, first_group=first_group)
    for number in range(len(known.paths)):
        builder.path(number)
    builder.escaped()
    others = pair_rules(wiring, known.source, known.sink, known.paths[0], priority=OTHER_PRIORITY)
    return EscapeRules(
        rules=(*builder.rules, *others),
        groups=tuple(builder.groups.values()),
        intermediates=tuple(builder.codes),
    )


def groups_of(parts: Iterable[EscapeRules]) -> int:
    """One more than the highest group number of any switch."""
    return 1 + max((g.number for part in parts for g in part.groups), default=0)
