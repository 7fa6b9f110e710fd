"""Destination patterns and injection processes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.errors import InputError
from testbed.interconnect.traffic.injection import (
    PATTERNS,
    PERMUTATIONS,
    InjectionProcess,
    build_injections,
    build_pattern,
    burst_at,
    merge,
    only_in_row,
    row_members,
    tornado_in_one_row,
)


@given(name=st.sampled_from(sorted(PERMUTATIONS)), bits=st.integers(1, 5))
def test_bit_patterns_are_permutations(name: str, bits: int) -> None:
    nodes = 4**bits
    table = build_pattern(name, nodes, to_itself=True).choices
    assert sorted(table) == [(node,) for node in range(nodes)]


def test_bit_patterns_send_where_table_5_1_says() -> None:
    sent = {name: build_pattern(name, 16, to_itself=True).choices for name in PERMUTATIONS}
    source = 0b0110
    wanted = {
        "bit-reversal": 0b0110,
        "shuffle": 0b1100,
        "butterfly": 0b0110,
        "transpose": 0b1001,
        "complement": 0b1001,
    }
    assert {name: table[source] for name, table in sent.items()} == {
        name: (to,) for name, to in wanted.items()
    }


@pytest.mark.parametrize("name", sorted(PERMUTATIONS))
def test_bit_patterns_refuse_what_is_no_power_of_two(name: str) -> None:
    with pytest.raises(InputError, match="no power of two"):
        build_pattern(name, 12)


def test_transpose_refuses_an_odd_number_of_bits() -> None:
    with pytest.raises(InputError, match="two halves of 3 bits"):
        build_pattern("transpose", 8)


def test_tornado_goes_nearly_half_way_round_each_ring() -> None:
    table = build_pattern("tornado", 64, shape=(8, 8)).choices
    assert table[0] == (3 * 8 + 3,) and table[63] == (2 * 8 + 2,)
    assert build_pattern("tornado", 5).choices == ((2,), (3,), (4,), (0,), (1,))


def test_tornado_in_one_row_keeps_all_other_nodes_silent() -> None:
    pattern = tornado_in_one_row((8, 8), 5)
    assert pattern.senders == row_members((8, 8), 5) == tuple(range(5, 64, 8))
    assert pattern.choices[5] == (29,)


def test_silent_nodes_send_nothing() -> None:
    pattern = only_in_row(build_pattern("complement", 8), (1, 2))
    assert pattern.choices == ((), (6,), (5,), (), (), (), (), ())


@given(name=st.sampled_from(PATTERNS), root=st.integers(0, 15))
def test_no_pattern_sends_to_itself_unless_asked(name: str, root: int) -> None:
    pattern = build_pattern(name, 16, root=root)
    assert all(s not in there for s, there in enumerate(pattern.choices))


def test_scatter_takes_every_destination_in_turn() -> None:
    traffic = build_injections(
        build_pattern("scatter", 5, root=2),
        InjectionProcess(kind="periodic", rate_per_s=1000),
        duration_s=0.008,
        seed=1,
    )
    assert traffic.destination.tolist() == [0, 1, 3, 4, 0, 1, 3, 4]
    assert set(traffic.source.tolist()) == {2}


def test_gather_sends_everything_to_the_root() -> None:
    traffic = build_injections(
        build_pattern("gather", 8, root=3), InjectionProcess(rate_per_s=500), duration_s=0.1, seed=1
    )
    assert set(traffic.destination.tolist()) == {3}
    assert set(traffic.source.tolist()) == set(range(8)) - {3}


def test_poisson_injection_has_the_rate_and_the_spread_of_poisson() -> None:
    traffic = build_injections(
        build_pattern("uniform", 16), InjectionProcess(rate_per_s=20_000), duration_s=0.5, seed=3
    )
    assert len(traffic) == pytest.approx(160_000, rel=0.01)
    gaps = np.diff(traffic.time_ps[traffic.source == 0])
    assert gaps.std() / gaps.mean() == pytest.approx(1.0, abs=0.05)


def test_periodic_senders_share_the_period_unless_in_phase() -> None:
    pattern = build_pattern("complement", 4)
    apart = build_injections(
        pattern, InjectionProcess(kind="periodic", rate_per_s=1000), duration_s=0.001, seed=1
    )
    together = build_injections(
        pattern,
        InjectionProcess(kind="periodic", rate_per_s=1000, in_phase=True),
        duration_s=0.001,
        seed=1,
    )
    assert apart.time_ps.tolist() == [0, 250_000_000, 500_000_000, 750_000_000]
    assert together.time_ps.tolist() == [0, 0, 0, 0]


def test_bursts_keep_the_mean_rate() -> None:
    process = InjectionProcess(kind="burst", rate_per_s=500, burst_messages=10, in_phase=True)
    traffic = build_injections(build_pattern("tornado", 8), process, duration_s=0.1, seed=1)
    assert len(traffic) == 8 * 50
    assert np.unique(traffic.time_ps).tolist() == [round(k * 0.02 * 1e12) for k in range(5)]


def test_silencing_a_node_leaves_the_messages_of_the_others() -> None:
    pattern = build_pattern("uniform", 8)
    process = InjectionProcess(rate_per_s=10_000)
    everyone = build_injections(pattern, process, duration_s=0.01, seed=4)
    some = build_injections(only_in_row(pattern, range(1, 8)), process, duration_s=0.01, seed=4)
    kept = everyone.source != 0
    assert everyone.time_ps[kept].tolist() == some.time_ps.tolist()
    assert everyone.destination[kept].tolist() == some.destination.tolist()


def test_a_burst_joins_a_traffic_in_order_of_time() -> None:
    pattern = build_pattern("tornado", 8)
    steady = build_injections(pattern, InjectionProcess(rate_per_s=5000), duration_s=0.01, seed=1)
    both = merge([steady, burst_at(pattern, time_s=0.005, messages=3)])
    assert len(both) == len(steady) + 24
    assert (np.diff(both.time_ps) >= 0).all()


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"kind": "steady", "rate_per_s": 1.0}, "is unknown"),
        ({"rate_per_s": -1.0}, "give 0 or more"),
        ({"rate_per_s": 1.0, "burst_messages": 0}, "give 1 or more"),
    ],
)
def test_impossible_injection_is_refused(wrong: dict[str, float], words: str) -> None:
    with pytest.raises(InputError, match=words):
        InjectionProcess(**wrong)  # type: ignore[arg-type]
