"""The verdict of a bulk run: what TCP repeats is set aside, and a machine that stood still makes the run invalid, not failed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from testbed.bulk.judgement import analyse, judge
from testbed.bulk.measurements import BulkMeasurements, LinkCount
from testbed.bulk.plan import BulkPlan
from testbed.bulk.planning import BulkOptions, build_bulk_plan
from testbed.bulk.prediction import expected_bytes, predicted_ratio
from testbed.bulk.simulated import SimulatedBulkFabric
from testbed.model.machine.strain import Strain
from testbed.model.verdict import Verdict
from tests.helpers.strains import CALM
from topologies import load_network


def plan_of(message_bytes: int) -> BulkPlan:
    network = load_network("swiss-t1:allocation=1-1-0-0-1-0-0-0")
    return build_bulk_plan(network, BulkOptions(message_bytes=message_bytes), "circuit")


def judged(plan: BulkPlan, more_bytes: int = 0, slower: float = 1.0, **changes: Any) -> Verdict:
    """The verdict on a run as virtual time has it, on switches: ``more_bytes`` on every link, so much slower."""
    run = SimulatedBulkFabric().run(plan)
    links = {
        link: LinkCount(packets=0, bytes=round(octets) + more_bytes, queue_drops=0)
        for link, octets in expected_bytes(plan, run.packet_payload_bytes).items()
    }
    fields: dict[str, Any] = {"fabric": "emulation", "links": links, "seconds": run.seconds * slower, "strain": CALM}
    measured: BulkMeasurements = replace(run, **{**fields, **changes})
    return judge(plan, measured, analyse(plan, measured, predicted_ratio(plan)))


def failed(verdict: Verdict) -> list[str]:
    return [check.name for check in verdict.checks if not check.passed]


def test_a_run_as_predicted_on_a_calm_machine_passes() -> None:
    verdict = judged(plan_of(1_000_000))
    assert verdict.passed and verdict.exit_code == 0


def test_bytes_beyond_the_schedule_fail_unless_tcp_sent_them_again() -> None:
    plan = plan_of(1_000_000)
    more = 100_000
    assert failed(judged(plan, more)) == ["bytes of links by the switches' counters against the schedule"]
    again = dict.fromkeys(range(len(plan.transfers)), (more, 12))
    assert judged(plan, more, retransmitted=again).passed
    assert not judged(plan, -more, retransmitted=again).passed, "what never crossed a link was not sent again either"


@pytest.mark.parametrize("late", [replace(CALM, worst_lateness_s=0.05), replace(CALM, mean_lateness_s=0.003)])
def test_a_machine_that_stood_still_makes_the_run_invalid_whatever_came_out(late: Strain) -> None:
    plan = plan_of(1_000_000)
    assert judged(plan, strain=late).exit_code == judged(plan, slower=1.2, strain=late).exit_code == 4
    assert judged(plan, slower=1.2).exit_code == 1, "slow on a machine that kept up"


def test_lateness_does_not_matter_where_no_throughput_is_claimed() -> None:
    plan = replace(plan_of(1_000_000), switching="packet", injected=0)
    assert judged(plan, strain=replace(CALM, worst_lateness_s=0.5)).exit_code == 0


def test_two_strays_of_a_small_message_are_no_failure_and_three_are() -> None:
    plan = plan_of(100_000)
    count = len(plan.transfers)
    assert judged(plan, dropped={"s1": 2 * count}).passed
    assert not judged(plan, dropped={"s1": 3 * count}).passed
