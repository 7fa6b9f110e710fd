"""Probes the smallest sufficient block size N while a link is down (``--probe-block-size``).

Two streams run, with block size N and N - 1, and their decoding failures are compared with theory.
The sender and the prediction may use the same table, so only a count can show that it is right.
Gabrielyan 2007, eq. 25, says for a decoding error rate of 1e-2 that N fails rarely enough, and
N - 1 too often. A count over thousands of blocks can refute this.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np

from fec import fec_block_size
from fec.redundancy.block_size import binomial_interval, decoding_failure_probability
from fec.redundancy.labels import label_table
from testbed.errors import InputError
from testbed.faults.fault import Fault
from testbed.faults.grammar import parse_link
from testbed.model.progress import ReportProgress
from testbed.model.verdict import Check, Verdict
from testbed.model.workload import How, Judgement
from testbed.stream.fabric import open_fabric
from testbed.stream.judgement.analysis import Analysis
from testbed.stream.judgement.validity import invalid_reason
from testbed.stream.measurements import IntArray, StreamMeasurements
from testbed.stream.options import StreamOptions
from testbed.stream.plan import ProbePlan, StreamPlan
from testbed.stream.planning import build_stream, check_rates, choose_links
from testbed.stream.prediction.block_size_policy import link_block_size
from testbed.stream.prediction.stream_theory import StreamTheory
from topologies import LinkId, label_of

PROBE_ERROR_RATE = 1e-2

# Time of a stream before and after its blocks.
_LEAD_S = 0.3
_REST_S = 0.2

# Blocks that start within this time after the failure are not counted.
_SETTLE_S = 0.02

# Confidence of the intervals of error rates, and half the width of such an interval of a normal
# distribution in standard deviations.
_CONFIDENCE = 0.999
_SIGMAS = 3.29

# Whether each of the two block sizes is sufficient: N is, and N - 1 is not.
_SUFFICIENT = (True, False)

_NEVER_MET = (
    "blocks of this size, one after another, never meet the labels of which too many are lost"
)


@dataclass(frozen=True, kw_only=True)
class ProbeStep:
    """The result of one stream with a fixed block size.

    Attributes:
        block_size: The block size.
        predicted_failure: Predicted probability that a block cannot be decoded.
        blocks: Number of blocks.
        failures: Number of blocks that could not be decoded.
        interval: Confidence interval (99.9 %) of the error rate, as lower and upper limit.
    """

    block_size: int
    predicted_failure: float
    blocks: int
    failures: int
    interval: tuple[float, float]


def build_probe(requested: StreamOptions, *, blocks: int, link: str | None) -> ProbePlan:
    """Make the plan of a probe.

    Args:
        requested: The options of the stream.
        blocks: Number of blocks of each stream.
        link: The link that is down; None for the link that carries most of the stream.

    Raises:
        InputError: The link carries no or all packets, or a link cannot carry the stream.
    """
    plan = build_stream(replace(requested, faults=(), duration_s=None))
    network = plan.network
    if link is None:
        candidates = choose_links(plan, None)
        busiest = max(candidates, key=lambda index: (plan.forward.load(index), -index))
        probed = network.links[busiest].id
    else:
        probed = parse_link(link, network)
    if not 0 < plan.forward.load(network.link_index[probed]) < 1:
        raise InputError(
            f"probe of {label_of(probed)}: it must carry some of the stream, not all; "
            "choose another link"
        )
    probe = ProbePlan(plan=plan, link=probed, blocks=blocks)
    for step in _steps(probe):
        check_rates(StreamTheory(step))
    return probe


def _steps(probe: ProbePlan) -> list[StreamPlan]:
    """Return the plans of the two streams, with block size N and N - 1.

    N is from eq. 25 with an error rate of 1e-2 if labels are random, and from the exact worst
    window if they are stratified.
    """
    plan = probe.plan
    index = probe.network.link_index[probe.link]
    if plan.stream.labels == "stratified":
        size = link_block_size(plan, index) or 255
    else:
        size = fec_block_size(
            plan.stream.source_packets, plan.forward.load(index), PROBE_ERROR_RATE
        )
    return [probe_plan(plan, probe.link, n, probe.blocks) for n in (size, size - 1)]


def probe_plan(plan: StreamPlan, link: LinkId, block_size: int, blocks: int) -> StreamPlan:
    """Return the plan of one stream of a probe.

    Args:
        plan: The plan of a stream without faults.
        link: The link that is down during the whole stream.
        block_size: The fixed block size.
        blocks: Number of blocks.
    """
    stream = replace(plan.stream, block_size=block_size)
    duration_s = _LEAD_S + blocks * stream.block_s + _REST_S + stream.playback_s
    return replace(
        plan,
        stream=stream,
        faults=(Fault(link=link, stop_s=round(duration_s, 4)),),
        duration_s=duration_s,
    )


def foreseen(probe: ProbePlan) -> Iterator[str]:
    """Return a line for each block size about which the probe cannot decide.

    If labels are random, the number of blocks may be too small for the interval of the error rate.
    If they are stratified, there may be no block that meets too many lost labels.
    """
    exact = probe.plan.stream.labels == "stratified"
    for step, sufficient in zip(_steps(probe), _SUFFICIENT, strict=True):
        size = step.stream.block_size or 0
        probability = predicted_failure(step, size, np.arange(probe.blocks))
        if exact:
            if not sufficient and probability == 0:
                yield f"N = {size} is too small: {_NEVER_MET}"
            continue
        distance = probability - PROBE_ERROR_RATE
        if distance == 0:
            continue
        needed = probability * (1 - probability) * (_SIGMAS / distance) ** 2
        if probe.blocks < needed:
            claim = _claim(size, PROBE_ERROR_RATE, sufficient=sufficient)
            yield f"{claim}: that takes {needed:.2g} blocks (--probe-blocks)"


def _claim(size: int, error_rate: float, *, sufficient: bool) -> str:
    """Return the claim about a block size that a probe tests."""
    adequacy = "enough" if sufficient else "too small"
    return f"N = {size} is {adequacy} for an error rate of {error_rate:g}"


def run_probe(
    probe: ProbePlan, how: How, report_progress: ReportProgress | None
) -> list[tuple[StreamPlan, StreamMeasurements]]:
    """Run the two streams one after the other, and return their plans and measurements."""
    fabric = open_fabric(how.fabric)
    return [(step, fabric.run(step, report_progress)) for step in _steps(probe)]


def probe_step(plan: StreamPlan, run: StreamMeasurements) -> ProbeStep:
    """Count the blocks of which fewer than M symbols arrived.

    Only blocks count that were started while the link was down, and that are complete: the end of
    the run may have cut off the last ones.
    """
    size = plan.stream.block_size or 0
    started_in_fault = run.blocks.started_s >= run.faults[0].start_s + _SETTLE_S
    counted = started_in_fault & (run.packets_of_block == size)
    blocks = int(counted.sum())
    failures = int((run.blocks.arrived[counted] < plan.stream.source_packets).sum())
    return ProbeStep(
        block_size=size,
        predicted_failure=predicted_failure(plan, size, run.blocks.block[counted]),
        blocks=blocks,
        failures=failures,
        interval=binomial_interval(failures, max(1, blocks), _CONFIDENCE),
    )


def predicted_failure(plan: StreamPlan, size: int, blocks: IntArray) -> float:
    """Return the probability that a block cannot be decoded while the plan's link is down.

    If labels are random, it is that of eq. 25. If they are stratified, it is the exact share of
    these blocks: the labels of block b have the positions b * N to b * N + N - 1 in the order, and
    fewer than M of them must miss the link.

    Args:
        plan: The plan of the stream, with one fault.
        size: The block size N.
        blocks: Numbers of the blocks.
    """
    m = plan.stream.source_packets
    link = plan.network.link_index[plan.faults[0].link]
    if plan.stream.labels == "random":
        return float(decoding_failure_probability(m, size, plan.forward.load(link)))
    if len(blocks) == 0:
        return 0.0
    labels = label_table(plan.stream.label_rule)
    lost = np.zeros(len(labels), dtype=np.bool_)
    for start, stop in plan.forward.intervals(link):
        lost |= (labels >= start) & (labels < stop)
    windows = (blocks[:, None] * size + np.arange(size)) % len(labels)
    arrived = (~lost[windows]).sum(axis=1)
    return float((arrived < m).mean())


def judge_probe(plan: StreamPlan, steps: Sequence[ProbeStep], invalid: str | None) -> Verdict:
    """Judge a probe.

    N must be within the error rate, and N - 1 above it. Both must fail as often as predicted.

    Args:
        plan: The plan of the stream.
        steps: The results of N and N - 1.
        invalid: Why a run was invalid, or None.
    """
    exact = plan.stream.labels == "stratified"
    rate_checks = []
    limit_checks = []
    for step, sufficient in zip(steps, _SUFFICIENT, strict=False):
        rate_checks.append(_rate_check(step, exact=exact))
        limit_checks.append(_limit_check(step, exact=exact, sufficient=sufficient))
    return Verdict(checks=(*rate_checks, *limit_checks), invalid=invalid)


def _rate_check(step: ProbeStep, *, exact: bool) -> Check:
    """Return the check that blocks failed as often as predicted."""
    low, high = step.interval
    if exact:
        agrees = step.failures == round(step.predicted_failure * step.blocks)
    else:
        agrees = low <= step.predicted_failure <= high
    check = Check(
        name=f"decoding failures at N = {step.block_size}",
        key="decoding-failures",
        about=f"block-size:{step.block_size}",
        predicted=step.predicted_failure,
        measured=_measured_rate(step),
        tolerance=(high - low) / 2,
        passed=agrees,
        detail=f"{step.failures} of {step.blocks} blocks; "
        f"the true rate lies in [{low:.5f}, {high:.5f}]",
    )
    return check.of(step.blocks)


def _limit_check(step: ProbeStep, *, exact: bool, sufficient: bool) -> Check:
    """Return the check that the error rate of N is within the limit, or that of N - 1 above it.

    The check is undecided if the interval of the error rate contains the limit. With stratified
    labels the rate is exact and the limit is 0.
    """
    measured = _measured_rate(step)
    limit = 0.0 if exact else PROBE_ERROR_RATE
    low, high = (measured, measured) if exact else step.interval
    if sufficient:
        possible = low <= limit
        certain = high <= limit
    else:
        possible = high > limit
        certain = low > limit
    predicted = (step.predicted_failure <= limit) is sufficient
    never_met = exact and not sufficient and step.predicted_failure == 0 and step.failures == 0
    check = Check(
        name=_claim(step.block_size, limit, sufficient=sufficient),
        key="within-error-rate" if sufficient else "beyond-error-rate",
        about=f"block-size:{step.block_size}",
        predicted=limit,
        measured=measured,
        interval=step.interval,
        passed=predicted and certain,
        unsure=never_met or (predicted and possible and not certain),
        detail=_NEVER_MET if never_met else "",
    )
    return check.of(step.blocks)


def _measured_rate(step: ProbeStep) -> float:
    return step.failures / max(1, step.blocks)


def judge_probe_runs(
    probe: ProbePlan, runs: Sequence[tuple[StreamPlan, StreamMeasurements]]
) -> Judgement:
    """Judge the two streams of a probe, which ``run_probe`` has run."""
    steps = []
    invalid = None
    for plan, run in runs:
        steps.append(probe_step(plan, run))
        if invalid is None:
            invalid = invalid_reason(Analysis(plan, run))
    verdict = judge_probe(probe.plan, steps, invalid)
    rows = tuple(asdict(step) for step in steps)
    _, first_run = runs[0]
    document = {
        "fabric": first_run.fabric,
        "link": probe.network.link(*probe.link).label,
        "steps": list(rows),
        "verdict": verdict.to_json(),
    }
    return Judgement(verdict=verdict, document=document, rows=rows)
