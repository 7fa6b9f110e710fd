"""Where a run is: what a fabric reports to whoever shows progress, whatever the workload."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Progress:
    """Where a run is: ``done_s`` of ``total_s`` seconds, and what happens now in a few words."""

    done_s: float
    total_s: float
    doing: str


ReportProgress = Callable[[Progress], None]
"""Called by a fabric whenever there is something new to show."""
