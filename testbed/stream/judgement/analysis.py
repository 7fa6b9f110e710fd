"""From packet logs to what happened in each fault: loss, block size, reaction, blocks that did not decode; pure numpy.

A fault's figures come from its steady part alone; what was cut before the sender had answered is counted apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fec.redundancy.block_size import binomial_interval, fec_block_size, stratified_block_size, window_share_error
from testbed.faults.fault_times import FaultTimes
from testbed.model.run_records import TimelineRecord
from testbed.stream.measurements import StreamMeasurements
from testbed.stream.plan import StreamPlan
from testbed.stream.planning import predicted_loss
from testbed.stream.prediction.active_faults import fault_intervals, is_campaign
from testbed.stream.prediction.loss_by_path import PathResult, path_results
from testbed.stream.prediction.packet_fates import CampaignResult, Fates, analyse_campaign, run_fates
from testbed.stream.prediction.policy import BlockSizePolicy, block_size_policy, is_deterministic, link_block_size

BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class FaultResult:
    """One fault, prediction beside measurement. Losses are fractions; ``interval`` is where the predicted loss must lie.

    ``measured_block_size`` is where N settled: the median over the blocks of the steady part (``mean_block_size`` holds what
    the first, rough estimate overshot as well). ``size_range``: block sizes that the sender may settle at, given how well
    a loss can be told from a measurement.
    ``reaction_s``: from the failure to the first packet sent under the larger N (None: no larger N was called for, or
    none came: then ``reacted`` is false). Transient blocks were started before the reaction.
    """

    link: str
    kind: str
    start_s: float
    stop_s: float
    predicted_loss: float
    measured_loss: float | None
    interval: tuple[float, float]
    packets: int
    predicted_block_size: int | None
    measured_block_size: float | None
    mean_block_size: float | None
    size_range: tuple[int, int]
    reacted: bool
    reaction_s: float | None
    transient_blocks: int
    transient_blocks_lost: int
    steady_blocks: int
    undecodable_blocks: int
    late_packets: int
    transient_late_packets: int
    port_status_s: float | None

    def to_json(self) -> dict[str, object]:
        """The keys of ``testbed stream --json``'s ``per_fault`` (docs/guide/commands.md)."""
        return {k: list(v) if isinstance(v, tuple) else v for k, v in self.__dict__.items()}


@dataclass(frozen=True, kw_only=True)
class SessionAnalysis:
    """All faults of one run and what happened outside them."""

    policy: BlockSizePolicy
    faults: tuple[FaultResult, ...]
    base_block_size: float
    blocks: int
    undecodable_outside: int
    lost_outside: int
    sent: int
    ror_predicted: float
    ror_measured: float
    ror_tolerance: float
    campaign: CampaignResult | None = None
    paths: tuple[PathResult, ...] = ()


def lost_mask(run: StreamMeasurements) -> BoolArray:
    """Shape (sent,): which sent packets never arrived (by block and symbol)."""
    sent = run.sent.block * 256 + run.sent.symbol
    got = run.received.block * 256 + run.received.symbol
    return ~np.isin(sent, got)


def analyse(plan: StreamPlan, run: StreamMeasurements) -> SessionAnalysis:
    """Judge-ready figures of one run. Cost: a few passes over the packet logs.

    Where faults overlap or nodes move, ``campaign`` has them, ``faults`` is empty and the ROR figures are the redundancies.
    """
    policy = block_size_policy(plan)
    lost = lost_mask(run)
    fates = run_fates(plan, run, lost)
    if is_campaign(plan):
        return _campaign(plan, run, policy, fates)
    results = tuple(_fault_result(plan, run, times, lost, policy) for times in run.faults)
    outside, block_outside = _outside_faults(plan, run)
    broken = _never_complete(run)
    resting = _first_of_block(run) & outside & ~_in_recovery(plan, run)
    base = float(np.median(run.sent.block_size[resting])) if resting.any() else float(policy.base)
    predicted, measured, slack = _ror_terms(results, policy.base, base)
    return SessionAnalysis(
        policy=policy,
        faults=results,
        base_block_size=base,
        blocks=len(run.blocks.block),
        undecodable_outside=int((broken & block_outside).sum()),
        lost_outside=int((lost & outside).sum()),
        sent=len(run.sent.block),
        ror_predicted=predicted,
        ror_measured=measured,
        ror_tolerance=slack,
        paths=path_results(plan, run, fates),
    )


