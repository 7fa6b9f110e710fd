"""Striped files over links of different rates: access times by hand, notes, and a verdict that tells rates apart."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import testbed
from testbed.bulk.link_rates import at_rate
from testbed.errors import InputError
from testbed.striping.judgement import judge_striping
from testbed.striping.plan import StripingPlan
from testbed.striping.prediction import predict
from testbed.striping.workload import STRIPING, run_striping, striping_plan
from tests.testbed.bulk.test_unequal_rates import network_of

# Hosts of 100 Gbit/s on two switches that 50 Gbit/s join; scaled by 1/5,000 these are 20 and 10 Mbit/s.
NETWORK = [
    ("a1", "l", 100e9),
    ("a2", "l", 100e9),
    ("l", "r", 50e9),
    ("r", "b1", 100e9),
    ("r", "b2", 100e9),
]
SCALED = (
    "the network's own link rates (50 Gbit/s and 100 Gbit/s) are run as 10 Mbit/s and 20 Mbit/s,"
    " scaled by 1/5,000"
)
# Bytes on the wire over bytes of the file, in packets of 9000 bytes.
WIRE = 9014 / 8948


def plan_of(links: Any = NETWORK, **options: Any) -> StripingPlan:
    options = {"file_bytes": 4_000_000, "stripe_unit": 1000} | options
    return striping_plan(network_of(links), 2, 2, **options)


def test_access_takes_as_long_as_the_busiest_link_needs() -> None:
    """The cable between the switches carries all 32 Mbit at 10 Mbit/s; a host's link 16 at 20."""
    plan = plan_of()
    assert plan.liquid_s == pytest.approx(3.2)
    prediction = predict(plan, 9000)
    assert prediction is not None
    assert prediction.seconds == pytest.approx(3.2 * WIRE)
    assert prediction.liquid_throughput_bps == pytest.approx(10e6 / WIRE)


def test_busiest_link_is_the_one_that_needs_longest() -> None:
    """The cable of 40 Mbit/s has twice the bytes of b1's link of 10 Mbit/s, and needs half as long."""
    links = [
        ("a1", "l", 20e6),
        ("a2", "l", 20e6),
        ("l", "r", 20e6),
        ("r", "b1", 5e6),
        ("r", "b2", 20e6),
    ]
    assert plan_of(links).liquid_s == pytest.approx(16 / 5)


@pytest.mark.parametrize("switching", ["circuit", "packet"])
def test_time_frame_waits_for_its_slowest_transfer(switching: str) -> None:
    """Four transfers of 8 Mbit, one after another, over a cable of 10 Mbit/s."""
    plan = plan_of(scheduling="liquid", switching=switching)
    assert len(plan.frames) == 4
    prediction = predict(plan, 9000)
    assert prediction is not None
    change_s = 0.008 if switching == "circuit" else 0.004
    assert prediction.seconds == pytest.approx(4 * (0.8 * WIRE + change_s))


def test_access_over_equal_links_fails_the_check(tmp_path: Path) -> None:
    plan = plan_of(scheduling="liquid")
    alike = replace(plan, placement=replace(plan.placement, network=at_rate(plan.network, 20e6)))
    run = run_striping(alike, tmp_path / "alike", fabric="simulator")
    failed = {check.key for check in judge_striping(plan, run).verdict.checks if not check.passed}
    assert failed == {"throughput"}
    right = run_striping(plan, tmp_path / "right", fabric="simulator")
    verdict = judge_striping(plan, right).verdict
    assert verdict.passed and verdict.notes[0] == SCALED
    assert not judge_striping(alike, right).verdict.passed


def test_command_and_library_use_the_same_rates(tmp_path: Path) -> None:
    file = tmp_path / "two_speeds.json"
    file.write_text(json.dumps(network_of(NETWORK)))
    plan = testbed.striping_plan(str(file), 2, 2, file_bytes=400_000)
    fitted: Any = STRIPING.fitted
    command_plan, note = fitted(plan.options, plan, "simulator")
    assert note == "fastest links of 20 Mbit/s, the usual rate"
    assert command_plan.network == plan.network
    assert SCALED in testbed.run(plan, fabric="simulator").verdict.notes


def test_refuses_to_read_over_directions_of_different_rates() -> None:
    links = [(a, b, 10e6) for one, other, _ in NETWORK for a, b in ((one, other), (other, one))]
    links[1] = (*links[1][:2], 5e6)
    network = network_of(links, directed=True)
    assert striping_plan(network, 2, 2).liquid_s == pytest.approx(3.2)
    with pytest.raises(InputError, match=r"--operation read: a1->l and l->a1 differ in rate"):
        striping_plan(network, 2, 2, operation="read")
    assert striping_plan(network, 2, 2, operation="read", link_rate_bps=5e6).rates is not None
