"""A sender that diagnoses while nodes move: the table from labels to cables changes with the route, and is believed
once it is known."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fec.protocol.sender import StreamSender
from fec.redundancy.diagnosis_control import DiagnosingControl
from testbed.faults.fault import Fault
from testbed.stream.endpoints import build_sender
from testbed.stream.judgement.analysis import Analysis
from testbed.stream.measurements import StreamMeasurements
from testbed.stream.plan import StreamPlan
from testbed.stream.prediction.active_faults import DIAGNOSES, cable_name
from testbed.stream.simulated import SimulatedStreamFabric
from testbed.stream.workload import mobility_plan

FRAME_S = 2.5


@pytest.fixture(scope="module")
def plan() -> StreamPlan:
    """Three frames of 24 nodes; in each one a cable of the route in force fails, long after the change."""
    plan = mobility_plan(
        "manet:nodes=24,step=0.03,seed=1",
        "n0",
        "n23",
        count=3,
        frame_s=FRAME_S,
        rate_pps=1000.0,
        playback_s=0.3,
        hold_s=0.3,
        late_pps=8000.0,
    )
    faults = []
    for k, split in enumerate(plan.splits):
        link = next(i for i in split.loaded if 0.1 < split.load(i) < 0.3)
        at = 0.8 + k * FRAME_S + 1.4
        faults.append(Fault(link=plan.network.links[link].id, start_s=at, stop_s=at + 0.6))
    return replace(plan, faults=tuple(faults))


def rightly_named(plan: StreamPlan, run: StreamMeasurements) -> int:
    """In how many of the failures the sender was certain first of a set of cables with the failed one in it."""
    count = 0
    for fault in plan.faults:
        during = [e for e in run.counters[DIAGNOSES] if fault.start_s < e["at_s"] < fault.stop_s]
        named = [e for e in during if e["certain"] and e["names"]]
        count += bool(named) and cable_name(fault.link) in named[0]["names"]
    return count


def test_table_of_each_frames_route_names_the_failed_cable(
    plan: StreamPlan,
) -> None:
    run = SimulatedStreamFabric().run(plan)
    assert rightly_named(plan, run) == 3
    for change in plan.changes:
        told = [
            e for e in run.counters[DIAGNOSES] if change.at_s + 0.1 < e["at_s"] < change.at_s + 1.0
        ]
        assert "diagnosis" not in {event["speaker"] for event in told}
    found = Analysis(plan, run).epochs_result
    assert found is not None and found.diagnoses is not None and found.undecodable_within_reach == 0
    assert (
        found.diagnoses.certain == found.diagnoses.right >= 3 and 0.5 < found.diagnoses.spoke < 0.9
    )


def test_a_sender_that_keeps_the_first_route_s_table_is_wrong_or_at_a_loss(
    plan: StreamPlan,
) -> None:
    def stubborn(of: StreamPlan) -> StreamSender:
        sender = build_sender(of)
        assert isinstance(sender.control, DiagnosingControl) and len(sender.control.changes) == 2
        sender.control = replace(sender.control, changes=(), events=[])
        return sender

    run = SimulatedStreamFabric(stubborn).run(plan)
    found = Analysis(plan, run).epochs_result
    assert found is not None and found.diagnoses is not None
    assert rightly_named(plan, run) < 3 and found.diagnoses.right < max(3, found.diagnoses.certain)
