"""Timed faults on a fake network: order, times, mending, errors."""

from __future__ import annotations

import itertools
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.emulation.control.fault_injection import FaultSchedule, fault_steps
from testbed.errors import CapabilityError
from testbed.faults.fault import Direction, Fault
from topologies.network import LinkId

AB: LinkId = ("a", "b", 0)
BC: LinkId = ("b", "c", 0)


class FakeNetwork:
    """Remembers what was done to it, with the time."""

    def __init__(self, refuse: str = "") -> None:
        self.done: list[tuple[str, LinkId, object, Direction]] = []
        self.refuse = refuse

    def _note(self, what: str, link: LinkId, value: object, direction: Direction) -> float:
        if what == self.refuse:
            raise CapabilityError("cannot")
        self.done.append((what, link, value, direction))
        return time.monotonic()

    def set_link(self, link: LinkId, up: bool, direction: Direction = "both") -> float:
        return self._note("link", link, up, direction)

    def set_loss(self, link: LinkId, fraction: float, direction: Direction = "both") -> float:
        return self._note("loss", link, fraction, direction)


def test_every_kind_of_fault_is_begun_and_ended_in_order() -> None:
    network = FakeNetwork()
    faults = [
        Fault(link=AB, kind="down", start_s=0.02, stop_s=0.06),
        Fault(link=BC, kind="blackhole", start_s=0.03, stop_s=0.04, direction="forward"),
        Fault(link=BC, kind="loss", start_s=0.05, stop_s=0.07, loss_fraction=0.25),
    ]
    with FaultSchedule(network, faults, time.monotonic()) as schedule:
        schedule.join()
    assert network.done == [
        ("link", AB, False, "both"),
        ("loss", BC, 1.0, "forward"),
        ("loss", BC, 0.0, "forward"),
        ("loss", BC, 0.25, "both"),
        ("link", AB, True, "both"),
        ("loss", BC, 0.0, "both"),
    ]
    for fault, times in zip(faults, schedule.times(), strict=True):
        assert times.fault is fault
        assert times.start_s >= fault.start_s
        assert times.stop_s >= fault.stop_s


def test_stop_mends_what_is_broken_and_begins_nothing_more() -> None:
    network = FakeNetwork()
    faults = [Fault(link=AB, start_s=0.0, stop_s=60.0), Fault(link=BC, start_s=30.0, stop_s=60.0)]
    with FaultSchedule(network, faults, time.monotonic()) as schedule:
        while not network.done:
            time.sleep(0.001)
    assert network.done == [("link", AB, False, "both"), ("link", AB, True, "both")]
    assert [t.fault for t in schedule.times()] == [faults[0]]
    schedule.stop()


def test_permanent_fault_outlasts_others_and_ends_with_the_run() -> None:
    network = FakeNetwork()
    faults = [
        Fault(link=AB, start_s=0.0),
        Fault(link=BC, kind="blackhole", start_s=0.01, stop_s=0.02),
    ]
    with FaultSchedule(network, faults, time.monotonic()) as schedule:
        time.sleep(0.2)
        assert network.done[-1] == ("loss", BC, 0.0, "both") and len(schedule.in_force()) == 1
        schedule.join()
    assert network.done[-1] == ("link", AB, True, "both")
    assert schedule.times()[0].stop_s >= 0.2


def test_stop_without_a_start_does_nothing() -> None:
    network = FakeNetwork()
    FaultSchedule(network, [Fault(link=AB, start_s=0.0, stop_s=1.0)], time.monotonic()).stop()
    assert network.done == []


def test_refused_fault_is_raised_where_the_schedule_is_awaited() -> None:
    faults = [Fault(link=AB, kind="loss", start_s=0, stop_s=0.01)]
    with (
        FaultSchedule(FakeNetwork(refuse="loss"), faults, 0.0) as schedule,
        pytest.raises(CapabilityError, match="cannot"),
    ):
        schedule.join()


fault_values = st.builds(
    lambda start, length: Fault(link=AB, start_s=start, stop_s=start + length),
    st.integers(0, 5),
    st.integers(1, 5),
)


@given(st.lists(fault_values, max_size=8))
def test_steps_are_in_time_order_and_each_fault_begins_before_it_ends(faults: list[Fault]) -> None:
    steps = fault_steps(faults)
    assert [s.at_s for s in steps] == sorted(s.at_s for s in steps)
    for number in range(len(faults)):
        assert [s.begins for s in steps if s.fault == number] == [True, False]


@given(st.lists(fault_values, max_size=8))
def test_at_one_moment_ends_come_before_beginnings(faults: list[Fault]) -> None:
    steps = fault_steps(faults)
    for earlier, later in itertools.pairwise(steps):
        if earlier.at_s == later.at_s:
            assert (earlier.begins, later.begins) != (True, False)
