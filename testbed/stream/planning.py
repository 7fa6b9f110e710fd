"""From a network, two nodes and options to a streaming plan: route, label splits there and back, a schedule of faults.

Pure: the same arguments and seed give the same plan on every machine.
"""

import math
from collections.abc import Sequence
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

WARM_UP_S = 1.6
"""Before the first fault: the start of both ends, then a rest long enough to be what every fault is held against."""
QUIET_END_S = 0.5
DEFAULT_CAMPAIGN_S = 30.0
"""A stream under random faults lasts so long where nothing else is asked."""
FOR_GOOD_S = 4.0
"""Where nothing else is asked, a stream goes on for so long after the last link has failed for good."""
NO_FILE = "give each-link, none, poisson:rate=R,lasts=S or a JSON file"
_OR_MORE = "s or more (playback_s, --playback-buffer), a higher rate or a smaller M"
_FULL = 0.9
"""Of a link's capacity: what streams may put on it."""
HEADERS_BYTES = 14 + 20 + 8 + HEADER_BYTES
"""Ethernet, IPv4, UDP and stream header around each symbol."""


def build_stream(requested: StreamOptions) -> StreamPlan:
    """Route, split and schedule one stream.

    Raises InputError or TopologyError where network, nodes, method, faults or rates cannot be used.
    """
    network = known_network(requested.network)
    source, sink = read_node(requested.source, network), read_node(requested.sink, network)
    faults = (
        _each_link(requested)
        if requested.faults == "each-link"
        else made_faults(requested.faults, network)
    )
    parameters, duration_s = requested.parameters, requested.duration_s
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
    one_by_one = isinstance(faults, EachLink) or not (
        isinstance(faults, PoissonFaults) or overlapping(faults)
    )
    if one_by_one and parameters.labels == "stratified":
        parameters = ordered_for_route(plan.forward, parameters)
        plan = replace(plan, stream=parameters)
    if isinstance(faults, PoissonFaults):
        scheduled = random_faults(
            replace(plan, duration_s=duration_s or DEFAULT_CAMPAIGN_S), faults
        )
    else:
        scheduled = schedule_each_link(plan, faults) if isinstance(faults, EachLink) else faults
    without = max(WARM_UP_S + 1.0 + StreamTheory(plan).round_trip_s, 4 * parameters.block_s)
    ends = [f.start_s + FOR_GOOD_S if f.permanent else f.stop_s for f in scheduled]
    length_s = duration_s or max(ends, default=without) + parameters.playback_s + 0.4
    plan = replace(plan, faults=outlasting(scheduled, length_s), duration_s=length_s, route=route)
    check_plan(plan)
    return plan


def _each_link(requested: StreamOptions) -> EachLink:
    return EachLink(
        kind=requested.fault_kind,
        direction="forward" if requested.one_way else "both",
        loss_fraction=requested.fault_loss if requested.fault_kind == "loss" else 1.0,
        precision=requested.precision / 100,
        most=requested.links,
    )


def made_faults(
    faults: FaultsLike | EachLink | PoissonFaults, network: Network, hint: str = NO_FILE
) -> EachLink | PoissonFaults | tuple[Fault, ...]:
    """Faults of the network, or what they are made by."""
    if isinstance(faults, (EachLink, PoissonFaults)):
        return faults
    if isinstance(faults, str) and faults.startswith("poisson:"):
        return parse_poisson(faults)
    return read_faults(faults, network, hint=hint)


def build_together(requests: Sequence[StreamOptions]) -> tuple[StreamPlan, ...]:
    """Plans that can run at once: the first one's faults and length hold for all, each has a seed of its own."""
    first = build_stream(requests[0])
    others = [
        build_stream(
            replace(
                request, faults=first.faults, duration_s=first.duration_s, seed=request.seed + k
            )
        )
        for k, request in enumerate(requests[1:], start=1)
    ]
    plans = (first, *others)
    check_concurrent(plans)
    return plans


