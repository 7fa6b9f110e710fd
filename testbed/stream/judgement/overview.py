"""A run in tenths of a second, and ROR over the whole route."""

import numpy as np

from fec import ror_breakdown
from testbed.judgement.bins import TimeBins
from testbed.model.run_records import TimelineRecord
from testbed.stream.facts.run_facts import RunFacts
from testbed.stream.prediction.block_size_policy import link_block_size


def timeline(facts: RunFacts, session: int, bin_s: float = 0.1) -> TimelineRecord:
    """Per bin of time: packets sent a second, fraction lost, mean block size, redundancy N/M - 1 (None where idle)."""
    plan, run = facts.plan, facts.run
    bins = max(1, int(np.ceil(plan.duration_s / bin_s)))
    # Packets that leave after the end count for the last interval.
    sent_s = np.minimum(run.sent.time_s, (bins - 0.5) * bin_s)
    packets = TimeBins(sent_s, start_s=0.0, bin_s=bin_s, count=bins)
    busy = packets.counts()
    lost = packets.sums(run.lost)
    size = packets.sums(run.sent.block_size)
    m = plan.stream.source_packets
    return TimelineRecord(
        session=session,
        bin_s=bin_s,
        t_s=tuple(round(k * bin_s, 6) for k in range(bins)),
        sent_pps=tuple(round(n / bin_s, 3) for n in busy),
        loss=tuple(round(lost[k] / n, 6) if n else None for k, n in enumerate(busy)),
        block_size=tuple(round(size[k] / n, 3) if n else None for k, n in enumerate(busy)),
        redundancy=tuple(round(size[k] / n / m - 1, 6) if n else None for k, n in enumerate(busy)),
    )


def whole_route_rors(facts: RunFacts) -> tuple[float, float | None, tuple[str, ...]]:
    """Over every loaded link that some code helps: ROR by Gabrielyan 2007, eq. 23 and 25, for random labels, and that
    of this order of labels in any phase of a block (None where losses do not follow from labels); and the other
    links."""
    plan, policy, stream, split = (
        facts.plan,
        facts.theory.policy,
        facts.plan.stream,
        facts.plan.forward,
    )
    stated = ror_breakdown(
        [split.load(i) for i in split.loaded],
        tolerance=stream.tolerance,
        source_packets=stream.source_packets,
        decoding_error_rate=stream.decoding_error_rate,
    )
    infinite = tuple(plan.network.links[split.loaded[k]].label for k in stated.infinite)
    if not facts.theory.deterministic:
        return stated.finite, None, infinite
    sizes = [
        link_block_size(plan, i) or 0
        for i in split.loaded
        if stream.tolerance <= float(split.load(i)) < 1
    ]
    return stated.finite, float(sum(max(size / policy.base - 1, 0) for size in sizes)), infinite
