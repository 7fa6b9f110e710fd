"""Measures the load of this machine during a run.

The load consists of the processors' busy time, the busiest task, and how late a thread wakes up.
The kernel's counters are read when the run begins and when it ends (``MachineCounts``). In between,
a thread wakes up every few milliseconds.

None of these figures depends on what the run is to achieve. ``testbed.model.machine.load`` decides
which of them are too high.
"""

import contextlib
import os
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from testbed.model.machine.load import MachineLoad

_PROC = Path("/proc")

# Interval at which the thread wakes up.
_BEAT_S = 0.005

# Programs whose names begin with this are Python interpreters.
_INTERPRETER = "python"

# A program, and the number of its process or thread.
Task = tuple[str, int]


class ProcessorTimes(NamedTuple):
    """Ticks of all processors since boot.

    Attributes:
        busy: Ticks in which a processor was busy or stolen.
        total: All ticks.
        stolen: Ticks in which a hypervisor ran other machines.
    """

    busy: float
    total: float
    stolen: float


def processor_times(proc: Path = _PROC) -> ProcessorTimes:
    """Return the ticks of all processors until now.

    Args:
        proc: The directory of the kernel's files.
    """
    first_line, _, _ = (proc / "stat").read_text().partition("\n")
    ticks = [float(field) for field in first_line.split()[1:9]]
    user, nice, system, idle, waiting, interrupts, soft_interrupts, stolen = ticks
    busy = user + nice + system + interrupts + soft_interrupts + stolen
    return ProcessorTimes(busy, busy + idle + waiting, stolen)


def busy_fraction(before: ProcessorTimes, after: ProcessorTimes) -> float:
    """Return the busy fraction of all processors between two counts, 0 to 1, with three decimals.

    It is 0 if no tick has passed.
    """
    return _fraction(after.busy - before.busy, before, after)


def steal_fraction(before: ProcessorTimes, after: ProcessorTimes) -> float:
    """Return the fraction of all processors that a hypervisor gave to other machines.

    It is rounded as in ``busy_fraction``.
    """
    return _fraction(after.stolen - before.stolen, before, after)


def _fraction(ticks: float, before: ProcessorTimes, after: ProcessorTimes) -> float:
    total = after.total - before.total
    return round(ticks / total, 3) if total > 0 else 0.0


@dataclass(frozen=True, kw_only=True)
class MachineCounts:
    """The kernel's counters at one time.

    Attributes:
        at_s: The time, on the monotonic clock.
        processors: Ticks of all processors.
        task_s: Seconds that each task of this sandbox has run. A task is a thread, but all threads
            of a Python process are one task, because they take turns.
        stalled_s: Seconds since boot in which a runnable task waited for a processor; None if the
            kernel does not count them.
        required_cpu_s: Thread of this sandbox -> seconds in which it ran, or was runnable and
            waited for a processor. Empty if the kernel does not count them.
    """

    at_s: float
    processors: ProcessorTimes
    task_s: Mapping[Task, float]
    stalled_s: float | None
    required_cpu_s: Mapping[int, float]


def read_counts(proc: Path = _PROC) -> MachineCounts:
    """Return the counters of all visible processes now; in a sandbox these are its own.

    Args:
        proc: The directory of the kernel's files.
    """
    processes = [entry for entry in proc.iterdir() if entry.name.isdecimal()]
    return MachineCounts(
        at_s=time.monotonic(),
        processors=processor_times(proc),
        task_s=_task_seconds(processes),
        stalled_s=_stalled_s(proc),
        required_cpu_s=_required_s(processes),
    )


def load_between(
    before: MachineCounts, after: MachineCounts, lateness_s: Sequence[float]
) -> MachineLoad:
    """Return the load between two counts.

    Args:
        before: The first count.
        after: The second count.
        lateness_s: By how many seconds a thread woke up late, each time.
    """
    seconds = max(after.at_s - before.at_s, 1e-9)
    fractions = {}
    for task, after_s in after.task_s.items():
        fractions[task] = (after_s - before.task_s.get(task, 0.0)) / seconds
    busiest = ("", 0)
    if fractions:
        busiest = max(fractions, key=fractions.__getitem__)
    pressure = None
    if before.stalled_s is not None and after.stalled_s is not None:
        pressure = (after.stalled_s - before.stalled_s) / seconds
    program, _ = busiest
    return MachineLoad(
        cpu_fraction=_required_fraction(before, after),
        stolen_fraction=steal_fraction(before.processors, after.processors),
        pressure_fraction=pressure,
        busiest_task=program,
        busiest_task_fraction=round(fractions.get(busiest, 0.0), 3),
        mean_lateness_s=sum(lateness_s) / max(1, len(lateness_s)),
        worst_lateness_s=max(lateness_s, default=0.0),
    )


