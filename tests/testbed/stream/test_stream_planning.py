"""Plans that cannot be streamed are refused when they are made."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from fec.redundancy.labels import label_table
from testbed.errors import InputError
from testbed.faults.fault import Fault
from testbed.faults.grammar import parse_link
from testbed.routing.label_split import spraying
from testbed.stream.judgement.analysis import Analysis
from testbed.stream.plan import StreamParameters, StreamPlan
from testbed.stream.planning import (
    EachLink,
    check_faults_in_duration,
    choose_links,
)
from testbed.stream.simulated import SimulatedStreamFabric
from tests.helpers.stream_plans import planned
from topologies import load_network
from topologies.network import Link, Network, Node


def test_delay_near_the_playback_buffer_is_refused_with_a_buffer_that_does() -> None:
    slow = load_network("ring:6,delay_s=0.1")
    with pytest.raises(
        InputError, match=r"playback buffer of 400 ms; give a buffer of 0\.9 s or more"
    ):
        planned(slow, "s0", "s3")
    plan = planned(slow, "s0", "s3", stream=StreamParameters(playback_s=0.9))
    assert plan.duration_s > 0


def test_rate_that_fills_a_link_is_refused() -> None:
    with pytest.raises(InputError, match="lower the rate"):
        planned(load_network("ring:6"), "s0", "s3", stream=StreamParameters(rate_pps=20_000))


def test_each_link_fails_once_and_alone() -> None:
    plan = planned(load_network("swiss-t1"), "s1", "s6", faults=EachLink())
    assert len({f.link for f in plan.faults}) == len(plan.faults) == len(choose_links(plan, None))
    assert all(a.stop_s < b.start_s for a, b in zip(plan.faults, plan.faults[1:], strict=False))


def test_the_same_arguments_give_the_same_plan() -> None:
    plans = []
    for _ in "ab":
        spraying._searched_cuts.cache_clear()
        network = load_network("manet:nodes=20,seed=1")
        plans += [planned(network, "n0", "n19", faults=EachLink(most=3))]
    assert plans[0] == plans[1]


@pytest.mark.parametrize("text", ["s1", "s1->s99", "s1->s2#7", 5, None])
def test_link_that_is_none_is_named(text: object) -> None:
    with pytest.raises(InputError, match="is no link of"):
        parse_link(text, load_network("swiss-t1"))


def sparse_plan(most: int | None) -> StreamPlan:
    """Links of a full route at 500 packets/s, from a quarter of the labels to one in 720."""
    stream = StreamParameters(rate_pps=500.0, symbol_bytes=16, hold_s=0.3)
    return planned(
        load_network("manet:nodes=40,seed=3"),
        "n0",
        "n39",
        stream=stream,
        faults=EachLink(precision=0.05, most=most),
    )


def test_next_fault_waits_until_a_label_of_a_thin_link_was_sent_again() -> None:
    plan, waited = sparse_plan(None), 0
    labels, usual_s = np.tile(label_table(plan.stream.label_rule), 2), plan.stream.recovery_s
    for fault, after in itertools.pairwise(plan.faults):
        link = plan.network.link_index[fault.link]
        if plan.forward.load(link) > 0.05:  # more packets are sent while it is down
            continue
        hits = [
            k
            for a, b in plan.forward.intervals(link)
            for k in np.flatnonzero((a <= labels) & (labels < b))
        ]
        longest_s = np.diff(sorted(hits)).max() / 550
        expected_s = max(usual_s, min(longest_s, 4 * (fault.stop_s - fault.start_s)))
        assert after.start_s - fault.stop_s == pytest.approx(expected_s, abs=1e-3)
        waited += expected_s > usual_s
    assert waited >= 1


def test_so_the_next_failure_is_not_taken_for_one_on_top_of_it() -> None:
    plan = sparse_plan(4)
    faults = Analysis(plan, SimulatedStreamFabric().run(plan)).faults
    assert [
        20 * fault.sent_per_source for fault in faults if fault.sent_per_source
    ] == pytest.approx([27, 22, 22, 22])
    assert all(fault.diagnosis is not None and fault.diagnosis.right for fault in faults[:3])


@pytest.mark.long
def test_most_loaded_link_fails_first() -> None:
    """The repair of a link of a few labels shows a second later; until then the sender allows for it in whatever fails
    next."""
    plan = planned(load_network("manet:nodes=40,seed=3"), "n0", "n39", faults=EachLink())
    index = plan.network.link_index
    loads = [plan.forward.load(index[fault.link]) for fault in plan.faults]
    assert loads == sorted(loads, reverse=True) and len(set(loads)) > 3


def test_labels_are_ordered_for_the_route_unless_failures_overlap() -> None:
    network = load_network("swiss-t1")
    alone = planned(network, "s1", "s6", faults=EachLink())
    assert len(alone.stream.label_slots) > 1
    first = alone.faults[0]
    both = (first, replace(alone.faults[1], start_s=first.start_s, stop_s=first.stop_s))
    assert not planned(network, "s1", "s6", faults=both).stream.label_slots


def test_label_slots_that_are_no_order_are_refused_in_one_line() -> None:
    with pytest.raises(InputError, match="slots"):
        StreamParameters(label_slots=(0, 0, 1))
    with pytest.raises(InputError, match="odd"):
        StreamParameters(label_multiplier=40502)


def test_a_fault_that_comes_too_late_names_its_parallel_link() -> None:
    nodes = tuple(Node(id=name, kind="switch") for name in "ab")
    links = tuple(Link(source=a, target=b, key=k) for a, b in ("ab", "ba") for k in (0, 1))
    network = Network(name="two cables", nodes=nodes, links=links)
    fault = Fault(link=("a", "b", 1), start_s=9.0, stop_s=10.0)
    plan = planned(network, "a", "b", duration_s=12.0)
    late = replace(plan, faults=(fault,), duration_s=5.0)
    with pytest.raises(InputError, match=r"fault on a->b#1: it begins at 9 s"):
        check_faults_in_duration(late)
    with pytest.raises(InputError, match=r'fault on "a->b"->c, which is no link'):
        replace(plan, faults=(replace(fault, link=("a->b", "c", 0)),))
