"""Faults carried out on a running network: a timed schedule in a thread, and single faults by hand.

When two faults of one kind overlap on a direction of a link, the one that is begun last holds until it is ended.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from testbed.errors import TestbedError
from testbed.model.measurements import FaultTimes
from testbed.model.plan import Direction, Fault
from topologies.network import LinkId


class BreakableNetwork(Protocol):
    """What faults need of a network; every method returns the monotonic time at which the change was in force."""

    def set_link(self, link: LinkId, up: bool, direction: Direction = "both") -> float: ...

    def set_blackhole(self, link: LinkId, on: bool, direction: Direction = "both") -> float: ...

    def set_loss(self, link: LinkId, fraction: float, direction: Direction = "both") -> float: ...


def begin_fault(network: BreakableNetwork, fault: Fault) -> float:
    """Put the fault in force; the monotonic time since when it is."""
    if fault.kind == "down":
        return network.set_link(fault.link, False, fault.direction)
    if fault.kind == "blackhole":
        return network.set_blackhole(fault.link, True, fault.direction)
    return network.set_loss(fault.link, fault.loss_fraction, fault.direction)


def end_fault(network: BreakableNetwork, fault: Fault) -> float:
    """Mend what the fault broke; the monotonic time since when it is whole."""
    if fault.kind == "down":
        return network.set_link(fault.link, True, fault.direction)
    if fault.kind == "blackhole":
        return network.set_blackhole(fault.link, False, fault.direction)
    return network.set_loss(fault.link, 0.0, fault.direction)


@dataclass(frozen=True, kw_only=True, order=True)
class FaultStep:
    """One moment of a schedule: at ``at_s`` fault number ``fault`` ends (``begins`` false) or begins."""

    at_s: float
    begins: bool
    fault: int


def fault_steps(faults: Sequence[Fault]) -> tuple[FaultStep, ...]:
    """The moments of all faults in order; at one moment, ends come before beginnings.

    >>> one = Fault(link=("a", "b", 0), start_s=1.0, stop_s=2.0)
    >>> [(s.at_s, s.begins) for s in fault_steps([one])]
    [(1.0, True), (2.0, False)]
    """
    steps = [FaultStep(at_s=f.start_s, begins=True, fault=i) for i, f in enumerate(faults)]
    steps += [FaultStep(at_s=f.stop_s, begins=False, fault=i) for i, f in enumerate(faults)]
    return tuple(sorted(steps))


class FaultSchedule:
    """Carries out faults at their times after ``start_s`` (monotonic clock), in a thread of its own."""

    def __init__(self, network: BreakableNetwork, faults: Sequence[Fault], start_s: float) -> None:
        self._network = network
        self._faults = tuple(faults)
        self._start_s = start_s
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="faults", daemon=True)
        self._begun: dict[int, float] = {}
        self._ended: dict[int, float] = {}
        self._error: TestbedError | None = None

    def start(self) -> None:
        """Begin to keep the schedule."""
        self._thread.start()

    def stop(self) -> None:
        """Carry out nothing more, except that what is broken is mended. May be called twice, or without a start."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def join(self) -> None:
        """Wait until the last fault has ended. Raises what went wrong on the way."""
        self._thread.join()
        if self._error is not None:
            raise self._error

    def times(self) -> tuple[FaultTimes, ...]:
        """When each fault that has begun and ended was in force, in seconds after the start, in plan order."""
        return tuple(
            FaultTimes(fault=fault, start_s=self._begun[i] - self._start_s, stop_s=self._ended[i] - self._start_s)
            for i, fault in enumerate(self._faults)
            if i in self._begun and i in self._ended
        )

    def _run(self) -> None:
        try:
            for step in fault_steps(self._faults):
                if self._stopping.wait(max(0.0, self._start_s + step.at_s - time.monotonic())):
                    break
                self._carry_out(step)
            for number in sorted(self._begun.keys() - self._ended.keys()):
                self._carry_out(FaultStep(at_s=0.0, begins=False, fault=number))
        except TestbedError as error:
            self._error = error

    def _carry_out(self, step: FaultStep) -> None:
        fault = self._faults[step.fault]
        if step.begins:
            self._begun[step.fault] = begin_fault(self._network, fault)
        else:
            self._ended[step.fault] = end_fault(self._network, fault)
