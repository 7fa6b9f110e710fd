"""FT-DRB's routers as OpenFlow rules: known paths by label, and escapes as fast-failover groups.

Source: Zarza 2011, section 3.2. Two header fields hold the state of a packet:

- The label belongs to the interval of a path, or is the escape bit and the index of the dead link.
- The six bits of DSCP name the second intermediate router that an escaped packet is sent to. They
  are 0 when it is sent to its destination.
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
    cables_of,
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

# Six bits of DSCP, without 0.
MAX_INTERMEDIATES = 63
# Value and mask of the labels of all escaped packets, whatever the dead link.
_ESCAPED_PREFIX = (ESCAPED, LABELS - ESCAPED)


@dataclass(frozen=True, kw_only=True)
class Escape:
    """A path around a dead link.

    Attributes:
        link: The link to a live neighbour.
        second: The second intermediate router; None for the static route to the destination.
        hops: Number of links to the last switch.
        u_turn: The packet returns over the cable that it arrived on.
    """

    link: LinkId
    second: str | None
    hops: int
    u_turn: bool


@dataclass(frozen=True, kw_only=True)
class EscapeRules:
    """The rules and groups for the known paths of one direction.

    Rules refer to groups, so groups must be installed first.
    """

    known: LabelledPaths
    rules: tuple[FlowRule, ...]
    groups: tuple[FailoverGroup, ...]


@dataclass(frozen=True)
class _Detour:
    """A path that begins with a certain link and ends at the last switch.

    Attributes:
        hops: Number of links, with the first.
        order: Position of the second intermediate router; orders detours of equal length.
        second: The second intermediate router, or None.
        cables: The cables of the path, with that of the first link.
    """

    hops: int
    order: int
    second: str | None
    cables: frozenset[int]


class Detours:
    """The paths around dead links for the packets of one pair.

    No path uses a cable in both directions in a row.
    """

    def __init__(self, known: LabelledPaths) -> None:
        self._known = known
        # The detours by their first link: first those through a neighbour, then those through any
        # switch.
        self._detours_by_link: dict[LinkId, tuple[_Detour, ...]] = {}

    def escapes(
        self,
        arrived: LinkId | None,
        dead: LinkId,
        earlier: LinkId | None = None,
    ) -> tuple[Escape, ...]:
        """Return the escapes from a switch with a dead link, in the order in which they are tried.

        There is one escape for each other neighbour. Shorter ones come first, and the one back over
        the link on which the packet arrived comes last. An escape is tried only if all earlier ones
        are dead, and avoids their links. Its second intermediate router is a neighbour of the
        first, or any switch if no neighbour leads to the destination.

        Args:
            arrived: The link on which the packet arrived; None at the first switch.
            dead: The dead link of this switch.
            earlier: The link that the packet escaped from before. It is avoided if possible, so
                that two switches with dead links do not send a packet to each other forever.
        """
        network = self._known.network
        dead_cables = {cable_number(network, dead)}
        earlier_cables: set[int] = set()
        if earlier is not None:
            earlier_cables.add(cable_number(network, earlier))

        def rank(escape: Escape) -> tuple[bool, int, int]:
            return escape.u_turn, escape.hops, network.link_index[escape.link]

        escapes: list[Escape] = []
        while True:
            candidates = self._candidates(arrived, dead[0], dead_cables | earlier_cables)
            if not candidates and earlier_cables:
                candidates = self._candidates(arrived, dead[0], dead_cables)
            if not candidates:
                return tuple(escapes)
            best = min(candidates, key=rank)
            escapes.append(best)
            dead_cables.add(cable_number(network, best.link))

    def _candidates(
        self,
        arrived: LinkId | None,
        switch: str,
        avoided_cables: set[int],
    ) -> list[Escape]:
        """Return the best escape over each link of a switch that avoids the given cables."""
        network = self._known.network
        arrival_cable = None
        if arrived is not None:
            arrival_cable = cable_number(network, arrived)
        candidates = []
        for index in network.out_links(switch):
            link = network.links[index].id
            if network.node(link[1]).kind != "switch":
                continue
            detour = self._best(link, avoided_cables)
            if detour is not None:
                u_turn = cable_number(network, link) == arrival_cable
                escape = Escape(link=link, second=detour.second, hops=detour.hops, u_turn=u_turn)
                candidates.append(escape)
        return candidates

    def _best(self, link: LinkId, avoided_cables: set[int]) -> _Detour | None:
        """Return the best detour over a link that avoids the given cables."""
        if link not in self._detours_by_link:
            network = self._known.network
            neighbours, _ = one_and_two_hop_switches(network, link[1])
            switches = [switch.id for switch in network.switches]
            near = self._detours(link, [None, *neighbours])
            self._detours_by_link[link] = near + self._detours(link, switches)
        for detour in self._detours_by_link[link]:
            if not detour.cables & avoided_cables:
                return detour
        return None

    def _detours(self, link: LinkId, seconds: Sequence[str | None]) -> tuple[_Detour, ...]:
        """Return the detours over a link by each second intermediate router, the shortest first."""
        detours = []
        for order, second in enumerate(seconds):
            if second in (link[1], link[0]):
                continue
            goals = [self._known.exit]
            if second is not None:
                goals.insert(0, second)
            path = [link]
            node = link[1]
            for goal in goals:
                path += self._known.routing(node, goal)
                node = goal
            turns_back = any(a[0] == b[1] and a[2] == b[2] for a, b in pairwise(path))
            if not turns_back:
                cables = cables_of(self._known.network, path)
                detours.append(_Detour(len(path), order, second, cables))
        return tuple(sorted(detours, key=lambda detour: (detour.hops, detour.order)))


# What an escaped packet's next rule depends on: its switch, the link on which it arrived, its code,
# and the link that it escaped from.
_State = tuple[str, LinkId, int, LinkId]


@dataclass
class _Builder:
    """Collects the rules and groups of one direction.

    Attributes:
        wiring: The switches and their ports.
        known: The known paths.
        stream: The match of all packets of the stream.
        first_group: The number of the first group at each switch.
        rules: The rules so far.
        groups: The groups so far, by switch, link of arrival, output link and earlier dead link.
        codes: The DSCP code of each second intermediate router.
        waiting: States of escaped packets that have no rules yet.
        reached: All states that escaped packets may be in.
        leaving: Links of arrival and codes for which a rule to the sink's host exists.
        group_count: The number of groups at each switch.
        detours: The paths around dead links.
    """

    wiring: Wiring
    known: LabelledPaths
    stream: Match
    first_group: int
    rules: list[FlowRule] = field(default_factory=list)
    groups: dict[tuple[str, LinkId | None, LinkId, LinkId | None], FailoverGroup] = field(
        default_factory=dict
    )
    codes: dict[str, int] = field(default_factory=dict)
    waiting: list[_State] = field(default_factory=list)
    reached: set[_State] = field(default_factory=set)
    leaving: set[tuple[LinkId, int]] = field(default_factory=set)
    group_count: Counter[int] = field(default_factory=Counter)
    detours: Detours = field(init=False)

    def __post_init__(self) -> None:
        self.detours = Detours(self.known)

    def add_path(self, number: int) -> None:
        """Add the rules of one known path."""
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
        """Add a rule that sends packets over a link, or by an escape if it is dead.

        Args:
            at: The switch.
            arrived: The link on which the packets arrived; None at the first switch.
            link: The output link.
            match: The packets.
            earlier: The link that the packets escaped from before.
            clear: The packets have reached their second intermediate router: clear its code.
        """
        group = self._group(at, arrived, link, earlier)
        fields: tuple[tuple[str, int], ...] = ()
        if clear:
            fields = (("ip_dscp", 0),)
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
        """Add a rule that sends packets from the last switch to the sink's host."""
        sink = self.wiring.host_at(self.known.sink)
        port = self.wiring.access_port(sink)
        if port is None:
            port = self.wiring.out_port(self.known.paths[0][-1])
        dpid = self.wiring.switch_at(at).dpid
        self.rules.append(FlowRule(dpid=dpid, priority=STREAM_PRIORITY, match=match, out_port=port))

    def _group(
        self,
        at: str,
        arrived: LinkId | None,
        link: LinkId,
        earlier: LinkId | None,
    ) -> FailoverGroup:
        """Return the group of an output link: its port first, then the escapes if it is dead."""
        key = (at, arrived, link, earlier)
        if key in self.groups:
            return self.groups[key]
        port = self.wiring.out_port(link)
        buckets = [Bucket(watch_port=port, out_port=port)]
        label = ESCAPED + self.known.network.link_index[link]
        escapes = self.detours.escapes(arrived, link, earlier)
        if not self._has_codes_for(escapes):
            # Escapes that need not avoid the earlier link use fewer intermediate routers.
            escapes = self.detours.escapes(arrived, link)
        for escape in escapes:
            code = self._code(escape.second)
            watch_port = self.wiring.out_port(escape.link)
            out_port = watch_port
            if escape.u_turn:
                # A switch sends a packet to its input port only on request.
                out_port = BACK
            fields = (("ip_dscp", code), ("udp_src", label))
            buckets.append(Bucket(watch_port=watch_port, out_port=out_port, set_fields=fields))
            self._follow(escape.link, code, link)
        dpid = self.wiring.switch_at(at).dpid
        number = self.first_group + self.group_count[dpid]
        self.group_count[dpid] += 1
        group = FailoverGroup(dpid=dpid, number=number, buckets=tuple(buckets))
        self.groups[key] = group
        return group

    def _has_codes_for(self, escapes: Sequence[Escape]) -> bool:
        """Return whether there are codes left for all second intermediate routers."""
        seconds = {escape.second for escape in escapes if escape.second is not None}
        return len(seconds | set(self.codes)) <= MAX_INTERMEDIATES

    def _code(self, second: str | None) -> int:
        """Return the code of a second intermediate router; 0 for None."""
        if second is None:
            return 0
        if second not in self.codes and len(self.codes) == MAX_INTERMEDIATES:
            raise InputError(
                f"ft-drb: escapes from {self.known.source!r} to {self.known.sink!r} need more than "
                f"{MAX_INTERMEDIATES} second intermediate routers, which six bits of the header "
                "cannot name; choose a smaller network"
            )
        return self.codes.setdefault(second, len(self.codes) + 1)

    def _follow(self, arrived: LinkId, code: int, earlier: LinkId) -> None:
        """Remember a state that escaped packets may be in, so that it gets rules."""
        state = (arrived[1], arrived, code, earlier)
        if state not in self.reached:
            self.reached.add(state)
            self.waiting.append(state)

    def add_escapes(self) -> None:
        """Add the rules of every state that an escaped packet may be in."""
        while self.waiting:
            at, arrived, code, earlier = self.waiting.pop(0)
            port = self.wiring.in_port(arrived)
            match = (("in_port", port), self.stream[0], ("ip_dscp", code), *self.stream[1:])
            second = self._node(code)
            at_second = at == second
            goal = self.known.exit
            if second is not None and not at_second:
                goal = second
            if at == goal:
                if (arrived, code) not in self.leaving:
                    self.leaving.add((arrived, code))
                    self._leave(at, (*match, ("udp_src", _ESCAPED_PREFIX)))
                continue
            link = self.known.routing(at, goal)[0]
            label = ESCAPED + self.known.network.link_index[earlier]
            match = (*match, ("udp_src", label))
            self._send(at, arrived, link, match, earlier=earlier, clear=at_second)
            if at_second:
                code = 0
            self._follow(link, code, earlier)

    def _node(self, code: int) -> str | None:
        """Return the second intermediate router with this code; None for code 0."""
        for node, code_of_node in self.codes.items():
            if code_of_node == code:
                return node
        return None


