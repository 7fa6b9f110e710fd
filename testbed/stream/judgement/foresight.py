"""What a stream's run will leave open, known from its plan before anything is sent; pure."""

import math
from collections.abc import Iterator

from testbed.model.label_split import LABELS
from testbed.stream.judgement.impairment_checks import packets_needed, span_label
from testbed.stream.judgement.link_traversals import GUARD_S
from testbed.stream.path_delays import delay_to_fault_s
from testbed.stream.plan import StreamPlan
from testbed.stream.prediction.active_faults import is_campaign, stream_spans
from testbed.stream.prediction.block_size_policy import block_size_policy
from topologies.network import label_of


def foreseen(plan: StreamPlan) -> Iterator[str]:
    """A line for each fault and impaired link of which so few packets cannot tell, with what it takes."""
    stream, spans = plan.stream, stream_spans(plan)
    least_pps = stream.rate_pps * (stream.block_size or block_size_policy(plan).base) / stream.source_packets
    for span in spans:
        others = {o.link for o in spans if o is not span and o.start_s < span.stop_s and span.start_s < o.stop_s}
        crossing = [path for path in plan.forward.paths if span.link in path.links]
        alone = sum(path.stop - path.start for path in crossing if others.isdisjoint(path.links)) / LABELS
        begins_s = 0.0 if span.fault is None else span.start_s + GUARD_S
        lasts_s = max(0.0, min(span.stop_s, plan.duration_s - stream.playback_s) - GUARD_S - begins_s)
        packets, needed = int(least_pps * alone * lasts_s), packets_needed(span.impairments)
        if crossing and packets < needed:
            more = "no number of packets is enough" if math.isinf(needed) else f"it takes {needed:.0f}"
            yield f"{span_label(plan, span)}: some {packets} packets will meet nothing but it, and {more}"
    for fault in () if spans or is_campaign(plan) else plan.faults:
        empty_s = 2 * stream.block_s + delay_to_fault_s(plan, fault)
        if min(fault.stop_s, plan.duration_s) - fault.start_s <= empty_s:
            yield f"{label_of(fault.link)} {fault.kind}: it has to last longer than {empty_s:g} s for packets to count"
