"""Converts label splits to OpenFlow 1.3 rules and to routes of hosts; no I/O.

A label split gives each path of a pair of end points an interval of the 65536 labels. The label of
a packet is its UDP source port. A sender that uses the labels in turn sends on each path the
fraction of packets that the route requires, and no switch needs random numbers. The labels that
leave a switch by one port are a union of intervals. Each interval is written as the smallest set of
prefixes (value, mask) that covers it, at most 30 of them, with one rule for each prefix.

All other packets of the pair (ARP, TCP, ICMP) follow the path of label 0, at a lower priority. A
rule between the two drops stream packets at a switch that their labels should not reach.

Hosts that have several cables or that forward also have to choose a path. Their routes
(``stream_routes``, ``path_routes``) are derived from the same split or path, so that a packet takes
the links of the plan even if its path begins at one of several cables or leads through a router.
Most networks, whose hosts have one cable each, need no routes.

A change from one split to another uses rules with a version (``versioned_rules``), which gives
per-packet consistency (Reitblatt et al., SIGCOMM 2012). It has two phases. First, the *inner* rules
of the new version are installed. They match a mark that no packet carries yet, so nothing changes.
When every switch has confirmed them, the *entry* rules are installed at the first switches, above
the old ones. From then on each packet that enters is marked with the new version. A packet
therefore follows either the old split or the new one and never a mixture, whatever the order in
which switches act. A change takes two rounds of messages, whatever the depth of the network. The
rules of the old version are removed when the last packets with its mark have arrived.
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

# Priorities, from high to low: labels of a stream; stream packets with other labels, which are
# dropped; all other packets of a stream's pair; pairs without a stream.
STREAM_PRIORITY = 300
STRAY_PRIORITY = 250
OTHER_PRIORITY = 200
STATIC_PRIORITY = 100
ETH_IPV4 = 0x0800
ETH_ARP = 0x0806
PROTOCOL_UDP = 17
# An ``out_port`` that does not exist: OpenFlow numbers ports from 1. The packet is dropped.
DROP = 0
# The port number IN_PORT of OpenFlow: back through the port by which the packet arrived. A switch
# does not send a packet back if this port is given by its own number.
BACK = 0xFFFFFFF8

# The conditions of a rule: (field, value) or (field, (value, mask)), by their names in OpenFlow. A
# field comes after the fields on which it depends.
Match = tuple[tuple[str, int | str | tuple[int, int]], ...]


@dataclass(frozen=True, kw_only=True, order=True)
class FlowRule:
    """One rule of one switch.

    Attributes:
        dpid: Datapath id of the switch.
        priority: The matching rule with the highest priority applies.
        match: The conditions.
        out_port: Port by which packets leave, or DROP.
        set_fields: (field, value) of the header that are set before the packet leaves, by their
            names in OpenFlow.
        group: Number of the failover group that decides instead of ``out_port``; 0 for none.
        dec_ttl: Whether the time to live is decremented first; at 0 the packet is dropped.
    """

    dpid: int
    priority: int
    match: Match
    out_port: int
    set_fields: tuple[tuple[str, int], ...] = ()
    group: int = 0
    dec_ttl: bool = False


def label_prefixes(start: int, stop: int) -> tuple[tuple[int, int], ...]:
    """Return the smallest set of 16-bit prefixes that covers the labels from start to stop - 1.

    Returns:
        The prefixes as (value, mask) in ascending order; at most 30.

    >>> label_prefixes(0, 49152)
    ((0, 32768), (32768, 49152))
    """
    if not 0 <= start < stop <= LABELS:
        raise InputError(f"labels [{start}, {stop}) are empty or not inside [0, {LABELS})")
    networks = summarize_address_range(IPv4Address(start), IPv4Address(stop - 1))
    prefixes = []
    for network in networks:
        mask = LABELS - network.num_addresses
        prefixes.append((int(network.network_address), mask))
    return tuple(prefixes)


def stream_match(source: WiredHost, sink: WiredHost, udp_port: int) -> Match:
    """Return the conditions of UDP packets from one host to a port of another, with any label."""
    return (
        ("eth_type", ETH_IPV4),
        ("ip_proto", PROTOCOL_UDP),
        ("ipv4_src", source.ip),
        ("ipv4_dst", sink.ip),
        ("udp_dst", udp_port),
    )


def stream_rules(
    wiring: Wiring, split: LabelSplit, *, udp_port: int = STREAM_UDP_PORT
) -> tuple[FlowRule, ...]:
    """Return the rules for all packets of one pair of end points.

    The labelled stream follows the split. All other packets (ARP, TCP, ICMP, other UDP) follow the
    path of label 0. A stream packet whose label should not reach a switch is dropped there: either
    no rule matches, or, where the other packets of the pair pass, a rule drops it. Rules of
    different pairs never overlap. What hosts on a path do is in ``stream_routes``.

    Args:
        wiring: The wiring.
        split: The label split of the pair.
        udp_port: Destination port of the stream.

    Raises:
        InputError: An end point has no host, or a path leads through a host that does not forward.
    """
    source = _host_at(wiring, split.source)
    sink = _host_at(wiring, split.sink)
    match = stream_match(source, sink, udp_port)
    label_rules: list[FlowRule] = []
    # The number of labels that have a rule at each switch.
    covered: dict[int, int] = {}
    for (dpid, port), intervals in sorted(_exits(wiring, split, sink).items()):
        for interval in intervals:
            start, stop = interval
            covered[dpid] = covered.get(dpid, 0) + stop - start
            for label_match in _label_matches(match, interval):
                label_rules.append(
                    FlowRule(dpid=dpid, priority=STREAM_PRIORITY, match=label_match, out_port=port)
                )
    path = _link_ids(wiring, split.path_of(0).links)
    other_rules = pair_rules(wiring, split.source, split.sink, path, priority=OTHER_PRIORITY)
    drop_rules = []
    for dpid in dict.fromkeys(rule.dpid for rule in other_rules):
        if covered[dpid] < LABELS:
            drop_rules.append(
                FlowRule(dpid=dpid, priority=STRAY_PRIORITY, match=match, out_port=DROP)
            )
    return (*label_rules, *drop_rules, *other_rules)


def _link_ids(wiring: Wiring, indices: Iterable[int]) -> list[LinkId]:
    return [wiring.network.links[i].id for i in indices]


def _label_matches(match: Match, interval: Interval) -> list[Match]:
    """Return the conditions of a stream's packets with labels in an interval."""
    if interval == (0, LABELS):
        return [match]
    return [(*match, ("udp_src", prefix)) for prefix in label_prefixes(*interval)]


