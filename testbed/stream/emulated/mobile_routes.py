"""Makes the route changes of a plan while nodes move.

Links appear and vanish, the controller routes again, and the stream is switched from one label
split to the next.
"""

import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor

from testbed.emulation.control.fault_injection import FaultInjector
from testbed.errors import InvalidRunError
from testbed.faults.fault import ChangeTimes
from testbed.machines.adapters.platform import Platform
from testbed.model.label_split import LabelSplit
from testbed.openflow.rules import FlowRule, VersionedRules, versioned_rules
from testbed.stream.mobility import recomputed
from testbed.stream.plan import StreamPlan

# Time for packets of an old split to arrive before its rules are removed.
DRAIN_S = 0.5

# The forward and the backward split.
Splits = tuple[LabelSplit, LabelSplit]


class MobileRoutes:
    """Makes the route changes of a plan in a thread, each at its time.

    Call ``install_first``, ``start`` and ``join``; ``stop`` ends the thread early.

    The controller knows the rules of split k as its plans 2k + 2 (all switches but the first) and
    2k + 3 (the first switches). They are installed in this order, so that a packet that the first
    switch sends by the new split meets its rules everywhere.
    """

    def __init__(self, injector: FaultInjector, platform: Platform, plan: StreamPlan) -> None:
        self._injector = injector
        self._platform = platform
        self._plan = plan
        self._start_s = 0.0
        self._stopping = threading.Event()
        self._thread = ThreadPoolExecutor(1, "movement")
        self._changes_made: Future[None] | None = None
        self._times: list[ChangeTimes] = []

    def install_first(self) -> None:
        """Remove the links that are absent at first, and install the rules of the first splits."""
        self._injector.vanish(self._plan.absent)
        self._install(0, self._rules(0, (self._plan.forward, self._plan.backward)))

    def start(self, start_s: float) -> None:
        """Start the thread; ``start_s`` is the stream's time zero on the monotonic clock."""
        self._start_s = start_s
        self._changes_made = self._thread.submit(self._run)

    def stop(self) -> None:
        """Make no further changes. This may be called twice, or without a start."""
        self._stopping.set()
        self._thread.shutdown()

    def join(self) -> None:
        """Wait until the last change is made, and raise the error of the thread, if any."""
        if self._changes_made is not None:
            self._changes_made.result()

    def times(self) -> tuple[ChangeTimes, ...]:
        """Return the times of each change that has been made, in seconds after the start."""
        return tuple(self._times)

    def _run(self) -> None:
        for number, change in enumerate(self._plan.changes):
            if self._stopping.wait(max(0.0, self._start_s + change.at_s - time.monotonic())):
                return
            self._change(number)

    def _change(self, number: int) -> None:
        """Make one route change.

        The links change first. The rules of the new split are then installed beside the old ones,
        which are removed when no packet can be in transit by them. With handover "before", links
        vanish only after the new split is active.

        Raises:
            InvalidRunError: The controller computed other splits than the plan has.
        """
        change = self._plan.changes[number]
        began_s = self._now_s()
        self._injector.appear(change.appeared)
        if self._plan.handover == "after":
            self._injector.vanish(change.vanished)
        links_s = self._now_s()
        splits = recomputed(self._plan, number)
        if splits != (change.forward, change.backward):
            raise InvalidRunError(
                f"route change {number}: rerouting gave another split than the plan's"
            )
        # If links vanish later, routing again costs the stream no time.
        recomputed_s = 0.0
        if self._plan.handover == "after":
            recomputed_s = self._now_s() - links_s
        rules = self._rules(number + 1, splits)
        switch_start_s, switch_stop_s = self._install(number + 1, rules)
        self._stopping.wait(DRAIN_S)
        if self._plan.handover == "before":
            self._injector.vanish(change.vanished)
            links_s = self._now_s()
        for plan_id in (_entry_plan(number), _inner_plan(number)):
            self._platform.remove(plan_id)
        self._times.append(
            ChangeTimes(
                began_s=began_s,
                links_s=links_s,
                switch_start_s=switch_start_s,
                switch_stop_s=switch_stop_s,
                done_s=self._now_s(),
                recomputed_s=recomputed_s,
                rules=sum(len(version.inner) + len(version.entry) for version in rules),
            )
        )

    def _rules(self, number: int, splits: Splits) -> tuple[VersionedRules, ...]:
        """Return the rules of the splits with this number."""
        wiring = self._platform.wiring
        return tuple(versioned_rules(wiring, split, number=number) for split in splits)

    def _install(self, number: int, rules: tuple[VersionedRules, ...]) -> tuple[float, float]:
        """Install the rules of the splits with this number.

        Returns:
            The time before the first switch used the new split, and the time at which no switch
            used the old one. The switches' caches are flushed before the latter, because a switch
            answers a barrier before its cache is up to date.
        """
        inner_rules: list[FlowRule] = []
        entry_rules: list[FlowRule] = []
        for version in rules:
            inner_rules += version.inner
            entry_rules += version.entry
        self._platform.install(inner_rules, plan_id=_inner_plan(number))
        began_s = self._now_s()
        self._platform.install(entry_rules, plan_id=_entry_plan(number))
        self._platform.forget()
        return began_s, self._now_s()

    def _now_s(self) -> float:
        return time.monotonic() - self._start_s


def _inner_plan(number: int) -> int:
    return 2 * number + 2


def _entry_plan(number: int) -> int:
    return 2 * number + 3
