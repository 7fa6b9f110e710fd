"""FT-DRB's routers as OpenFlow rules: known paths by label, and escapes prepared in fast-failover groups (Zarza 2011,
section 3.2).

A packet's header state is in two fields. The label: a path's interval, or the escape bit and the link that was dead.
The six bits of DSCP: the second intermediate router that it is bound for, 0 once it is bound for its destination.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from fec.protocol.wire import STREAM_UDP_PORT
from testbed.errors import InputError
from testbed.metapath.labelled_paths import (
    ESCAPED,
    LabelledPathPair,
    LabelledPaths,
    cable_number,
    one_and_two_hop_switches,
    path_interval,
)
from testbed.model.label_split import LABELS
from testbed.model.wiring import Wiring
from testbed.openflow.rules import (
    BACK,
    OTHER_PRIORITY,
    STREAM_PRIORITY,
    Bucket,
    FailoverGroup,
    FlowRule,
    Match,
    label_prefixes,
    pair_rules,
    stream_match,
)
from topologies import LinkId

MAX_INTERMEDIATES = 63
_ESCAPED_PREFIX = (ESCAPED, LABELS - ESCAPED)


@dataclass(frozen=True, kw_only=True)
class Escape:
    """A way round a dead link: out by ``link`` to a live neighbour, by ``second`` (None: straight) to the destination.

    ``hops``: links between switches up to the last switch. ``back``: the packet returns by the cable it came over.
    """

    link: LinkId
    second: str | None
    hops: int
    u_turn: bool


@dataclass(frozen=True, kw_only=True)
class EscapeRules:
    """What is installed on the switches, ``groups`` first, for the ``known`` paths of one direction."""

    known: LabelledPaths
    rules: tuple[FlowRule, ...]
    groups: tuple[FailoverGroup, ...]


@dataclass(frozen=True)
class _Detour:
    """From the far end of a link to the last switch, by ``second``; ``hops`` and ``cables`` count the link too."""

    hops: int
    place: int
    second: str | None
    cables: frozenset[int]


class Detours:
    """Ways round dead links for a pair's packets: each begins with a link and turns round on no cable; listed once for
    each link."""

    def __init__(self, known: LabelledPaths) -> None:
        self._known = known
        self._listed: dict[LinkId, tuple[tuple[_Detour, ...], tuple[_Detour, ...]]] = {}

    def escapes(
        self, arrived: LinkId | None, dead: LinkId, earlier: LinkId | None = None
    ) -> tuple[Escape, ...]:
        """The ways out of a switch whose link ``dead`` is down, in the order in which they are tried, for packets that
        came by ``arrived``.

        One for each other neighbour; each avoids the dead links of this switch that its turn supposes, and turns round
        on no cable. The shortest first; back where it came from last. The second intermediate is a neighbour of the
        first; any switch where none of those leads on. ``earlier``: the link that the packet escaped from before. It is
        avoided too wherever a way without it is found, so that two dead links do not hand a packet to each other.
        """
        network, found = self._known.network, list[Escape]()
        cables = {cable_number(network, dead)}
        before = set() if earlier is None else {cable_number(network, earlier)}
        while True:
            options = self._options(arrived, dead[0], cables | before)
            if not options and before:
                options = self._options(arrived, dead[0], cables)
            if not options:
                return tuple(found)
            best = min(options, key=lambda e: (e.u_turn, e.hops, network.link_index[e.link]))
            found.append(best)
            cables.add(cable_number(network, best.link))

    def _options(self, arrived: LinkId | None, at: str, cables: set[int]) -> list[Escape]:
        """The shortest way by each link that leads out of the switch to another, where there is one that keeps off the
        cables."""
        network, found = self._known.network, []
        over = None if arrived is None else cable_number(network, arrived)
        for link in (network.links[i].id for i in network.out_links(at)):
            if network.node(link[1]).kind != "switch":
                continue
            way = self._best(link, cables)
            if way is not None:
                back = cable_number(network, link) == over
                found.append(Escape(link=link, second=way.second, hops=way.hops, u_turn=back))
        return found

    def _best(self, link: LinkId, cables: set[int]) -> _Detour | None:
        if link not in self._listed:
            network = self._known.network
            around, _ = one_and_two_hop_switches(network, link[1])
            switches = [switch.id for switch in network.switches]
            self._listed[link] = (self._paths(link, [None, *around]), self._paths(link, switches))
        return next(
            (way for paths in self._listed[link] for way in paths if not way.cables & cables), None
        )

    def _paths(self, link: LinkId, seconds: Sequence[str | None]) -> tuple[_Detour, ...]:
        """By each second intermediate, the shortest first."""
        found = []
        for place, second in enumerate(seconds):
            if second in (link[1], link[0]):
                continue
            way, at = [link], link[1]
            for goal in (self._known.exit,) if second is None else (second, self._known.exit):
                way += self._known.routing(at, goal)
                at = goal
            if all(a[0] != b[1] or a[2] != b[2] for a, b in pairwise(way)):
                cables = frozenset(cable_number(self._known.network, each) for each in way)
                found.append(_Detour(len(way), place, second, cables))
        return tuple(sorted(found, key=lambda w: (w.hops, w.place)))


@dataclass
class _Builder:
    """Rules and groups in the making; states (switch, link it came by, code, link that it escaped from) that packets
    can be in are followed once."""

    wiring: Wiring
    known: LabelledPaths
    stream: Match
    first_group: int
    rules: list[FlowRule] = field(default_factory=list)
    groups: dict[tuple[str, LinkId | None, LinkId, LinkId | None], FailoverGroup] = field(
        default_factory=dict
    )
    codes: dict[str, int] = field(default_factory=dict)
    waiting: list[tuple[str, LinkId, int, LinkId]] = field(default_factory=list)
    seen: set[tuple[str, LinkId, int, LinkId]] = field(default_factory=set)
    leaving: set[tuple[LinkId, int]] = field(default_factory=set)
    numbered: Counter[int] = field(default_factory=Counter)
    paths: Detours = field(init=False)

    def __post_init__(self) -> None:
        self.paths = Detours(self.known)

    def path(self, number: int) -> None:
        """Rules of one known path."""
        match = (*self.stream, ("udp_src", label_prefixes(*path_interval(number))[0]))
        arrived: LinkId | None = None
        for link in self.known.inner[number]:
            self._send(link[0], arrived, link, match)
            arrived = link
        self._leave(self.known.exit, match)

    def _send(
        self,
        at: str,
        arrived: LinkId | None,
        link: LinkId,
        match: Match,
        *,
        earlier: LinkId | None = None,
        clear: bool = False,
    ) -> None:
        group = self._group(at, arrived, link, earlier)
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

    def _group(
        self, at: str, arrived: LinkId | None, link: LinkId, earlier: LinkId | None
    ) -> FailoverGroup:
        key = (at, arrived, link, earlier)
        if key in self.groups:
            return self.groups[key]
        port = self.wiring.out_port(link)
        buckets = [Bucket(watch_port=port, out_port=port)]
        label = ESCAPED + self.known.network.link_index[link]
        paths = self.paths.escapes(arrived, link, earlier)
        if not self._nameable(paths):
            paths = self.paths.escapes(arrived, link)
        for way in paths:
            code = self._code(way.second)
            out = self.wiring.out_port(way.link)
            fields = (("ip_dscp", code), ("udp_src", label))
            buckets.append(
                Bucket(watch_port=out, out_port=BACK if way.u_turn else out, set_fields=fields)
            )
            self._follow(way.link, code, link)
        dpid = self.wiring.switch_at(at).dpid
        number = self.first_group + self.numbered[dpid]
        self.numbered[dpid] += 1
        group = self.groups[key] = FailoverGroup(dpid=dpid, number=number, buckets=tuple(buckets))
        return group

    def _nameable(self, paths: Sequence[Escape]) -> bool:
        """Whether there are codes left for all second intermediates."""
        new = {way.second for way in paths if way.second is not None} - set(self.codes)
        return len(self.codes) + len(new) <= MAX_INTERMEDIATES

    def _code(self, second: str | None) -> int:
        if second is None:
            return 0
        if second not in self.codes and len(self.codes) == MAX_INTERMEDIATES:
            raise InputError(
                f"ft-drb: escapes from {self.known.source!r} to {self.known.sink!r} need more than {MAX_INTERMEDIATES} "
                "second intermediate routers, which six bits of the header cannot name; choose a smaller network"
            )
        return self.codes.setdefault(second, len(self.codes) + 1)

    def _follow(self, arrived: LinkId, code: int, earlier: LinkId) -> None:
        state = (arrived[1], arrived, code, earlier)
        if state not in self.seen:
            self.seen.add(state)
            self.waiting.append(state)

    def escaped(self) -> None:
        """Rules of every state that an escaped packet can be in."""
        while self.waiting:
            at, arrived, code, earlier = self.waiting.pop(0)
            port = self.wiring.in_port(arrived)
            match = (("in_port", port), self.stream[0], ("ip_dscp", code), *self.stream[1:])
            goal = self._node(code)
            reached = at == goal
            goal = self.known.exit if reached or goal is None else goal
            if at == goal:
                if (arrived, code) not in self.leaving:
                    self.leaving.add((arrived, code))
                    self._leave(at, (*match, ("udp_src", _ESCAPED_PREFIX)))
                continue
            link = self.known.routing(at, goal)[0]
            label = ESCAPED + self.known.network.link_index[earlier]
            self._send(
                at, arrived, link, (*match, ("udp_src", label)), earlier=earlier, clear=reached
            )
            self._follow(link, 0 if reached else code, earlier)

    def _node(self, code: int) -> str | None:
        return next((node for node, own in self.codes.items() if own == code), None)


def escape_rules(wiring: Wiring, known: LabelledPaths, *, first_group: int = 1) -> EscapeRules:
    """Rules and groups that carry a pair's stream over its known paths and round every dead link.

    Groups are numbered from ``first_group`` at each switch. An escape overwrites what an earlier one wrote. Whatever is
    not of the stream takes the minimal path. O(states) rules: switches * neighbours * second intermediates at most.
    Raises InputError where six bits cannot name the intermediates.
    """
    source, sink = wiring.host_at(known.source), wiring.host_at(known.sink)
    stream = stream_match(source, sink, STREAM_UDP_PORT)
    builder = _Builder(wiring=wiring, known=known, stream=stream, first_group=first_group)
    for number in range(len(known.paths)):
        builder.path(number)
    builder.escaped()
    others = pair_rules(wiring, known.source, known.sink, known.paths[0], priority=OTHER_PRIORITY)
    return EscapeRules(
        known=known, rules=(*builder.rules, *others), groups=tuple(builder.groups.values())
    )


def escape_rules_together(
    wiring: Wiring, pair: LabelledPathPair
) -> tuple[EscapeRules, EscapeRules]:
    """``escape_rules`` there and back; their group numbers do not meet."""
    there = escape_rules(wiring, pair.forward)
    first = 1 + max((group.number for group in there.groups), default=0)
    return there, escape_rules(wiring, pair.backward, first_group=first)
