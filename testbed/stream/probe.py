"""``--probe-block-size``: two runs at fixed block sizes with a link down, decoding failures counted against theory.

The check that sender and prediction do not merely share one table. At DER = 1e-2 Gabrielyan 2007, eq. 25, says that N
fails seldom enough and N - 1 too often; a count over thousands of blocks can refute it.
"""

from dataclasses import asdict, dataclass, replace

import numpy as np

from fec.redundancy.block_size import binomial_interval, decoding_failure_probability, fec_block_size
from fec.redundancy.labels import label_table
from testbed.errors import InputError
from testbed.faults.fault import Fault
from testbed.faults.grammar import parse_link
from testbed.model.progress import ReportProgress
from testbed.model.verdict import Check, Verdict
from testbed.model.workload import How, Judgement
from testbed.stream.fabric import open_fabric
from testbed.stream.judgement.analysis import analyse
from testbed.stream.judgement.verdict import invalid_reason
from testbed.stream.measurements import IntArray, StreamMeasurements
from testbed.stream.options import StreamOptions
from testbed.stream.plan import StreamPlan
from testbed.stream.planning import build_stream, check_rates, choose_links
from testbed.stream.prediction.block_size_policy import link_block_size
from testbed.stream.probing.plan import ProbePlan
from topologies.network import LinkId, label_of

PROBE_ERROR_RATE = 1e-2


@dataclass(frozen=True, kw_only=True)
class ProbeStep:
    """One run at a fixed block size: failures predicted (a probability) and counted over ``blocks`` blocks."""

    block_size: int
    predicted_failure: float
    blocks: int
    failures: int
    interval: tuple[float, float]


def probe_sizes(plan: StreamPlan, link: LinkId) -> tuple[int, int]:
    """The N under test and N - 1: eq. 25 at DER 1e-2, or the exact worst window for stratified labels."""
    index = plan.network.link_index[link]
    m = plan.stream.source_packets
    if plan.stream.labels == "stratified":
        size = link_block_size(plan, index) or 255
    else:
        size = fec_block_size(m, plan.forward.load(index), PROBE_ERROR_RATE)
    return size, size - 1


def probe_plan(plan: StreamPlan, link: LinkId, block_size: int, blocks: int) -> StreamPlan:
    """The plan of one step: the link is down from the start to the end, N is fixed, ``blocks`` blocks are sent."""
    stream = replace(plan.stream, block_size=block_size)
    lead = 0.3
    duration = lead + blocks * stream.source_packets / stream.rate_pps + 0.2
    fault = Fault(link=link, kind="down", start_s=0.0, stop_s=round(duration + stream.playback_s, 4))
    return replace(plan, stream=stream, faults=(fault,), duration_s=duration + stream.playback_s)


def probe_step(plan: StreamPlan, run: StreamMeasurements) -> ProbeStep:
    """Count blocks, started while the link was down, of which fewer than M symbols arrived."""
    size = plan.stream.block_size or 0
    start = run.faults[0].start_s + 0.02
    # the last ones may have been cut off by the end of the run
    chosen = (run.blocks.started_s >= start) & (run.packets_of_block == size)
    blocks = int(chosen.sum())
    failures = int((run.blocks.arrived[chosen] < plan.stream.source_packets).sum())
    index = plan.network.link_index[run.faults[0].fault.link]
    return ProbeStep(
        block_size=size,
        predicted_failure=predicted_failure(plan, index, size, run.blocks.block[chosen]),
        blocks=blocks,
        failures=failures,
        interval=binomial_interval(failures, max(1, blocks), 0.999),
    )


def predicted_failure(plan: StreamPlan, link: int, size: int, blocks: IntArray) -> float:
    """Random labels: the probability of eq. 25. Stratified: the exact share of these blocks whose window falls
    short."""
    m = plan.stream.source_packets
    if plan.stream.labels == "random":
        return float(decoding_failure_probability(m, size, plan.forward.load(link)))
    if not len(blocks):
        return 0.0
    return float((_arriving(plan, link, size, blocks) < m).mean())


