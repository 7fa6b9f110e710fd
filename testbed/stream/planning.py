"""Makes the plan of a stream: its route, its label splits, and a schedule of faults.

The same arguments and seed give the same plan on every machine.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from fec.protocol.wire import HEADER_BYTES
from fec.redundancy.block_size import binomial_window_for, stratified_window_for
from fec.redundancy.label_layout import best_layout
from fec.redundancy.labels import WEYL_MULTIPLIER, label_table
from testbed.errors import InputError
from testbed.faults.fault import Fault, PoissonFaults, outlasting, overlapping, poisson_faults
from testbed.faults.grammar import parse_poisson
from testbed.faults.reading import FaultsLike, read_faults
from testbed.model.label_split import LabelSplit
from testbed.model.naming.names import known_network, read_node
from testbed.routing import route_by_name
from testbed.routing.label_split.spraying import disjoint_return_split, interval_groups, spray
from testbed.stream.options import EachLink as EachLink
from testbed.stream.options import StreamOptions
from testbed.stream.plan import StreamParameters, StreamPlan
from testbed.stream.prediction.stream_theory import StreamTheory
from topologies import Network, label_of
from topologies.impairments import mean_loss

# Time before the first fault: both ends start, and then there is a steady state that is long enough
# to compare every fault with it.
WARM_UP_S = 1.6

# Random faults end this long before the source of the stream does.
QUIET_END_S = 0.5

# Default duration of a stream under random faults.
DEFAULT_CAMPAIGN_S = 30.0

# By default, a stream continues for this time after the last link has failed permanently.
FOR_GOOD_S = 4.0

# By default, a stream continues for this time and a playback buffer after the last fault.
_AFTER_FAULTS_S = 0.4

# The end of the error about faults that are neither a rule nor a file.
NO_FILE = "give each-link, none, poisson:rate=R,lasts=S or a JSON file"
# The end of errors about a playback buffer that is too short, after its necessary length.
_OR_MORE = "s or more (playback_s, --playback-buffer), a higher rate or a smaller M"

# Maximum share of a link's capacity that streams may use.
_FULL = 0.9

# Ethernet, IPv4, UDP and stream header of each symbol.
HEADERS_BYTES = 14 + 20 + 8 + HEADER_BYTES

# Times that differ by less than this rounding error count as equal.
_ROUNDING_S = 1e-9

# Minimum number of packets in the steady window of a fault, after the reaction of the sender. Fewer
# packets show neither the share of losses nor the recovery.
_MIN_STRATIFIED_PACKETS = 200
_MIN_RANDOM_PACKETS = 400

# If labels are random, this share of the gaps between two labels of a link is longer than planned.
_LONGER_GAPS = 0.05


def build_stream(requested: StreamOptions) -> StreamPlan:
    """Make the plan of one stream.

    Raises:
        InputError: Network, nodes, faults or rates cannot be used.
        TopologyError: The method finds no route.
    """
    network = known_network(requested.network)
    source = read_node(requested.source, network)
    sink = read_node(requested.sink, network)
    faults: EachLink | PoissonFaults | tuple[Fault, ...]
    if requested.faults == "each-link":
        faults = _each_link(requested)
    else:
        faults = parse_faults(requested.faults, network)
    parameters = requested.parameters
    route = route_by_name(network, source, sink, requested.method, layers=requested.layers)
    plan = StreamPlan(
        network=network,
        method=requested.method,
        forward=spray(route),
        backward=disjoint_return_split(network, source, sink),
        stream=parameters,
        duration_s=1.0,
        seed=requested.seed,
    )
    if parameters.labels == "stratified" and _one_at_a_time(faults):
        parameters = ordered_for_route(plan.forward, parameters)
        plan = replace(plan, stream=parameters)
    if isinstance(faults, PoissonFaults):
        duration_s = requested.duration_s or DEFAULT_CAMPAIGN_S
        scheduled = random_faults(replace(plan, duration_s=duration_s), faults)
    elif isinstance(faults, EachLink):
        scheduled = schedule_each_link(plan, faults)
    else:
        scheduled = faults
    duration_s = requested.duration_s or _default_duration_s(plan, scheduled)
    scheduled = outlasting(scheduled, duration_s)
    plan = replace(plan, faults=scheduled, duration_s=duration_s, route=route)
    check_plan(plan)
    return plan


def _one_at_a_time(faults: EachLink | PoissonFaults | tuple[Fault, ...]) -> bool:
    """Return whether the faults never overlap."""
    if isinstance(faults, EachLink):
        return True
    if isinstance(faults, PoissonFaults):
        return False
    return not overlapping(faults)


def _default_duration_s(plan: StreamPlan, faults: Sequence[Fault]) -> float:
    """Return the duration of a stream that ends after the last fault has been answered."""
    if faults:
        end_s = max(
            fault.start_s + FOR_GOOD_S if fault.permanent else fault.stop_s for fault in faults
        )
    else:
        answered_s = WARM_UP_S + 1.0 + StreamTheory(plan).round_trip_s
        end_s = max(answered_s, 4 * plan.stream.block_s)
    return end_s + plan.stream.playback_s + _AFTER_FAULTS_S


def _each_link(requested: StreamOptions) -> EachLink:
    loss_fraction = 1.0
    if requested.fault_kind == "loss":
        loss_fraction = requested.fault_loss
    return EachLink(
        kind=requested.fault_kind,
        direction="forward" if requested.one_way else "both",
        loss_fraction=loss_fraction,
        precision=requested.precision / 100,
        most=requested.links,
    )


def parse_faults(
    faults: FaultsLike | EachLink | PoissonFaults, network: Network, hint: str = NO_FILE
) -> EachLink | PoissonFaults | tuple[Fault, ...]:
    """Read faults of a network.

    Args:
        faults: The faults, as a value or as text.
        network: The network.
        hint: How the error about an unreadable file ends.

    Returns:
        The faults, or the rule by which they are generated.

    Raises:
        InputError: The faults are not valid.
    """
    if isinstance(faults, (EachLink, PoissonFaults)):
        return faults
    if isinstance(faults, str) and faults.startswith("poisson:"):
        return parse_poisson(faults)
    return read_faults(faults, network, hint=hint)


def build_together(requests: Sequence[StreamOptions]) -> tuple[StreamPlan, ...]:
    """Make plans that can run at the same time.

    The faults and the duration of the first plan apply to all. The seeds differ.
    """
    first = build_stream(requests[0])
    plans = [first]
    for number, request in enumerate(requests[1:], start=1):
        seed = request.seed + number
        request_together = replace(
            request, faults=first.faults, duration_s=first.duration_s, seed=seed
        )
        plans.append(build_stream(request_together))
    check_concurrent(plans)
    return tuple(plans)


def check_plan(plan: StreamPlan) -> None:
    """Check that a stream can carry out the plan.

    Raises:
        InputError: It cannot.
    """
    theory = StreamTheory(plan)
    check_duration(plan)
    check_faults_in_duration(plan)
    check_rates(theory)
    check_delays(theory)
    check_parity_comes(theory)


def check_duration(plan: StreamPlan) -> None:
    """Check that the stream sends a complete block; its source ends a playback buffer earlier.

    Raises:
        InputError: The stream is too short.
    """
    buffer_s = plan.stream.playback_s
    block_s = plan.stream.block_s
    if plan.duration_s < buffer_s + block_s:
        raise InputError(
            f"the stream lasts {plan.duration_s:g} s; the source ends a playback buffer "
            f"({buffer_s:g} s) before that, and one block of {plan.stream.source_packets} packets "
            f"takes {block_s:g} s: make the stream longer than {buffer_s + block_s:g} s "
            "(duration_s, --duration), or the buffer shorter (playback_s, --playback-buffer)"
        )


def check_faults_in_duration(plan: StreamPlan) -> None:
    """Check that every fault begins before the end of the stream.

    Raises:
        InputError: A fault would have no effect.
    """
    for fault in plan.faults:
        if fault.start_s >= plan.duration_s:
            raise InputError(
                f"fault on {label_of(fault.link)}: it begins at {fault.start_s:g} s, and the "
                f"stream ends after {plan.duration_s:g} s; make the stream longer, or the "
                "fault earlier"
            )


def ordered_for_route(split: LabelSplit, stream: StreamParameters) -> StreamParameters:
    """Return the parameters with the best stratified order of labels.

    It requires the fewest packets over the failures of the route's links, one at a time.
    """
    layout = best_layout(interval_groups(split), stream.source_packets, stream.tolerance)
    return replace(
        stream, label_slots=layout.slots, label_multiplier=layout.multiplier or WEYL_MULTIPLIER
    )


def protectable_links(plan: StreamPlan) -> tuple[int, ...]:
    """Return the loaded links whose failure a code can repair.

    These links do not carry every label. Gabrielyan 2007, eq. 23, omits the others, too.
    """
    return tuple(link for link in plan.forward.loaded if plan.forward.load(link) < 1)


def choose_links(plan: StreamPlan, limit: int | None) -> tuple[int, ...]:
    """Return the links that fail, in the order of the network.

    These are the protectable links. If there is none, because the route is a single path, all its
    links fail, to show that nothing arrives.

    Args:
        plan: The plan of the stream.
        limit: Maximum number of links. They are chosen evenly from the order by load. None for
            all.
    """
    links = protectable_links(plan) or plan.forward.loaded
    if limit is None or len(links) <= limit:
        return links
    by_load = _by_load(plan, links)
    step = (len(by_load) - 1) / max(1, limit - 1)
    return tuple(sorted({by_load[round(number * step)] for number in range(limit)}))


def _by_load(plan: StreamPlan, links: Iterable[int]) -> list[int]:
    """Sort links by their load, the most loaded one first."""
    return sorted(links, key=lambda link: (-plan.forward.load(link), link))


def steady_packets(plan: StreamPlan, link: int, each: EachLink) -> int:
    """Return the number of packets that measure a fault's loss with the required precision.

    Args:
        plan: The plan of the stream.
        link: The link that fails.
        each: The faults.
    """
    if plan.stream.labels == "stratified" and each.loss_fraction == 1:
        intervals = plan.forward.intervals(link)
        window = stratified_window_for(intervals, each.precision, plan.stream.label_rule)
        return max(_MIN_STRATIFIED_PACKETS, window)
    share = float(plan.forward.load(link)) * each.loss_fraction
    return max(_MIN_RANDOM_PACKETS, binomial_window_for(share, each.precision))


def schedule_each_link(plan: StreamPlan, each: EachLink) -> tuple[Fault, ...]:
    """Schedule one fault after another.

    A fault lasts for the sender's reaction and a steady window; a recovery follows
    (``_before_next_s``).

    The most loaded link fails first. If a link of very few labels is not seen to work again before
    the next one fails, the sender must allow for both failures. This requires no additional packet
    if the next link loses no more.

    Raises:
        InputError: The precision is out of range.
    """
    if not 0 < each.precision < 0.5:
        raise InputError(
            f"precision {each.precision} is outside (0, 0.5); 0.01 is one point of loss"
        )
    parameters = plan.stream
    draft = Fault(
        link=plan.network.links[0].id,
        kind=each.kind,
        start_s=0.0,
        stop_s=1.0,
        loss_fraction=each.loss_fraction,
    )
    policy = StreamTheory(replace(plan, faults=(draft,))).policy
    theory = StreamTheory(plan)
    at_s = WARM_UP_S + theory.round_trip_s
    faults = []
    for link in _by_load(plan, choose_links(plan, each.most)):
        share = float(plan.forward.load(link)) * each.loss_fraction
        size = parameters.block_size
        if size is None:
            size = policy(share) if share < 1 else policy.base
        wire_pps = parameters.rate_pps * size / parameters.source_packets
        steady_s = steady_packets(plan, link, each) / wire_pps
        fault = replace(draft, link=plan.network.links[link].id, direction=each.direction)
        fault_s = theory.allowed_reaction_s + 3 * parameters.block_s + steady_s
        fault_s += theory.reach_s(fault)
        faults.append(replace(fault, start_s=round(at_s, 4), stop_s=round(at_s + fault_s, 4)))
        at_s += fault_s + _before_next_s(theory, link, wire_pps, fault_s)
    return tuple(faults)


def _before_next_s(theory: StreamTheory, link: int, wire_pps: float, fault_s: float) -> float:
    """Return the time from a link's repair to the next failure.

    The sender recovers meanwhile, and a label of the link is sent again. Until a label arrives that
    the failure lost, a sender cannot know that the failure is over; it would treat the next failure
    as an additional one. If the link carries few labels, the failure hardly lost any, and the time
    is limited to four times the duration of the failure.

    Args:
        theory: The predictions for the plan.
        link: The link that is repaired.
        wire_pps: Packets per second of the stream, including parity.
        fault_s: Duration of the failure.
    """
    if not theory.adaptive:
        return theory.recovery_s
    absence_s = _longest_gap(theory.plan, link) / wire_pps
    return max(theory.recovery_s, min(4 * fault_s, absence_s))


def _longest_gap(plan: StreamPlan, link: int) -> float:
    """Return the maximum number of packets from one label of a link to the next one.

    If labels are random, 5 % of the gaps are longer.
    """
    if plan.stream.labels == "random":
        return -math.log(_LONGER_GAPS) / float(plan.forward.load(link))
    table = label_table(plan.stream.label_rule)
    on_link = np.zeros(len(table), dtype=np.bool_)
    for start, stop in plan.forward.intervals(link):
        on_link |= (table >= start) & (table < stop)
    positions = np.flatnonzero(on_link)
    if len(positions) == 0:
        return math.inf
    gaps = np.diff(positions, append=positions[0] + len(table))
    return float(max(gaps))


def random_faults(plan: StreamPlan, faults: PoissonFaults) -> tuple[Fault, ...]:
    """Draw random faults on the cables that any split of the plan loads.

    There is no fault near the start and the end of the stream.

    Raises:
        InputError: The stream is too short.
    """
    until_s = plan.duration_s - plan.stream.playback_s - QUIET_END_S
    if until_s <= faults.start_s:
        raise InputError(
            f"random faults: the stream of {plan.duration_s:g} s ends before one could; "
            "make it longer"
        )
    loaded = {plan.network.links[link].id for link in _loaded_links(plan)}
    return poisson_faults(loaded, faults, until_s=until_s, seed=plan.seed)


def _loaded_links(plan: StreamPlan) -> list[int]:
    """Return the links that any forward split of the plan loads, in order."""
    links: set[int] = set()
    for split in plan.splits:
        links.update(split.loaded)
    return sorted(links)


def _max_load(plan: StreamPlan, link: int) -> float:
    """Return the largest load of a link over the forward splits of the plan."""
    return max(float(split.load(link)) for split in plan.splits)


def check_rates(*theories: StreamTheory) -> None:
    """Check that streams use at most 90 % of each link at the largest N that faults require.

    Args:
        theories: The predictions for the plans of all streams of one network.

    Raises:
        InputError: They use more.
    """
    rate_by_link: dict[int, float] = {}
    for theory in theories:
        plan = theory.plan
        wire_bps = _wire_bps(plan, theory.largest_planned)
        for index in _loaded_links(plan):
            link_bps = wire_bps * _max_load(plan, index)
            rate_by_link[index] = rate_by_link.get(index, 0.0) + link_bps
    first = theories[0].plan
    who = f"stream at {first.stream.rate_pps:g} packets/s and its largest N puts"
    if len(theories) > 1:
        who = "streams at once: they put"
    for index, link_bps in sorted(rate_by_link.items()):
        link = first.network.links[index]
        if link_bps > _FULL * link.capacity_bps:
            raise InputError(
                f"{who} {link_bps / 1e6:.2f} Mbit/s on {link.label}, "
                f"which carries {link.capacity_bps / 1e6:g}; "
                "lower the rate or the symbol size, or raise the capacity"
            )


def max_carried(theory: StreamTheory) -> int:
    """Return the largest N at which the stream uses at most 90 % of each link.

    If the faults require a larger N, it is returned instead. More packets would fill a queue and be
    lost.
    """
    plan = theory.plan
    symbol_bps = _wire_bps(plan, 1.0)
    max_share = max(
        _max_load(plan, link) / plan.network.links[link].capacity_bps
        for link in _loaded_links(plan)
    )
    return max(theory.largest_planned, int(_FULL / (symbol_bps * max_share)))


def check_concurrent(plans: Sequence[StreamPlan]) -> None:
    """Check that streams can run at the same time.

    They need the same network, faults and duration, and different end points. Together, they use at
    most 90 % of each link. Nodes may move only if there is one stream.

    Raises:
        InputError: They cannot.
    """
    if len(plans) == 1:
        return
    problem = _concurrency_problem(plans)
    if problem is not None:
        raise InputError(f"streams at once: {problem}")
    check_rates(*map(StreamTheory, plans))


def _concurrency_problem(plans: Sequence[StreamPlan]) -> str | None:
    """Return why the streams cannot run at the same time, apart from their rates."""
    ends: list[str] = []
    for plan in plans:
        ends += [plan.source, plan.sink]
    for end in ends:
        if ends.count(end) > 1:
            return f"{end!r} is an end point of two streams; each stream needs two of its own"
    first = plans[0]
    if any(plan.network != first.network for plan in plans):
        return "they are on different networks"
    if any(plan.faults != first.faults for plan in plans):
        return "their faults differ; faults are of the network, give all the same"
    if any(plan.duration_s != first.duration_s for plan in plans):
        return "they differ in length; give all the same duration_s"
    if any(plan.changes or plan.absent for plan in plans):
        return "nodes move under one stream only"
    return None


def _wire_bps(plan: StreamPlan, size: float) -> float:
    """Return the bit rate of the stream with block size ``size``, including headers."""
    stream = plan.stream
    packet_bits = (stream.symbol_bytes + HEADERS_BYTES) * 8
    return stream.rate_pps * size / stream.source_packets * packet_bits


def check_delays(theory: StreamTheory) -> None:
    """Check that blocks and late parity can arrive in time for playback.

    Propagation may take a third of the playback buffer. Late parity is requested after a round
    trip. If that took longer, the parity would be late, and the deadlines of both ends could not be
    distinguished.

    Raises:
        InputError: A block is late even if no packet is lost, or propagation takes too long.
    """
    path_s = theory.longest_path_s
    stream = theory.plan.stream
    if stream.playback_s < stream.block_s + path_s:
        raise InputError(
            f"a block of {stream.source_packets} packets takes {stream.block_s:g} s at "
            f"{stream.rate_pps:g} packets/s, and the longest path {path_s:g} s; the playback "
            f"buffer is {stream.playback_s:g} s, so that no block would arrive in time: "
            f"give a buffer of {stream.block_s + 3 * path_s:g} {_OR_MORE}"
        )
    if path_s > stream.playback_s / 3 + _ROUNDING_S:
        raise InputError(
            f"the longest path takes {path_s * 1000:g} ms of a playback buffer of "
            f"{stream.playback_s * 1000:g} ms; give a buffer of {3 * path_s:g} s or more"
        )


def check_parity_comes(theory: StreamTheory) -> None:
    """Check that parity, which is sent during the next block, arrives in time for playback.

    Raises:
        InputError: It does not, and a fault, an impaired link or a vanishing link loses packets.
    """
    stream = theory.plan.stream
    min_buffer_s = 2 * stream.block_s + theory.longest_path_s
    if not theory.adaptive or stream.playback_s >= min_buffer_s - _ROUNDING_S:
        return
    cause = _first_cause_of_loss(theory)
    if cause is not None:
        raise InputError(
            f"{cause} under a playback buffer of {stream.playback_s:g} s; a block of "
            f"{stream.source_packets} packets at {stream.rate_pps:g} packets/s takes "
            f"{stream.block_s:g} s, and its parity takes as long again; lost packets would be "
            f"repaired too late: give a buffer of {min_buffer_s:g} {_OR_MORE}"
        )


def _first_cause_of_loss(theory: StreamTheory) -> str | None:
    """Return what loses a share of the packets, or None if nothing does."""
    plan = theory.plan
    for fault in plan.faults:
        if 0 < theory.loss_of(fault) < 1:
            return f"{label_of(fault.link)} fails"
    used_links = set()
    for split in plan.splits:
        for index in split.loaded:
            link = plan.network.links[index]
            used_links.add(link.id)
            if mean_loss(link.impaired_by) > 0:
                return f"{link.label} loses packets"
    if plan.handover == "after":
        for change in plan.changes:
            for link_id in change.vanished:
                if link_id in used_links:
                    return f"{label_of(link_id)} vanishes"
    return None
