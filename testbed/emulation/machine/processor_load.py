"""How busy the machine's processors are, by the kernel's own count in ``/proc/stat``: the one place that reads it."""

from pathlib import Path
from typing import NamedTuple

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
