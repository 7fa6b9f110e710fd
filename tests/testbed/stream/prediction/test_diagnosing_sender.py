"""A sender that knows which cable failed: ROR made of packets sent is the predicted one, and wrong senders fail the
verdict."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest

from fec.protocol.sender import StreamSender
from fec.redundancy.block_size_control import BlockSizeControl, fixed_block_size
from fec.redundancy.diagnosis_control import DiagnosingControl
from testbed.faults.fault import Fault
from testbed.model.verdict import Verdict
from testbed.stream.endpoints import block_size_control, build_sender
from testbed.stream.judgement.analysis import Analysis
from testbed.stream.judgement.verdict import judge
from testbed.stream.options import LabelOrder
from testbed.stream.plan import StreamParameters, StreamPlan
from testbed.stream.planning import EachLink
from testbed.stream.prediction.active_faults import DIAGNOSES, cable_name, candidate_table
from testbed.stream.prediction.block_size_policy import block_size_policy
from testbed.stream.simulated import SimulatedStreamFabric
from tests.helpers.stream_plans import planned
from topologies import load_network


@cache
def swiss(
    labels: LabelOrder = "stratified", kind: str = "down", method: str = "capillary"
) -> StreamPlan:
    """Six links of Swiss-T1 fail in turn; three where labels are random, whose failures must last longer to be
    known."""
    return planned(
        load_network("swiss-t1"),
        "s1",
        "s6",
        method=method,
        stream=StreamParameters(labels=labels, playback_s=0.3, hold_s=0.5),
        faults=EachLink(most=3 if labels == "random" else 6, kind=kind),
    )


def judged(
    plan: StreamPlan, control: Callable[[StreamPlan], BlockSizeControl] = block_size_control
) -> tuple[Analysis, Verdict]:
    """The plan's run in virtual time with whoever decides N at its sender."""

    def sender(of: StreamPlan) -> StreamSender:
        built = build_sender(of)
        built.control = control(of)
        return built

    run = SimulatedStreamFabric(sender).run(plan)
    analysis = Analysis(plan, run)
    return analysis, judge(analysis)


def failed(verdict: Verdict) -> set[str]:
    return {check.name.partition(",")[0] for check in verdict.checks if not check.passed}


@pytest.mark.parametrize(
    ("labels", "kind"),
    [
        ("stratified", "down"),
        ("stratified", "blackhole"),
        ("random", "down"),
        pytest.param("random", "blackhole", marks=pytest.mark.soak),
    ],
)
def test_sent_packets_match_theory_and_the_failed_cable_is_named(
    labels: LabelOrder, kind: str
) -> None:
    plan = swiss(labels, kind)
    analysis, verdict = judged(plan)
    assert verdict.passed, [check for check in verdict.checks if not check.passed]
    assert analysis.ror.measured == pytest.approx(analysis.ror.predicted, abs=0.005)
    assert analysis.ror.tolerance <= max(0.05, 0.02 * analysis.ror.predicted) or labels == "random"
    for fault in analysis.faults:
        assert fault.diagnosis is not None and fault.diagnosis.right and fault.diagnosis.certain
        assert (
            fault.link.replace("->", "-") in fault.diagnosis.cables
            or len(fault.diagnosis.cables) == 1
        )
        assert fault.diagnosis.certain_after_s is not None and fault.diagnosis.certain_after_s < 0.3
        assert fault.diagnosis.certain_after_packets is not None
        assert 0 < fault.diagnosis.certain_after_packets <= 0.3 * 3 * plan.stream.rate_pps
        assert fault.undecodable_blocks == 0
        assert fault.measured_block_size == fault.predicted_block_size


def test_a_sender_that_never_raises_n_fails() -> None:
    plan = swiss()
    _, verdict = judged(plan, lambda of: fixed_block_size(block_size_policy(of).base))
    assert not verdict.passed and {
        "block size",
        "undecodable blocks",
        "ROR over the failed links",
    } <= failed(verdict)


def test_a_sender_that_answers_with_the_share_of_a_neighbouring_link_fails() -> None:
    """Each failure gets the N of the next link's: as much in all, but not where it is needed."""

    def neighbours(of: StreamPlan) -> BlockSizeControl:
        control = block_size_control(of)
        assert isinstance(control, DiagnosingControl)
        right = control.size_of
        by_load = sorted((of.forward.load(i), i) for i in of.forward.loaded)
        links = [i for _, i in by_load]
        following = {
            of.forward.intervals(i): of.forward.intervals(links[(k + len(links) // 2) % len(links)])
            for k, i in enumerate(links)
        }
        return replace(control, size_of=lambda lost: right(following.get(lost, lost)), _sizes={})

    _, verdict = judged(swiss(), neighbours)
    assert not verdict.passed and "block size" in failed(verdict)


def test_sender_with_ecmp_fails_if_capillary_routing_is_predicted() -> None:
    plan, other = swiss(), swiss(method="ecmp")
    run = SimulatedStreamFabric().run(replace(plan, forward=other.forward))
    analysis = Analysis(plan, run)
    verdict = judge(analysis)
    assert not verdict.passed and {"loss", "ROR over the failed links"} <= failed(verdict)


def test_two_failures_at_once_are_both_named() -> None:
    plan = swiss()
    first, second = (fault.link for fault in plan.faults[:2])
    faults = (
        Fault(link=first, start_s=1.0, stop_s=2.5),
        Fault(link=second, start_s=1.0, stop_s=2.5),
    )
    plan = replace(plan, faults=faults, duration_s=4.0)
    run = SimulatedStreamFabric().run(plan)
    during = [
        event
        for event in run.counters[DIAGNOSES]
        if 1.0 <= event["at_s"] < 2.5 and event["certain"]
    ]
    assert {cable_name(first), cable_name(second)} <= set(during[-1]["names"])
    analysis = Analysis(plan, run)
    assert judge(analysis).passed


def test_link_that_loses_half_is_left_to_the_estimator() -> None:
    plan = replace(
        swiss(),
        faults=(
            Fault(link=("s1", "s2", 0), start_s=1.0, stop_s=4.0, kind="loss", loss_fraction=0.5),
        ),
    )
    run = SimulatedStreamFabric().run(replace(plan, duration_s=6.0))
    events = run.counters[DIAGNOSES]
    assert [event["speaker"] for event in events if event["at_s"] < 1.2][-1] == "estimate"
    assert all(event["speaker"] == "estimate" for event in events if 1.2 <= event["at_s"] < 4.0)
    assert events[-1]["speaker"] == "diagnosis" and events[-1]["names"] == ()


def test_each_loaded_cable_is_a_suspect_with_labels_of_both_directions() -> None:
    plan = swiss()
    table = candidate_table(plan.forward)
    names = {suspect.name: suspect for suspect in table.candidates}
    for index in plan.forward.loaded:
        link = plan.network.links[index]
        assert names[cable_name(link.id)].intervals == plan.forward.intervals(index)
    assert names["node s2"].cables == 4 and "node s1" not in names
