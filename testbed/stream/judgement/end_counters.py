"""Compares the counters of both ends of a stream with the logs, to find impossible values."""

import math
from typing import NamedTuple

import numpy as np

from fec.protocol.probation import NEAR_BLOCKS
from fec.protocol.receiver_types import ReceiverParameters
from testbed.judgement.counts import first_impossible, negative_count
from testbed.stream.facts.run_facts import RunFacts
from testbed.stream.judgement.packet_logs import block_outcomes
from testbed.stream.prediction.active_faults import (
    DIAGNOSES,
    RETURN_LABELS,
)
from topologies import Json
from topologies.impairments import ExtraDelay, RateTrace, Reordering


def miscounted(facts: RunFacts) -> str | None:
    """Return a text about the first counters that contradict the logs, or None.

    A run without counters has no contradictions.
    """
    plan = facts.plan
    run = facts.run
    counts = {**vars(run.health), **run.counters}
    negative = negative_count(counts)
    if negative is not None:
        return negative
    ends_s = plan.duration_s + plan.stream.playback_s
    said_s = [
        0.0,
        *(belief["at_s"] for belief in counts.get(DIAGNOSES, ())),
        ends_s,
    ]
    if said_s != sorted(said_s):
        return "what the sender took to be broken does not stand in the order of time"
    if "sent_source" not in counts:
        return None
    stream = plan.stream
    outcomes = block_outcomes(run.sent, run.received, stream.source_packets, stream.playback_s)
    for name, values in vars(outcomes).items():
        if not np.array_equal(getattr(run.blocks, name), values, equal_nan=True):
            return "what became of the blocks is not what was logged"
    limits = _sums(facts)
    wrong = first_impossible({names: _sum_of(counts, names) for names in limits}, limits)
    if wrong is None:
        return None
    by_log = f"{wrong.least:g} to {wrong.most:g}"
    return f"the ends counted {wrong.value} ({wrong.name}), and what was logged makes {by_log}"


def _sum_of(counts: Json, names: str) -> float:
    """Return the sum of the named counters; a counter after a "-" is subtracted."""
    total = 0
    for name in names.split():
        if name.startswith("-"):
            total -= counts.get(name[1:], 0)
        else:
            total += counts.get(name, 0)
    return total


class _BlockTotals(NamedTuple):
    """Bounds of a receiver's counts of blocks at the end of a run.

    Attributes:
        heard_of: Number of blocks up to the last one from which a packet arrived. Only these are
            counted.
        closed: The minimum number of them that the receiver has decoded or closed.
        undecided_symbols: Number of symbols of blocks that may still be open at the end.
    """

    heard_of: int
    closed: int
    undecided_symbols: int


def _block_totals(facts: RunFacts, refused: int) -> _BlockTotals:
    """Return bounds of the receiver's counts of blocks.

    A block without packets is opened by the first packet of a later block, and closed a playback
    time after that packet.

    Args:
        facts: The facts of the run.
        refused: Number of packets that the receiver refused. Any packets may be these, and they
            open no block.
    """
    run = facts.run
    sent = run.sent
    blocks = run.blocks
    stream = facts.plan.stream
    arrived = ~run.lost
    numbers = sent.block[arrived]
    if not len(numbers):
        return _BlockTotals(0, 0, 0)
    first = int(numbers[run.deliveries.arrived_s[arrived].argmin()])
    # A receiver that is started during the stream counts nothing before its first packet.
    begin = first if first >= NEAR_BLOCKS else 0
    end = int(numbers.max()) + 1
    longest_transit_s = run.deliveries.transit_s[arrived].max()
    closed_by_s = facts.plan.duration_s - stream.playback_s - 2 * stream.block_s - longest_transit_s
    in_time = np.sort(numbers[sent.time_s[arrived] < closed_by_s])
    closed_end = max(begin, int(in_time[-1 - refused]) + 1) if len(in_time) > refused else begin
    may_be_open = (blocks.arrived < stream.source_packets) & (blocks.block >= closed_end)
    may_be_open &= blocks.block < end
    return _BlockTotals(
        heard_of=end - begin,
        closed=end - begin - int(may_be_open.sum()),
        undecided_symbols=256 * int((may_be_open & (blocks.arrived > 0)).sum()),
    )