def escape_rules(
    wiring: Wiring, known_paths: LabelledPaths, *, first_group: int = 1
) -> EscapeRules:
    """Return the rules and groups that carry a stream over its known paths and around dead links.

    An escape overwrites the header state of an earlier escape. Packets that do not belong to the
    stream take the minimal path. There is one rule for each state of escaped packets: switch, link
    of arrival, code and dead link.

    Args:
        wiring: The switches and their ports.
        known_paths: The known paths.
        first_group: The number of the first group at each switch.

    Raises:
        InputError: There are more second intermediate routers than codes.
    """
    source = wiring.host_at(known_paths.source)
    sink = wiring.host_at(known_paths.sink)
    stream = stream_match(source, sink, STREAM_UDP_PORT)
    builder = _Builder(wiring=wiring, known=known_paths, stream=stream, first_group=first_group)
    for number in range(len(known_paths.paths)):
        builder.add_path(number)
    builder.add_escapes()
    others = pair_rules(
        wiring, known_paths.source, known_paths.sink, known_paths.paths[0], priority=OTHER_PRIORITY
    )
    return EscapeRules(
        known=known_paths, rules=(*builder.rules, *others), groups=tuple(builder.groups.values())
    )


def escape_rules_together(
    wiring: Wiring, pair: LabelledPathPair
) -> tuple[EscapeRules, EscapeRules]:
    """Return the rules of both directions, with different group numbers."""
    there = escape_rules(wiring, pair.forward)
    first = 1 + max((group.number for group in there.groups), default=0)
    return there, escape_rules(wiring, pair.backward, first_group=first)
