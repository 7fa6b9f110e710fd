"""``--probe-block-size``: two runs at fixed block sizes with a link down, decoding failures counted against theory."""

from __future__ import annotations

from dataclasses import replace

from testbed.errors import InputError
from testbed.faults.grammar import parse_link
from testbed.model.verdict import Verdict
from testbed.report.progress_bar import progress_bar
from testbed.stream.judgement.analysis import analyse
from testbed.stream.judgement.verdict import invalid_reason
from testbed.stream.planning import check_rates, choose_links
from testbed.stream.probing.steps import ProbeStep, judge_probe, probe_plan, probe_sizes, probe_step
from testbed.stream.session import SessionRequest, open_fabric, plan_session
from topologies.network import label_of


def probe(
    request: SessionRequest, fabric_name: str, *, blocks: int, link: str | None
) -> tuple[tuple[ProbeStep, ...], Verdict, str, str]:
    """Steps at N and N - 1, the verdict, the link that was down and the fabric's name."""
    plan, _ = plan_session(replace(request, faults=(), duration_s=None))
    network = plan.network
    if link is None:
        chosen = max(choose_links(plan, None), key=lambda i: (plan.forward.load(i), -i))
        probed = network.links[chosen].id
    else:
        probed = parse_link(link, network)
    if not 0 < plan.forward.load(network.link_index[probed]) < 1:
        raise InputError(f"probe of {label_of(probed)}: it must carry some of the stream, not all; choose another link")
    fabric = open_fabric(fabric_name)
    steps, invalid = [], None
    for size in probe_sizes(plan, probed):
        step_plan = probe_plan(plan, probed, size, blocks)
        check_rates(step_plan)
        with progress_bar(f"{blocks} blocks of {size}") as report_progress:
            run = fabric.run(step_plan, report_progress)
        steps.append(probe_step(step_plan, run))
        invalid = invalid or invalid_reason(step_plan, run, analyse(step_plan, run))
    return tuple(steps), judge_probe(plan, tuple(steps), invalid), network.link(*probed).label, fabric_name
