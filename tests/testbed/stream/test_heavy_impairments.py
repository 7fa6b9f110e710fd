"""Simulated runs over heavily impaired links: counters and logs agree, whatever arrives."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import testbed
from testbed.stream import simulated
from testbed.stream.judgement.streams import judge_stream
from testbed.stream.simulated import SimulatedStreamFabric

INPUTS = Path(__file__).parents[2] / "user_inputs"


@pytest.mark.parametrize(
    ("name", "duration_s"),
    [
        ("e1_long_bursts.json", 40.0),
        ("e2_heavy_loss.json", 12.0),
        pytest.param("e3_longer_bursts.json", 40.0, marks=pytest.mark.long),
    ],
)
def test_long_outage_at_the_end_is_judged(name: str, duration_s: float) -> None:
    """Blocks of a long outage are opened together when it ends, and may still be open at the end."""
    plan = testbed.stream_plan(INPUTS / name, "a", "b", faults="none", duration_s=duration_s)
    assert judge_stream(plan, SimulatedStreamFabric().run(plan)).verdict.invalid is None


@pytest.mark.parametrize("seed", range(12))
def test_virtual_time_never_contradicts_its_counters(seed: int) -> None:
    """The fabric itself raises an error otherwise."""
    chance = random.Random(seed)
    impairments = chance.choice(
        [
            "loss:0.9999",
            "loss:0.998 delay:0.3,jitter=0.3",
            f"ge:p={10 ** chance.uniform(-3.5, -1):.6f},r={10 ** chance.uniform(-4, -2):.6f}",
            "reorder:0.5,delay=0.5 duplicate:0.5",
            "delay:1,jitter=1",
            "trace:ms=10x50+2000 delay:0.05,jitter=0.03",
        ]
    )
    document = {
        "nodes": [{"id": "a"}, {"id": "b"}],
        "links": [{"source": "a", "target": "b", "impairments": impairments}],
    }
    plan = testbed.stream_plan(
        document,
        "a",
        "b",
        faults="none",
        duration_s=chance.choice([2.5, 6.0]),
        rate_pps=chance.choice([100, 300]),
        source_packets=chance.choice([4, 20]),
        seed=seed,
    )
    assert judge_stream(plan, SimulatedStreamFabric().run(plan)).verdict.exit_code in (0, 1, 5)


def test_contradicting_counters_in_virtual_time_are_an_internal_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan = testbed.stream_plan("ring:4", "s0", "s2", faults="none", duration_s=1.0)
    counters = simulated.sender_counters
    monkeypatch.setattr(
        simulated, "sender_counters", lambda sender: {**counters(sender), "sent_source": 7}
    )
    with pytest.raises(RuntimeError, match="a run in virtual time contradicts itself: the ends"):
        SimulatedStreamFabric().run(plan)


@pytest.mark.parametrize(
    "impairments", ["jitter:1", "delay:0.3,jitter=0.2", "duplicate:0.2 delay:2,jitter=1"]
)
def test_packets_in_transit_at_the_end_are_not_judged(impairments: str) -> None:
    """Only those that waited for a short time had arrived by then."""
    document = {
        "nodes": [{"id": "a"}, {"id": "b"}],
        "links": [{"source": "a", "target": "b", "impairments": impairments}],
    }
    plan = testbed.stream_plan(document, "a", "b", faults="none", duration_s=3.0)
    checks = judge_stream(plan, SimulatedStreamFabric().run(plan)).verdict.checks
    assert not [check.name for check in checks if check.outcome == "fails"]
