"""How busy the machine's processors are."""

from __future__ import annotations

from pathlib import Path

Times = tuple[float, float]
"""(busy, total) ticks of all processors since boot."""


def processor_times() -> Times:
    """The kernel's count so far."""
    fields = [float(x) for x in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return sum(fields) - fields[3] - fields[4], sum(fields)


def busy_share(before: Times, after: Times) -> float:
    """Busy fraction of all processors between two counts, 0 to 1."""
    total = after[1] - before[1]
    return round((after[0] - before[0]) / total, 3) if total > 0 else 0.0
