"""From packet logs to the figures of a run: its faults, what happened outside them, and ROR made of packets really
sent; pure numpy."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from fec import ror_breakdown
from testbed.faults.fault import names_of_faults
from testbed.model.machine.load import TimingError
from testbed.model.run_records import TimelineRecord
from testbed.stream.judgement.fault_results import (
    FaultResult,
    diagnosis_accuracy,
    fault_result,
    mistaken_beliefs,
    sent_per_source,
)
from testbed.stream.judgement.packet_logs import mislabelled
from testbed.stream.judgement.timing_errors import latenesses, spurious_loss_blocks
from testbed.stream.measurements import BoolArray, StreamMeasurements
from testbed.stream.path_delays import delay_to_fault_s, path_spread_s, round_trip_s
from testbed.stream.plan import StreamPlan
from testbed.stream.prediction.active_faults import is_campaign, is_exact
from testbed.stream.prediction.block_size_policy import (
    BlockSizePolicy,
    block_size_policy,
    is_deterministic,
    link_block_size,
)
from testbed.stream.prediction.epoch_analysis import EpochsResult, LossBounds, analyse_epochs, run_loss_bounds
from testbed.stream.prediction.loss_by_path import PathResult, path_results

FAULT_GUARD_S = 0.02
"""On each side of a fault, besides two blocks: what lies there is neither inside nor outside."""
_LESS_THAN_ONE = 2 / 3
"""Of a packet a block."""
START_UP_S = 0.4
"""Not yet rest: the first reports of a run, which a machine that is still loading code may hold up."""


@dataclass(frozen=True, kw_only=True)
class SessionAnalysis:
    """All faults of one run and what happened outside them (``sent_outside`` packets, ``blocks_outside`` blocks).
    ``ror_spurious``: what blocks that a misinformed sender began, which are left out of ``ror_measured``, would add to
    it; ``lateness``: of the machine, next to what the checks bear. ``mislabelled``: packets under another label than
    the plan's order gives them, and of how many. ``settled_late_parity``: late parity of blocks begun after the
    sender's answer to a fault that it can know, and of how many packets."""

    policy: BlockSizePolicy
    faults: tuple[FaultResult, ...]
    base_block_size: float
    blocks: int
    undecodable_outside: int
    blocks_outside: int
    lost_outside: int
    sent_outside: int
    sent: int
    ror_predicted: float
    ror_measured: float
    ror_tolerance: float
    ror_error: float = 0.0
    ror_spurious: float = 0.0
    lateness: tuple[TimingError, ...] = ()
    mislabelled: tuple[int, int] = (0, 0)
    settled_late_parity: tuple[int, int] = (0, 0)
    campaign: EpochsResult | None = None
    paths: tuple[PathResult, ...] = ()


def analyse(plan: StreamPlan, run: StreamMeasurements) -> SessionAnalysis:
    """Judge-ready figures of one run. Cost: a few passes over the packet logs.

    Where faults overlap or nodes move, ``campaign`` has them, ``faults`` is empty and the ROR figures are the
    redundancies.
    """
    policy = block_size_policy(plan)
    lost = run.lost
    deliveries = run_loss_bounds(plan, run, lost)
    if is_campaign(plan):
        return _campaign(plan, run, policy, deliveries)
    spurious = spurious_loss_blocks(plan, run)
    mistaken, results = mistaken_beliefs(plan, run), []
    for times, about in zip(run.faults, names_of_faults(plan.faults, run.faults), strict=True):
        result = fault_result(plan, run, times, lost, policy, spurious)
        wrong = is_exact(plan, times.fault) and any(times.start_s <= at_s < times.stop_s for at_s in mistaken)
        results.append(replace(result, about=about, reacted=result.reacted and not wrong))
    outside, block_outside = _outside_faults(plan, run)
    recovering = _in_recovery(plan, run)
    resting = run.first_of_block & outside & ~recovering[run.place_of_block]
    base = float(np.median(run.sent.block_size[resting])) if resting.any() else float(policy.base)
    calm = block_outside & ~recovering & (run.blocks.started_s >= START_UP_S + round_trip_s(plan))
    at_rest = _at_rest(plan, run, calm & ~np.isin(run.blocks.block, spurious), base)
    terms = _ror_terms(plan, results, policy.base, at_rest)
    ror_spurious = 0.0
    if len(spurious):
        everything = [replace(result, sent_per_source=result.sent_per_source_misled) for result in results]
        all_at_rest = _at_rest(plan, run, calm, base)
        ror_spurious = _ror_terms(plan, everything, policy.base, all_at_rest).measured - terms.measured
        none_left = any(r.sent_per_source is None is not r.sent_per_source_misled for r in results)
        if none_left or at_rest.blocks == 0 < all_at_rest.blocks:
            ror_spurious = math.inf
    return SessionAnalysis(
        policy=policy, faults=tuple(results), base_block_size=base, blocks=len(run.blocks.block),
        undecodable_outside=int((run.never_complete & block_outside).sum()), blocks_outside=int(block_outside.sum()),
        lost_outside=int((lost & outside).sum()), sent_outside=int(outside.sum()), sent=len(run.sent.block),
        ror_predicted=terms.predicted, ror_measured=terms.measured, ror_tolerance=terms.tolerance,
        ror_error=terms.error, ror_spurious=ror_spurious,
        settled_late_parity=_settled_late_parity(plan, run, results),
        lateness=latenesses(plan, run, ror_spurious, terms.tolerance if results else 0.0),
        paths=path_results(plan, run, deliveries), mislabelled=mislabelled(plan, run),
    )  # fmt: skip