def _arriving(plan: StreamPlan, link: int, size: int, blocks: IntArray) -> IntArray:
    """How many labels of each block's window (its packets' label indices b*N ... b*N + N - 1) miss the link."""
    labels = label_table(plan.stream.label_rule)
    outside = np.ones(len(labels), dtype=np.int64)
    for start, stop in plan.forward.intervals(link):
        outside[(labels >= start) & (labels < stop)] = 0
    total = np.concatenate([[0], np.cumsum(np.concatenate([outside, outside[:256]]))])
    at = (blocks * size) % len(labels)
    return np.asarray(total[at + size] - total[at], dtype=np.int64)


def judge_probe(plan: StreamPlan, steps: tuple[ProbeStep, ...], invalid: str | None) -> Verdict:
    """N within the error rate, N - 1 above it, and both as often as predicted."""
    limit = PROBE_ERROR_RATE if plan.stream.labels == "random" else 0.0
    often, enough = [], []
    for step, within in zip(steps, (True, False), strict=False):
        low, high = step.interval
        measured, about = step.failures / max(1, step.blocks), f"block-size:{step.block_size}"
        agrees = low <= step.predicted_failure <= high
        if plan.stream.labels == "stratified":
            agrees = step.failures == round(step.predicted_failure * step.blocks)
        often.append(
            Check(
                name=f"decoding failures at N = {step.block_size}",
                key="decoding-failures",
                about=about,
                predicted=step.predicted_failure,
                measured=measured,
                tolerance=(high - low) / 2,
                passed=agrees,
                detail=f"{step.failures} of {step.blocks} blocks; the true rate lies in [{low:.5f}, {high:.5f}]",
            ).of(step.blocks)
        )
        holds = (step.predicted_failure <= limit) is within and (low <= limit or not within)
        enough.append(
            Check(
                name=f"N = {step.block_size} is {'enough' if within else 'too small'} for an error rate of {limit:g}",
                key="within-error-rate" if within else "beyond-error-rate",
                about=about,
                predicted=limit,
                measured=measured,
                tolerance=None,
                passed=holds and (within or measured > limit),
            ).of(step.blocks)
        )
    return Verdict(checks=(*often, *enough), invalid=invalid)


@dataclass(frozen=True, kw_only=True)
class ProbeRun:
    """What both runs counted, and why they say nothing, if so."""

    fabric: str
    steps: tuple[ProbeStep, ...]
    invalid: str | None


def build_probe(requested: StreamOptions, *, blocks: int, link: str | None) -> ProbePlan:
    """``link`` None: the one that carries most of the stream. InputError where it carries none or all of it, or N fills
    a link."""
    plan = build_stream(replace(requested, faults=(), duration_s=None))
    network = plan.network
    if link is None:
        probed = network.links[max(choose_links(plan, None), key=lambda i: (plan.forward.load(i), -i))].id
    else:
        probed = parse_link(link, network)
    if not 0 < plan.forward.load(network.link_index[probed]) < 1:
        raise InputError(f"probe of {label_of(probed)}: it must carry some of the stream, not all; choose another link")
    found = ProbePlan(plan=plan, link=probed, blocks=blocks)
    for step in _steps(found):
        check_rates(step)
    return found


def carry_probe(probe: ProbePlan, how: How, report_progress: ReportProgress | None) -> ProbeRun:
    """One run after the other."""
    fabric, steps, invalid = open_fabric(how.fabric), [], None
    for step in _steps(probe):
        run = fabric.run(step, report_progress)
        steps.append(probe_step(step, run))
        invalid = invalid or invalid_reason(step, run, analyse(step, run))
    return ProbeRun(fabric=how.fabric, steps=tuple(steps), invalid=invalid)


def judged_probe(probe: ProbePlan, run: ProbeRun) -> Judgement:
    """N within the error rate, N - 1 above it."""
    verdict = judge_probe(probe.plan, run.steps, run.invalid)
    steps = [asdict(step) for step in run.steps]
    link = probe.network.link(*probe.link).label
    document = {"fabric": run.fabric, "link": link, "steps": steps, "verdict": verdict.to_json()}
    return Judgement(verdict=verdict, document=document, rows=tuple(steps))


def _steps(probe: ProbePlan) -> tuple[StreamPlan, ...]:
    return tuple(probe_plan(probe.plan, probe.link, size, probe.blocks) for size in probe_sizes(probe.plan, probe.link))
