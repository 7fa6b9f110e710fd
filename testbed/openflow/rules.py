"""From label splits to OpenFlow 1.3 rules, switch by switch: label prefixes of a pair's stream, one path for the rest.

A label split gives every path of a pair an interval of the 65536 labels, and a packet's label is its UDP source port: a
sender that counts labels through sends on each path the share that the route asks of it, and no switch needs to draw
lots. At a switch the labels that leave by one port are a union of intervals; each interval is written as the fewest
prefixes (value, mask) that cover it, at most 30 of them, one rule a prefix. Everything else of the pair (ARP, TCP,
ICMP) follows the path of label 0 at a lower priority; between the two lies a rule that drops labels which strayed to a
switch where they have no way.

A rule is a plain value; ``flow_table`` evaluates it, the controller sends it. No I/O.

What hosts do, the source's cable and the ways of hosts that forward (``stream_routes``), is derived from the same label
split or path, so that a packet whose way begins at one of several cables, or leads through a router, takes the links
that the plan says. A host that has nothing to choose needs no route of a plan: none is made for a network whose hosts
all have one cable.

A change from one split to another (``versioned_rules``; per-packet consistency: Reitblatt et al., SIGCOMM 2012) has two
phases. First the new version's *inner* rules are installed; they match a mark that no packet carries yet, so that
nothing changes. When every switch has confirmed, the *entry* rules of the first switches are installed above the old
ones, and from then on each packet that comes in is marked with the new version. A packet so follows the old split or
the new one and never a mixture, however switches and messages overtake each other, and a change takes two rounds of
messages whatever the network's depth. The old version's rules go when the last packets that carry its mark have
arrived.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from ipaddress import IPv4Address, summarize_address_range
from itertools import pairwise

from fec.protocol.wire import STREAM_UDP_PORT
from testbed.errors import InputError
from testbed.model.label_split import LABELS, Interval, LabelSplit
from testbed.model.wiring import WiredHost, Wiring
from testbed.openflow.shortest_paths import Step
from topologies import LinkId, lists_by_key

STREAM_PRIORITY = 300
STRAY_PRIORITY = 250
OTHER_PRIORITY = 200
STATIC_PRIORITY = 100
ETH_IPV4, ETH_ARP, PROTOCOL_UDP = 0x0800, 0x0806, 17
DROP = 0
"""An ``out_port`` that is none: what matches is dropped (OpenFlow numbers its ports from 1)."""

Match = tuple[tuple[str, int | str | tuple[int, int]], ...]
"""(field, value) or (field, (value, mask)) in OpenFlow's names, in ascending order of the names' dependencies."""


@dataclass(frozen=True, kw_only=True, order=True)
class FlowRule:
    """One rule of one switch (``dpid``): packets that match leave through ``out_port``, or nowhere where it is DROP.

    Higher priorities first. ``set_fields``: (field, value) that a packet is given before it leaves, in OpenFlow's
    names. ``group``: number of the failover group that decides instead of ``out_port`` (0: none). ``dec_ttl``: the
    packet's time to live goes down by one first; at none it is dropped.
    """

    dpid: int
    priority: int
    match: Match
    out_port: int
    set_fields: tuple[tuple[str, int], ...] = ()
    group: int = 0
    dec_ttl: bool = False


def label_prefixes(start: int, stop: int) -> tuple[tuple[int, int], ...]:
    """[start, stop) as (value, mask) prefixes of 16 bits, fewest there are (at most 30), ascending.

    >>> label_prefixes(0, 49152)
    ((0, 32768), (32768, 49152))
    """
    if not 0 <= start < stop <= LABELS:
        raise InputError(f"labels [{start}, {stop}) lie outside [0, {LABELS}) or are none")
    spans = summarize_address_range(IPv4Address(start), IPv4Address(stop - 1))
    return tuple((int(span.network_address), LABELS - span.num_addresses) for span in spans)


def stream_match(source: WiredHost, sink: WiredHost, udp_port: int) -> Match:
    """UDP from one host to that port of another, under any label."""
    ends: Match = (("ipv4_src", source.ip), ("ipv4_dst", sink.ip), ("udp_dst", udp_port))
    return (("eth_type", ETH_IPV4), ("ip_proto", PROTOCOL_UDP), *ends)


def stream_rules(
    wiring: Wiring, split: LabelSplit, *, udp_port: int = STREAM_UDP_PORT
) -> tuple[FlowRule, ...]:
    """Rules that carry the pair's labelled stream (UDP to ``udp_port``) over the split, and everything else of the pair
    (ARP, TCP, ICMP, other UDP) over the path of label 0.

    A label that the split sends another way is dropped at a switch that it strays to: nothing of the stream matches it,
    and where the path of the pair's other packets goes on, a rule between the two drops it. Rules of different pairs
    never overlap. For what hosts do that a path leads through see ``stream_routes``. Raises InputError where an end
    point has no host, or a path leads through one that does not forward.
    """
    source, sink = _host(wiring, split.source), _host(wiring, split.sink)
    stream = stream_match(source, sink, udp_port)
    rules, covered = [], dict[int, int]()
    for (dpid, port), intervals in sorted(_exits(wiring, split, sink).items()):
        covered[dpid] = covered.get(dpid, 0) + sum(stop - start for start, stop in intervals)
        for start, stop in intervals:
            if (start, stop) == (0, LABELS):
                rules.append(
                    FlowRule(dpid=dpid, priority=STREAM_PRIORITY, match=stream, out_port=port)
                )
                continue
            for prefix in label_prefixes(start, stop):
                match = (*stream, ("udp_src", prefix))
                rules.append(
                    FlowRule(dpid=dpid, priority=STREAM_PRIORITY, match=match, out_port=port)
                )
    links = [wiring.network.links[i].id for i in split.path_of(0).links]
    others = pair_rules(wiring, split.source, split.sink, links, priority=OTHER_PRIORITY)
    strays = [
        FlowRule(dpid=dpid, priority=STRAY_PRIORITY, match=stream, out_port=DROP)
        for dpid in dict.fromkeys(rule.dpid for rule in others)
        if covered[dpid] < LABELS
    ]
    return (*rules, *strays, *others)


def pair_rules(
    wiring: Wiring,
    source: str,
    sink: str,
    path: Sequence[LinkId],
    *,
    priority: int = STATIC_PRIORITY,
) -> tuple[FlowRule, ...]:
    """All IPv4 and ARP packets from one end point to another along one path of links."""
    sender, receiver = _host(wiring, source), _host(wiring, sink)
    matches: tuple[Match, ...] = (
        (("eth_type", ETH_IPV4), ("ipv4_src", sender.ip), ("ipv4_dst", receiver.ip)),
        (("eth_type", ETH_ARP), ("arp_spa", sender.ip), ("arp_tpa", receiver.ip)),
    )
    exits = [
        (wiring.switch_at(link[0]).dpid, wiring.out_port(link))
        for link in path
        if _is_switch(wiring, link[0])
    ]
    if receiver.outside:
        exits.append((wiring.switch_at(sink).dpid, _access_port(wiring, receiver)))
    return tuple(
        FlowRule(dpid=dpid, priority=priority, match=match, out_port=port)
        for dpid, port in exits
        for match in matches
    )


def by_switch(rules: Iterable[FlowRule]) -> dict[int, tuple[FlowRule, ...]]:
    """Datapath id -> its rules, in their order."""
    found = lists_by_key((rule.dpid, rule) for rule in rules)
    return {dpid: tuple(listed) for dpid, listed in sorted(found.items())}


def _exits(
    wiring: Wiring, split: LabelSplit, sink: WiredHost
) -> dict[tuple[int, int], list[Interval]]:
    """(dpid, port) -> label intervals that leave there."""
    exits: dict[tuple[int, int], list[Interval]] = {}
    for i in split.loaded:
        link = wiring.network.links[i]
        if not _is_switch(wiring, link.source):
            if link.source != split.source and not wiring.network.node(link.source).forwards:
                raise InputError(
                    f"label split: a path leads through the host {link.source!r}, which does not forward"
                )
        else:
            key = (wiring.switch_at(link.source).dpid, wiring.out_port(link.id))
            exits[key] = list(split.intervals(i))
    if sink.outside:
        exits[(wiring.switch_at(sink.node).dpid, _access_port(wiring, sink))] = [(0, LABELS)]
    return exits


def _is_switch(wiring: Wiring, node: str) -> bool:
    return wiring.network.node(node).kind == "switch"


def _access_port(wiring: Wiring, host: WiredHost) -> int:
    port = wiring.access_port(host)
    if port is None:
        raise InputError(
            f"host of {host.node!r} has no switch port of its own; wire it as an end point"
        )
    return port


def _host(wiring: Wiring, node: str) -> WiredHost:
    try:
        return wiring.host_at(node)
    except KeyError:
        raise InputError(
            f"node {node!r} has no host to send or receive; name it as an end point when wiring"
        ) from None


BACK = 0xFFFFFFF8
"""OpenFlow's IN_PORT: out through the port that the packet came by, which no other port number allows."""


