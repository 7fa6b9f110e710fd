"""``--probe-block-size``: two runs at fixed block sizes with a link down, decoding failures counted against theory."""

from dataclasses import asdict, dataclass, replace

from testbed.errors import InputError
from testbed.faults.grammar import parse_link
from testbed.model.progress import ReportProgress
from testbed.model.workload import How, Judgement
from testbed.stream.fabric import open_fabric
from testbed.stream.judgement.analysis import analyse
from testbed.stream.judgement.verdict import invalid_reason
from testbed.stream.options import StreamOptions
from testbed.stream.plan import StreamPlan
from testbed.stream.planning import build_stream, check_rates, choose_links
from testbed.stream.probing.plan import ProbePlan
from testbed.stream.probing.steps import ProbeStep, judge_probe, probe_plan, probe_sizes, probe_step
from topologies.network import label_of


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
