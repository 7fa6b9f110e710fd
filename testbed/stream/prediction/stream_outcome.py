"""N for a state of the network that is known, and how a stream fared: measures of redundancy against losses; pure."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, Self

import numpy as np

from testbed.model.label_split import LABELS
from testbed.stream.measurements import BoolArray, FloatArray, IntArray, StreamMeasurements
from testbed.stream.plan import StreamPlan
from testbed.stream.prediction.active_faults import DIAGNOSES, NEVER, Epoch, is_exact
from testbed.stream.prediction.block_size_policy import BlockSizePolicy, is_deterministic
from testbed.stream.prediction.path_delays import allowed_reaction_s, round_trip_s
from topologies import Json, JsonObject


def needed_size(plan: StreamPlan, policy: BlockSizePolicy, loss: float, needed: int) -> int:
    """N for one state of the network: ``loss`` of all packets, ``needed`` for the worst window of stratified labels."""
    if loss <= 0:
        return policy.base
    size = policy.largest if needed >= NEVER else needed
    return min(policy.largest, max(policy.base, size if is_deterministic(plan) else policy(loss)))


def stream_outcome(plan: StreamPlan, run: StreamMeasurements) -> JsonObject:
    """How one stream fared, from the logs of both ends. Fractions are of the source packets but for ``undecodable`` (of
    the blocks).

    ``overhead``: packets sent beyond the source packets; ``wasted``: parity that came and was not needed; ``late``:
    source packets that neither came nor were recovered in time. ``first_decode_s``: for each failure, how long after it
    the first block begun since was decoded (None: none was before the repair).
    """
    m, blocks = plan.stream.source_packets, run.blocks
    source = int((run.sent.symbol < m).sum())
    late = int(blocks.late_source_packets.sum())
    return {
        "overhead": len(run.sent.symbol) / source - 1,
        "wasted": float(run.counters.get("unused_parity", 0)) / source,
        "late": late / source,
        "undecodable": float(run.never_complete.mean()),
        "blocks": len(blocks.block),
        "first_decode_s": [
            _first_decode_s(run, times.start_s, times.stop_s) for times in run.faults
        ],
    }


def _first_decode_s(run: StreamMeasurements, start_s: float, stop_s: float) -> float | None:
    blocks = run.blocks
    done = blocks.complete_s[(blocks.started_s >= start_s) & (blocks.started_s < stop_s)]
    done = done[~np.isnan(done)]
    first = float(done.min()) if len(done) else float("inf")
    return first - start_s if first < stop_s else None


LEAST_ROR, SHARE_OF_ROR = 0.002, 0.02
"""What a redundancy of packets really sent may be off, and of what is predicted: a packet too many or too few in each
answer is off by more up to N = 2.5 M."""

# The time in transit is read off the packets sent within a second: a busy machine delays some.
_BIN_S = 0.25
_BINS_AROUND = 4
_ANSWER_BLOCKS, _ANSWER_LOSSES = 5, 3
"""A sender that has not answered a state after two reports, so many blocks and the time in which so many packets are
lost is judged all the same."""


@dataclass(frozen=True, kw_only=True)
class SentRedundancy:
    """Means over the settled blocks, ``redundancy_over_s`` of stream time, of N / FEC_t - 1: what their states ask for,
    and first transmissions that were really sent; ``redundancy_tolerance``: what an estimated share of losses leaves
    open. Of those blocks' ``settled_packets``, ``settled_late_parity`` were late parity. ``transient_packets``: of all
    other blocks within reach, beyond what their states call for.
    """

    redundancy_predicted: float = 0.0
    redundancy_measured: float = 0.0
    redundancy_tolerance: float = 0.0
    redundancy_over_s: float = 0.0
    settled_packets: int = 0
    settled_late_parity: int = 0
    transient_packets: int = 0

    @property
    def ror_tolerance(self) -> float:
        """What the redundancy that was sent may be off the predicted one."""
        return self.redundancy_tolerance + max(LEAST_ROR, SHARE_OF_ROR * self.redundancy_predicted)


class States(NamedTuple):
    """Shape (states,) each: when they begin and end, N (nan beyond reach), and the fraction of packets lost."""

    start_s: FloatArray
    stop_s: FloatArray
    size: FloatArray
    loss: FloatArray

    @classmethod
    def of(
        cls, found: Sequence[Epoch], sizes: Sequence[float] | FloatArray, losses: FloatArray
    ) -> Self:
        """Of these epochs."""
        edges = [epoch.start_s for epoch in found], [epoch.stop_s for epoch in found]
        return cls(*map(np.array, (*edges, sizes, losses)))

    @property
    def lasts_s(self) -> FloatArray:
        return self.stop_s - self.start_s

    def of_blocks(self, run: StreamMeasurements) -> IntArray:
        """Shape (blocks,): the state in which each began."""
        found = np.searchsorted(self.start_s, run.blocks.started_s, side="right") - 1
        return np.clip(found, 0, len(self.start_s) - 1)


def is_unrecoverable(epoch: Epoch, policy: BlockSizePolicy) -> bool:
    """Whether no block size up to the policy's largest repairs the epoch's loss, or nobody can tell the sender of
    it."""
    return epoch.needed > policy.largest or (epoch.reports_cut and epoch.needed > policy.base)


def sent_redundancy(
    plan: StreamPlan, run: StreamMeasurements, found: Sequence[Epoch], policy: BlockSizePolicy
) -> SentRedundancy:
    """States beyond the code's reach count for nothing."""
    if not len(run.blocks.block):
        return SentRedundancy()
    sizes = [
        math.nan
        if is_unrecoverable(epoch, policy)
        else needed_size(plan, policy, epoch.loss, epoch.needed)
        for epoch in found
    ]
    states = States.of(found, sizes, np.array([epoch.loss for epoch in found]))
    state, settled = states.of_blocks(run), settled_blocks(plan, run, states)
    sent, required = run.packets_of_block, states.size[state]
    first = np.minimum(run.size_begun, sent)  # an N that was said, and not sent, is no redundancy
    transient = int((sent - required)[~np.isnan(required) & ~settled].sum())
    if not settled.any():
        return SentRedundancy(transient_packets=transient)
    return SentRedundancy(
        redundancy_predicted=float(required[settled].mean() / policy.base - 1),
        redundancy_measured=float(first[settled].mean() / policy.base - 1),
        redundancy_tolerance=float(
            _left_open(plan, policy, states)[state][settled].mean() / policy.base
        ),
        redundancy_over_s=round(float(settled.sum()) * plan.stream.block_s, 4),
        settled_packets=int(sent[settled].sum()),
        settled_late_parity=int((sent - first)[settled].sum()),
        transient_packets=transient,
    )


