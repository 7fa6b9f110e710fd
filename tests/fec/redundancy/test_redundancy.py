"""ROR: equations 23 and 29, the infinite case, and deterministic block sizes in place of equation 25."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest

from fec import FecError, ror, ror_breakdown
from fec.redundancy.ror import ror_of_block_sizes

KEYS: dict[str, Any] = {"source_packets": 20, "decoding_error_rate": 1e-5}


def test_ror_sums_overheads_of_links_above_the_tolerance() -> None:
    # FEC_.05 = 28, FEC_.5 = 76, FEC_.25 = 44
    expected = 2 * (76 / 28 - 1) + (44 / 28 - 1)
    assert ror([0.5, 0.5, 0.25, 0.01], tolerance=0.05, **KEYS) == pytest.approx(expected)


def test_a_load_equal_to_the_tolerance_is_counted_and_costs_nothing() -> None:
    breakdown = ror_breakdown([0.05, Fraction(49, 1000)], tolerance=0.05, **KEYS)
    assert breakdown.per_load[0].block_size == 28
    assert breakdown.per_load[1].block_size is None
    assert breakdown.ror == 0


def test_a_link_with_the_whole_flow_makes_ror_infinite_and_is_named() -> None:
    for large in (False, True):
        breakdown = ror_breakdown([0.5, 1, 0.5, 1], tolerance=0.05, large_blocks=large, **KEYS)
        assert breakdown.infinite == (1, 3)
        assert breakdown.ror == math.inf
        assert breakdown.per_load[1].overhead is None


def test_large_blocks_follow_equation_29_exactly() -> None:
    breakdown = ror_breakdown([Fraction(1, 3), 0.5], tolerance=0.05, large_blocks=True, **KEYS)
    assert [term.overhead for term in breakdown.per_load] == [
        Fraction(95, 100) / Fraction(2, 3) - 1,
        Fraction(95, 100) * 2 - 1,
    ]
    assert breakdown.base_block_size is None


def test_given_block_sizes_replace_equation_25() -> None:
    sizes = [42, 28, None, None, 21]
    breakdown = ror_of_block_sizes(
        [0.5, 0.25, 1, 0.01, 0.06], sizes, 22, tolerance=0.05, source_packets=20
    )
    assert breakdown.infinite == (2,)
    finite = [term.overhead for term in breakdown.per_load if term.overhead is not None]
    assert finite == [Fraction(42, 22) - 1, Fraction(28, 22) - 1, 0, 0]


def test_no_loads_need_nothing() -> None:
    assert ror([], tolerance=0.05, **KEYS) == 0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"loads": [1.2], "tolerance": 0.05}, "load 0"),
        ({"loads": [0.5, -0.1], "tolerance": 0.05}, "load 1"),
        ({"loads": [0.5], "tolerance": 1}, "tolerance"),
    ],
)
def test_ror_names_what_is_wrong(arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(FecError, match=says):
        ror_breakdown(arguments.pop("loads"), **arguments, **KEYS)


@pytest.mark.parametrize(
    ("sizes", "base", "says"),
    [([42, 1], 22, "one each"), ([None], 22, "load 0"), ([42], 2, "below source_packets")],
)
def test_block_sizes_that_do_not_fit_the_loads_are_refused(
    sizes: list[int | None], base: int, says: str
) -> None:
    with pytest.raises(FecError, match=says):
        ror_of_block_sizes([0.5], sizes, base, tolerance=0.05, source_packets=20)
