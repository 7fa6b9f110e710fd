"""Carries out faults on a running network: a schedule in a thread, and single faults by hand.

Faults may overlap, also on one link. The link works again when its last fault has ended and, in a
network whose nodes move, when it is in reach.
"""

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, Self

from testbed.errors import TestbedError
from testbed.faults.fault import Direction, Fault, FaultTimes, cables_of, describe
from topologies.impairments import Impairments
from topologies.network import LinkId, reverse_of


class FaultTarget(Protocol):
    """A network in which links can be broken.

    Every ``set_`` method returns the monotonic time at which the change was active.
    """

    def set_link(self, link: LinkId, up: bool, direction: Direction = "both") -> float:
        """Cut a link or restore it."""
        ...

    def set_loss(self, link: LinkId, fraction: float, direction: Direction = "both") -> float:
        """Drop packets that enter a link, each with this probability."""
        ...

    def set_impairments(
        self, link: LinkId, impairments: Impairments, direction: Direction = "both"
    ) -> float:
        """Impair the packets that enter a link."""
        ...

    def prepare_impairments(self, faults: Sequence[Fault]) -> None:
        """Prepare faults that impair links, so that each begins at once."""
        ...


@dataclass(frozen=True)
class _DirectionState:
    """The state of one direction of a cable.

    Attributes:
        loss: Share of packets that are dropped.
        impairments: Impairments of the packets.
    """

    loss: float = 0.0
    impairments: Impairments = ()

    def with_fault(self, fault: Fault) -> Self:
        """Return the state with one more fault of this direction."""
        if fault.kind == "impaired":
            impairments = (*self.impairments, *fault.impaired_by)
            return type(self)(self.loss, impairments)
        fault_loss = fault.loss_fraction if fault.kind == "loss" else 1.0
        loss = self.loss + (1 - self.loss) * fault_loss
        return type(self)(loss, self.impairments)


@dataclass(frozen=True)
class _CableState:
    """The state of a cable.

    Attributes:
        up: Whether it has a carrier.
        forward: The direction of the cable's own link.
        backward: The opposite direction.
    """

    up: bool
    forward: _DirectionState
    backward: _DirectionState


class FaultInjector:
    """Breaks and repairs cables; it knows all faults of each cable and whether it is in reach.

    The network is changed only if the state of a cable changes.

    The injector is thread-safe, because faults and movements of nodes come from two threads. Every
    method returns the monotonic time at which the request was active.

    Args:
        network: The network whose links are broken.
    """

    def __init__(self, network: FaultTarget) -> None:
        self._network = network
        self._faults: dict[LinkId, list[Fault]] = {}
        self._absent: set[LinkId] = set()
        self._lock = threading.Lock()

    def begin(self, fault: Fault) -> float:
        """Activate a fault, in addition to those that are active."""

        def add(cable: LinkId) -> None:
            self._faults.setdefault(cable, []).append(fault)

        return self._change(fault.link, add)

    def end(self, fault: Fault) -> float:
        """End an active fault."""

        def remove(cable: LinkId) -> None:
            self._faults[cable].remove(fault)

        return self._change(fault.link, remove)

    def vanish(self, links: Iterable[LinkId]) -> float:
        """Put the cables of these links out of reach."""
        return self._move(links, self._absent.add)

    def appear(self, links: Iterable[LinkId]) -> float:
        """Bring the cables of these links into reach; they work if no fault is active on them."""
        return self._move(links, self._absent.discard)

    def _move(self, links: Iterable[LinkId], edit: Callable[[LinkId], None]) -> float:
        at_s = time.monotonic()
        for cable in cables_of(links):
            at_s = self._change(cable, edit)
        return at_s

    def _change(self, link: LinkId, edit: Callable[[LinkId], None]) -> float:
        """Edit the faults or the reach of a link's cable, and change the network accordingly.

        Args:
            link: The link, in the direction in which the request names it.
            edit: Edits what is known about the cable.
        """
        (cable,) = cables_of([link])
        with self._lock:
            old = self._state(cable)
            edit(cable)
            return self._apply(link, cable, old)

    def _state(self, cable: LinkId) -> _CableState:
        """Return the state that a cable should have."""
        up = cable not in self._absent
        forward = _DirectionState()
        backward = _DirectionState()
        for fault in self._faults.get(cable, ()):
            if fault.kind == "down" and fault.direction == "both":
                up = False
                continue
            if fault.direction == "both" or fault.link == cable:
                forward = forward.with_fault(fault)
            if fault.direction == "both" or fault.link == reverse_of(cable):
                backward = backward.with_fault(fault)
        return _CableState(up, forward, backward)

    def _apply(self, link: LinkId, cable: LinkId, old: _CableState) -> float:
        """Apply to the network everything that has changed in the state of a cable.

        Args:
            link: The link of the cable that the request names.
            cable: The cable.
            old: Its state before.
        """
        at_s = time.monotonic()
        new = self._state(cable)
        if new.up != old.up:
            at_s = self._network.set_link(link, new.up, "both")
        directions = (
            (cable, new.forward, old.forward),
            (reverse_of(cable), new.backward, old.backward),
        )
        changed_losses = [
            (one_way, new_state.loss)
            for one_way, new_state, old_state in directions
            if new_state.loss != old_state.loss
        ]
        if len(changed_losses) == 2 and new.forward.loss == new.backward.loss:
            # One call for both directions, as the request named them.
            at_s = self._network.set_loss(link, new.forward.loss, "both")
        else:
            for one_way, loss in changed_losses:
                at_s = self._network.set_loss(one_way, loss, "forward")
        for one_way, new_state, old_state in directions:
            if new_state.impairments != old_state.impairments:
                at_s = self._network.set_impairments(one_way, new_state.impairments, "forward")
        return at_s