def _campaign(plan: StreamPlan, run: StreamMeasurements, policy: BlockSizePolicy, fates: Fates) -> SessionAnalysis:
    result = analyse_campaign(plan, run, policy, fates)
    sizes = run.sent.block_size[_first_of_block(run)]
    return SessionAnalysis(
        policy=policy,
        faults=(),
        base_block_size=float(sizes.min()) if len(sizes) else float(policy.base),
        blocks=len(run.blocks.block),
        undecodable_outside=result.undecodable_within_reach,
        lost_outside=result.wrongly_lost,
        sent=len(run.sent.block),
        ror_predicted=result.redundancy_predicted,
        ror_measured=result.redundancy_measured,
        ror_tolerance=result.redundancy_tolerance,
        campaign=result,
        paths=path_results(plan, run, fates),
    )


def _fault_result(
    plan: StreamPlan, run: StreamMeasurements, times: FaultTimes, lost: BoolArray, policy: BlockSizePolicy
) -> FaultResult:
    fault = times.fault
    loss = predicted_loss(plan, fault)
    low, high = size_range(plan, loss, policy)
    starts = run.blocks.started_s
    needs_more = plan.stream.block_size is None and loss < 1 and low > policy.base
    reaction = _reaction(run, times, low) if needs_more else None
    answered = times.start_s + (reaction or 0.0) if reaction is not None or not needs_more else times.stop_s
    last = times.stop_s - plan.stream.source_packets / plan.stream.rate_pps * 2
    mask = _packets_of_blocks_started(run, answered, last) & (run.sent.time_s < times.stop_s)
    packets = int(mask.sum())
    measured = float(lost[mask].mean()) if packets else None
    broken, late = _never_complete(run), run.blocks.late_source_packets
    transient = (starts >= times.start_s - 2 * plan.stream.source_packets / plan.stream.rate_pps) & (starts < answered)
    steady = (starts >= answered) & (starts < times.stop_s)
    sizes = run.sent.block_size[_first_of_block(run) & mask]
    return FaultResult(
        link=f"{fault.link[0]}->{fault.link[1]}" + (f"#{fault.link[2]}" if fault.link[2] else ""),
        kind=fault.kind,
        start_s=times.start_s,
        stop_s=times.stop_s,
        predicted_loss=loss,
        measured_loss=measured,
        interval=loss_interval(plan, times, packets, lost[mask]),
        packets=packets,
        predicted_block_size=predicted_block_size(plan, times, loss, policy.base),
        measured_block_size=float(np.median(sizes)) if len(sizes) else None,
        mean_block_size=float(sizes.mean()) if len(sizes) else None,
        size_range=(low, high),
        reacted=not needs_more or reaction is not None,
        reaction_s=reaction,
        transient_blocks=int(transient.sum()),
        transient_blocks_lost=int((transient & broken).sum()),
        steady_blocks=int(steady.sum()),
        undecodable_blocks=int((steady & broken).sum()),
        late_packets=int(late[steady].sum()),
        transient_late_packets=int(late[transient].sum()),
        port_status_s=times.port_status_s,
    )


def size_range(plan: StreamPlan, loss: float, policy: BlockSizePolicy) -> tuple[int, int]:
    """Smallest and largest N that the policy gives for losses the receiver cannot tell from this one.

    A stratified share is known to a packet a window (two points of loss over a block or two); a random one to 1.5 points
    and a tenth of itself after the few hundred packets of a fault's steady part.
    """
    if plan.stream.block_size is not None:
        return plan.stream.block_size, plan.stream.block_size
    spread = 0.02 if is_deterministic(plan) else 0.015 + 0.1 * loss
    return policy(max(0.0, loss - spread)), policy(min(0.99, loss + spread))


def predicted_block_size(plan: StreamPlan, times: FaultTimes, loss: float, base: int) -> int | None:
    """FEC_r(l): equation 25, or the exact worst window of what the failed cable carries; None where nothing gets by."""
    if loss >= 1:
        return None
    m = plan.stream.source_packets
    if is_deterministic(plan):
        hit = fault_intervals(plan, times.fault)
        return max(stratified_block_size(hit, m) if hit else m, base)
    return max(fec_block_size(m, loss, plan.stream.decoding_error_rate), base)


def loss_interval(plan: StreamPlan, times: FaultTimes, packets: int, lost: BoolArray) -> tuple[float, float]:
    """Where the true loss lies, given the measurement: the discrepancy of the intervals around it, or a binomial
    interval at 99 % for the run as a whole (shared out over its faults)."""
    if not packets:
        return (0.0, 1.0)
    share = float(lost.mean())
    if is_deterministic(plan):
        error = window_share_error(fault_intervals(plan, times.fault), max(1, packets)) + 1 / packets
        blocks = 2 / max(1.0, packets / plan.stream.source_packets)
        return (max(0.0, share - error - 0.01 * blocks), min(1.0, share + error + 0.01 * blocks))
    confidence = 1 - 0.01 / max(1, len(plan.faults))
    return binomial_interval(int(lost.sum()), packets, confidence)


