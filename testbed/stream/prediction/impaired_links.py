"""Which links of a stream's plan are impaired, by what and when: those of the network's file all the time, those of
faults meanwhile."""

import math
from dataclasses import dataclass

from testbed.stream.plan import StreamPlan
from testbed.stream.prediction.active_faults import RETURN_LABELS, faulty_links
from topologies.impairments import Impairments


@dataclass(frozen=True, kw_only=True)
class ImpairedSpan:
    """One directed link (index), impaired from ``start_s`` to ``stop_s``; ``fault``: number of the fault, None where
    the network says so."""

    link: int
    impairments: Impairments
    start_s: float = 0.0
    stop_s: float = math.inf
    fault: int | None = None


def impaired_spans(plan: StreamPlan) -> tuple[ImpairedSpan, ...]:
    """All of the plan, whether or not the stream crosses them: the network's own first, then those of faults, in
    order."""
    own = [
        ImpairedSpan(link=number, impairments=link.impaired_by)
        for number, link in enumerate(plan.network.links)
        if link.impairments
    ]
    timed = [
        ImpairedSpan(
            link=index, impairments=fault.impaired_by, start_s=fault.start_s, stop_s=fault.stop_s, fault=number
        )
        for number, fault in enumerate(plan.faults)
        if fault.kind == "impaired"
        for index in faulty_links(plan, fault)
    ]
    return (*own, *timed)


def stream_spans(plan: StreamPlan) -> tuple[ImpairedSpan, ...]:
    """Those on links that the stream, or its loss reports on their way back, may cross."""
    back = {
        i for path in plan.backward.paths if any(path.start <= x < path.stop for x in RETURN_LABELS) for i in path.links
    }
    crossed = {*plan.forward.loaded, *back}
    return tuple(span for span in impaired_spans(plan) if span.link in crossed)


def is_impaired(plan: StreamPlan) -> bool:
    """Whether the stream or its reports may meet an impairment."""
    return bool(stream_spans(plan))
