"""The port that both fabrics implement: run a plan, return what was measured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from testbed.model.measurements import StreamMeasurements
from testbed.model.plan import StreamPlan


@dataclass(frozen=True, kw_only=True)
class Progress:
    """Where a run is: ``done_s`` of ``total_s`` seconds, and what happens now in a few words."""

    done_s: float
    total_s: float
    doing: str


class StreamFabric(Protocol):
    """Runs streaming plans; ``name`` is "emulation" or "simulator"."""

    name: str

    def run(self, plan: StreamPlan, progress: Callable[[Progress], None] | None = None) -> StreamMeasurements:
        """Run the plan to its end. Raises CapabilityError where this fabric cannot do what the plan asks."""
        ...