def check_plan(plan: StreamPlan) -> None:
    """Check a plan.

    Raises:
        InputError: No stream can carry it out.
    """
    theory = StreamTheory(plan)
    check_duration(plan)
    check_faults_in_duration(plan)
    check_rates(theory)
    check_delays(theory)
    check_parity_comes(theory)


def check_duration(plan: StreamPlan) -> None:
    """Raise InputError for a stream that sends no whole block: its source ends a playback buffer before the stream
    does."""
    buffer_s, block_s = plan.stream.playback_s, plan.stream.block_s
    if plan.duration_s < buffer_s + block_s:
        raise InputError(
            f"the stream lasts {plan.duration_s:g} s; the source ends a playback buffer ({buffer_s:g} s) before that, "
            f"and one block of {plan.stream.source_packets} packets takes {block_s:g} s: make the stream longer than "
            f"{buffer_s + block_s:g} s (duration_s, --duration), or the buffer shorter (playback_s, --playback-buffer)"
        )


def check_faults_in_duration(plan: StreamPlan) -> None:
    """Raise InputError for a fault that begins when the stream is over already: it would pass without having come."""
    for fault in plan.faults:
        if fault.start_s >= plan.duration_s:
            raise InputError(
                f"fault on {label_of(fault.link)}: it begins at {fault.start_s:g} s, and the stream is over after "
                f"{plan.duration_s:g} s; make the stream longer, or the fault earlier"
            )


def ordered_for_route(split: LabelSplit, stream: StreamParameters) -> StreamParameters:
    """The parameters with the order of labels that asks for the fewest packets over the failures of the route's links,
    one at a time."""
    layout = best_layout(interval_groups(split), stream.source_packets, stream.tolerance)
    return replace(
        stream, label_slots=layout.slots, label_multiplier=layout.multiplier or WEYL_MULTIPLIER
    )


def protectable_links(plan: StreamPlan) -> tuple[int, ...]:
    """Loaded links whose failure a code can repair: those that do not carry every label (Gabrielyan 2007, eq. 23, skips
    the others)."""
    return tuple(i for i in plan.forward.loaded if plan.forward.load(i) < 1)


def choose_links(plan: StreamPlan, most: int | None) -> tuple[int, ...]:
    """The links that fail: all protectable ones, or ``most`` of them spread evenly over their order by load.

    A route that has none (a single path) fails all the same, link by link, to show that nothing arrives.
    """
    links = protectable_links(plan) or plan.forward.loaded
    if most is None or len(links) <= most:
        return links
    ordered = sorted(links, key=lambda i: (-plan.forward.load(i), i))
    step = (len(ordered) - 1) / max(1, most - 1)
    return tuple(sorted({ordered[round(k * step)] for k in range(most)}))


def steady_packets(plan: StreamPlan, link: int, each: EachLink) -> int:
    """Packets that must be seen for the share of one link to be known to ``precision``."""
    share = float(plan.forward.load(link)) * each.loss_fraction
    if plan.stream.labels == "stratified" and each.loss_fraction == 1:
        return max(
            200,
            stratified_window_for(
                plan.forward.intervals(link), each.precision, plan.stream.label_rule
            ),
        )
    return max(400, binomial_window_for(share, each.precision))


def schedule_each_link(plan: StreamPlan, each: EachLink) -> tuple[Fault, ...]:
    """Faults one after another: reaction, steady window, then recovery before the next (``_before_next_s``).

    The most loaded link first: where a link of very few labels is not seen to work again before the next one fails, the
    sender has to allow for both, which asks for no packet if the next one loses no more.
    """
    if not 0 < each.precision < 0.5:
        raise InputError(
            f"precision {each.precision} is outside (0, 0.5); 0.01 is one point of loss"
        )
    parameters = plan.stream
    draft = Fault(
        link=(plan.network.links[0].id),
        kind=each.kind,
        start_s=0.0,
        stop_s=1.0,
        loss_fraction=each.loss_fraction,
    )
    policy = StreamTheory(replace(plan, faults=(draft,))).policy
    theory = StreamTheory(plan)
    at_s = WARM_UP_S + theory.round_trip_s
    faults = []
    for link in sorted(choose_links(plan, each.most), key=lambda i: (-plan.forward.load(i), i)):
        share = float(plan.forward.load(link)) * each.loss_fraction
        size = parameters.block_size or (policy(share) if share < 1 else policy.base)
        wire_pps = parameters.rate_pps * size / parameters.source_packets
        steady_s = steady_packets(plan, link, each) / wire_pps
        fault = replace(draft, link=plan.network.links[link].id, direction=each.direction)
        lasts_s = theory.allowed_reaction_s + 3 * parameters.block_s + steady_s
        lasts_s += theory.reach_s(fault)
        faults.append(replace(fault, start_s=round(at_s, 4), stop_s=round(at_s + lasts_s, 4)))
        at_s += lasts_s + _before_next_s(theory, link, wire_pps, lasts_s)
    return tuple(faults)