def pair_rules(
    wiring: Wiring,
    source: str,
    sink: str,
    path: Sequence[LinkId],
    *,
    priority: int = STATIC_PRIORITY,
) -> tuple[FlowRule, ...]:
    """Return the rules for all IPv4 and ARP packets from one end point to another along a path.

    Args:
        wiring: The wiring.
        source: Node of the sender.
        sink: Node of the receiver.
        path: The links of the path.
        priority: Priority of the rules.
    """
    sender = _host_at(wiring, source)
    receiver = _host_at(wiring, sink)
    matches: tuple[Match, ...] = (
        (("eth_type", ETH_IPV4), ("ipv4_src", sender.ip), ("ipv4_dst", receiver.ip)),
        (("eth_type", ETH_ARP), ("arp_spa", sender.ip), ("arp_tpa", receiver.ip)),
    )
    exits: list[tuple[int, int]] = []
    for link in path:
        if _is_switch(wiring, link[0]):
            exits.append((wiring.switch_at(link[0]).dpid, wiring.out_port(link)))
    if receiver.outside:
        exits.append((wiring.switch_at(sink).dpid, _access_port(wiring, receiver)))
    rules = []
    for dpid, port in exits:
        for match in matches:
            rules.append(FlowRule(dpid=dpid, priority=priority, match=match, out_port=port))
    return tuple(rules)


def by_switch(rules: Iterable[FlowRule]) -> dict[int, tuple[FlowRule, ...]]:
    """Return the rules of each datapath id, in their order."""
    rules_by_dpid = lists_by_key((rule.dpid, rule) for rule in rules)
    return {dpid: tuple(own_rules) for dpid, own_rules in sorted(rules_by_dpid.items())}


def _exits(
    wiring: Wiring, split: LabelSplit, sink: WiredHost
) -> dict[tuple[int, int], list[Interval]]:
    """Return the intervals of labels that leave by each port, for all (datapath id, port)."""
    exits: dict[tuple[int, int], list[Interval]] = {}
    for i in split.loaded:
        link = wiring.network.links[i]
        if _is_switch(wiring, link.source):
            port = (wiring.switch_at(link.source).dpid, wiring.out_port(link.id))
            exits[port] = list(split.intervals(i))
        elif link.source != split.source and not wiring.network.node(link.source).forwards:
            raise InputError(
                f"label split: a path leads through the host {link.source!r}, which does not"
                " forward"
            )
    if sink.outside:
        exits[wiring.switch_at(sink.node).dpid, _access_port(wiring, sink)] = [(0, LABELS)]
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


def _host_at(wiring: Wiring, node: str) -> WiredHost:
    try:
        return wiring.host_at(node)
    except KeyError:
        raise InputError(
            f"node {node!r} has no host to send or receive; name it as an end point when wiring"
        ) from None


