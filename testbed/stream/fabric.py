"""The two fabrics of a stream, which run one or several plans and return the measurements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from testbed.stream.emulated.fabric import EmulatedStreamFabric
    from testbed.stream.simulated import SimulatedStreamFabric

StreamFabric: TypeAlias = "EmulatedStreamFabric | SimulatedStreamFabric"


def open_fabric(name: str, **options: Any) -> StreamFabric:
    """Return a fabric.

    Args:
        name: "emulation" or "simulator". An emulation on this machine must be inside the sandbox.
        options: The fields of ``EmulatedStreamFabric``; the simulator ignores them.
    """
    if name == "simulator":
        from testbed.stream.simulated import SimulatedStreamFabric

        return SimulatedStreamFabric()
    from testbed.stream.emulated.fabric import EmulatedStreamFabric

    return EmulatedStreamFabric(**options)
