"""The bounds of a foreign clock hold for whatever delays and whatever drift within the bound, and are not wider than
they have to be."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.errors import InputError, InvalidRunError
from testbed.machines.clocks.exchange import Exchange
from testbed.machines.clocks.remote_clock import RemoteClock
from tests.helpers.drawn import drawn

RHO = 1e-3


@dataclass(frozen=True)
class TrueClock:
    """What the other machine's clock really shows: a start, and a rate for each second of ours (the last one for
    ever)."""

    start_s: float
    drifts: tuple[float, ...]

    def shows(self, ours_s: float) -> float:
        whole = min(int(ours_s), len(self.drifts) - 1)
        return (
            self.start_s + ours_s + sum(self.drifts[:whole]) + self.drifts[whole] * (ours_s - whole)
        )

    def our_time(self, stamp_s: float) -> float:
        at = [self.shows(float(i)) for i in range(len(self.drifts))]
        whole = max(0, bisect_right(at, stamp_s) - 1)
        return whole + (stamp_s - at[whole]) / (1 + self.drifts[whole])


def exchange(
    clock: TrueClock, sent_s: float, there_s: float, held_s: float, back_s: float
) -> Exchange:
    """One exchange with a delay on each way, and a time in the other machine's hands."""
    stamps = sent_s, sent_s + there_s, sent_s + there_s + held_s, sent_s + there_s + held_s + back_s
    return Exchange(
        sent_ns=round(stamps[0] * 1e9),
        received_ns=round(clock.shows(stamps[1]) * 1e9),
        answered_ns=round(clock.shows(stamps[2]) * 1e9),
        returned_ns=round(stamps[3] * 1e9),
    )


delays = st.floats(min_value=0, max_value=0.2)
clocks = st.builds(
    TrueClock,
    st.floats(min_value=-1e6, max_value=1e6),
    st.lists(st.floats(min_value=-RHO, max_value=RHO), min_size=1, max_size=12).map(tuple),
)
asked = st.lists(
    st.tuples(st.floats(min_value=0, max_value=12), delays, delays, delays), min_size=1, max_size=25
)


@drawn(300)
@given(
    clock=clocks,
    asked=asked,
    moments=st.lists(st.floats(min_value=0, max_value=13), min_size=1, max_size=10),
)
def test_the_truth_lies_within_the_bounds(
    clock: TrueClock, asked: list[tuple[float, float, float, float]], moments: list[float]
) -> None:
    found = RemoteClock(
        machine="m1", exchanges=tuple(exchange(clock, *each) for each in asked), drift_bound=RHO
    )
    times = found.ours([clock.shows(at) for at in moments])
    assert (times.earliest_s <= moments).all()
    assert (times.latest_s >= moments).all()
    first, last = (
        clock.shows(min(a[0] + a[1] for a in asked)),
        clock.shows(max(a[0] + sum(a[1:3]) for a in asked)),
    )
    worst = found.worst_uncertainty_s(first, last)
    inside = found.ours(np.linspace(first, last, 137)).uncertainty_s
    assert worst >= inside.max() - 1e-12


@drawn(100)
@given(clock=clocks, asked=asked)
def test_the_mean_drift_lies_within_its_bounds(
    clock: TrueClock, asked: list[tuple[float, float, float, float]]
) -> None:
    exchanges = tuple(exchange(clock, *each) for each in asked)
    low, high = RemoteClock(machine="m1", exchanges=exchanges, drift_bound=RHO).drift()
    stamps = [ns / 1e9 for each in exchanges for ns in (each.received_ns, each.answered_ns)]
    ours = clock.our_time(max(stamps)) - clock.our_time(min(stamps))
    assert -RHO <= low <= high + 1e-12 and high <= RHO
    if ours > 0.01:
        truth = (max(stamps) - min(stamps)) / ours - 1
        assert low - 1e-6 <= truth <= high + 1e-6


def test_a_drift_beyond_the_bound_is_found_out() -> None:
    clock = TrueClock(100.0, (0.01,) * 10)
    exchanges = tuple(exchange(clock, float(at), 1e-4, 0.0, 1e-4) for at in range(10))
    with pytest.raises(InvalidRunError, match="the clock of m1 cannot be followed"):
        RemoteClock(machine="m1", exchanges=exchanges, drift_bound=RHO)


def test_a_clock_that_was_set_during_the_run_is_found_out() -> None:
    before, after = TrueClock(100.0, (0.0,)), TrueClock(100.05, (0.0,))
    exchanges = [exchange(before, 0.5, 1e-3, 0.0, 1e-3), exchange(after, 1.0, 1e-3, 0.0, 1e-3)]
    with pytest.raises(InvalidRunError, match="inconsistent exchanges"):
        RemoteClock(machine="m1", exchanges=tuple(exchanges))


def test_one_quick_exchange_sharpens_what_slow_ones_leave_open() -> None:
    clock = TrueClock(5000.0, (0.0,) * 10)
    slow = [exchange(clock, float(at), 0.03, 0.0, 0.01) for at in range(10)]
    quick = exchange(clock, 5.0, 1e-5, 0.0, 1e-5)
    rough = RemoteClock(machine="m1", exchanges=tuple(slow)).offset(clock.shows(5.5))[1]
    guess, fine = RemoteClock(machine="m1", exchanges=(*slow, quick)).offset(clock.shows(5.5))
    assert rough > 0.018
    assert fine < 0.0006
    assert abs(guess - 5000.0) <= fine


def test_the_bounds_are_as_narrow_as_the_delays_alone_without_drift() -> None:
    clock = TrueClock(0.0, (0.0,))
    lopsided = RemoteClock(
        machine="m1", exchanges=(exchange(clock, 0.0, 0.004, 0.0, 0.0),), drift_bound=0.0
    )
    guess, uncertainty = lopsided.offset(0.004)
    assert guess == pytest.approx(0.002, abs=1e-8)  # half of what the two ways differ by
    assert uncertainty == pytest.approx(0.002, abs=1e-8)


def test_no_exchange_is_no_clock() -> None:
    with pytest.raises(InputError, match="no exchange of time stamps was answered"):
        RemoteClock(machine="m1", exchanges=())
