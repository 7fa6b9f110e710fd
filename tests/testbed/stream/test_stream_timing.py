"""A healthy stream passes at any rate and block size, and one that cannot succeed is refused with its numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import testbed
from testbed.errors import InputError
from testbed.stream.judgement.packet_logs import ReceivedLog, SentLog, block_outcomes
from testbed.stream.judgement.streams import judge_stream
from testbed.stream.plan import StreamParameters
from testbed.stream.planning import EachLink
from testbed.stream.simulated import SimulatedStreamFabric

SLOW = [(10, 20), (25, 20), (45, 20), (100, 60), (100, 200), (1, 20), (1000, 20)]


def plan_of(**options: Any) -> Any:
    return testbed.stream_plan("ring:4", "s0", "s2", **{"faults": "none", **options})


@pytest.mark.parametrize(("rate", "m"), SLOW)
def test_a_healthy_stream_passes_and_a_broken_one_fails(rate: float, m: int) -> None:
    plan = plan_of(rate_pps=float(rate), source_packets=m)
    run = SimulatedStreamFabric().run(plan)
    assert judge_stream(plan, run).verdict.passed and len(run.blocks.block) >= 2
    complete = run.blocks.complete_s.copy()
    complete[0] = np.nan
    broken = replace(run, blocks=replace(run.blocks, complete_s=complete))
    assert judge_stream(plan, broken).verdict.outcome == "fails"


@pytest.mark.parametrize(("rate", "m"), [(10, 20), (100, 60)])
def test_failures_of_a_slow_stream_are_answered(rate: float, m: int) -> None:
    plan = plan_of(rate_pps=float(rate), source_packets=m, faults=EachLink(most=1))
    assert judge_stream(plan, SimulatedStreamFabric().run(plan)).verdict.passed


@given(st.floats(0.5, 1e5), st.integers(1, 254))
def test_the_playback_buffer_is_never_shorter_than_four_blocks(rate: float, m: int) -> None:
    stream = StreamParameters(rate_pps=rate, source_packets=m)
    assert stream.playback_s == max(0.4, 4 * m / rate) == replace(stream).playback_s
    assert StreamParameters(rate_pps=rate, source_packets=m, playback_s=0.3).playback_s == 0.3


def test_blocks_of_400_packets_exceed_the_code_and_are_not_judged() -> None:
    plan = plan_of(rate_pps=100.0, source_packets=200, faults=["s0->s1@10-30"], duration_s=60.0)
    judged = judge_stream(plan, SimulatedStreamFabric().run(plan))
    (fault,) = judged.document["per_fault"]
    assert (
        judged.verdict.passed
        and fault["undecodable_blocks"] > 0
        and fault["predicted_block_size"] is None
    )
    assert {check.key for check in judged.verdict.checks if check.about} == {"loss"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"rate_pps": 10.0, "playback_s": 0.4}, "a block of 20 packets takes 2 s at 10 packets/s"),
        (
            {"rate_pps": 100.0, "source_packets": 200, "playback_s": 1.9},
            "the playback buffer is 1.9 s",
        ),
        ({"duration_s": 0.1}, "the stream lasts 0.1 s"),
        ({"duration_s": 0.4}, "make the stream longer than 0.42 s"),
        ({"duration_s": 3.0, "playback_s": 5.0}, "a playback buffer (5 s)"),
        ({"duration_s": 8.0, "rate_pps": 10.0}, "longer than 10 s"),
    ],
)
def test_a_stream_that_cannot_succeed_is_refused_with_its_numbers(
    options: dict[str, Any], words: str
) -> None:
    with pytest.raises(InputError, match=words.replace("(", r"\(").replace(")", r"\)")):
        plan_of(**options)


def test_a_stream_among_moving_nodes_is_refused_alike() -> None:
    with pytest.raises(InputError, match="a block of 20 packets takes 2 s"):
        testbed.mobility_plan(
            "manet:nodes=12,degree=6,seed=3", "n0", "n11", count=2, rate_pps=10.0, playback_s=1.0
        )


def test_the_shortest_stream_that_is_accepted_has_a_whole_block() -> None:
    plan = plan_of(duration_s=0.43)
    run = SimulatedStreamFabric().run(plan)
    assert judge_stream(plan, run).verdict.passed and len(run.sent.block) >= 20


def test_no_packets_make_no_blocks() -> None:
    blocks = block_outcomes(SentLog().packets(), ReceivedLog().packets(), 20, 0.4)
    assert {len(column) for column in vars(blocks).values()} == {0}
