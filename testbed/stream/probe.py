"""``--probe-block-size``: two runs at fixed block sizes with a link down, decoding failures counted against theory.

The check that sender and prediction do not merely share one table. At DER = 1e-2 Gabrielyan 2007, eq. 25, says that N
fails seldom enough and N - 1 too often; a count over thousands of blocks can refute it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial

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
_LEAD_S, _REST_S = 0.3, 0.2
_SIGMAS = 3.29
"""Of a normal law: what lies in an interval of 99.9 %."""
_NEVER_MET = (
    "blocks of this size, one after another, never meet the labels of which too many are lost"
)


@dataclass(frozen=True, kw_only=True)
class ProbeStep:
    """One run at a fixed block size: failures predicted (a probability) and counted over ``blocks`` blocks."""

    block_size: int
    predicted_failure: float
    blocks: int
    failures: int
    interval: tuple[float, float]


def build_probe(requested: StreamOptions, *, blocks: int, link: str | None) -> ProbePlan:
    """``link`` None: the one that carries most of the stream. InputError where it carries none or all of it, or N fills
    a link."""
    plan = build_stream(replace(requested, faults=(), duration_s=None))
    network = plan.network
    if link is None:
        probed = network.links[
            max(choose_links(plan, None), key=lambda i: (plan.forward.load(i), -i))
        ].id
    else:
        probed = parse_link(link, network)
    if not 0 < plan.forward.load(network.link_index[probed]) < 1:
        raise InputError(
            f"probe of {label_of(probed)}: it must carry some of the stream, not all; choose another link"
        )
    found = ProbePlan(plan=plan, link=probed, blocks=blocks)
    for step in _steps(found):
        check_rates(StreamTheory(step))
    return found


def _steps(probe: ProbePlan) -> list[StreamPlan]:
    """With the N under test, eq. 25 at DER 1e-2 or the exact worst window for stratified labels, and with N - 1."""
    plan, index = probe.plan, probe.network.link_index[probe.link]
    if plan.stream.labels == "stratified":
        size = link_block_size(plan, index) or 255
    else:
        size = fec_block_size(
            plan.stream.source_packets, plan.forward.load(index), PROBE_ERROR_RATE
        )
    return [probe_plan(plan, probe.link, n, probe.blocks) for n in (size, size - 1)]


def probe_plan(plan: StreamPlan, link: LinkId, block_size: int, blocks: int) -> StreamPlan:
    """The plan of one step: the link is down from the start to the end, N is fixed, ``blocks`` blocks are sent."""
    stream = replace(plan.stream, block_size=block_size)
    lasts_s = _LEAD_S + blocks * stream.block_s + _REST_S + stream.playback_s
    return replace(
        plan,
        stream=stream,
        faults=(Fault(link=link, stop_s=round(lasts_s, 4)),),
        duration_s=lasts_s,
    )


def foreseen(probe: ProbePlan) -> Iterator[str]:
    """A line for each step that its blocks cannot settle, with how many can: by the interval around what theory says of
    random labels, by whether windows that are too short come at all of stratified ones."""
    exact, limit = probe.plan.stream.labels == "stratified", PROBE_ERROR_RATE
    for step, within in zip(_steps(probe), (True, False), strict=True):
        size = step.stream.block_size or 0
        chance = predicted_failure(step, size, np.arange(probe.blocks))
        if exact and not within and not chance:
            yield f"N = {size} is too small: {_NEVER_MET}"
        needed = (
            0
            if exact or chance == limit
            else chance * (1 - chance) * (_SIGMAS / (chance - limit)) ** 2
        )
        if probe.blocks < needed:
            said = f"{'enough' if within else 'too small'} for an error rate of {limit:g}"
            yield f"N = {size} is {said}: that takes {needed:.2g} blocks (--probe-blocks)"


def carry_probe(
    probe: ProbePlan, how: How, report_progress: ReportProgress | None
) -> list[tuple[StreamPlan, StreamMeasurements]]:
    """One step after the other."""
    fabric = open_fabric(how.fabric)
    return [(step, fabric.run(step, report_progress)) for step in _steps(probe)]


def probe_step(plan: StreamPlan, run: StreamMeasurements) -> ProbeStep:
    """Count blocks, started while the link was down, of which fewer than M symbols arrived."""
    size = plan.stream.block_size or 0
    # the last ones may have been cut off by the end of the run
    chosen = (run.blocks.started_s >= run.faults[0].start_s + 0.02) & (run.packets_of_block == size)
    blocks = int(chosen.sum())
    failures = int((run.blocks.arrived[chosen] < plan.stream.source_packets).sum())
    return ProbeStep(
        block_size=size,
        predicted_failure=predicted_failure(plan, size, run.blocks.block[chosen]),
        blocks=blocks,
        failures=failures,
        interval=binomial_interval(failures, max(1, blocks), 0.999),
    )


def predicted_failure(plan: StreamPlan, size: int, blocks: IntArray) -> float:
    """Random labels: the probability of eq. 25. Stratified: the exact share of these blocks whose window, the labels of
    index b*N to b*N + N - 1, has fewer than M that miss the link."""
    m, link = plan.stream.source_packets, plan.network.link_index[plan.faults[0].link]
    if plan.stream.labels == "random":
        return float(decoding_failure_probability(m, size, plan.forward.load(link)))
    labels = label_table(plan.stream.label_rule)
    lost = np.any(
        [(labels >= start) & (labels < stop) for start, stop in plan.forward.intervals(link)],
        axis=0,
    )
    windows = (blocks[:, None] * size + np.arange(size)) % len(labels)
    return float(((~lost[windows]).sum(axis=1) < m).mean()) if len(blocks) else 0.0


def judge_probe(plan: StreamPlan, steps: Sequence[ProbeStep], invalid: str | None) -> Verdict:
    """N within the error rate, N - 1 above it, and both as often as predicted."""
    exact = plan.stream.labels == "stratified"
    limit = 0.0 if exact else PROBE_ERROR_RATE
    often, enough = [], []
    for step, within in zip(steps, (True, False), strict=False):
        low, high = step.interval
        measured, size = step.failures / max(1, step.blocks), step.block_size
        check = partial(Check, about=f"block-size:{size}", measured=measured)
        agrees = low <= step.predicted_failure <= high
        if exact:
            agrees = step.failures == round(step.predicted_failure * step.blocks)
        counted = check(
            name=f"decoding failures at N = {size}",
            key="decoding-failures",
            predicted=step.predicted_failure,
            tolerance=(high - low) / 2,
            passed=agrees,
            detail=f"{step.failures} of {step.blocks} blocks; the true rate lies in [{low:.5f}, {high:.5f}]",
        )
        right = (step.predicted_failure <= limit) is within
        least, most = (measured, measured) if exact else step.interval
        bounds = (least <= limit, most <= limit) if within else (most > limit, least > limit)
        never_met = exact and not within and step.predicted_failure == step.failures == 0
        bounded = check(
            name=f"N = {size} is {'enough' if within else 'too small'} for an error rate of {limit:g}",
            key="within-error-rate" if within else "beyond-error-rate",
            predicted=limit,
            interval=step.interval,
            passed=right and bounds[1],
            unsure=never_met or (right and bounds == (True, False)),
            detail=_NEVER_MET if never_met else "",
        )
        often.append(counted.of(step.blocks))
        enough.append(bounded.of(step.blocks))
    return Verdict(checks=(*often, *enough), invalid=invalid)


def judged_probe(
    probe: ProbePlan, runs: Sequence[tuple[StreamPlan, StreamMeasurements]]
) -> Judgement:
    """N within the error rate, N - 1 above it."""
    steps = [probe_step(step, run) for step, run in runs]
    reasons = (invalid_reason(Analysis(step, run)) for step, run in runs)
    verdict = judge_probe(probe.plan, steps, next(filter(None, reasons), None))
    rows = tuple(map(asdict, steps))
    link = probe.network.link(*probe.link).label
    document = {
        "fabric": runs[0][1].fabric,
        "link": link,
        "steps": list(rows),
        "verdict": verdict.to_json(),
    }
    return Judgement(verdict=verdict, document=document, rows=rows)