def _sums(facts: RunFacts) -> dict[str, tuple[float, float]]:
    """Return the smallest and the largest possible value of sums of counters.

    A key names the counters that are added; a counter after a "-" is subtracted. The bounds follow
    from these rules:

    - Late parity is the number of packets of a block beyond the N that it had when all its source
      packets were sent. A report causes late parity at most once for each block that can still be
      played.
    - A packet that is refused, or that arrives after its block was closed, is in no other counter.
    - Each such packet may change the outcome of one block. So may each block that is open at the
      end, and each block with which a restarted receiver began.
    """
    plan = facts.plan
    run = facts.run
    counts = run.counters
    sent = run.sent
    blocks = run.blocks
    stream = plan.stream
    news = run.news
    m = stream.source_packets
    received = len(run.received.time_s)
    arrived = ~run.lost
    block_index = run.block_index
    source = sent.symbol < m
    last = sent.symbol == m - 1
    size_at_last_source = np.zeros(len(blocks.block), dtype=np.int64)
    size_at_last_source[block_index[last]] = sent.block_size[last]
    late = block_index[~source & (sent.symbol >= size_at_last_source[block_index])]
    refused = sum(n for name, n in counts.items() if name.startswith("rejected_"))
    totals = _block_totals(facts, refused)
    loose: float = 256 * (counts.get("late", 0) + refused) + totals.undecided_symbols
    if {"restarts", "skipped_blocks"} & set(counts):
        loose = math.inf
    decoded = int((blocks.arrived >= m).sum())
    source_arrived = int((arrived & source).sum())
    parity_arrived = int((arrived & ~source).sum())
    reports = counts.get("reports", 0)
    heard = counts["sent_reports"]
    misjudged = np.isfinite(news.came_s).sum()
    most_reports = (
        plan.duration_s / min(stream.report_interval_s, ReceiverParameters.urgent_s)
        + received / stream.report_packets
        + 1
    )
    most_repeated = (
        math.inf if facts.theory.impaired_spans else len(RETURN_LABELS) * reports - heard
    )
    # A sender treats the third of three older reports as one from a restarted receiver.
    reordered = False
    for span in facts.theory.impaired_spans:
        for impairment in span.impairments:
            reordered = reordered or isinstance(impairment, (ExtraDelay, Reordering, RateTrace))
    most_heard = math.inf if reordered else reports
    return {
        "sent_source": (source.sum(), source.sum()),
        "sent_parity": ((~source).sum(), (~source).sum()),
        "sent_late_parity": (len(late), len(late)),
        "accepted": (arrived.sum() - loose, arrived.sum() + loose),
        "decoded_blocks": (decoded - loose, decoded + loose),
        "delivered unused_sources -recovered": (
            source_arrived - loose,
            source_arrived + loose,
        ),
        "delivered lost_sources": (
            m * totals.closed - loose,
            m * totals.heard_of + loose,
        ),
        "recovered unused_parity": (
            parity_arrived - loose,
            parity_arrived + loose,
        ),
        "decoded_blocks undecodable_blocks": (
            totals.closed - loose,
            totals.heard_of + loose,
        ),
        "accepted duplicate late": (received - refused, received),
        "reordered": (0, received),
        "sent_late_parity_blocks": (
            len(np.unique(late)),
            heard * (stream.playback_s / stream.block_s + 2),
        ),
        "reports": (0 if reordered else heard, most_reports),
        "urgent_reports": (0, reports),
        "sent_reports": (len(news.told_s), most_heard),
        "sent_repeated_reports": (0, most_repeated),
        "sent_spurious_losses": (
            misjudged,
            misjudged if len(news.told_s) else math.inf,
        ),
    }