def _reaction(run: StreamMeasurements, times: FaultTimes, needed: int) -> float | None:
    after = (run.sent.time_s >= times.start_s) & (run.sent.time_s < times.stop_s) & (run.sent.block_size >= needed)
    return float(run.sent.time_s[after].min() - times.start_s) if after.any() else None


def _packets_of_blocks_started(run: StreamMeasurements, start_s: float, stop_s: float) -> BoolArray:
    wanted = run.blocks.block[(run.blocks.started_s >= start_s) & (run.blocks.started_s < stop_s)]
    return np.isin(run.sent.block, wanted)


def _never_complete(run: StreamMeasurements) -> BoolArray:
    return np.isnan(run.blocks.complete_s)


def _first_of_block(run: StreamMeasurements) -> BoolArray:
    first = np.zeros(len(run.sent.block), dtype=bool)
    first[np.unique(run.sent.block, return_index=True)[1]] = True
    return first


def _outside_faults(plan: StreamPlan, run: StreamMeasurements) -> tuple[BoolArray, BoolArray]:
    """Masks over packets and over blocks of what no fault can have touched (a guard of two blocks and 20 ms each side)."""
    guard = 0.02 + 2 * plan.stream.source_packets / plan.stream.rate_pps
    packets, blocks = np.ones(len(run.sent.time_s), dtype=bool), np.ones(len(run.blocks.started_s), dtype=bool)
    for times in run.faults:
        for mask, at in ((packets, run.sent.time_s), (blocks, run.blocks.started_s)):
            mask &= (at < times.start_s - guard) | (at > times.stop_s + guard)
    return packets, blocks


def _in_recovery(plan: StreamPlan, run: StreamMeasurements) -> BoolArray:
    from testbed.stream.planning import recovery_s

    mask = np.zeros(len(run.sent.time_s), dtype=bool)
    for times in run.faults:
        mask |= (run.sent.time_s >= times.stop_s) & (run.sent.time_s < times.stop_s + recovery_s(plan.stream) + 0.2)
    return mask


def _ror_terms(results: Sequence[FaultResult], base: int, measured_base: float) -> tuple[float, float, float]:
    """Equation 23 over the faults of this run: predicted, measured and the tolerance that the size ranges give."""
    predicted = measured = slack = 0.0
    for result in results:
        if result.predicted_block_size is None or result.measured_block_size is None:
            continue
        predicted += result.predicted_block_size / base - 1
        measured += result.measured_block_size / measured_base - 1
        low, high = result.size_range
        slack += max(high - result.predicted_block_size, result.predicted_block_size - low, 0) / base
    return predicted, measured, slack


def timeline(plan: StreamPlan, run: StreamMeasurements, session: int, bin_s: float = 0.1) -> TimelineRecord:
    """Per bin of time: packets sent a second, fraction lost, mean block size, redundancy N/M - 1 (None where idle)."""
    bins = max(1, int(np.ceil(plan.duration_s / bin_s)))
    index = np.clip((run.sent.time_s / bin_s).astype(int), 0, bins - 1)
    sent = np.bincount(index, minlength=bins)
    lost = np.bincount(index, weights=lost_mask(run), minlength=bins)
    size = np.bincount(index, weights=run.sent.block_size, minlength=bins)
    m = plan.stream.source_packets
    busy = [int(n) for n in sent]
    return TimelineRecord(
        session=session,
        bin_s=bin_s,
        t_s=tuple(round(k * bin_s, 6) for k in range(bins)),
        sent_pps=tuple(round(n / bin_s, 3) for n in busy),
        loss=tuple(round(float(lost[k]) / n, 6) if n else None for k, n in enumerate(busy)),
        block_size=tuple(round(float(size[k]) / n, 3) if n else None for k, n in enumerate(busy)),
        redundancy=tuple(round(float(size[k]) / n / m - 1, 6) if n else None for k, n in enumerate(busy)),
    )


def whole_route_ror(plan: StreamPlan, policy: BlockSizePolicy) -> tuple[float, tuple[str, ...]]:
    """Predicted ROR over every loaded link of the route (infinite when one carries everything), and those links."""
    total, infinite = 0.0, []
    m = plan.stream.source_packets
    for i in plan.forward.loaded:
        share = float(plan.forward.load(i))
        if share >= 1:
            infinite.append(plan.network.links[i].label)
        elif share >= plan.stream.tolerance:
            if is_deterministic(plan):
                size = max(link_block_size(plan.forward, i, m) or 0, policy.base)
            else:
                size = max(fec_block_size(m, share, plan.stream.decoding_error_rate), policy.base)
            total += size / policy.base - 1
    return (float("inf") if infinite else total), tuple(infinite)
