"""How late the machine was in a run of a stream, and how late the checks let it be; pure numpy.

Theory of operation. In the network of theory a switch passes a packet on at once. On a machine that is busy with other
things a switch waits for a processor, and packets lie in it; those of one path longer than those of another. Three
things follow.

- A packet that another one overtakes by more than the sender's allowance for reordering (5 ms at least) is *taken for
  lost*. Until a report tells that it came, the sender is **misinformed**: it answers a failure that is none, begins
  blocks under a wrong N and sends late parity. Equation 23 is about blocks that were begun upon true news. Those begun
  or helped while the sender was misinformed are left out of ROR, and what they would have added or taken away is said.
  The check bears as much of that as its tolerance is: where the two figures, with them and without them, are further
  apart, neither says anything.
- A block has the playback buffer's time. A quarter of it each is given to a sender that is late, to packets that lie in
  switches, and to a receiver that is late; the last quarter is the block's own (two blocks' time, 40 ms of the usual
  400).
- A fault's steady part begins after ``REACTION_S`` at the latest: a report interval, and what is left for the way of
  the news. A block that is begun upon older news than that may have too small an N through no fault of the sender.
"""

import numpy as np

from testbed.model.machine.load import TimingError
from testbed.stream.endpoints import SETTLE_S
from testbed.stream.measurements import BoolArray, FloatArray, IntArray, StreamMeasurements
from testbed.stream.plan import StreamPlan
from testbed.stream.prediction.active_faults import is_impaired
from testbed.stream.prediction.path_delays import REACTION_S, longest_path_delay_s

MAX_LAG = 0.25
"""Of the playback buffer (100 ms of the usual 400): for each of the three that may be late."""


def quarter_s(plan: StreamPlan) -> float:
    """What a sender, the switches, a receiver and the clocks between them may each be off by, of the playback buffer's
    time."""
    return MAX_LAG * plan.stream.playback_s


def latenesses(
    plan: StreamPlan, run: StreamMeasurements, spurious_ror: float, ror_tolerance: float
) -> tuple[TimingError, ...]:
    """All of a run, in the order in which they are told. ``misled_ror``: by how much blocks that a misinformed sender
    began change ROR (0 where none is judged), next to that check's tolerance. In virtual time there are no switches
    that could hold a packet."""
    most_s, received = quarter_s(plan), float(run.counters.get("worst_receive_lag_s", 0.0))
    busy = (
        f" (processors {run.health.cpu_fraction:.0%} busy)"
        if run.health.cpu_fraction is not None
        else ""
    )
    found = [
        TimingError(
            "sender",
            "the sender lagged {was} behind its schedule" + busy,
            run.health.sender_lag_s,
            most_s,
        ),
        TimingError(
            "receiver", "packets lay {was} at the receiver before it took them", received, most_s
        ),
    ]
    if _only_switches_delay(plan, run):
        words = "packets lay {was} in the switches, which hold none in theory" + busy
        found.append(TimingError("switches", words, max_queueing_delay_s(plan, run), most_s))
        if plan.stream.block_size is None:
            found += _reaction_timing_errors(plan, run, spurious_ror, ror_tolerance)
    return tuple(found)


def _reaction_timing_errors(
    plan: StreamPlan, run: StreamMeasurements, spurious_ror: float, ror_tolerance: float
) -> list[TimingError]:
    """What an answer to a failure depends on: the age of the sender's news, and whether it was true."""
    ages, way_s = run.news.told_s - run.news.newest_s, 2 * longest_path_delay_s(plan)
    oldest_s = float(ages[np.isfinite(ages)].max(initial=0.0)) - way_s
    limit_s = max(
        REACTION_S - plan.stream.report_interval_s - SETTLE_S - plan.stream.block_s, quarter_s(plan)
    )
    found = [
        TimingError(
            "news", "a loss report told the sender of packets sent {was} before", oldest_s, limit_s
        )
    ]
    if ror_tolerance > 0:
        words = "blocks that the sender began or helped because of packets that lay in switches change ROR by {was}"
        found.append(TimingError("misled", words, abs(spurious_ror), ror_tolerance, unit=""))
    return found


def _only_switches_delay(plan: StreamPlan, run: StreamMeasurements) -> bool:
    """Whether nothing else keeps packets on their way: impairments do on purpose, and so do queues that TCP fills."""
    return (
        run.fabric == "emulation" and not is_impaired(plan) and "background_bps" not in run.counters
    )


def max_queueing_delay_s(
    plan: StreamPlan, run: StreamMeasurements, from_s: float = -np.inf
) -> float:
    """How long a packet sent since ``from_s`` was under way at most, beyond the longest way's delay and what clocks
    leave open."""
    transit_s = run.deliveries.transit_s[run.sent.time_s >= from_s]
    longest_s = float(transit_s[~np.isnan(transit_s)].max(initial=0.0))
    return max(0.0, longest_s - longest_path_delay_s(plan) - run.clocks.end_to_end_s)


def spurious_loss_intervals(plan: StreamPlan, run: StreamMeasurements) -> FloatArray:
    """Shape (spans, 2): from when to when the sender took packets for lost that came after all, and one report more:
    with that one it has judged the labels again. One that it was never told of counts for the playback buffer's
    time. By their beginnings; each ends no sooner than those before it."""
    loss_reports = run.news
    arrived = np.isin(loss_reports.block * 256 + loss_reports.symbol, run.received.key)
    began = loss_reports.lost_s[arrived]
    reported = np.where(
        np.isfinite(loss_reports.came_s[arrived]),
        loss_reports.came_s[arrived],
        began + plan.stream.playback_s,
    )
    after = np.searchsorted(loss_reports.told_s, reported, side="right")
    later = np.append(loss_reports.told_s, np.inf)[after]
    ended = np.where(np.isfinite(later), later, reported + plan.stream.report_interval_s)
    order = np.argsort(began)
    return np.stack([began[order], np.maximum.accumulate(ended[order])], axis=1)


def spurious_loss_blocks(plan: StreamPlan, run: StreamMeasurements) -> IntArray:
    """Numbers of the blocks that were begun while the sender was misinformed, or that got late parity then or within
    the playback buffer's time after it, in which what was decided then is sent. None where the run kept no news."""
    if not _only_switches_delay(plan, run) or not len(run.news.lost_s):
        return np.empty(0, dtype=np.int64)
    spans, blocks, sent = spurious_loss_intervals(plan, run), run.blocks, run.sent
    begun = _within(blocks.started_s, spans, 0.0)
    late = (sent.symbol >= run.size_begun[run.place_of_block]) & _within(
        sent.time_s, spans, plan.stream.playback_s
    )
    return np.union1d(blocks.block[begun], sent.block[late])


def _within(times_s: FloatArray, spans: FloatArray, longer_s: float) -> BoolArray:
    if not len(spans):
        return np.zeros(len(times_s), dtype=np.bool_)
    place = np.searchsorted(spans[:, 0], times_s, side="right") - 1
    return np.asarray((place >= 0) & (times_s <= spans[place, 1] + longer_s))