def _required_fraction(before: MachineCounts, after: MachineCounts) -> float:
    """Return the fraction of all processors that the sandbox's threads had or waited for.

    Programs that give way to them at once (niced, idle class) keep a processor busy, but let no
    thread wait, so they do not count. If the kernel does not count what threads required, the
    fraction is that of all busy time.
    """
    busy = busy_fraction(before.processors, after.processors)
    if not after.required_cpu_s:
        return busy
    ticks = after.processors.total - before.processors.total
    available_s = ticks / os.sysconf("SC_CLK_TCK")
    required_s = 0.0
    for thread, after_s in after.required_cpu_s.items():
        required_s += after_s - before.required_cpu_s.get(thread, 0.0)
    required = required_s / available_s if available_s > 0 else 0.0
    stolen = steal_fraction(before.processors, after.processors)
    return round(min(busy, required + stolen), 3)


class LoadMonitor:
    """Measures the load during its ``with`` block; used once.

    Attributes:
        strain: The load, after the block.
    """

    def __init__(self) -> None:
        self._stop = threading.Event()
        self._lateness_s: list[float] = []
        self._thread = threading.Thread(target=self._beat, daemon=True)
        self.strain: MachineLoad | None = None

    def __enter__(self) -> "LoadMonitor":
        self._before = read_counts()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self.strain = load_between(self._before, read_counts(), self._lateness_s)

    def _beat(self) -> None:
        """Wake up periodically, and note how late."""
        due_s = time.monotonic() + _BEAT_S
        while not self._stop.wait(max(0.0, due_s - time.monotonic())):
            now_s = time.monotonic()
            self._lateness_s.append(now_s - due_s)
            due_s = now_s + _BEAT_S


def _stalled_s(proc: Path) -> float | None:
    """Return the seconds in which a runnable task waited, from the kernel's pressure file."""
    try:
        first_line, _, _ = (proc / "pressure/cpu").read_text().partition("\n")
        _, _, microseconds = first_line.rpartition("total=")
        return int(microseconds) / 1e6
    except (OSError, ValueError):
        return None


def _task_seconds(processes: Iterable[Path]) -> dict[Task, float]:
    """Return the seconds that each task has run (see ``MachineCounts``).

    Args:
        processes: Directories of the processes in /proc.
    """
    seconds: dict[Task, float] = {}
    for process in processes:
        # It may have ended, or belong to another user.
        with contextlib.suppress(OSError):
            program = (process / "exe").readlink().name
            tasks: Iterable[Path] = [process]
            if not program.startswith(_INTERPRETER):
                tasks = (process / "task").iterdir()
            for task in tasks:
                seconds[program, int(task.name)] = _run_time_s(task / "stat")
    return seconds


def _run_time_s(path: Path) -> float:
    """Return the seconds that a task has run (utime and stime, proc_pid_stat(5))."""
    # The name of the program, in parentheses, may contain spaces.
    _, _, after_name = path.read_text().rpartition(")")
    fields = after_name.split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _required_s(processes: Iterable[Path]) -> dict[int, float]:
    """Return the seconds that each thread ran or waited for a processor.

    These are the first two figures, in nanoseconds, of a thread's ``schedstat``.

    Args:
        processes: Directories of the processes in /proc.
    """
    seconds: dict[int, float] = {}
    for process in processes:
        # It may have ended, or the kernel does not count.
        with contextlib.suppress(OSError, ValueError):
            for thread in (process / "task").iterdir():
                ran_ns, waited_ns = (thread / "schedstat").read_text().split()[:2]
                seconds[int(thread.name)] = (int(ran_ns) + int(waited_ns)) / 1e9
    return seconds
