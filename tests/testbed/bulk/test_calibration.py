"""Calibration of a bulk run: which messages it sends, when it gives up, and what it makes of a machine that lags
afterwards."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from testbed.bulk.calibration import (
    ATTEMPTS,
    MAX_MESSAGES,
    MESSAGES_TOGETHER,
    MIN_TOGETHER,
    CalibrationJob,
    calibrate,
    calibration_ends,
    concurrent_goodput,
    machine_lag,
    recalibrate,
    single_path_goodput,
    uncalibrated,
)
from testbed.bulk.measurements import Goodput
from testbed.bulk.plan import BulkPlan
from testbed.bulk.workload import bulk_plan
from testbed.errors import InvalidRunError


def plan_of(message_bytes: int) -> BulkPlan:
    return bulk_plan("swiss-t1:allocation=1-1-0-0-1-0-0-0", message_bytes=message_bytes)


class Machine:
    """Gives one path alone 10 Mbit/s, and many at once a share of it that the test lists, attempt by attempt."""

    def __init__(self, shares: Iterable[float]) -> None:
        self._shares = iter(shares)
        self.jobs: list[CalibrationJob] = []

    def measure(self, job: CalibrationJob) -> float:
        self.jobs.append(job)
        return 10e6 if len(job.transfers) == 1 else 10e6 * next(self._shares)


def test_small_messages_are_calibrated_in_greater_number() -> None:
    assert concurrent_goodput(plan_of(2_000_000)).count == MESSAGES_TOGETHER
    assert (
        single_path_goodput(plan_of(100_000)).count
        == concurrent_goodput(plan_of(100_000)).count
        == 15
    )  # 0.04 s each
    assert concurrent_goodput(plan_of(1000)).count == MAX_MESSAGES


def test_paths_together_share_no_link_and_one_alone_is_a_longest() -> None:
    plan = plan_of(1000)
    chosen = [plan.transfers[i].path for i in concurrent_goodput(plan).transfers]
    links = [link for path in chosen for link in path]
    assert len(chosen) > 1 and len(set(links)) == len(links)
    (one,) = single_path_goodput(plan).transfers
    assert len(plan.transfers[one].path) == max(len(t.path) for t in plan.transfers)


def test_calibration_is_repeated_after_other_work_until_an_attempt_is_good() -> None:
    machine = Machine([0.5, MIN_TOGETHER])
    found = calibrate(plan_of(1000), machine.measure)
    assert (found.single_path_bps, found.concurrent_bps) == (10e6, 10e6 * MIN_TOGETHER)
    assert (
        found.concurrent_paths == len(concurrent_goodput(plan_of(1000)).transfers)
        and len(machine.jobs) == 3
    )


def test_machine_that_always_lags_makes_the_run_invalid_before_it_begins() -> None:
    with pytest.raises(
        InvalidRunError, match=r"at once got 9\.00 Mbit/s each, one alone 10\.00; lower --link-rate"
    ):
        calibrate(plan_of(1_000_000), Machine([0.5] * (ATTEMPTS - 1) + [0.9]).measure)
    for short in (1000, 20_000):
        with pytest.raises(InvalidRunError, match="give a larger --message-size"):
            calibrate(plan_of(short), Machine([0.5] * (ATTEMPTS - 1) + [0.9]).measure)


def test_after_the_run_the_slower_of_both_counts() -> None:
    plan = plan_of(1000)
    first = calibrate(plan, Machine([0.99]).measure)
    assert recalibrate(plan, Machine([0.8, 0.97]).measure, first) == first
    slower = recalibrate(plan, Machine([0.8] * ATTEMPTS + [0.7]).measure, first)
    assert slower.concurrent_bps == 7e6 and machine_lag(plan_of(1000), slower) is not None


def test_each_calibration_job_has_a_message_in_order() -> None:
    plan = plan_of(100_000)
    machine = Machine([*[0.5] * (ATTEMPTS - 1), 1.0, *[0.5] * ATTEMPTS, 0.5])
    recalibrate(plan, machine.measure, calibrate(plan, machine.measure))
    asked = [
        plan.transfers[i].ends
        for job in machine.jobs
        for i in job.transfers
        for _ in range(job.count)
    ]
    assert list(calibration_ends(plan)) == asked


def test_a_run_that_is_not_calibrated_takes_links_at_their_rate() -> None:
    assert uncalibrated(plan_of(1000)) == Goodput(
        single_path_bps=20e6, concurrent_bps=20e6, concurrent_paths=1
    )
    assert machine_lag(plan_of(1000), uncalibrated(plan_of(1000))) is None