@dataclass(frozen=True, kw_only=True, order=True)
class Bucket:
    """One choice of a failover group, which is used while a link is up.

    Attributes:
        watch_port: The port whose link must be up.
        out_port: Port by which packets leave, or BACK.
        set_fields: (field, value) of the header that are set.
    """

    watch_port: int
    out_port: int
    set_fields: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, kw_only=True, order=True)
class FailoverGroup:
    """A failover group of one switch: the first bucket whose link is up is used.

    Attributes:
        dpid: Datapath id of the switch.
        number: Number of the group, from 1.
        buckets: The buckets in the order in which they are tried.

    Raises:
        InputError: The number is less than 1, or there is no bucket.
    """

    dpid: int
    number: int
    buckets: tuple[Bucket, ...]

    def __post_init__(self) -> None:
        if self.number < 1 or not self.buckets:
            raise InputError(
                f"switch {self.dpid}: group {self.number} of {len(self.buckets)} buckets;"
                " give a number and one"
            )


# The number of marks: the values 1 to 63 of the IP header's six-bit field DSCP. A packet that has
# not been marked yet has the value 0.
VERSIONS = 63
# The priority of the entry rules of version 0; each later version has the next priority.
_FIRST_PRIORITY = 1000
# Limits the number of versions, because a priority, _FIRST_PRIORITY + version, has 16 bits.
_MAX_CHANGES = 60_000


@dataclass(frozen=True, kw_only=True)
class VersionedRules:
    """The rules of one version of a pair's route.

    Attributes:
        inner: Rules to install first; no packet matches them yet.
        entry: Rules of the first switches. When they are installed, the version becomes active.
    """

    inner: tuple[FlowRule, ...]
    entry: tuple[FlowRule, ...]


def versioned_rules(
    wiring: Wiring, split: LabelSplit, *, number: int, udp_port: int = STREAM_UDP_PORT
) -> VersionedRules:
    """Return the rules of a pair's labelled stream for one version of its split.

    The entry rules of a version take precedence over those of lower numbers. The mark of a version
    is its number modulo 63, plus 1: the rules of a version must be removed before its mark is used
    again. Other packets of the pair have no rules.

    Args:
        wiring: The wiring.
        split: The label split of the pair.
        number: Number of the version, from 0.
        udp_port: Destination port of the stream.

    Raises:
        InputError: The number is out of range, or the split cannot be written as rules.
    """
    if not 0 <= number < _MAX_CHANGES:
        raise InputError(f"version {number} of a plan; a run has at most {_MAX_CHANGES}")
    mark = number % VERSIONS + 1
    entry_nodes = _entry_nodes(wiring, split)
    entered_from_switches = _nodes_entered_after_first_link(wiring, split)
    inner = []
    entry = []
    for rule in stream_rules(wiring, split, udp_port=udp_port):
        if rule.priority != STREAM_PRIORITY:
            continue
        node = entry_nodes.get(rule.dpid)
        if node is not None:
            entry_rule = replace(
                rule,
                priority=_FIRST_PRIORITY + number,
                match=_with_mark(rule.match, 0),
                set_fields=(*rule.set_fields, ("ip_dscp", mark)),
            )
            entry.append(entry_rule)
        # Marked packets may come to a first switch too, if a path leads through it later.
        if node is None or node in entered_from_switches:
            inner.append(replace(rule, match=_with_mark(rule.match, mark)))
    return VersionedRules(inner=tuple(inner), entry=tuple(entry))


def _entry_nodes(wiring: Wiring, split: LabelSplit) -> dict[int, str]:
    """Return the first switches of a split's paths: the node of each datapath id."""
    network = wiring.network
    if network.node(split.source).kind == "switch":
        return {wiring.switch_at(split.source).dpid: split.source}
    neighbours = set()
    for i in split.loaded:
        if network.links[i].source == split.source:
            neighbours.add(network.links[i].target)
    return {wiring.switch_at(node).dpid: node for node in sorted(neighbours)}


def _nodes_entered_after_first_link(wiring: Wiring, split: LabelSplit) -> set[str]:
    """Return the nodes that packets enter by another link than one from the source."""
    nodes = set()
    for i in split.loaded:
        link = wiring.network.links[i]
        if link.source != split.source:
            nodes.add(link.target)
    return nodes


def _with_mark(match: Match, mark: int) -> Match:
    """Return a match with a condition on the mark, inserted after the EtherType."""
    return (match[0], ("ip_dscp", mark), *match[1:])


