"""The two fabrics of a stream: each runs a plan, or several at once, and returns what was measured."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from testbed.stream.emulated.fabric import EmulatedStreamFabric
    from testbed.stream.simulated import SimulatedStreamFabric

StreamFabric: TypeAlias = "EmulatedStreamFabric | SimulatedStreamFabric"


def open_fabric(name: str, **options: Any) -> StreamFabric:
    """The fabric of that name, "emulation" or "simulator"; emulation, with its options, must be called inside the
    sandbox."""
    if name == "simulator":
        from testbed.stream.simulated import SimulatedStreamFabric

        return SimulatedStreamFabric()
    from testbed.stream.emulated.fabric import EmulatedStreamFabric

    return EmulatedStreamFabric(**options)
