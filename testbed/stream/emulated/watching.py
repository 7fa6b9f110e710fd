"""Whoever waits for a run on switches to end tells how far it is, and sees that its ends live."""

import time
from collections.abc import Callable

from testbed.emulation.control.fault_injection import FaultSchedule
from testbed.model.progress import CounterReading, Progress, ReportProgress


def watch_run(
    start_s: float,
    total_s: float,
    schedule: FaultSchedule,
    report_progress: ReportProgress,
    check: Callable[[float], object] = lambda _: None,
    doing: str = "",
) -> None:
    """Until so long after that moment of the monotonic clock; ``check`` is called with the time every tenth of a second
    and raises where the run cannot go on. ``doing``: what is told (default: the fault in force)."""
    while (now := time.monotonic() - start_s) < total_s:
        check(now)
        failing, at_s = schedule.in_force(), max(0.0, now)
        reading, words = (
            CounterReading(at_s=at_s, faults=failing),
            doing or (failing[0] if failing else "streaming"),
        )
        report_progress(Progress(done_s=at_s, total_s=total_s, doing=words, reading=reading))
        time.sleep(min(0.1, max(0.0, total_s - now)))