@dataclass(frozen=True, kw_only=True, order=True)
class HostRoute:
    """The step of a host for packets of a pair of end points.

    Attributes:
        host: The host that sends or forwards the packets (``WiredHost.name``).
        source_ip: IP address of the pair's source.
        sink_ip: IP address of the pair's sink.
        port: Port of the host by which the packets leave.
        node: The next IP node (``WiredHost.name``).
        begins: Whether the host is the pair's source.
        udp_port: Destination port of the stream, if the route is for labels.
        labels: Half-open interval of the labels of the stream. None for all packets of the pair
            that no route with labels applies to.
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
    """Return the step of the source, and of each host on a path.

    Args:
        wiring: The wiring.
        source: The sender.
        sink: The receiver.
        path: The links of the path.

    Returns:
        The step of each host by its name (``WiredHost.name``).
    """
    names = {host.node: host.name for host in wiring.hosts if not host.outside}
    ports: dict[str, int] = {}
    if source.outside:
        # The host of a switch has one cable.
        ports[source.name] = 0
    for link in path:
        if link[0] in names:
            ports[names[link[0]]] = wiring.out_port(link)
    return {host: Step(ports[host], next_host) for host, next_host in pairwise((*ports, sink.name))}


def path_routes(
    wiring: Wiring, source: str, sink: str, path: Sequence[LinkId]
) -> tuple[HostRoute, ...]:
    """Return the routes of all packets from one end point to another along a path.

    Args:
        wiring: The wiring.
        source: Node of the sender.
        sink: Node of the receiver.
        path: The links of the path.

    Returns:
        An empty tuple if the hosts of the network need no routes (see ``Wiring.routed``).
    """
    if not wiring.routed:
        return ()
    sender = wiring.host_at(source)
    receiver = wiring.host_at(sink)
    routes = []
    for host, step in path_steps(wiring, sender, receiver, path).items():
        routes.append(_route(sender, receiver, host, step))
    return tuple(routes)


def stream_routes(
    wiring: Wiring, split: LabelSplit, *, udp_port: int = STREAM_UDP_PORT
) -> tuple[HostRoute, ...]:
    """Return the routes of all packets of one pair of end points.

    The labelled stream follows the split. All other packets follow the path of label 0.

    Args:
        wiring: The wiring.
        split: The label split of the pair.
        udp_port: Destination port of the stream.

    Returns:
        An empty tuple if the hosts of the network need no routes (see ``Wiring.routed``).
    """
    if not wiring.routed:
        return ()
    sender = wiring.host_at(split.source)
    receiver = wiring.host_at(split.sink)
    intervals_of_step: dict[tuple[str, Step], list[Interval]] = {}
    for path in split.paths:
        steps = path_steps(wiring, sender, receiver, _link_ids(wiring, path.links))
        for host_and_step in steps.items():
            intervals = intervals_of_step.setdefault(host_and_step, [])
            _append_interval(intervals, (path.start, path.stop))
    routes: list[HostRoute] = []
    for (host, step), intervals in intervals_of_step.items():
        for interval in intervals:
            # The route for all other packets is the same as one for all labels.
            if interval != (0, LABELS):
                route = _route(sender, receiver, host, step)
                routes.append(replace(route, udp_port=udp_port, labels=interval))
    first_path = _link_ids(wiring, split.path_of(0).links)
    return (*routes, *path_routes(wiring, split.source, split.sink, first_path))


def _append_interval(intervals: list[Interval], interval: Interval) -> None:
    """Append an interval, or extend the last one if the new one begins where it ends."""
    start, stop = interval
    if intervals and intervals[-1][1] == start:
        start, _ = intervals.pop()
    intervals.append((start, stop))


# The rules of switches, and the routes of hosts that have several cables or forward.
Rules = tuple[tuple[FlowRule, ...], tuple[HostRoute, ...]]


def split_rules(wiring: Wiring, *splits: LabelSplit, udp_port: int = STREAM_UDP_PORT) -> Rules:
    """Return the rules and the routes of labelled streams.

    Args:
        wiring: The wiring.
        *splits: The label split of each stream.
        udp_port: Destination port of the streams.
    """
    rules: list[FlowRule] = []
    routes: list[HostRoute] = []
    for split in splits:
        rules += stream_rules(wiring, split, udp_port=udp_port)
        routes += stream_routes(wiring, split, udp_port=udp_port)
    return tuple(rules), tuple(routes)


def step_of(routes: Iterable[HostRoute], host: str, label: int) -> Step | None:
    """Return what a host does with a stream packet.

    Args:
        routes: The routes of one pair of end points.
        host: The host (``WiredHost.name``).
        label: The label of the packet.

    Returns:
        None if the routes do not say it.
    """
    default: Step | None = None
    for route in routes:
        if route.host != host:
            continue
        step = Step(route.port, route.node)
        if route.labels is None:
            default = default or step
        elif route.labels[0] <= label < route.labels[1]:
            return step
    return default


def _route(source: WiredHost, sink: WiredHost, host: str, step: Step) -> HostRoute:
    """Return the route of all packets of a pair at a host."""
    return HostRoute(
        host=host,
        source_ip=source.ip,
        sink_ip=sink.ip,
        port=step.port,
        node=step.node,
        begins=host == source.name,
    )
