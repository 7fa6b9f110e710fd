"""The port that both fabrics of a stream implement: run a plan, return what was measured."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from testbed.model.progress import Progress
from testbed.stream.measurements import StreamMeasurements
from testbed.stream.plan import StreamPlan


class StreamFabric(Protocol):
    """Runs streaming plans; ``name`` is "emulation" or "simulator"."""

    name: str

    def run(self, plan: StreamPlan, progress: Callable[[Progress], None] | None = None) -> StreamMeasurements:
        """Run the plan to its end. Raises CapabilityError where this fabric cannot do what the plan asks."""
        ...
