"""Measures how hard a run was on this machine: its processors, its busiest task, and how late a thread woke that wanted
to.

The kernel's counts are read when the run begins and when it ends (``MachineCounts``), and meanwhile a thread wants to
wake every few milliseconds. None of these figures knows what the run was to achieve; ``testbed.model.machine.load``
says which are too high.
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


class ProcessorTimes(NamedTuple):
    """Ticks of all processors since boot: ``busy`` with anything (``stolen`` ones included), ``total``, and those
    ``stolen`` by a hypervisor for other machines."""

    busy: float
    total: float
    stolen: float


def processor_times(proc: Path = _PROC) -> ProcessorTimes:
    """The kernel's count so far. ``proc``: where its files are."""
    user, nice, system, idle, waiting, interrupts, soft_interrupts, stolen = [
        float(word) for word in (proc / "stat").read_text().split("\n", 1)[0].split()[1:9]
    ]
    busy = user + nice + system + interrupts + soft_interrupts + stolen
    return ProcessorTimes(busy, busy + idle + waiting, stolen)


def busy_fraction(before: ProcessorTimes, after: ProcessorTimes) -> float:
    """Busy fraction of all processors between two counts, 0 to 1, to three places; 0 where no tick has passed."""
    return _share(after.busy - before.busy, before, after)


def steal_fraction(before: ProcessorTimes, after: ProcessorTimes) -> float:
    """Fraction of all processors that a hypervisor gave to other machines between two counts, as ``busy_fraction``."""
    return _share(after.stolen - before.stolen, before, after)


def _share(ticks: float, before: ProcessorTimes, after: ProcessorTimes) -> float:
    total = after.total - before.total
    return round(ticks / total, 3) if total > 0 else 0.0


_BEAT_S = 0.005
_INTERPRETER = "python"
Task = tuple[str, int]
"""(program, number of its process or thread)."""


@dataclass(frozen=True, kw_only=True)
class MachineCounts:
    """The kernel's counts at ``at_s`` on the monotonic clock.

    ``task_s``: seconds on a processor so far of all that runs in this sandbox: every thread by itself, but a Python
    process as one, whose threads take turns. ``stalled_s``: seconds since boot in which some runnable task waited for a
    processor, None where the kernel does not count them. ``required_cpu_s``: seconds in which each thread of this
    sandbox, by its number, ran, or could have run and waited for a processor; empty where the kernel does not tell.
    """

    at_s: float
    processors: ProcessorTimes
    task_s: Mapping[Task, float]
    stalled_s: float | None
    required_cpu_s: Mapping[int, float]


def read_counts(proc: Path = _PROC) -> MachineCounts:
    """The counts now, of all processes that are seen, which in a sandbox are its own. ``proc``: where the kernel's
    files are."""
    own = [entry for entry in proc.iterdir() if entry.name.isdecimal()]
    return MachineCounts(
        at_s=time.monotonic(),
        processors=processor_times(proc),
        task_s=_task_seconds(own),
        stalled_s=_stalled_s(proc),
        required_cpu_s=_required_s(own),
    )


def load_between(
    before: MachineCounts, after: MachineCounts, lateness_s: Sequence[float]
) -> MachineLoad:
    """The strain between two counts; ``delay_by_late_threads_s``: by how much a thread woke late, each time that it
    wanted to wake."""
    seconds = max(after.at_s - before.at_s, 1e-9)
    shares = {
        task: (spent - before.task_s.get(task, 0.0)) / seconds
        for task, spent in after.task_s.items()
    }
    busiest = max(shares, key=lambda task: shares[task], default=("", 0))
    stalled = None
    if before.stalled_s is not None and after.stalled_s is not None:
        stalled = (after.stalled_s - before.stalled_s) / seconds
    return MachineLoad(
        cpu_fraction=_required_fraction(before, after),
        stolen_fraction=steal_fraction(before.processors, after.processors),
        pressure_fraction=stalled,
        busiest_task=busiest[0],
        busiest_task_fraction=round(shares.get(busiest, 0.0), 3),
        mean_lateness_s=sum(lateness_s) / max(1, len(lateness_s)),
        worst_lateness_s=max(lateness_s, default=0.0),
    )


def _required_fraction(before: MachineCounts, after: MachineCounts) -> float:
    """Of all processors, what the sandbox's threads had or waited for: programs that give way to them at once (niced,
    idle class) keep a processor busy and nobody waiting, so they do not count. All busy time where the kernel does not
    tell."""
    busy = busy_fraction(before.processors, after.processors)
    if not after.required_cpu_s:
        return busy
    there_s = (after.processors.total - before.processors.total) / os.sysconf("SC_CLK_TCK")
    required_cpu_s = sum(
        spent - before.required_cpu_s.get(thread, 0.0)
        for thread, spent in after.required_cpu_s.items()
    )
    required = required_cpu_s / there_s if there_s > 0 else 0.0
    return round(min(busy, required + steal_fraction(before.processors, after.processors)), 3)


class LoadMonitor:
    """Measures from ``__enter__`` to ``__exit__``, which sets ``strain``. A context manager, used once."""

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
        due_s = time.monotonic() + _BEAT_S
        while not self._stop.wait(max(0.0, due_s - time.monotonic())):
            now_s = time.monotonic()
            self._lateness_s.append(now_s - due_s)
            due_s = now_s + _BEAT_S


def _stalled_s(proc: Path) -> float | None:
    try:
        first = (proc / "pressure/cpu").read_text().split("\n", 1)[0]
        return int(first.rpartition("total=")[2]) / 1e6
    except (OSError, ValueError):
        return None


def _task_seconds(processes: Iterable[Path]) -> dict[Task, float]:
    found: dict[Task, float] = {}
    for entry in processes:
        with contextlib.suppress(OSError):  # it has ended, or is another user's
            program = (entry / "exe").readlink().name
            together = program.startswith(_INTERPRETER)
            for task in [entry] if together else (entry / "task").iterdir():
                found[program, int(task.name)] = _seconds(task / "stat")
    return found


def _seconds(path: Path) -> float:
    """A task's time on a processor so far."""
    fields = path.read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _required_s(processes: Iterable[Path]) -> dict[int, float]:
    """Nanoseconds on a processor and in a queue for one are the first two figures of every thread's ``schedstat``."""
    found: dict[int, float] = {}
    for entry in processes:
        with contextlib.suppress(OSError, ValueError):  # it has ended, or the kernel does not count
            for task in (entry / "task").iterdir():
                ran, waited = (task / "schedstat").read_text().split()[:2]
                found[int(task.name)] = (int(ran) + int(waited)) / 1e9
    return found
