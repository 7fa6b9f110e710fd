"""The packets of a run that crossed each impaired link, in the order in which they came to it, and what became of them;
pure numpy."""

import math
from dataclasses import dataclass

import numpy as np

from testbed.model.label_split import LabelSplit
from testbed.stream.facts.run_facts import RunFacts
from testbed.stream.impaired.burst_loss import longest_wait_s
from testbed.stream.measurements import BoolArray, FloatArray, IntArray, StreamMeasurements
from testbed.stream.plan import StreamPlan
from testbed.stream.prediction.active_faults import ImpairedSpan, faulty_links, stream_spans

GUARD_S = 0.05
"""At the beginning and the end of an impairment: packets that were in transit then are not counted."""


@dataclass(frozen=True, kw_only=True)
class LinkTraversal:
    """Packets (indices into the sent log, in order) that came to the span's link while it was surely impaired.

    ``alone``: on no other impaired or faulty link on their way; ``base_s``: how long they would be under way otherwise.
    ``unrest_s``: by how much packets that met nothing differ in that, 99 of 100 and at most (0 where all met
    something).
    """

    span: ImpairedSpan
    packets: IntArray
    alone: BoolArray
    base_s: FloatArray
    unrest_s: tuple[float, float] = (0.0, 0.0)

    @property
    def own(self) -> IntArray:
        """Those that met nothing else."""
        return self.packets[self.alone]


def link_traversals(facts: RunFacts) -> tuple[LinkTraversal, ...]:
    """One of each impaired span that the stream's packets cross, in the plan's order."""
    plan, run, deliveries = facts.plan, facts.run, facts.run.deliveries
    path = _path_numbers(plan.forward, run.sent.label)
    delays = np.array(
        [sum(plan.network.links[i].delay_s for i in p.links) for p in plan.forward.paths]
    )[path]
    spans = [span for span in facts.theory.impaired_spans if span.link in plan.forward.loaded]
    times = [_times(run, plan, span) for span in spans]
    over = [_crosses(plan.forward, span.link)[path] for span in spans]
    sent_s = run.sent.time_s
    touched = np.zeros(len(sent_s), dtype=np.int64)
    for (start, stop), crossed in zip(times, over, strict=True):
        touched += crossed & (sent_s >= start - GUARD_S) & (sent_s < stop + GUARD_S)
    for fault in run.faults:
        if fault.fault.kind != "impaired":
            for link in faulty_links(plan.network, fault.fault):
                hit = _crosses(plan.forward, link)[path]
                touched += 2 * (
                    hit & (sent_s >= fault.start_s - GUARD_S) & (sent_s < fault.stop_s + GUARD_S)
                )
    calm = (touched == 0) & (deliveries.copies > 0)
    calm_s = (deliveries.transit_s - delays)[calm] if calm.any() else np.zeros(1)
    usual_s = float(np.median(calm_s))
    unrest = (float(np.quantile(calm_s, 0.99)) - usual_s, float(calm_s.max()) - usual_s)
    found = []
    last_s = _last_complete_s(plan)
    for span, (start, stop), crossed in zip(spans, times, over, strict=True):
        until_s = min(stop, last_s) - GUARD_S
        own = np.flatnonzero(crossed & (sent_s >= start + GUARD_S) & (sent_s < until_s))
        alone, base_s = touched[own] == 1, delays[own] + usual_s
        found.append(
            LinkTraversal(span=span, packets=own, alone=alone, base_s=base_s, unrest_s=unrest)
        )
    return tuple(found)


def _times(run: StreamMeasurements, plan: StreamPlan, span: ImpairedSpan) -> tuple[float, float]:
    """Return from when to when the link was really impaired; nothing of a fault that never came."""
    if span.fault is None:
        return -GUARD_S, math.inf
    fault = plan.faults[span.fault]
    times = next((t for t in run.faults if t.fault == fault), None)
    return (times.start_s, times.stop_s) if times is not None else (0.0, 0.0)


def _last_complete_s(plan: StreamPlan) -> float:
    """Return until when packets are sent that can still arrive before the run ends, however late."""
    wait_s: dict[int, float] = {}
    for span in stream_spans(plan):
        wait_s[span.link] = wait_s.get(span.link, 0.0) + longest_wait_s(span.impairments)
    longest_s = 0.0
    for path in plan.forward.paths:
        delays_s = (plan.network.links[i].delay_s + wait_s.get(i, 0.0) for i in path.links)
        longest_s = max(longest_s, sum(delays_s))
    return plan.duration_s - max(plan.stream.playback_s, longest_s)


def _path_numbers(split: LabelSplit, labels: IntArray) -> IntArray:
    starts = np.array([path.start for path in split.paths])
    return np.asarray(np.searchsorted(starts, labels, side="right") - 1, dtype=np.int64)


def _crosses(split: LabelSplit, link: int) -> BoolArray:
    """Shape (paths,)."""
    return np.array([link in path.links for path in split.paths], dtype=np.bool_)