def _before_next_s(theory: StreamTheory, link: int, wire_pps: float, lasts_s: float) -> float:
    """Return the time from a link's repair to the next failure.

    The sender recovers meanwhile, and a label of the link is sent again. A sender cannot know that a failure is over
    before a label arrives that was lost to it, and would treat the next failure as one on top of it. If the link
    carries few labels, so that hardly one was lost meanwhile, the time is at most four times its failure.
    """
    if not theory.adaptive:
        return theory.recovery_s
    absence_s = _longest_absence(theory.plan, link) / wire_pps
    return max(theory.recovery_s, min(4 * lasts_s, absence_s))


def _longest_absence(plan: StreamPlan, link: int) -> float:
    """Packets from one label of the link to the next: the most in stratified order, all but 5 % of the gaps in random
    order."""
    if plan.stream.labels == "random":
        return -math.log(0.05) / float(plan.forward.load(link))
    table = label_table(plan.stream.label_rule)
    places = np.flatnonzero(
        np.any(
            [(table >= start) & (table < stop) for start, stop in plan.forward.intervals(link)],
            axis=0,
        )
    )
    return float(max(np.diff(places, append=places[0] + len(table)))) if len(places) else math.inf


def random_faults(plan: StreamPlan, faults: PoissonFaults) -> tuple[Fault, ...]:
    """Random faults on the cables that any of the plan's splits loads; both ends of the run are calm."""
    until = plan.duration_s - plan.stream.playback_s - QUIET_END_S
    if until <= faults.start_s:
        raise InputError(
            f"random faults: the stream of {plan.duration_s:g} s ends before one could; make it longer"
        )
    loaded = {plan.network.links[i].id for split in plan.splits for i in split.loaded}
    return poisson_faults(loaded, faults, until_s=until, seed=plan.seed)


def check_rates(*theories: StreamTheory) -> None:
    """Check that the coded streams of one network fill no link past 90 %, at the largest N that faults call for.

    Raises:
        InputError: They do.
    """
    needed: dict[int, float] = {}
    for theory in theories:
        plan = theory.plan
        wire_bps = _wire_bps(plan, theory.largest_planned)
        for index in sorted({index for split in plan.splits for index in split.loaded}):
            load = max(float(split.load(index)) for split in plan.splits)
            needed[index] = needed.get(index, 0.0) + wire_bps * load
    first = theories[0].plan
    who = f"stream at {first.stream.rate_pps:g} packets/s and its largest N puts"
    if len(theories) > 1:
        who = "streams at once: they put"
    for i, need in sorted(needed.items()):
        link = first.network.links[i]
        if need > _FULL * link.capacity_bps:
            raise InputError(
                f"{who} {need / 1e6:.2f} Mbit/s on {link.label}, which carries {link.capacity_bps / 1e6:g}; lower the "
                "rate or the symbol size, or raise the capacity"
            )


def most_carried(theory: StreamTheory) -> int:
    """Return the largest N at which the stream alone fills no link past 90 %, or that its faults call for.

    More packets would be lost to the queue that they fill.
    """
    plan = theory.plan
    symbol_bps = _wire_bps(plan, 1.0)
    links = plan.network.links
    shares = [
        float(split.load(i)) / links[i].capacity_bps for split in plan.splits for i in split.loaded
    ]
    return max(theory.largest_planned, int(_FULL / (symbol_bps * max(shares))))