def _campaign(
    plan: StreamPlan, run: StreamMeasurements, policy: BlockSizePolicy, deliveries: LossBounds
) -> SessionAnalysis:
    result = replace(analyse_epochs(plan, run, policy, deliveries), diagnoses=diagnosis_accuracy(plan, run))
    sizes = run.sent.block_size[run.first_of_block]
    return SessionAnalysis(
        policy=policy, faults=(), base_block_size=float(sizes.min()) if len(sizes) else float(policy.base),
        blocks=len(run.blocks.block), undecodable_outside=result.undecodable_within_reach,
        blocks_outside=len(run.blocks.block) - sum(outage.blocks for outage in result.outages),
        lost_outside=result.wrongly_lost, sent_outside=result.certain, sent=len(run.sent.block),
        ror_predicted=result.redundancy_predicted, ror_measured=result.redundancy_measured,
        ror_tolerance=result.ror_tolerance, campaign=result, lateness=latenesses(plan, run, 0.0, 0.0),
        paths=path_results(plan, run, deliveries), mislabelled=mislabelled(plan, run),
    )  # fmt: skip


def _settled_late_parity(plan: StreamPlan, run: StreamMeasurements, results: Sequence[FaultResult]) -> tuple[int, int]:
    pairs = zip(results, run.faults, strict=True)
    known = [result for result, times in pairs if is_exact(plan, times.fault) and result.predicted_block_size]
    return sum(result.settled_late_parity for result in known), sum(result.packets for result in known)


def _outside_faults(plan: StreamPlan, run: StreamMeasurements) -> tuple[BoolArray, BoolArray]:
    """Masks over packets and over blocks of what no fault can have touched (a guard of two blocks and 20 ms each
    side)."""
    guard = FAULT_GUARD_S + 2 * plan.stream.block_s
    packets, blocks = np.ones(len(run.sent.time_s), dtype=bool), np.ones(len(run.blocks.started_s), dtype=bool)
    for times in run.faults:
        # sent before it and lost to it, or not there yet, for its path is long, when the sender answered
        before_s = guard + max(delay_to_fault_s(plan, times.fault), path_spread_s(plan))
        for mask, at in ((packets, run.sent.time_s), (blocks, run.blocks.started_s)):
            mask &= (at < times.start_s - before_s) | (at > times.stop_s + guard)
    return packets, blocks


def _in_recovery(plan: StreamPlan, run: StreamMeasurements) -> BoolArray:
    """Which blocks began so soon after a fault that the sender may still have answered it."""
    mask = np.zeros(len(run.blocks.started_s), dtype=bool)
    for times in run.faults:
        until = times.stop_s + plan.stream.recovery_s + round_trip_s(plan) + 0.2
        mask |= (run.blocks.started_s >= times.stop_s) & (run.blocks.started_s < until)
    return mask