def settled_blocks(plan: StreamPlan, run: StreamMeasurements, states: States) -> BoolArray:
    """Shape (blocks,): which began after the answer to their state, which is the first N that is right, and were over,
    parity included, before its end."""
    started, state, stream = run.blocks.started_s, states.of_blocks(run), plan.stream
    lost_pps = stream.rate_pps * states.loss
    losses_s = np.divide(_ANSWER_LOSSES, lost_pps, out=np.zeros(len(lost_pps)), where=lost_pps > 0)
    usual_s = 2 * stream.report_interval_s + _ANSWER_BLOCKS * stream.block_s + losses_s
    usual_s = np.maximum(usual_s, allowed_reaction_s(plan))
    latest = _latest_answers_s(plan, states, usual_s)
    before = np.append(states.size[:1], states.size[:-1])
    certain = _certain_s(run, states, latest)
    # If no report got back before, a block that happens to have the right N is no answer.
    reported = ~np.isnan(before)[state]
    right = (run.size_begun == states.size[state]) & (started >= certain[state]) & reported
    answered = latest.copy()
    np.minimum.at(answered, state, np.where(right, started, np.inf))
    there_s = started + 2 * stream.block_s + transits_s(run)[run.first_of_block]
    within_reach = ~np.isnan(states.size)[state]
    return np.asarray(
        (started >= answered[state]) & (there_s < states.stop_s[state]) & within_reach
    )


def _latest_answers_s(plan: StreamPlan, states: States, usual_s: FloatArray) -> FloatArray:
    """Return when an answer to each state is due, shape (states,).

    A sender keeps the N of a state that asked for more until it has recovered from that state.
    """
    latest_s = states.start_s + usual_s
    recovery_s = plan.stream.recovery_s + round_trip_s(plan)
    for number, size in enumerate(states.size):
        for earlier in range(number - 1, -1, -1):
            recovered_s = states.stop_s[earlier] + recovery_s
            if recovered_s <= latest_s[number]:
                break
            needed_more = np.isnan(states.size[earlier]) or states.size[earlier] > size
            if needed_more:
                latest_s[number] = recovered_s
                break
    return np.minimum(states.stop_s, latest_s)


def _certain_s(run: StreamMeasurements, states: States, latest: FloatArray) -> FloatArray:
    """Return when the last doubt or wrong belief before ``latest`` was over, shape (states,).

    Before that, a block that happens to have the right N is no answer. A state in which the sender
    had neither counts from its beginning.
    """
    certain_s = states.start_s.copy()
    events: Sequence[Json] = run.counters.get(DIAGNOSES, ())
    for event, after in pairwise([*events, {"at_s": math.inf}]):
        known = np.abs(states.loss - event["lost_fraction"]) < 1 / LABELS
        right = known & event.get("certain", True)
        met = (event["at_s"] < latest) & (after["at_s"] > states.start_s)
        wrong = ~right & met
        certain_s[wrong] = np.maximum(certain_s, np.minimum(after["at_s"], latest))[wrong]
    return certain_s


def transits_s(run: StreamMeasurements) -> FloatArray:
    """Return how long each packet may have been in transit, shape (sent,).

    It is the longest transit of the packets sent within a second of it.
    """
    sent_s = run.sent.time_s
    if not len(sent_s):
        return np.zeros(0)
    bins = np.maximum(0, sent_s / _BIN_S).astype(np.int64)
    longest = np.zeros(int(bins.max()) + 1)
    np.maximum.at(longest, bins, np.nan_to_num(run.deliveries.transit_s))
    padded = np.pad(longest, _BINS_AROUND)
    shifted = [padded[k : k + len(longest)] for k in range(2 * _BINS_AROUND + 1)]
    widest = np.max(shifted, axis=0)
    return np.asarray(widest[bins], dtype=np.float64)


def _left_open(plan: StreamPlan, policy: BlockSizePolicy, states: States) -> FloatArray:
    """Shape (states,): packets a block by which the answer to a state's loss may differ where the sender does not know
    what is lost but has to estimate its share, which the packets of the state tell so far; none where it knows."""
    if is_exact(plan, *plan.faults):
        return np.zeros(len(states.loss))
    packets = np.maximum(1.0, states.lasts_s * plan.stream.rate_pps)
    error = 2 * np.sqrt(states.loss * (1 - states.loss) / packets) + 1 / packets + 0.015
    bounds = zip(
        np.maximum(0.0, states.loss - error), np.minimum(0.99, states.loss + error), strict=True
    )
    return np.array([float(policy(high) - policy(low)) for low, high in bounds])