@dataclass(frozen=True, kw_only=True, order=True)
class Bucket:
    """Out through ``out_port`` (or BACK) with these fields set, taken while the link of ``watch_port`` is up."""

    watch_port: int
    out_port: int
    set_fields: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, kw_only=True, order=True)
class FailoverGroup:
    """One group of one switch, ``number`` 1 and up; buckets in the order in which they are tried. InputError without a
    bucket."""

    dpid: int
    number: int
    buckets: tuple[Bucket, ...]

    def __post_init__(self) -> None:
        if self.number < 1 or not self.buckets:
            raise InputError(
                f"switch {self.dpid}: group {self.number} of {len(self.buckets)} buckets; give a number and one"
            )


VERSIONS = 63
"""Values of the six-bit field (DSCP) that carries a version; 0 is a packet that has none yet."""
_FIRST_PRIORITY = 1000
_MAX_CHANGES = 60_000


@dataclass(frozen=True, kw_only=True)
class VersionedRules:
    """``inner``: install first, they touch no packet yet. ``entry``: of the first switches; from then on the version is
    in force."""

    inner: tuple[FlowRule, ...]
    entry: tuple[FlowRule, ...]


def versioned_rules(
    wiring: Wiring, split: LabelSplit, *, number: int, udp_port: int = STREAM_UDP_PORT
) -> VersionedRules:
    """The pair's labelled stream over the split as version ``number`` (0, 1, ...; the mark is number modulo 63, plus
    1).

    Entry rules of a higher number win over those of a lower one. A version's rules must have gone before its mark comes
    again. The pair's other packets find no rule. Raises InputError where the split cannot be written as rules.
    """
    if not 0 <= number < _MAX_CHANGES:
        raise InputError(f"version {number} of a plan; a run has at most {_MAX_CHANGES}")
    mark = number % VERSIONS + 1
    entries = _entries(wiring, split)
    entered = {
        wiring.network.links[i].target
        for i in split.loaded
        if wiring.network.links[i].source != split.source
    }
    inner, entry = [], []
    for rule in stream_rules(wiring, split, udp_port=udp_port):
        if rule.priority != STREAM_PRIORITY:
            continue
        node = entries.get(rule.dpid)
        if node is not None:
            entry.append(
                replace(
                    rule,
                    priority=_FIRST_PRIORITY + number,
                    match=_marked(rule.match, 0),
                    set_fields=(*rule.set_fields, ("ip_dscp", mark)),
                )
            )
        if node is None or node in entered:
            inner.append(replace(rule, match=_marked(rule.match, mark)))
    return VersionedRules(inner=tuple(inner), entry=tuple(entry))


