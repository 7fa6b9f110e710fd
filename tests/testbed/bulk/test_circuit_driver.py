"""The driver between a coordinator and its switches: what it hands over, what it executes, and how it ends."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

import pytest

from testbed.bulk.coordinator import BulkCoordinator, Circuit
from testbed.bulk.emulated.switchboard import CircuitDriver
from testbed.bulk.plan import BulkPlan
from testbed.bulk.workload import bulk_plan
from topologies.network import LinkId

LOST = ("s1", "r0", 0)


def plan_of(**options: object) -> BulkPlan:
    return bulk_plan("crossbar:3", message_bytes=1000, **options)  # type: ignore[arg-type]


class FakeSwitchboard:
    """Switches that confirm a batch when they are read, and tell once that a link has lost its port."""

    def __init__(self, lost: tuple[LinkId, ...] = (), *, slow: bool = True) -> None:
        self._reader, self._writer = os.pipe()
        self._lost, self._slow = lost, slow
        self.changing = False
        self.standing: set[int] = set()
        self.batches = 0
        self.waits = 0

    @property
    def files(self) -> dict[int, int]:
        return {self._reader: 1}

    def start_change(self, set_up: Iterable[Circuit], tear_down: Iterable[Circuit]) -> None:
        assert not self.changing, "one batch at a time"
        self.standing -= {c.transfer for c in tear_down}
        self.standing |= {c.transfer for c in set_up}
        self.batches += 1
        if self._slow:
            self.changing = True
            os.write(self._writer, b".")

    def receive(self, dpid: int) -> tuple[bool, tuple[LinkId, ...]]:
        os.read(self._reader, 1)
        confirmed, self.changing = self.changing, False
        lost, self._lost = self._lost, ()
        return confirmed, lost

    def wait(self) -> None:
        self.waits += 1
        if self.changing:
            self.receive(1)

    def close(self) -> None:
        os.close(self._reader)
        os.close(self._writer)


@contextmanager
def switches(lost: tuple[LinkId, ...] = (), *, slow: bool = True) -> Iterator[FakeSwitchboard]:
    switchboard = FakeSwitchboard(lost, slow=slow)
    try:
        yield switchboard
    finally:
        switchboard.close()


class Network:
    """Messages arrive in the round after they were sent, and only over circuits that stand."""

    def __init__(self, coordinator: BulkCoordinator, switchboard: FakeSwitchboard) -> None:
        self._coordinator, self._switchboard = coordinator, switchboard
        self._under_way: list[tuple[int, int]] = []
        self.driver: CircuitDriver = CircuitDriver(
            coordinator, switchboard, self.send, start_s=time.monotonic()
        )

    def send(self, messages: Sequence[tuple[int, int]]) -> None:
        assert {number for number, _ in messages} <= self._switchboard.standing, (
            "sent without a circuit"
        )
        self._under_way += messages

    def deliver(self) -> None:
        arrived, self._under_way = self._under_way, []
        for number, attempt in arrived:
            self._coordinator.message_done(number, attempt, True, self.driver.now_s)

    def run(self, on_round: Callable[[], None] | None = None) -> CircuitDriver:
        self.driver.run({}, on_round or self.deliver)
        return self.driver


@pytest.mark.parametrize("slow", [True, False])
def test_every_message_goes_over_its_circuit_and_no_circuit_is_left(slow: bool) -> None:
    plan = plan_of()
    with switches(slow=slow) as switchboard:
        coordinator = BulkCoordinator(plan)
        driver = Network(coordinator, switchboard).run()
        assert driver.failure is None and driver.lost_links == []
        assert coordinator.done == len(plan.transfers) and not switchboard.standing
        assert switchboard.batches == len(plan.frames) + 1 and not switchboard.changing
        assert driver.ended_s >= max(r.done_s or 0.0 for r in coordinator.records())


def test_a_lost_port_reaches_the_coordinator_and_the_run_names_it() -> None:
    with switches(lost=(LOST,)) as switchboard:
        driver = Network(BulkCoordinator(plan_of()), switchboard).run()
        assert driver.lost_links == [LOST]
        assert driver.failure is not None and "s1->r0" in driver.failure


def test_a_run_in_which_nothing_arrives_ends_by_its_deadline() -> None:
    with switches() as switchboard:
        network = Network(BulkCoordinator(plan_of(), stall_s=0.05), switchboard)
        driver = network.run(lambda: None)
        assert driver.failure is not None and "no message arrived for 0.05 s" in driver.failure


def test_a_driver_that_is_stopped_leaves_the_coordinator_where_it_is() -> None:
    with switches() as switchboard:
        network = Network(BulkCoordinator(plan_of()), switchboard)
        network.run(network.driver.stop)
        assert network.driver.failure is None and not network.driver.coordinator.over
        assert switchboard.waits == 1, "what was under way is confirmed"


def test_own_files_are_read_and_the_loop_wakes_when_something_is_due() -> None:
    woken = []
    reader, writer = os.pipe()
    os.write(writer, b"x")
    with switches() as switchboard:
        network = Network(BulkCoordinator(plan_of()), switchboard)
        network.driver.run(
            {reader: lambda: woken.append(os.read(reader, 1))}, network.deliver, lambda: 0.0
        )
    os.close(reader)
    os.close(writer)
    assert woken == [b"x"]