def check_concurrent(plans: Sequence[StreamPlan]) -> None:
    """Raise InputError where plans cannot run at once: one network, the same faults and length, end points all
    different, no route changes of more than one, and no link filled past 90 % by all of them together."""
    first = plans[0]
    if len(plans) == 1:
        return
    ends = [end for plan in plans for end in (plan.source, plan.sink)]
    twice = next((end for end in ends if ends.count(end) > 1), None)
    checks = (
        (
            twice is None,
            f"{twice!r} is an end point of two streams; each stream needs two of its own",
        ),
        (all(p.network == first.network for p in plans), "they are on different networks"),
        (
            all(p.faults == first.faults for p in plans),
            "their faults differ; faults are of the network, give all the same",
        ),
        (
            all(p.duration_s == first.duration_s for p in plans),
            "they differ in length; give all the same duration_s",
        ),
        (not any(p.changes or p.absent for p in plans), "nodes move under one stream only"),
    )
    for holds, wrong in checks:
        if not holds:
            raise InputError(f"streams at once: {wrong}")
    check_rates(*map(StreamTheory, plans))


def _wire_bps(plan: StreamPlan, size: float) -> float:
    stream = plan.stream
    return (
        stream.rate_pps * size / stream.source_packets * (stream.symbol_bytes + HEADERS_BYTES) * 8
    )


def check_delays(theory: StreamTheory) -> None:
    """Check that blocks and late parity can arrive before the playback buffer is over.

    Propagation may take a third of the buffer. Late parity is requested after the way there and back. If that took
    longer, it would be late, and the deadlines of both ends could not be distinguished.

    Raises:
        InputError: A block is not there in time even if nothing is lost, or propagation takes too long.
    """
    longest = theory.longest_path_s
    stream = theory.plan.stream
    if stream.playback_s < stream.block_s + longest:
        raise InputError(
            f"a block of {stream.source_packets} packets takes {stream.block_s:g} s at {stream.rate_pps:g} packets/s, "
            f"and the longest path {longest:g} s; the playback buffer is {stream.playback_s:g} s, so that no block is "
            f"there in time: give a buffer of {stream.block_s + 3 * longest:g} {_OR_MORE}"
        )
    if longest > stream.playback_s / 3 + 1e-9:
        raise InputError(
            f"the longest path takes {longest * 1000:g} ms of a playback buffer of {stream.playback_s * 1000:g} "
            f"ms; give a buffer of {3 * longest:g} s or more"
        )


def check_parity_comes(theory: StreamTheory) -> None:
    """Check that a block's parity, which is sent beside the next block, arrives in time if packets are lost.

    Raises:
        InputError: A fault, an impaired link or a link that vanishes takes a share of the packets, and parity is late.
    """
    plan = theory.plan
    stream = plan.stream
    least_s = 2 * stream.block_s + theory.longest_path_s
    if not theory.adaptive or stream.playback_s >= least_s - 1e-9:
        return
    hit = [
        f"{label_of(fault.link)} fails" for fault in plan.faults if 0 < theory.loss_of(fault) < 1
    ]
    used = {
        plan.network.links[i].id: plan.network.links[i]
        for split in plan.splits
        for i in split.loaded
    }
    hit += [
        f"{link.label} loses packets" for link in used.values() if mean_loss(link.impaired_by) > 0
    ]
    if plan.handover == "after":
        hit += [
            f"{label_of(link)} vanishes"
            for change in plan.changes
            for link in change.vanished
            if link in used
        ]
    if hit:
        raise InputError(
            f"{hit[0]} under a playback buffer of {stream.playback_s:g} s; a block of "
            f"{stream.source_packets} packets at {stream.rate_pps:g} packets/s takes {stream.block_s:g} s, and its "
            f"parity as long again, so that the code could repair nothing in time: give a buffer of {least_s:g} "
            f"{_OR_MORE}"
        )