class FaultStep(NamedTuple):
    """One step of a schedule; steps are sorted by their fields.

    Attributes:
        at_s: Time of the step in seconds.
        begins: The fault begins if true, and ends if not.
        fault: Number of the fault.
    """

    at_s: float
    begins: bool
    fault: int


def fault_steps(faults: Sequence[Fault]) -> tuple[FaultStep, ...]:
    """Return the steps of all faults in order.

    At the same time, ends come before beginnings. A permanent fault has no end.

    >>> fault = Fault(link=("a", "b", 0), start_s=1.0, stop_s=2.0)
    >>> [(step.at_s, step.begins) for step in fault_steps([fault])]
    [(1.0, True), (2.0, False)]
    """
    steps = []
    for number, fault in enumerate(faults):
        steps.append(FaultStep(at_s=fault.start_s, begins=True, fault=number))
        if not fault.permanent:
            steps.append(FaultStep(at_s=fault.stop_s, begins=False, fault=number))
    return tuple(sorted(steps))


class FaultSchedule:
    """Carries out faults at given times in a thread; a context manager.

    Args:
        network: The network.
        faults: The faults, with times in seconds after the start.
        start_s: The start, on the monotonic clock.
        breaker: The injector that others use too, if they also break and repair the network's
            cables; None for one of its own.
    """

    def __init__(
        self,
        network: FaultTarget,
        faults: Sequence[Fault],
        start_s: float,
        breaker: FaultInjector | None = None,
    ) -> None:
        if any(fault.impairments for fault in faults):
            network.prepare_impairments(faults)
        self._breaker = breaker or FaultInjector(network)
        self._faults = tuple(faults)
        self._start_s = start_s
        self._stopping = threading.Event()
        self._permanent_may_end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="faults", daemon=True)

        # Number of a fault -> the monotonic time at which it began or ended.
        self._began_s: dict[int, float] = {}
        self._ended_s: dict[int, float] = {}
        self._error: TestbedError | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Carry out no further faults, and end the active ones.

        The method may be called twice, or without a start.
        """
        self._stopping.set()
        self._permanent_may_end.set()
        if self._thread.is_alive():
            self._thread.join()

    def join(self) -> None:
        """Wait until all temporary faults have ended, and end the permanent ones.

        Raises:
            TestbedError: A step failed.
        """
        self._permanent_may_end.set()
        self._thread.join()
        if self._error is not None:
            raise self._error

    def times(self) -> tuple[FaultTimes, ...]:
        """Return when each fault was active, for those that have ended, in the plan's order.

        Times are in seconds after the start.
        """
        times = []
        for number, fault in enumerate(self._faults):
            if number in self._began_s and number in self._ended_s:
                start_s = self._began_s[number] - self._start_s
                stop_s = self._ended_s[number] - self._start_s
                times.append(FaultTimes(fault=fault, start_s=start_s, stop_s=stop_s))
        return tuple(times)

    def in_force(self) -> tuple[str, ...]:
        """Return descriptions of the active faults, in the plan's order."""
        active = []
        for number, fault in enumerate(self._faults):
            if number in self._began_s and number not in self._ended_s:
                active.append(describe(fault))
        return tuple(active)

    def _run(self) -> None:
        try:
            for step in fault_steps(self._faults):
                wait_s = max(0.0, self._start_s + step.at_s - time.monotonic())
                if self._stopping.wait(wait_s):
                    break
                self._carry_out(step)
            if any(fault.permanent for fault in self._faults):
                self._permanent_may_end.wait()
            for number in sorted(self._began_s.keys() - self._ended_s.keys()):
                self._carry_out(FaultStep(at_s=0.0, begins=False, fault=number))
        except TestbedError as error:
            self._error = error

    def _carry_out(self, step: FaultStep) -> None:
        fault = self._faults[step.fault]
        if step.begins:
            self._began_s[step.fault] = self._breaker.begin(fault)
        else:
            self._ended_s[step.fault] = self._breaker.end(fault)
