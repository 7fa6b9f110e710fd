"""Reports the progress of a run on switches, and checks that its end points are alive."""

import time
from collections.abc import Callable

from testbed.emulation.control.fault_injection import FaultSchedule
from testbed.model.progress import CounterReading, Progress, ReportProgress

# Time between two reports.
_INTERVAL_S = 0.1


def watch_run(
    start_s: float,
    total_s: float,
    schedule: FaultSchedule,
    report_progress: ReportProgress,
    check: Callable[[float], object] | None = None,
    doing: str = "",
) -> None:
    """Report the progress of a run ten times per second, and return at its end.

    Args:
        start_s: The start of the run on the monotonic clock.
        total_s: The duration of the run.
        schedule: The faults of the run.
        report_progress: Receives the progress.
        check: Called before each report with the time since the start. It raises an exception if
            the run cannot continue.
        doing: Text of the reports; the active fault by default.
    """
    while (now_s := time.monotonic() - start_s) < total_s:
        if check is not None:
            check(now_s)
        active_faults = schedule.in_force()
        at_s = max(0.0, now_s)
        text = doing
        if not text:
            text = active_faults[0] if active_faults else "streaming"
        reading = CounterReading(at_s=at_s, faults=active_faults)
        report_progress(Progress(done_s=at_s, total_s=total_s, doing=text, reading=reading))
        time.sleep(min(_INTERVAL_S, max(0.0, total_s - now_s)))
