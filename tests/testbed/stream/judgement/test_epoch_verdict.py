"""Every check of a campaign's verdict holds up to its bound and not beyond: a true result with one figure changed."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

import pytest

from testbed.model.verdict import Check
from testbed.stream.judgement.analysis import Analysis
from testbed.stream.judgement.checks import MAX_CHANGE_S, checks
from testbed.stream.judgement.run_figures import EpochsResult, Outage
from testbed.stream.measurements import StreamMeasurements
from testbed.stream.plan import StreamPlan
from testbed.stream.simulated import SimulatedStreamFabric
from tests.testbed.stream.prediction.test_epochs import moving_plan

FATES, RANDOM = "packets that fared otherwise than their labels say", "packets lost at random"
FRAMES, CHANGE = "frames whose loss is not the predicted one", "longest change of the plan, s"
WITHIN, BEYOND = (
    "undecodable blocks within the code's reach",
    "undecodable blocks beyond the code's reach",
)
REDUNDANCY = "redundancy of what was sent once the sender had answered"
LATE = "late parity once the sender had answered, packets"
CAMPAIGN = (FATES, RANDOM, FRAMES, CHANGE, WITHIN, BEYOND, REDUNDANCY, LATE)


@functools.cache
def moving_run() -> StreamMeasurements:
    """Measurements of the plan whose links vanish and come back, in virtual time."""
    return SimulatedStreamFabric().run(moving_plan())


@pytest.fixture(scope="module")
def campaign() -> tuple[StreamPlan, EpochsResult]:
    plan = moving_plan()
    return plan, Analysis(plan, moving_run()).epochs_result


def names_of_failed(plan: StreamPlan, result: EpochsResult) -> list[str]:
    return [check.name for check in campaign_checks(plan, result) if not check.passed]


def campaign_checks(plan: StreamPlan, result: EpochsResult) -> list[Check]:
    """The checks of all epochs, as if the run had had these figures."""
    facts = Analysis(plan, moving_run())
    vars(facts)["epochs_result"] = result
    vars(facts)["blocks_within_reach"] = 9
    return [check for check in checks(facts) if check.name in CAMPAIGN]


def outage(predicted: int, most: int, measured: int) -> Outage:
    return Outage(
        start_s=0.0, stop_s=1.0, reason="", links=(), loss=1.0, needed=None, blocks=9, predicted=predicted,
        predicted_most=most, measured=measured,
    )  # fmt: skip


def test_a_true_campaign_passes_the_checks_that_belong_to_it(
    campaign: tuple[StreamPlan, EpochsResult],
) -> None:
    plan, result = campaign
    result = replace(result, outages=(outage(2, 3, 2),))
    assert [c.name for c in campaign_checks(plan, result)] == [
        FATES,
        FRAMES,
        CHANGE,
        WITHIN,
        BEYOND,
        REDUNDANCY,
        LATE,
    ]
    assert names_of_failed(plan, result) == []
    still = replace(plan, changes=())
    assert [c.name for c in campaign_checks(still, result)] == [
        FATES,
        WITHIN,
        BEYOND,
        REDUNDANCY,
        LATE,
    ]
    fixed = replace(still, stream=replace(plan.stream, block_size=30))
    assert [c.name for c in campaign_checks(fixed, result)] == [FATES, WITHIN, BEYOND]
    random = replace(result, random_losses=(100.0, 100.0, 8.0))
    assert RANDOM in [c.name for c in campaign_checks(fixed, random)]


@pytest.mark.parametrize(
    ("check", "holds", "fails"),
    [
        (FATES, {"certain": 1000, "wrongly_lost": 1, "wrongly_arrived": 1},
         {"certain": 1000, "wrongly_lost": 2, "wrongly_arrived": 1}),
        (FATES, {"certain": 9000, "wrongly_lost": 9}, {"certain": 9000, "wrongly_lost": 10}),
        (FATES, {"certain": 1}, {"certain": 0}),
        (RANDOM, {"random_losses": (100.0, 109.0, 8.0)}, {"random_losses": (100.0, 110.0, 8.0)}),
        (RANDOM, {"random_losses": (100.0, 91.0, 8.0)}, {"random_losses": (100.0, 90.0, 8.0)}),
        (CHANGE, {"longest_change_s": MAX_CHANGE_S}, {"longest_change_s": MAX_CHANGE_S + 0.01}),
        (CHANGE, {"longest_change_s": 0.0}, {"longest_change_s": None}),
        (WITHIN, {"undecodable_within_reach": 0}, {"undecodable_within_reach": 1}),
        (BEYOND, {"outages": (outage(2, 3, 2), outage(1, 1, 1))}, {"outages": (outage(2, 3, 2), outage(1, 1, 0))}),
        (BEYOND, {"outages": (outage(2, 3, 3), outage(1, 1, 1))}, {"outages": (outage(2, 3, 3), outage(1, 1, 2))}),
        (
            REDUNDANCY,
            {"redundancy_predicted": 0.2, "redundancy_measured": 0.2565, "redundancy_tolerance": 0.0525},
            {"redundancy_predicted": 0.2, "redundancy_measured": 0.257, "redundancy_tolerance": 0.0525},
        ),
        (REDUNDANCY, {"redundancy_over_s": 0.1}, {"redundancy_over_s": 0.0}),
        (LATE, {"settled_packets": 9000, "settled_late_parity": 9},
         {"settled_packets": 9000, "settled_late_parity": 10}),
        (LATE, {"settled_packets": 100, "settled_late_parity": 2}, {"settled_packets": 100, "settled_late_parity": 3}),
    ],
)  # fmt: skip
def test_a_check_holds_at_its_bound_and_fails_past_it(
    campaign: tuple[StreamPlan, EpochsResult],
    check: str,
    holds: dict[str, Any],
    fails: dict[str, Any],
) -> None:
    plan, result = campaign
    assert names_of_failed(plan, replace(result, **holds)) == []
    assert names_of_failed(plan, replace(result, **fails)) == [check]


def test_a_frame_with_another_loss_or_a_missing_one_fails(
    campaign: tuple[StreamPlan, EpochsResult],
) -> None:
    plan, result = campaign
    first, *others = result.frames
    at_the_bound = replace(first, measured_loss=first.predicted_loss + first.tolerance)
    assert names_of_failed(plan, replace(result, frames=(at_the_bound, *others))) == []
    beyond = replace(first, predicted_loss=0.25, measured_loss=0.75, tolerance=0.1)
    wrong = replace(result, frames=(beyond, *others))
    assert names_of_failed(plan, wrong) == [FRAMES]
    (said,) = (c.detail for c in campaign_checks(plan, wrong) if c.name == FRAMES)
    assert (
        said
        == f"of {len(result.frames)}; largest difference 50.00 points; frame {first.frame} is the first"
    )
    assert names_of_failed(plan, replace(result, frames=tuple(others))) == [CHANGE]
