"""Plans that cannot be streamed are refused when they are made."""

from __future__ import annotations

import pytest

from testbed.errors import InputError
from testbed.faults.grammar import parse_link
from testbed.stream.plan import StreamParameters
from testbed.stream.planning import EachLink, PlanOptions, build_plan, choose_links
from topologies import load_network


def test_delay_near_the_playback_buffer_is_refused_with_a_buffer_that_does() -> None:
    slow = load_network("ring:6,delay_s=0.1")
    with pytest.raises(InputError, match=r"playback buffer of 400 ms; give a buffer of 0\.9 s or more"):
        build_plan(slow, "s0", "s3")
    plan, _ = build_plan(slow, "s0", "s3", PlanOptions(stream=StreamParameters(playback_s=1.0)))
    assert plan.duration_s > 0


def test_rate_that_fills_a_link_is_refused() -> None:
    with pytest.raises(InputError, match="lower the rate"):
        build_plan(load_network("ring:6"), "s0", "s3", PlanOptions(stream=StreamParameters(rate_pps=20_000)))


def test_each_link_fails_once_and_alone() -> None:
    plan, _ = build_plan(load_network("swiss-t1"), "s1", "s6", PlanOptions(faults=EachLink()))
    assert len({f.link for f in plan.faults}) == len(plan.faults) == len(choose_links(plan, None))
    assert all(a.stop_s < b.start_s for a, b in zip(plan.faults, plan.faults[1:], strict=False))


def test_the_same_arguments_give_the_same_plan() -> None:
    plans = [
        build_plan(load_network("manet:nodes=40,seed=1"), "n0", "n39", PlanOptions(faults=EachLink(most=3)))[0]
        for _ in "ab"
    ]
    assert plans[0] == plans[1]


@pytest.mark.parametrize("text", ["s1", "s1->s99", "s1->s2#7", 5, None])
def test_link_that_is_none_is_named(text: object) -> None:
    with pytest.raises(InputError, match="is no link of"):
        parse_link(text, load_network("swiss-t1"))
