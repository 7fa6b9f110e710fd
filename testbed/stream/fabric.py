"""The port that both fabrics of a stream implement: run a plan, return what was measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal, Protocol, TypedDict

from testbed.machines.machines_request import MachinesRequest
from testbed.model.progress import Progress
from testbed.stream.measurements import StreamMeasurements
from testbed.stream.plan import StreamPlan
from topologies.network import LinkId


class EmulationOptions(TypedDict, total=False):
    """What the emulated fabric may be told besides the plan; see ``EmulatedStreamFabric``. The simulated one takes none."""

    mtu: int
    pcap: Mapping[LinkId, Path]
    background_bps: float
    background_connections: int
    queues: Literal["fifo", "priority"]
    machines: MachinesRequest | None


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
