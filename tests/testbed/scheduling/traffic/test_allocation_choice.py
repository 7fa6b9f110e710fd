"""Choosing an allocation of Swiss-T1, from Python and from the command line."""

from __future__ import annotations

import json
from fractions import Fraction

import pytest

from testbed.cli import main
from testbed.errors import InputError
from testbed.scheduling.traffic.allocation import choose_allocations, distinct_allocations


def test_whole_machine_reaches_21_links() -> None:
    choice = choose_allocations(32)
    assert (choice.candidates, choice.best[0].bottleneck_load) == (1, 48)
    assert choice.best[0].liquid_throughput == choice.worst.liquid_throughput == Fraction(64, 3)


def test_best_come_first_and_the_worst_is_no_better() -> None:
    choice = choose_allocations(16, count=9)
    rates = [a.liquid_throughput for a in choice.best]
    assert rates == sorted(rates, reverse=True)
    assert rates[0] == 16 > choice.worst.liquid_throughput
    assert sum(number for _, number in choice.loads) == choice.candidates
    assert all(a.nodes == 16 for a in choice.best)


def test_occupied_nodes_are_left_alone() -> None:
    choice = choose_allocations(6, occupied=(4, 3, 0, 4, 1, 4, 4, 4), count=1000)
    assert choice.candidates == len(choice.best) == len({a.counts for a in choice.best})
    assert all(
        have <= 4 - taken
        for a in choice.best
        for have, taken in zip(a.counts, (4, 3, 0, 4, 1, 4, 4, 4), strict=True)
    )


def test_there_are_362_different_patterns_in_the_order_of_figure_41() -> None:
    found = distinct_allocations()
    assert len(found) == 362
    keys = [(a.nodes, a.liquid_throughput) for a in found]
    assert keys == sorted(set(keys))


@pytest.mark.parametrize(
    ("nodes", "count", "occupied", "words"),
    [
        (33, 1, (0,) * 8, "32 of 32 are free"),
        (0, 1, (0,) * 8, "32 of 32 are free; give 1 or more"),
        (29, 1, (4, 0, 0, 0, 0, 0, 0, 0), "28 of 32"),
        (3, 0, (0,) * 8, "count 0"),
        (3, 1, (0,) * 7, "give 8 counts"),
        (3, 1, (5, *(0,) * 7), "from 0 to 4"),
        (1, 1, (4,) * 8, "0 of 32 are free; give 1 or more of those, or occupy fewer$"),
    ],
)
def test_bad_input_is_refused_in_words(
    nodes: int, count: int, occupied: tuple[int, ...], words: str
) -> None:
    with pytest.raises(InputError, match=words):
        choose_allocations(nodes, count=count, occupied=occupied)


def test_command_lists_them_and_gives_one_json_object(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["allocate", "swiss-t1", "--nodes", "24", "--list", "3", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert len(document["allocations"]) == 3
    best, worst = document["allocations"][0], document["worst"]
    assert best["liquid_throughput_links"] == pytest.approx(24**2 / best["bottleneck_load"])
    assert (
        worst["liquid_throughput_bps"]
        <= best["liquid_throughput_bps"]
        == pytest.approx(best["liquid_throughput_links"] * 688e6)
    )
    assert main(["allocate", "swiss-t1", "--nodes", "24"]) == 0
    assert "liquid throughput" in capsys.readouterr().out


@pytest.mark.parametrize(
    "words",
    [
        ["torus:8x8", "--nodes", "3"],
        ["swiss-t1", "--nodes", "3", "--occupied", "4-x"],
        ["swiss-t1", "--nodes", "99"],
    ],
)
def test_command_refuses_in_one_line(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["allocate", *words]) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1
