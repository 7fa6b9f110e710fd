"""Whether this machine kept up with a run, told by the machine alone: processors, its busiest task, and how late a waiter woke.

None of these figures knows what the run was to achieve.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from pathlib import Path

from testbed.emulation.machine.processor_load import busy_share, processor_times
from testbed.model.strain import Strain

_BEAT_S = 0.005
_PROC = Path("/proc")
_INTERPRETER = "python"


class StrainGauge:
    """Measures from ``__enter__`` to ``__exit__``; then ``strain`` tells. A context manager, used once."""

    def __init__(self) -> None:
        self._stop = threading.Event()
        self._late_s: list[float] = []
        self._thread = threading.Thread(target=self._beat, daemon=True)
        self.strain: Strain | None = None

    def __enter__(self) -> StrainGauge:
        self._began_s = time.monotonic()
        self._times, self._tasks = processor_times(), _task_seconds()
        self._stalled_s, self._stolen = _stalled_s(), _stolen()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        seconds = max(time.monotonic() - self._began_s, 1e-9)
        stalled_s, times, stolen = _stalled_s(), processor_times(), _stolen()
        name, share = _busiest(self._tasks, _task_seconds(), seconds)
        self.strain = Strain(
            cpu_fraction=busy_share(self._times, times),
            stolen_fraction=round((stolen - self._stolen) / max(1.0, times[1] - self._times[1]), 3),
            stalled_fraction=None if stalled_s is None or self._stalled_s is None else (stalled_s - self._stalled_s) / seconds,
            busiest_task=name,
            busiest_task_fraction=round(share, 3),
            mean_lateness_s=sum(self._late_s) / max(1, len(self._late_s)),
            worst_lateness_s=max(self._late_s, default=0.0),
        )  # fmt: skip

    def _beat(self) -> None:
        due_s = time.monotonic() + _BEAT_S
        while not self._stop.wait(max(0.0, due_s - time.monotonic())):
            now_s = time.monotonic()
            self._late_s.append(now_s - due_s)
            due_s = now_s + _BEAT_S


def _stalled_s() -> float | None:
    """Seconds that some runnable task waited for a processor, since boot; None where the kernel does not tell."""
    try:
        first = (_PROC / "pressure/cpu").read_text().split("\n", 1)[0]
        return int(first.rpartition("total=")[2]) / 1e6
    except (OSError, ValueError):
        return None


def _stolen() -> float:
    """Ticks of all processors that the hypervisor gave to other machines, since boot."""
    return float((_PROC / "stat").read_text().split("\n", 1)[0].split()[8])


def _task_seconds() -> dict[tuple[str, int], float]:
    """(name, number) -> seconds on a processor so far, of all that runs in this sandbox: every thread by itself, but a Python
    process as one, whose threads take turns."""
    found: dict[tuple[str, int], float] = {}
    for entry in _PROC.iterdir():
        if entry.name.isdecimal():
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


def _busiest(
    before: dict[tuple[str, int], float], after: dict[tuple[str, int], float], seconds: float
) -> tuple[str, float]:
    shares = {key: (spent - before.get(key, 0.0)) / seconds for key, spent in after.items()}
    key = max(shares, key=lambda k: shares[k], default=("", 0))
    return key[0], shares.get(key, 0.0)
