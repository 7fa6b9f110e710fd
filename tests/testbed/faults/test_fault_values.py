"""Which faults there are, when they overlap and what they are called, held against plain statements of each."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.errors import InputError
from testbed.faults.cable_faults import random_faults, shape_walk
from testbed.faults.failure_traces import TraceStatistics
from testbed.faults.fault import (
    Fault,
    FaultTimes,
    PoissonFaults,
    cables_of,
    describe,
    fault_lines,
    fault_not_in_force,
    fault_rows,
    flapping_faults,
    injection_check,
    names_of_faults,
    outlasting,
    overlapping,
    poisson_faults,
)
from testbed.faults.grammar import (
    fault_text,
    parse_cable_faults,
    parse_fault,
    parse_fault_document,
    parse_node_time,
)
from testbed.faults.impaired_link import queue_bytes
from testbed.faults.reading import read_faults
from topologies import load_network

T1 = load_network("swiss-t1")
LINK = ("s1", "s2", 0)
spans = st.lists(st.tuples(st.integers(0, 20), st.integers(1, 8)), max_size=6)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"start_s": 1.0, "stop_s": 1.0}, "start must be 0 or more and before stop"),
        ({"start_s": 2.0, "stop_s": 1.0}, "start must be 0 or more and before stop"),
        ({"start_s": -0.1, "stop_s": 1.0}, "start must be 0 or more and before stop"),
        ({"kind": "loss", "loss_fraction": 0.0}, "outside (0, 1]"),
        ({"kind": "loss", "loss_fraction": 1.01}, "outside (0, 1]"),
        ({"kind": "impaired"}, "without impairments"),
        ({"kind": "down", "impairments": "loss:0.1"}, "with impairments"),
        ({"direction": "back"}, "neither both nor forward"),
        (
            {"kind": "impaired", "impairments": "loss:0.1", "direction": "back"},
            "neither both nor forward",
        ),
        ({"kind": "impaired", "impairments": "loss:2"}, "fault on s1->s2: loss:2"),
        ({"kind": "slow"}, "none of down, blackhole, loss"),
    ],
)
def test_invalid_faults_are_refused(values: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError) as refused:
        Fault(link=LINK, **values)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("values", "partial", "words"),
    [
        ({}, False, "s1->s2 down"),
        ({"kind": "blackhole"}, False, "s1->s2 blackhole"),
        ({"kind": "loss", "loss_fraction": 0.25}, True, "s1->s2 loss 25 %"),
        ({"kind": "loss", "loss_fraction": 1.0}, False, "s1->s2 loss 100 %"),
        ({"kind": "impaired", "impairments": "loss:0.25"}, True, "s1->s2 loss:0.25"),
        ({"kind": "impaired", "impairments": "delay:0.01"}, True, "s1->s2 delay:0.01"),
        ({"kind": "down", "loss_fraction": 0.5}, False, "s1->s2 down"),
    ],
)
def test_a_fault_is_partial_where_some_packets_pass(
    values: dict[str, Any], partial: bool, words: str
) -> None:
    fault = Fault(link=LINK, start_s=0.0, stop_s=2.0, **values)
    assert (fault.partial, describe(fault), fault.ends) == (partial, words, ("s1", "s2"))
    assert (fault.permanent, fault.ends_s) == (False, 2.0)
    assert (replace(fault, stop_s=math.inf).permanent, replace(fault, stop_s=math.inf).ends_s) == (
        True,
        None,
    )
    assert [one.stop_s for one in outlasting([fault, replace(fault, stop_s=math.inf)], 5.0)] == [
        2.0,
        6.0,
    ]


@given(spans)
def test_faults_overlap_where_some_moment_has_two(lengths: list[tuple[int, int]]) -> None:
    faults = [
        Fault(link=LINK, start_s=float(at), stop_s=float(at + lasts)) for at, lasts in lengths
    ]
    at_once = (sum(f.start_s <= t + 0.5 < f.stop_s for f in faults) for t in range(30))
    assert overlapping(faults) == (max(at_once) > 1)


@given(st.lists(st.integers(0, 2), max_size=4))
def test_equal_faults_are_named_once_each_in_order(kinds: list[int]) -> None:
    planned = [Fault(link=LINK, start_s=float(k), stop_s=k + 1.0) for k in kinds]
    came = [
        FaultTimes(fault=fault, start_s=fault.start_s, stop_s=fault.stop_s) for fault in planned
    ]
    assert names_of_faults(planned, came) == [f"fault:{k}" for k in range(len(kinds))]
    backward = names_of_faults(planned, came[::-1])
    assert sorted(backward) == [f"fault:{k}" for k in range(len(kinds))]
    assert all(
        planned[int(name[6:])] == times.fault
        for name, times in zip(backward, came[::-1], strict=True)
    )


def test_a_run_that_was_over_when_its_last_fault_was_to_come_cannot_tell() -> None:
    assert injection_check([], 1.0) == ()
    moments = [("s1->s2", 2.0), ("r5", 1.0)]
    outcomes = {over_s: injection_check(moments, over_s)[0].outcome for over_s in (1.5, 2.0, 2.1)}
    assert outcomes == {1.5: "cannot-tell", 2.0: "cannot-tell", 2.1: "holds"}
    (check,) = injection_check(moments, 1.5)
    assert (
        "before s1->s2 at 2 s" in check.detail
        and check.predicted == 2.0
        and not injection_check(moments, 3)[0].detail
    )


@pytest.mark.parametrize(("period_s", "down_s"), [(1.0, 0.0), (1.0, 1.0), (1.0, 1.5), (1.0, -0.5)])
def test_a_link_flaps_for_a_part_of_its_period(period_s: float, down_s: float) -> None:
    with pytest.raises(InputError, match="0 < down < period"):
        flapping_faults(LINK, period_s=period_s, down_s=down_s, start_s=0.0, stop_s=5.0)


def test_flapping_takes_whole_periods_and_no_more_than_ten_thousand() -> None:
    def count(stop_s: float) -> int:
        return len(flapping_faults(LINK, period_s=0.1, down_s=0.05, start_s=1.0, stop_s=stop_s))

    assert [count(1.1), count(1.19), count(1.2), count(1001.0)] == [1, 1, 2, 10_000]
    for stop_s in (1.05, 1001.1):
        with pytest.raises(InputError, match="periods between"):
            count(stop_s)


@given(seed=st.integers(0, 50), exponential=st.booleans())
def test_random_failures_lie_in_their_time_and_are_of_their_length(
    seed: int, exponential: bool
) -> None:
    law = PoissonFaults(
        rate_per_s=0.2, lasts_s=1.0, start_s=2.0, lengths="exponential" if exponential else "fixed"
    )
    cables = cables_of(link.id for link in T1.links)
    faults = poisson_faults(cables[:6], law, until_s=12.0, seed=seed)
    assert faults == tuple(sorted(faults, key=lambda f: (f.start_s, f.link)))
    for fault in faults:
        lasts_s = fault.stop_s - fault.start_s
        assert fault.start_s >= 2.0 and fault.stop_s <= 12.0 and fault.link in cables
        assert exponential or lasts_s == pytest.approx(min(1.0, 12.0 - fault.start_s), abs=2e-4)
    assert law.unavailability == pytest.approx(1 - math.exp(-0.2))
    if len(faults) > 1:
        with pytest.raises(InputError, match="raise most"):
            poisson_faults(cables[:6], replace(law, most=0), until_s=12.0, seed=seed)


def test_the_shortest_random_failure_lasts_a_millisecond() -> None:
    law = PoissonFaults(rate_per_s=5.0, lasts_s=2e-4, lengths="exponential", most=1000)
    lengths = [
        f.stop_s - f.start_s
        for f in poisson_faults([LINK], law, until_s=40.0, seed=1)
        if f.stop_s < 40.0
    ]
    assert (
        len(lengths) > 100 and min(lengths) == pytest.approx(1e-3, abs=1e-9) and max(lengths) > 1e-3
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("rate_per_s", 0.0),
        ("lasts_s", -1.0),
        ("start_s", -0.1),
        ("lengths", "long"),
        ("rate_per_s", math.inf),
        ("start_s", math.nan),
        ("loss_fraction", 0.0),
    ],
)
def test_a_law_of_failures_that_cannot_be_is_refused(name: str, value: Any) -> None:
    with pytest.raises(InputError, match="random faults"):
        PoissonFaults(**({"rate_per_s": 1.0, "lasts_s": 1.0} | {name: value}))


def test_an_impaired_link_of_a_file_and_a_moment_of_a_name_that_is_no_node() -> None:
    entry = {"link": "s1->s2", "start_s": 0, "stop_s": 1, "impairments": "loss:0.2"}
    (fault,) = parse_fault_document([entry], T1, "file")
    assert (fault.kind, fault.loss_fraction, fault.direction) == (
        "impaired",
        pytest.approx(0.2),
        "both",
    )
    for more in ({"kind": "down"}, {"loss_fraction": 0.5}):
        with pytest.raises(InputError, match="cannot be combined"):
            parse_fault_document([entry | more], T1, "file")
    assert parse_node_time("nobody @2", "kill", T1) == ("nobody", 2.0)
    assert parse_node_time("s3@250ms", "kill", T1) == ("s3", 0.25)


def test_a_cable_that_is_given_twice_in_a_list_is_named_with_its_time() -> None:
    faults = parse_cable_faults("s1-s2@1-2,s2-s3@1-3", T1, seed=1, duration_s=5.0)
    assert [(f.link, f.start_s, f.stop_s) for f in faults] == [
        (("s1", "s2", 0), 1.0, 2.0),
        (("s2", "s3", 0), 1.0, 3.0),
    ]


kinds = st.sampled_from(
    [
        {},
        {"kind": "blackhole"},
        {"kind": "loss", "loss_fraction": 0.3},
        {"kind": "impaired", "impairments": "jitter:0.01"},
    ]
)


@given(
    kind=kinds,
    forward=st.booleans(),
    start_s=st.sampled_from([0.0, 0.5, 2.25]),
    permanent=st.booleans(),
)
def test_the_text_of_a_fault_reads_back_as_the_fault(
    kind: dict[str, Any], forward: bool, start_s: float, permanent: bool
) -> None:
    direction = "forward" if forward else "both"
    stop_s = math.inf if permanent else start_s + 1
    fault = Fault(link=LINK, start_s=start_s, stop_s=stop_s, direction=direction, **kind)
    assert parse_fault(fault_text(fault), T1) == fault


def test_faults_are_none_a_list_a_file_or_values(tmp_path: Path) -> None:
    fault = Fault(link=LINK, start_s=1.0, stop_s=2.0)
    file = tmp_path / "faults.json"
    file.write_text(json.dumps([{"link": "s1->s2", "start_s": 1, "stop_s": 2}]))
    assert read_faults("none", T1) == ()
    for said in ("s1->s2@1-2", str(file), file, [fault], ("s1->s2@1-2 down",)):
        assert read_faults(said, T1) == (fault,), said
    for said, words in ((str(tmp_path / "nothing.json"), "give a JSON file"), ("s1->s2", "s1->s2")):
        with pytest.raises(InputError, match=words):
            read_faults(said, T1)


def test_a_queue_holds_50_ms_of_the_capacity_and_20_packets_at_least() -> None:
    assert [queue_bytes(c) for c in (1e9, 1e6)] == [6_250_000, 20 * 1514]
    assert (queue_bytes(1e6, 9000), queue_bytes(1e6, 100, packets=3)) == (20 * 9014, 3 * 114)


@pytest.mark.parametrize(("components", "fits"), [(0, False), (1, True), (3, True), (4, False)])
def test_a_trace_has_no_more_components_than_failures_or_nodes(components: int, fits: bool) -> None:
    values: dict[str, Any] = {
        "span_s": 100.0,
        "gap_variation": 1.0,
        "outage_median_s": None,
        "outage_log_deviation": None,
    }
    for nodes, failures in ((3, 9), (9, 3)):
        if fits:
            TraceStatistics(nodes=nodes, failures=failures, components=components, **values)
        else:
            with pytest.raises(InputError, match="give 1 or more, and not more than either"):
                TraceStatistics(nodes=nodes, failures=failures, components=components, **values)


def test_transient_failures_come_at_any_time_and_are_short() -> None:
    faults = [
        f
        for seed in range(12)
        for f in parse_cable_faults("transient:3", T1, seed=seed, duration_s=1.0)
    ]
    assert min(f.start_s for f in faults) < 0.1 and max(f.start_s for f in faults) > 0.8
    assert (
        all(0 < f.stop_s - f.start_s <= 0.1 for f in faults)
        and min(f.stop_s - f.start_s for f in faults) < 0.02
    )


@pytest.mark.parametrize(
    ("shape", "end"), [("line", (0, 3)), ("square", (0, 0)), ("L", (3, -3)), ("U", (3, 0))]
)
def test_the_legs_of_a_shape_end_where_the_letter_does(shape: str, end: tuple[int, int]) -> None:
    walk = shape_walk(shape, 3)
    assert (walk[0], walk[-1]) == ((0, 0), end) and len(set(walk)) == len(walk) - (
        shape == "square"
    )
    assert all(abs(a - x) + abs(b - y) == 1 for (a, b), (x, y) in pairwise(walk))


def test_random_cables_fail_from_the_beginning_and_for_good_unless_told() -> None:
    faults = random_faults(T1, 4, seed=2)
    assert {(fault.start_s, fault.stop_s) for fault in faults} == {(0.0, math.inf)} and len(
        {f.link for f in faults}
    ) == 4


def test_faults_of_a_document_are_shown_with_their_ends() -> None:
    faults = [Fault(link=LINK, start_s=1.0, stop_s=2.5), Fault(link=LINK, start_s=3.0)]
    assert list(fault_lines(fault_rows(faults))) == [
        "  s1->s2 down from 1.00 to 2.50 s",
        "  s1->s2 down from 3.00 s on",
    ]


@pytest.mark.parametrize(
    ("reported_s", "believed"), [(0.96, True), (1.5, True), (2.0, True), (0.9, False), (2.1, False)]
)
def test_a_switch_reports_a_fault_while_it_lasts(reported_s: float, believed: bool) -> None:
    fault = Fault(link=LINK, start_s=1.0, stop_s=2.0)
    times = FaultTimes(fault=fault, start_s=1.0, stop_s=2.0, port_status_s=reported_s)
    assert (fault_not_in_force([fault], [times], 3.0) is None) is believed


@pytest.mark.parametrize("name", ["span_s", "gap_variation"])
def test_a_trace_of_no_length_or_of_even_gaps_is_refused(name: str) -> None:
    values: dict[str, Any] = {
        "span_s": 100.0,
        "gap_variation": 1.0,
        "outage_median_s": None,
        "outage_log_deviation": None,
    }
    with pytest.raises(InputError):
        TraceStatistics(nodes=4, failures=3, components=2, **(values | {name: 0.0}))
    small = dict.fromkeys(("span_s", "gap_variation"), 0.5)
    assert TraceStatistics(nodes=4, failures=3, components=2, **(values | small)).span_s == 0.5
