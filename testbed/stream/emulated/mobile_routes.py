"""Moving nodes on a running network: links come and go, the controller routes again and passes the stream from split to
split."""

import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor

from testbed.emulation.control.fault_injection import FaultInjector
from testbed.errors import InvalidRunError
from testbed.faults.fault import ChangeTimes
from testbed.machines.adapters.platform import Platform
from testbed.model.label_split import LabelSplit
from testbed.openflow.rules import VersionedRules, versioned_rules
from testbed.stream.mobility import recomputed
from testbed.stream.plan import StreamPlan

DRAIN_S = 0.5
"""Time for packets of an old split to arrive before its rules go."""
Splits = tuple[LabelSplit, LabelSplit]


class MobileRoutes:
    """Plays the route changes of a plan on a network, each at its time after ``start`` (monotonic clock), in a thread.

    ``install_first`` puts the first splits in force. Rules of split k are plans 2k+2 (all switches but the first) and
    2k+3 (the first ones) of the controller.
    """

    def __init__(self, breaker: FaultInjector, platform: Platform, plan: StreamPlan) -> None:
        self._breaker, self._platform, self._plan = breaker, platform, plan
        self._start_s = 0.0
        self._stopping, self._thread = threading.Event(), ThreadPoolExecutor(1, "movement")
        self._played: Future[None] | None = None
        self._times: list[ChangeTimes] = []

    def install_first(self) -> None:
        """The links that are not there at first vanish; the first splits' rules are installed."""
        self._breaker.vanish(self._plan.absent)
        self._inner_and_entry(0, self._rules(0, (self._plan.forward, self._plan.backward)))

    def start(self, start_s: float) -> None:
        """Begin to play; the stream's time zero on the monotonic clock."""
        self._start_s = start_s
        self._played = self._thread.submit(self._run)

    def stop(self) -> None:
        """Change nothing more. May be called twice, or without a start."""
        self._stopping.set()
        self._thread.shutdown()

    def join(self) -> None:
        """Wait until the last change is done. Raises what went wrong on the way."""
        if self._played is not None:
            self._played.result()

    def times(self) -> tuple[ChangeTimes, ...]:
        """When each change that is done happened, in seconds after the start."""
        return tuple(self._times)

    def _run(self) -> None:
        for number, change in enumerate(self._plan.changes):
            if self._stopping.wait(max(0.0, self._start_s + change.at_s - time.monotonic())):
                return
            self._change(number)

    def _change(self, number: int) -> None:
        """Links first; then the new split next to the old one; then, when nothing is under way by the old one, it
        goes."""
        change, clock = self._plan.changes[number], self._clock
        began = clock()
        self._breaker.appear(change.appeared)
        if self._plan.handover == "after":
            self._breaker.vanish(change.vanished)
        links = clock()
        splits = recomputed(self._plan, number)
        if splits != (change.forward, change.backward):
            raise InvalidRunError(
                f"route change {number}: rerouting gave another split than the plan's"
            )
        known = clock()
        rules = self._rules(number + 1, splits)
        switching, switched = self._inner_and_entry(number + 1, rules)
        self._stopping.wait(DRAIN_S)
        if self._plan.handover == "before":
            self._breaker.vanish(change.vanished)
            links = clock()
        for plan_id in (2 * number + 3, 2 * number + 2):
            self._platform.remove(plan_id)
        self._times.append(
            ChangeTimes(
                began_s=began,
                links_s=links,
                switch_start_s=switching,
                switch_stop_s=switched,
                done_s=clock(),
                recomputed_s=known - links if self._plan.handover == "after" else 0.0,
                rules=sum(len(one.inner) + len(one.entry) for one in rules),
            )
        )

    def _rules(self, number: int, splits: Splits) -> tuple[VersionedRules, ...]:
        return tuple(
            versioned_rules(self._platform.wiring, split, number=number) for split in splits
        )

    def _inner_and_entry(
        self, number: int, rules: tuple[VersionedRules, ...]
    ) -> tuple[float, float]:
        """When the first switch began to send by the new split, and when none sent by the old one any more, its memory
        of packets included (a barrier is answered before that)."""
        self._platform.install([r for one in rules for r in one.inner], plan_id=2 * number + 2)
        began = self._clock()
        self._platform.install([r for one in rules for r in one.entry], plan_id=2 * number + 3)
        self._platform.forget()
        return began, self._clock()

    def _clock(self) -> float:
        return time.monotonic() - self._start_s