def _entries(wiring: Wiring, split: LabelSplit) -> dict[int, str]:
    """Datapath id -> node of the switches at which packets of the source come in."""
    network = wiring.network
    if network.node(split.source).kind == "switch":
        return {wiring.switch_at(split.source).dpid: split.source}
    behind = {
        network.links[i].target for i in split.loaded if network.links[i].source == split.source
    }
    return {wiring.switch_at(node).dpid: node for node in sorted(behind)}


def _marked(match: Match, mark: int) -> Match:
    return (match[0], ("ip_dscp", mark), *match[1:])


@dataclass(frozen=True, kw_only=True, order=True)
class HostRoute:
    """At ``host`` (WiredHost.name), packets of a pair leave by ``port`` to the IP node ``node`` next.

    ``labels``: those of the stream to ``udp_port`` alone, half-open; None: all of the pair's packets that no route with
    labels takes. ``begins``: the host is the pair's source.
    """

    host: str
    source_ip: str
    sink_ip: str
    port: int
    node: str
    begins: bool
    udp_port: int | None = None
    labels: Interval | None = None


def path_steps(
    wiring: Wiring, source: WiredHost, sink: WiredHost, path: Sequence[LinkId]
) -> dict[str, Step]:
    """Host -> its step along the path of links, for the source and every host that the path leads through."""
    names = {host.node: host.name for host in wiring.hosts if not host.outside}
    leaving = {source.name: 0} if source.outside else {}
    leaving |= {names[link[0]]: wiring.out_port(link) for link in path if link[0] in names}
    return {
        host: Step(leaving[host], following) for host, following in pairwise((*leaving, sink.name))
    }


