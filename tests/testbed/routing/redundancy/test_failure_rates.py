"""Overlapping failures of Appendix G: probabilities, weights of one and two at once, and the ROR that follows."""

from __future__ import annotations

import random

import pytest

from testbed.errors import InputError
from testbed.routing.redundancy.failures import (
    most_links,
    overlap_probability,
    overlapping_ror,
    single_share,
    single_share_of_two,
    unavailability,
)


def test_figure_67_reaches_its_printed_value_at_two_seconds_not_one() -> None:
    assert overlap_probability(50, 2, 3600) == pytest.approx(0.0274, abs=5e-5)
    assert overlap_probability(50, 1, 3600) == pytest.approx(0.0138, abs=5e-5)


def test_equation_43_allows_nearly_900_links() -> None:
    assert int(most_links(0.05, 5, 86400)) == 886
    assert overlap_probability(886, 5, 86400) <= 0.05 < overlap_probability(887, 5, 86400)


def test_weights_of_one_and_more_failures_agree_with_a_simulated_process() -> None:
    links, failure_s, between_s, horizon_s = 20, 60.0, 3600.0, 3_000_000.0
    generator = random.Random(7)
    moments: list[tuple[float, int]] = []
    at = 0.0
    while (at := at + generator.expovariate(links / between_s)) < horizon_s:
        moments += [(at, 1), (at + failure_s, -1)]
    spent: dict[int, float] = {}
    down, before = 0, 0.0
    for moment, change in sorted(moments):
        spent[down] = spent.get(down, 0.0) + moment - before
        down, before = down + change, moment
    one = spent[1] / sum(seconds for count, seconds in spent.items() if count)
    assert single_share(links, failure_s, between_s) == pytest.approx(one, abs=0.01)


def test_failures_much_longer_than_their_gaps_are_hardly_ever_alone() -> None:
    assert single_share(4, 3600, 1) == 0


def test_neglecting_three_at_once_errs_on_the_second_order_only() -> None:
    exact, of_two = single_share(50, 2, 3600), single_share_of_two(50, 2, 3600)
    assert 0 < of_two - exact < (50 * 2 / 3600) ** 2


def test_corrected_weights_give_the_mean_over_all_states_of_three_links() -> None:
    u, single, double = 0.1, [0.5, 0.7, 0.9], {(0, 1): 2.0, (0, 2): 3.0, (1, 2): 4.0}
    mean = sum(single) * u * (1 - u) ** 2 + sum(double.values()) * u**2 * (1 - u)
    assert u * overlapping_ror(sum(single), sum(double.values()), 3, u) == pytest.approx(mean)


def test_unavailability_is_the_share_of_time_down() -> None:
    assert unavailability(1, 9) == pytest.approx(0.1)


@pytest.mark.parametrize("times", [(0, 5, 60), (10, 0, 60), (10, 5, 0), (10, 5, float("inf"))])
def test_rates_without_meaning_are_refused(times: tuple[int, float, float]) -> None:
    with pytest.raises(InputError, match="give"):
        overlap_probability(*times)
