"""What clocks leave undecided is counted; clocks and links that are worse than what is measured end the run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from testbed.errors import InputError, InvalidRunError
from testbed.machines.clocks.exchange import (
    Exchange,
    answer,
    parse_answer,
    parse_question,
    question,
)
from testbed.machines.clocks.remote_clock import RemoteClock
from testbed.machines.machines_report import clock_report, require_clock, underlay_reason

KEY = b"sixteen bytes!!!"


def exchanges(
    count: int, trip_s: float = 2e-4, *, slower: tuple[int, int] = (0, 0), by_s: float = 0.0
) -> list[Exchange]:
    """Ten a second over a symmetric link, those of a range slower."""
    found = []
    for number in range(count):
        sent, half = (
            number * 100_000_000,
            round((trip_s + (by_s if slower[0] <= number < slower[1] else 0)) * 5e8),
        )
        there = 7_000_000_000 + sent + half
        found.append(
            Exchange(
                sent_ns=sent, received_ns=there, answered_ns=there, returned_ns=sent + 2 * half
            )
        )
    return found


def test_clock_worse_than_the_measured_times_ends_with_exit_code_4() -> None:
    clock = RemoteClock(machine="m2", exchanges=tuple(exchanges(50)))
    report = clock_report(clock, requested=50, from_s=7.0, to_s=12.0)
    assert report.offset_s == pytest.approx(7.0, abs=1e-4)
    assert 1e-4 <= report.uncertainty_s < 2.5e-4
    require_clock(report, 1e-3, "a reaction time")
    with pytest.raises(
        InvalidRunError, match="the clock of m2 is known to within 50 ms only"
    ) as raised:
        require_clock(replace(report, uncertainty_s=0.05), 0.02, "a reaction time")
    assert raised.value.exit_code == 4


def test_a_link_that_loses_a_twentieth_or_turns_slow_is_named() -> None:
    good = exchanges(100)
    assert underlay_reason("m1", good, 100) is None
    assert underlay_reason("m1", good[:98], 100) is None  # two may have met a full socket
    assert underlay_reason("m1", good[:95], 100) == (
        "the link to m1 lost 5 of 100 exchanges of time stamps (at most 1%): it loses packets of crossing cables too"
    )
    slow = underlay_reason("m1", exchanges(100, slower=(40, 70), by_s=0.03), 100)
    assert slow is not None and slow.startswith(
        "the link to m1 was 30 ms slower for a second than at its best"
    )
    spikes = exchanges(
        100, slower=(40, 44), by_s=0.03
    )  # a busy machine, not a slow link: the second's best is quick
    assert underlay_reason("m1", spikes, 100) is None


def test_only_the_answers_of_this_run_are_believed() -> None:
    assert parse_question(question(KEY, 5), KEY) == 5
    assert parse_question(question(KEY, 5), b"sixteen others!!") is None
    assert parse_question(b"anything", KEY) is None
    assert parse_answer(answer(KEY, 1, 2, 3)[:-1], KEY) is None
    with pytest.raises(InputError, match="ran backwards"):
        Exchange(sent_ns=2, received_ns=0, answered_ns=0, returned_ns=1)
