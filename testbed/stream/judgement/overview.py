"""The timeline of a stream in intervals of 0.1 s, and ROR over all links of its route."""

import numpy as np

from fec import ror_breakdown
from testbed.judgement.bins import TimeBins
from testbed.model.run_records import TimelineRecord
from testbed.stream.facts.run_facts import RunFacts
from testbed.stream.prediction.block_size_policy import link_block_size


def timeline(facts: RunFacts, session: int, bin_s: float = 0.1) -> TimelineRecord:
    """Return figures for each interval of ``bin_s`` seconds.

    These are packets sent per second, the fraction lost, the mean block size and the redundancy
    N/M - 1. All but the first are None in an interval in which no packet was sent.
    """
    run = facts.run
    m = facts.plan.stream.source_packets
    count = max(1, int(np.ceil(facts.plan.duration_s / bin_s)))
    # Packets that leave after the end count for the last interval.
    sent_s = np.minimum(run.sent.time_s, (count - 0.5) * bin_s)
    packets = TimeBins(sent_s, start_s=0.0, bin_s=bin_s, count=count)
    sent = packets.counts()
    losses: list[float | None] = []
    sizes: list[float | None] = []
    redundancies: list[float | None] = []
    totals = zip(
        sent,
        packets.sums(run.lost),
        packets.sums(run.sent.block_size),
        strict=True,
    )
    for number, lost, size in totals:
        if number:
            losses.append(round(lost / number, 6))
            sizes.append(round(size / number, 3))
            redundancies.append(round(size / number / m - 1, 6))
        else:
            losses.append(None)
            sizes.append(None)
            redundancies.append(None)
    return TimelineRecord(
        session=session,
        bin_s=bin_s,
        t_s=tuple(round(k * bin_s, 6) for k in range(count)),
        sent_pps=tuple(round(number / bin_s, 3) for number in sent),
        loss=tuple(losses),
        block_size=tuple(sizes),
        redundancy=tuple(redundancies),
    )


def whole_route_rors(
    facts: RunFacts,
) -> tuple[float, float | None, tuple[str, ...]]:
    """Return ROR over all loaded links whose failure a code can repair, and the other loaded links.

    Returns:
        ROR for random labels, by Gabrielyan 2007, eq. 23 and 25; ROR for the stream's order of
        labels, with N for the worst position of a block in this order, or None if labels do not
        determine the losses; the names of the links whose failure no code repairs, because they
        carry every label.
    """
    plan = facts.plan
    stream = plan.stream
    split = plan.forward
    stated = ror_breakdown(
        [split.load(link) for link in split.loaded],
        tolerance=stream.tolerance,
        source_packets=stream.source_packets,
        decoding_error_rate=stream.decoding_error_rate,
    )
    infinite = tuple(plan.network.links[split.loaded[k]].label for k in stated.infinite)
    if not facts.theory.deterministic:
        return stated.finite, None, infinite
    order = 0.0
    for link in split.loaded:
        if stream.tolerance <= float(split.load(link)) < 1:
            size = link_block_size(plan, link) or 0
            order += max(size / facts.theory.policy.base - 1, 0)
    return stated.finite, order, infinite