class _AtRest(NamedTuple):
    """Packets sent per source packet outside faults, the standard error of that mean, and of how many blocks it is
    one."""

    ratio: float
    error: float
    blocks: int


def _at_rest(plan: StreamPlan, run: StreamMeasurements, blocks: BoolArray, base: float) -> _AtRest:
    ratio, error = sent_per_source(plan, run, blocks)
    return _AtRest(ratio or base / plan.stream.source_packets, error, int(blocks.sum()))


class _RorTerms(NamedTuple):
    predicted: float
    measured: float
    tolerance: float
    error: float


def _ror_terms(plan: StreamPlan, results: Sequence[FaultResult], base: int, at_rest: _AtRest) -> _RorTerms:
    """Gabrielyan 2007, eq. 23, over the faults of this run: predicted, and made of packets that were really sent.

    The rest is in every term, so that its error counts once for each of them. The tolerance is that of theory where the
    sender can know what is lost; where it has to estimate a share (links that lose some of their packets), what the
    estimate leaves open on top.
    """
    predicted = measured = slack = variance = ratios = 0.0
    for result in results:
        if result.impaired or result.predicted_block_size is None or result.sent_per_source is None:
            continue
        predicted += result.predicted_block_size / base - 1
        ratio = result.sent_per_source / at_rest.ratio
        measured += ratio - 1
        ratios += ratio
        variance += (result.sent_per_source_error / at_rest.ratio) ** 2
        low, high = result.size_range
        slack += max(high - result.predicted_block_size, result.predicted_block_size - low, 0) / base
    least, share = (0.05, 0.02) if plan.stream.labels == "stratified" else (0.1, 0.05)
    if not slack and plan.stream.labels == "stratified":  # a sender of the wrong N is off by a packet a block
        least = _LESS_THAN_ONE / base
    error = math.hypot(math.sqrt(variance), ratios * at_rest.error / at_rest.ratio)
    return _RorTerms(predicted, measured, max(least, share * predicted) + slack, error)


def timeline(plan: StreamPlan, run: StreamMeasurements, session: int, bin_s: float = 0.1) -> TimelineRecord:
    """Per bin of time: packets sent a second, fraction lost, mean block size, redundancy N/M - 1 (None where idle)."""
    bins = max(1, int(np.ceil(plan.duration_s / bin_s)))
    index = np.clip((run.sent.time_s / bin_s).astype(int), 0, bins - 1)
    sent = np.bincount(index, minlength=bins)
    lost = np.bincount(index, weights=run.lost, minlength=bins)
    size = np.bincount(index, weights=run.sent.block_size, minlength=bins)
    m = plan.stream.source_packets
    busy = [int(n) for n in sent]
    return TimelineRecord(
        session=session, bin_s=bin_s, t_s=tuple(round(k * bin_s, 6) for k in range(bins)),
        sent_pps=tuple(round(n / bin_s, 3) for n in busy),
        loss=tuple(round(float(lost[k]) / n, 6) if n else None for k, n in enumerate(busy)),
        block_size=tuple(round(float(size[k]) / n, 3) if n else None for k, n in enumerate(busy)),
        redundancy=tuple(round(float(size[k]) / n / m - 1, 6) if n else None for k, n in enumerate(busy)),
    )  # fmt: skip


def whole_route_rors(plan: StreamPlan, policy: BlockSizePolicy) -> tuple[float, float | None, tuple[str, ...]]:
    """Over every loaded link that some code helps: ROR by Gabrielyan 2007, eq. 23 and 25, for random labels, and that
    of this order of labels in any phase of a block (None where losses do not follow from labels); and the other
    links."""
    stream, split = plan.stream, plan.forward
    stated = ror_breakdown(
        [split.load(i) for i in split.loaded],
        tolerance=stream.tolerance,
        source_packets=stream.source_packets,
        decoding_error_rate=stream.decoding_error_rate,
    )
    infinite = tuple(plan.network.links[split.loaded[k]].label for k in stated.infinite)
    if not is_deterministic(plan):
        return stated.finite, None, infinite
    sizes = [link_block_size(plan, i) or 0 for i in split.loaded if stream.tolerance <= float(split.load(i)) < 1]
    return stated.finite, float(sum(max(size / policy.base - 1, 0) for size in sizes)), infinite
