"""Faults carried out on a running network: a timed schedule in a thread, and single faults by hand.

Faults may overlap, on one link too: it is whole again when the last of them has ended (and where nodes move, there at
all).
"""

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol, Self

from testbed.errors import TestbedError
from testbed.faults.fault import Direction, Fault, FaultTimes, cables_of, describe
from topologies.impairments import Impairments
from topologies.network import LinkId, reverse_of


class FaultTarget(Protocol):
    """What faults need of a network; every ``set_`` returns the monotonic time at which the change was in force."""

    def set_link(self, link: LinkId, up: bool, direction: Direction = "both") -> float: ...

    def set_loss(self, link: LinkId, fraction: float, direction: Direction = "both") -> float: ...

    def set_impairments(
        self, link: LinkId, impairments: Impairments, direction: Direction = "both"
    ) -> float: ...

    def prepare_impairments(self, faults: Sequence[Fault]) -> None: ...


class _CableState(NamedTuple):
    """What a cable should be: whether it has a carrier, and each way, forward and backward, the share lost and the
    impairments."""

    whole: bool
    losses: tuple[float, float]
    impairments: tuple[Impairments, Impairments]


class FaultInjector:
    """Keeps count of what breaks each cable, faults and absence alike, and changes the network only where the sum
    changes.

    Thread-safe: faults and the movements of nodes come from two threads. Every method returns the monotonic time at
    which what was requested was in force.
    """

    def __init__(self, network: FaultTarget) -> None:
        self._network = network
        self._faults: dict[LinkId, list[Fault]] = {}
        self._absent: set[LinkId] = set()
        self._lock = threading.Lock()

    def begin(self, fault: Fault) -> float:
        """Put a fault in force next to those that are."""
        return self._change(
            fault.link, lambda cable: self._faults.setdefault(cable, []).append(fault)
        )

    def end(self, fault: Fault) -> float:
        """Take a fault back that was begun."""
        return self._change(fault.link, lambda cable: self._faults[cable].remove(fault))

    def vanish(self, links: Iterable[LinkId]) -> float:
        """The cables of these links are out of reach from now on."""
        return self._move(links, self._absent.add)

    def appear(self, links: Iterable[LinkId]) -> float:
        """The cables of these links are in reach, and carry where no fault is in force on them."""
        return self._move(links, self._absent.discard)

    def _move(self, links: Iterable[LinkId], edit: Callable[[LinkId], None]) -> float:
        at_s = time.monotonic()
        for cable in cables_of(links):
            at_s = self._change(cable, edit)
        return at_s

    def _change(self, link: LinkId, edit: Callable[[LinkId], None]) -> float:
        """Edit what breaks the link's cable, and have the network follow."""
        (cable,) = cables_of([link])
        with self._lock:
            before = self._state(cable)
            edit(cable)
            return self._pass_on(link, cable, before)

    def _state(self, cable: LinkId) -> _CableState:
        there = self._faults.get(cable, ())
        whole = cable not in self._absent and not any(
            f.kind == "down" and f.direction == "both" for f in there
        )
        lost = [0.0, 0.0]
        impaired: list[Impairments] = [(), ()]
        for fault in there:
            if fault.kind == "down" and fault.direction == "both":
                continue
            for side, link in enumerate((cable, reverse_of(cable))):
                if fault.direction != "both" and fault.link != link:
                    continue
                if fault.kind == "impaired":
                    impaired[side] = (*impaired[side], *fault.impaired_by)
                else:
                    lost[side] += (1 - lost[side]) * (
                        fault.loss_fraction if fault.kind == "loss" else 1.0
                    )
        return _CableState(whole, (lost[0], lost[1]), (impaired[0], impaired[1]))

    def _pass_on(self, link: LinkId, cable: LinkId, before: _CableState) -> float:
        """Of ``cable`` whatever is no longer as before; ``link``: the direction of it that was named."""
        at_s, now = time.monotonic(), self._state(cable)
        if now.whole != before.whole:
            at_s = self._network.set_link(link, now.whole, "both")
        changed = [
            way
            for way, lost, was in zip(
                (cable, reverse_of(cable)), now.losses, before.losses, strict=True
            )
            if lost != was
        ]
        if len(changed) == 2 and now.losses[0] == now.losses[1]:
            at_s = self._network.set_loss(link, now.losses[0], "both")
        else:
            for way in changed:
                at_s = self._network.set_loss(way, now.losses[way != cable], "forward")
        for side, way in enumerate((cable, reverse_of(cable))):
            if now.impairments[side] != before.impairments[side]:
                at_s = self._network.set_impairments(way, now.impairments[side], "forward")
        return at_s


class FaultStep(NamedTuple):
    """One moment of a schedule: at ``at_s`` fault number ``fault`` ends (``begins`` false) or begins."""

    at_s: float
    begins: bool
    fault: int


def fault_steps(faults: Sequence[Fault]) -> tuple[FaultStep, ...]:
    """The moments of all faults in order; at one moment, ends come before beginnings. A permanent fault has no end.

    >>> one = Fault(link=("a", "b", 0), start_s=1.0, stop_s=2.0)
    >>> [(s.at_s, s.begins) for s in fault_steps([one])]
    [(1.0, True), (2.0, False)]
    """
    steps = [FaultStep(at_s=f.start_s, begins=True, fault=i) for i, f in enumerate(faults)]
    steps += [
        FaultStep(at_s=f.stop_s, begins=False, fault=i)
        for i, f in enumerate(faults)
        if not f.permanent
    ]
    return tuple(sorted(steps))


class FaultSchedule:
    """Carries out faults at their times after ``start_s`` (monotonic clock), in a thread of its own; a context manager.

    ``breaker``: where others break and repair the network's cables too, the one that they share.
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
        self._stopping, self._over = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="faults", daemon=True)
        self._begun: dict[int, float] = {}
        self._ended: dict[int, float] = {}
        self._error: TestbedError | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Carry out nothing more, except that what is broken is repaired. May be called twice, or without a start."""
        self._stopping.set()
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()

    def join(self) -> None:
        """Wait until the last fault has ended that ends by itself; those for good end now. Raises what went wrong on
        the way."""
        self._over.set()
        self._thread.join()
        if self._error is not None:
            raise self._error

    def times(self) -> tuple[FaultTimes, ...]:
        """When each fault that has begun and ended was in force, in seconds after the start, in plan order."""
        return tuple(
            FaultTimes(
                fault=fault,
                start_s=self._begun[i] - self._start_s,
                stop_s=self._ended[i] - self._start_s,
            )
            for i, fault in enumerate(self._faults)
            if i in self._begun and i in self._ended
        )

    def in_force(self) -> tuple[str, ...]:
        """The faults that have begun and not ended, in words, in plan order."""
        return tuple(
            describe(f)
            for i, f in enumerate(self._faults)
            if i in self._begun and i not in self._ended
        )

    def _run(self) -> None:
        try:
            for step in fault_steps(self._faults):
                if self._stopping.wait(max(0.0, self._start_s + step.at_s - time.monotonic())):
                    break
                self._carry_out(step)
            if any(fault.permanent for fault in self._faults):
                self._over.wait()
            for number in sorted(self._begun.keys() - self._ended.keys()):
                self._carry_out(FaultStep(at_s=0.0, begins=False, fault=number))
        except TestbedError as error:
            self._error = error

    def _carry_out(self, step: FaultStep) -> None:
        fault = self._faults[step.fault]
        if step.begins:
            self._begun[step.fault] = self._breaker.begin(fault)
        else:
            self._ended[step.fault] = self._breaker.end(fault)
