"""The studies of many failures and of moving nodes, measured in virtual time: their verdicts can pass, and can fail."""

from __future__ import annotations

from dataclasses import replace

import pytest

from experiments.stream import mobility_manet
from testbed.faults.fault import PoissonFaults
from testbed.stream.prediction.expected_redundancy import expected_redundancy
from tests.helpers.stream_plans import planned
from topologies import load_network


def test_every_quick_point_of_the_walk_is_as_predicted() -> None:
    rows = [
        point | mobility_manet.measure(point, fabric="simulator")
        for point in mobility_manet.points(True, 1)
    ]
    verdict = mobility_manet.judge(rows)
    assert verdict.passed, [c for c in verdict.checks if not c.passed]
    assert not mobility_manet.judge([rows[0] | {"failed": ["frames"]}]).passed
    assert list(mobility_manet.figures(rows)) == ["loss"]


def test_equation_45_holds_for_rare_failures_and_not_for_frequent_ones() -> None:
    plan = planned(load_network("swiss-t1"), "s1", "s6")
    plan = replace(plan, duration_s=1e5)
    rare = expected_redundancy(plan, PoissonFaults(rate_per_s=0.005, lasts_s=1.0))
    often = expected_redundancy(plan, PoissonFaults(rate_per_s=0.3, lasts_s=1.0))
    assert rare["equation_45"] == pytest.approx(rare["mean"], rel=0.06)
    assert rare["singles_only"] == pytest.approx(rare["equation_45"], rel=0.3)
    assert often["equation_45"] < 0.7 * often["mean"]
