"""Streams over impaired links in virtual time: what theory says of bursts, copies, waits and traces is measured, and
can fail."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from testbed.errors import InputError
from testbed.faults.grammar import parse_fault_list
from testbed.model.verdict import Check
from testbed.stream.facts.run_facts import RunFacts
from testbed.stream.impaired.checks import impairment_checks
from testbed.stream.impaired.tolerances import (
    MIN_PACKETS,
    burst_tolerance,
    loss_tolerance,
    packets_needed,
)
from testbed.stream.judgement.analysis import Analysis
from testbed.stream.judgement.verdict import judge
from testbed.stream.measurements import ReceivedPackets, StreamMeasurements
from testbed.stream.plan import StreamParameters, StreamPlan, plan_to_json
from testbed.stream.simulated import SimulatedStreamFabric
from tests.helpers.stored_plans import plan_from_json
from tests.helpers.stream_plans import planned
from topologies import load_network
from topologies.impairments import mean_loss, parse_impairments
from topologies.network import Network

SECONDS = 14.0


@cache
def _calm() -> StreamMeasurements:
    """The run without a fault."""
    return SimulatedStreamFabric().run(_plan(""))


def _plan(
    words: str,
    *,
    block_size: int | None = None,
    network: Network | None = None,
    seed: int = 1,
    duration_s: float = SECONDS,
) -> StreamPlan:
    network = network or load_network("swiss-t1")
    faults = parse_fault_list(words, network) if words else ()
    stream = StreamParameters(block_size=block_size)
    return planned(
        network, "s1", "s6", faults=faults, duration_s=duration_s, stream=stream, seed=seed
    )


def _named(checks: list[Check], words: str) -> Check:
    return next(check for check in checks if check.name.startswith(words))


def test_bursts_pass_and_as_many_independent_losses_fail() -> None:
    plan = _plan("s1->s2@1-13 ge:p=0.05,r=0.2", block_size=22)
    run = SimulatedStreamFabric().run(plan)
    checks = impairment_checks(RunFacts(plan, run))
    assert {check.outcome for check in checks} == {"holds"}
    assert len(checks) == 3, [check.name for check in checks]

    index = plan.network.link_index["s1", "s2", 0]
    labels = plan.forward.intervals(index)
    crossed = np.any([(run.sent.label >= a) & (run.sent.label < b) for a, b in labels], axis=0)
    crossed &= (run.sent.time_s > 1) & (run.sent.time_s < 13)
    lost = np.random.default_rng(7).random(len(crossed)) < 0.2
    chosen = ~(crossed & lost)
    poisoned = replace(
        run,
        received=ReceivedPackets(
            time_s=run.sent.time_s[chosen],
            block=run.sent.block[chosen],
            symbol=run.sent.symbol[chosen],
        ),
    )
    spoilt = impairment_checks(RunFacts(plan, poisoned))
    assert _named(spoilt, "share of packets lost").outcome == "holds"
    assert _named(spoilt, "share of losses that follow a loss").outcome == "fails"
    assert _named(spoilt, "share of blocks").outcome == "fails"


def test_a_link_that_loses_nothing_fails_the_loss_that_was_asked_for() -> None:
    plan = _plan("s1->s2@1-4 loss:0.2", duration_s=5.0)
    calm = SimulatedStreamFabric().run(replace(plan, faults=()))
    times = SimulatedStreamFabric().run(plan).faults
    checks = impairment_checks(RunFacts(plan, replace(calm, faults=times)))
    assert _named(checks, "share of packets lost").outcome == "fails"


def test_copies_and_waits_pass_and_those_of_an_unimpaired_link_fail() -> None:
    plan = _plan("s1->s2@1-13 delay:0.02,jitter=0.01 duplicate:0.1")
    run = SimulatedStreamFabric().run(plan)
    checks = impairment_checks(RunFacts(plan, run))
    assert {check.outcome for check in checks} == {"holds"}
    assert [c.name.split(",")[0] for c in checks] == [
        "share of packets that came twice",
        "mean wait",
        "share of packets overtaken",
    ]
    calm = replace(_calm(), faults=run.faults)
    assert {check.outcome for check in impairment_checks(RunFacts(plan, calm))} == {"fails"}


def test_reordering_passes_and_packets_put_back_in_order_fail() -> None:
    plan = _plan("s1->s2@1-13 reorder:0.25,delay=0.02")
    run = SimulatedStreamFabric().run(plan)
    assert {check.outcome for check in impairment_checks(RunFacts(plan, run))} == {"holds"}
    order = np.argsort(run.received.block * 256 + run.received.symbol, kind="stable")
    in_order = ReceivedPackets(
        time_s=np.sort(run.received.time_s),
        block=run.received.block[order],
        symbol=run.received.symbol[order],
    )
    assert (
        _named(
            impairment_checks(RunFacts(plan, replace(run, received=in_order))),
            "share of packets overtaken",
        ).outcome
        == "fails"
    )


def test_trace_is_silent_between_opportunities_and_fails_without_any() -> None:
    plan = _plan("s1->s2@1-13 trace:ms=20x10+300")
    run = SimulatedStreamFabric().run(plan)
    checks = impairment_checks(RunFacts(plan, run))
    assert {check.outcome for check in checks} == {"holds"} and len(checks) == 2
    calm = replace(_calm(), faults=run.faults)
    assert "fails" in {check.outcome for check in impairment_checks(RunFacts(plan, calm))}


def test_link_impaired_by_the_network_is_judged_like_a_faulty_one() -> None:
    network = load_network("swiss-t1")
    links = tuple(
        replace(link, impairments="ge:p=0.05,r=0.2") if link.label in ("s1->s2", "s2->s1") else link
        for link in network.links
    )
    plan = _plan("", network=replace(network, links=links))
    run = SimulatedStreamFabric().run(plan)
    verdict = judge(Analysis(plan, run))
    assert verdict.passed, [(c.name, c.outcome) for c in verdict.checks]
    assert any("unpredicted" in note for note in verdict.notes)
    assert plan_from_json(plan_to_json(plan)) == plan


def test_links_with_too_few_packets_are_unpredicted_and_never_pass() -> None:
    plan = _plan("s1->s2@1-1.3 ge:p=0.05,r=0.2")
    run = SimulatedStreamFabric().run(plan)
    verdict = judge(Analysis(plan, run))
    (check,) = (c for c in verdict.checks if c.name.startswith("unpredicted"))
    assert check.outcome == "cannot-tell" and not verdict.passed


def test_other_faults_beside_an_impairment_keep_their_losses() -> None:
    plan = _plan("s1->s2@1-6 ge:p=0.05,r=0.2, s3->s6@7-9")
    run = SimulatedStreamFabric().run(plan)
    verdict = judge(Analysis(plan, run))
    assert any(c.name == "loss, s3->s6 down" and c.passed for c in verdict.checks)


def test_same_plan_repeats_its_run_and_unimpaired_runs_are_unchanged() -> None:
    plan = _plan("s1->s2@1-3 ge:p=0.05,r=0.2 jitter:0.01 duplicate:0.1", duration_s=4.0)
    first, second = (SimulatedStreamFabric().run(plan) for _ in range(2))
    assert np.array_equal(first.received.time_s, second.received.time_s)


def test_impairments_while_nodes_move_are_refused_by_name() -> None:
    plan = _plan("s1->s2@1-13 jitter:0.01")
    with pytest.raises(
        InputError, match=r"jitter:0\.01 on s1->s2: no impairments while nodes move"
    ):
        replace(plan, absent=(plan.network.links[-1].id,))


@pytest.mark.parametrize(
    "words", ["ge:p=0.01,r=0.3", "ge:p=0.05,r=0.5", "loss:0.05", "loss:0.05 duplicate:0.1"]
)
def test_packets_needed_are_the_minimum_for_losses_and_bursts(words: str) -> None:
    impairments, needed = parse_impairments(words), packets_needed(parse_impairments(words))
    mean = mean_loss(impairments)
    # of a chain of two states that loses all or nothing: a loss follows a loss with probability 1 - r
    parameters = (
        dict(one.split("=") for one in words.partition("ge:")[2].split(","))
        if "ge:" in words
        else {}
    )
    more_than_alone = 1 - float(parameters["r"]) - mean if parameters else None

    def tells(packets: int) -> bool:
        bursts = (
            more_than_alone is None
            or burst_tolerance(impairments, int(packets * mean)) < more_than_alone
        )
        return loss_tolerance(impairments, packets) < mean and bursts

    assert tells(int(needed)) and (needed == MIN_PACKETS or not tells(int(needed / 1.26)))
    assert (burst_tolerance(impairments, 100) > 0) is bool(parameters)
