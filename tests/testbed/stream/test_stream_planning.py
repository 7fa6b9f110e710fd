"""Plans that cannot be streamed are refused when they are made."""

from __future__ import annotations

import itertools

import pytest

from testbed.errors import InputError
from testbed.faults.grammar import parse_link
from testbed.stream.judgement.analysis import analyse
from testbed.stream.plan import StreamParameters, StreamPlan
from testbed.stream.planning import EachLink, PlanOptions, build_plan, choose_links, recovery_s
from testbed.stream.simulated import SimulatedStreamFabric
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


def sparse_plan() -> StreamPlan:
    """Four links of a full route at 500 packets/s; the third carries one label in 720."""
    stream = StreamParameters(rate_pps=500.0, symbol_bytes=16, hold_s=0.3)
    options = PlanOptions(stream=stream, faults=EachLink(precision=0.05, most=4))
    return build_plan(load_network("manet:nodes=40,seed=3"), "n0", "n39", options)[0]


def test_a_link_of_few_labels_is_waited_for_until_one_of_them_was_sent_again() -> None:
    plan = sparse_plan()
    gaps = [after.start_s - fault.stop_s for fault, after in itertools.pairwise(plan.faults)]
    usual_s = recovery_s(plan.stream)
    assert gaps[:2] == pytest.approx([usual_s, usual_s], abs=1e-3)
    assert float(plan.forward.load(plan.network.link_index[plan.faults[2].link])) < 1 / 700
    assert pytest.approx(gaps[2], abs=1e-3) == 1889 / 550, "the longest gap between its labels in this order"


def test_so_the_next_failure_is_not_taken_for_one_on_top_of_it() -> None:
    plan = sparse_plan()
    faults = analyse(plan, SimulatedStreamFabric().run(plan)).faults
    assert [20 * fault.sent_per_source for fault in faults if fault.sent_per_source] == pytest.approx([28, 22, 22, 22])
    last = faults[-1].diagnosis
    assert last is not None and last.cables == ("n26-n29",) and last.certain