def path_routes(
    wiring: Wiring, source: str, sink: str, path: Sequence[LinkId]
) -> tuple[HostRoute, ...]:
    """All packets from one end point to another along one path; nothing where no host has a choice."""
    if not wiring.routed:
        return ()
    ends = wiring.host_at(source), wiring.host_at(sink)
    return tuple(_route(ends, host, step) for host, step in path_steps(wiring, *ends, path).items())


def stream_routes(
    wiring: Wiring, split: LabelSplit, *, udp_port: int = STREAM_UDP_PORT
) -> tuple[HostRoute, ...]:
    """The pair's labelled stream over the split, and everything else of the pair over the path of label 0; nothing
    where no host has a choice."""
    if not wiring.routed:
        return ()
    links = wiring.network.links
    ends = wiring.host_at(split.source), wiring.host_at(split.sink)
    found: dict[tuple[str, Step], list[Interval]] = {}
    for path in split.paths:
        for one in path_steps(wiring, *ends, [links[i].id for i in path.links]).items():
            own = found.setdefault(one, [])
            start = own.pop()[0] if own and own[-1][1] == path.start else path.start
            own.append((start, path.stop))
    labelled = tuple(
        _route(ends, host, step, udp_port, interval)
        for (host, step), intervals in found.items()
        for interval in intervals
        if interval != (0, LABELS)
    )
    return labelled + path_routes(
        wiring, split.source, split.sink, [links[i].id for i in split.path_of(0).links]
    )


Rules = tuple[tuple[FlowRule, ...], tuple[HostRoute, ...]]
"""Of the switches, and what hosts do that have several cables or forward."""


def split_rules(wiring: Wiring, *splits: LabelSplit, udp_port: int = STREAM_UDP_PORT) -> Rules:
    """The rules and the routes of labelled streams over each of the splits."""
    rules = (rule for split in splits for rule in stream_rules(wiring, split, udp_port=udp_port))
    routes = (
        route for split in splits for route in stream_routes(wiring, split, udp_port=udp_port)
    )
    return tuple(rules), tuple(routes)


def step_of(routes: Iterable[HostRoute], host: str, label: int) -> Step | None:
    """What the routes of one pair say at a host of a stream's packet with that label; None where they say nothing."""
    own = [route for route in routes if route.host == host]
    meant = [route for route in own if route.labels and route.labels[0] <= label < route.labels[1]]
    chosen = next(iter((*meant, *(route for route in own if route.labels is None))), None)
    return None if chosen is None else Step(chosen.port, chosen.node)


def _route(
    ends: tuple[WiredHost, WiredHost],
    host: str,
    step: Step,
    udp_port: int | None = None,
    labels: Interval | None = None,
) -> HostRoute:
    source, sink = ends
    return HostRoute(
        host=host,
        source_ip=source.ip,
        sink_ip=sink.ip,
        port=step.port,
        node=step.node,
        begins=host == source.name,
        udp_port=udp_port,
        labels=labels,
    )
