"""From label splits to OpenFlow 1.3 rules, switch by switch: label prefixes of a pair's stream, one path for the rest.

A label split gives every path of a pair an interval of the 65536 labels, and a packet's label is its UDP source port: a
sender that counts labels through sends on each path the share that the route asks of it, and no switch needs to draw
lots. At a switch the labels that leave by one port are a union of intervals; each interval is written as the fewest
prefixes (value, mask) that cover it, at most 30 of them, one rule a prefix. Everything else of the pair (ARP, TCP,
ICMP) follows the path of label 0 at a lower priority; between the two lies a rule that drops labels which strayed to a
switch where they have no way.

A rule is a plain value; ``flow_table`` evaluates it, the controller sends it. No I/O.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, summarize_address_range

from testbed.errors import InputError
from testbed.model.label_split import LABELS, Interval, LabelSplit
from testbed.model.wiring import WiredHost, Wiring
from topologies.network import LinkId

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


def stream_rules(wiring: Wiring, split: LabelSplit, *, udp_port: int) -> tuple[FlowRule, ...]:
    """Rules that carry the pair's labelled stream (UDP to ``udp_port``) over the split, and everything else of the pair
    (ARP, TCP, ICMP, other UDP) over the path of label 0.

    A label that the split sends another way is dropped at a switch that it strays to: nothing of the stream matches it,
    and where the path of the pair's other packets goes on, a rule between the two drops it. Rules of different pairs
    never overlap. For what hosts do that a path leads through see ``host_routes``. Raises InputError where an end point
    has no host, or a path leads through one that does not forward.
    """
    source, sink = _host(wiring, split.source), _host(wiring, split.sink)
    stream = stream_match(source, sink, udp_port)
    rules, covered = [], dict[int, int]()
    for (dpid, port), intervals in sorted(_exits(wiring, split, sink).items()):
        covered[dpid] = covered.get(dpid, 0) + sum(stop - start for start, stop in intervals)
        for start, stop in intervals:
            if (start, stop) == (0, LABELS):
                rules.append(FlowRule(dpid=dpid, priority=STREAM_PRIORITY, match=stream, out_port=port))
                continue
            for prefix in label_prefixes(start, stop):
                match = (*stream, ("udp_src", prefix))
                rules.append(FlowRule(dpid=dpid, priority=STREAM_PRIORITY, match=match, out_port=port))
    links = [wiring.network.links[i].id for i in split.path_of(0).links]
    others = pair_rules(wiring, split.source, split.sink, links, priority=OTHER_PRIORITY)
    strays = [
        FlowRule(dpid=dpid, priority=STRAY_PRIORITY, match=stream, out_port=DROP)
        for dpid in dict.fromkeys(rule.dpid for rule in others)
        if covered[dpid] < LABELS
    ]
    return (*rules, *strays, *others)


def pair_rules(
    wiring: Wiring, source: str, sink: str, path: Sequence[LinkId], *, priority: int = STATIC_PRIORITY
) -> tuple[FlowRule, ...]:
    """All IPv4 and ARP packets from one end point to another along one path of links."""
    sender, receiver = _host(wiring, source), _host(wiring, sink)
    matches: tuple[Match, ...] = (
        (("eth_type", ETH_IPV4), ("ipv4_src", sender.ip), ("ipv4_dst", receiver.ip)),
        (("eth_type", ETH_ARP), ("arp_spa", sender.ip), ("arp_tpa", receiver.ip)),
    )
    exits = [(wiring.switch_at(link[0]).dpid, wiring.out_port(link)) for link in path if _is_switch(wiring, link[0])]
    if receiver.outside:
        exits.append((wiring.switch_at(sink).dpid, _access_port(wiring, receiver)))
    return tuple(
        FlowRule(dpid=dpid, priority=priority, match=match, out_port=port) for dpid, port in exits for match in matches
    )


def by_switch(rules: Iterable[FlowRule]) -> dict[int, tuple[FlowRule, ...]]:
    """Datapath id -> its rules, in their order."""
    found: dict[int, list[FlowRule]] = {}
    for rule in rules:
        found.setdefault(rule.dpid, []).append(rule)
    return {dpid: tuple(listed) for dpid, listed in sorted(found.items())}


def _exits(wiring: Wiring, split: LabelSplit, sink: WiredHost) -> dict[tuple[int, int], list[Interval]]:
    """(dpid, port) -> label intervals that leave there."""
    exits: dict[tuple[int, int], list[Interval]] = {}
    for i in split.loaded:
        link = wiring.network.links[i]
        if not _is_switch(wiring, link.source):
            if link.source != split.source and not wiring.network.node(link.source).forwards:
                raise InputError(f"label split: a path leads through the host {link.source!r}, which does not forward")
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
        raise InputError(f"host of {host.node!r} has no switch port of its own; wire it as an end point")
    return port


def _host(wiring: Wiring, node: str) -> WiredHost:
    try:
        return wiring.host_at(node)
    except KeyError:
        raise InputError(f"node {node!r} has no host to send or receive; name it as an end point when wiring") from None


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
