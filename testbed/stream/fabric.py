"""The port that both fabrics of a stream implement: run a plan, return what was measured."""

from collections.abc import Callable, Sequence
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

    def run_concurrently(
        self, plans: Sequence[StreamPlan], progress: Callable[[Progress], None] | None = None
    ) -> tuple[StreamMeasurements, ...]:
        """Several plans at once on one network, under the first one's faults."""
        ...


def open_fabric(name: str) -> StreamFabric:
    """The fabric of that name; emulation must be called inside the sandbox."""
    if name == "simulator":
        from testbed.stream.simulated import SimulatedStreamFabric

        return SimulatedStreamFabric()
    from testbed.stream.emulated.fabric import EmulatedStreamFabric

    return EmulatedStreamFabric()
