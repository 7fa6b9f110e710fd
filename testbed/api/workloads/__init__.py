"""The list of our workloads that are commands; ``known`` finds the workload of a plan, plug-ins' too.

A new workload adds one line here. Nothing of it is imported to say which commands there are.
"""

from pkgutil import resolve_name
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from testbed.model.workload import Work

SEND, ROUTE, SCHEDULE, STRIPE, SIMULATE, REPLICATE, INSPECT = PURPOSES = (
    "send coded streams and files while links fail",
    "compute routes and compare them",
    "compute schedules and carry them out",
    "stripe files, run programs on the hosts",
    "simulate routers of an interconnection network",
    "replicate figures of the papers",
    "inspect a network or the machine, try things by hand",
)
"""The headings of ``testbed --help``, as in the README."""


class Listed(NamedTuple):
    """``summary``: what ``testbed --help`` says of the command, below the heading ``purpose``; ``value``: where its
    ``Workload`` is."""

    purpose: str
    summary: str
    value: str


_STREAM = "stream coded packets over a network while links fail; verdict on every prediction"
_MOBILITY = (
    "stream while nodes move; routes are recomputed for each frame and replaced without loss"
)
_DOWNLOAD = "send a file over many paths to a host behind a slow last-mile link"
_TUNNEL = (
    "carry any program's packets through a coded tunnel while links fail; four rivals side by side"
)
LISTED = {
    "stream": Listed(SEND, _STREAM, "testbed.api.workloads.streams:STREAM_COMMAND"),
    "mobility": Listed(SEND, _MOBILITY, "testbed.stream.workload:MOBILITY"),
    "bulk": Listed(
        SCHEDULE, "bulk transfers frame by frame over circuits", "testbed.bulk.workload:BULK"
    ),
    "download": Listed(SEND, _DOWNLOAD, "testbed.download.workload:DOWNLOAD"),
    "tunnel": Listed(SEND, _TUNNEL, "testbed.tunnel.workload:TUNNEL"),
    "sfio": Listed(
        STRIPE, "striped files over an emulated network", "testbed.striping.workload:STRIPING"
    ),
    "wavelengths": Listed(
        SCHEDULE,
        "assign wavelengths in an optical cloud",
        "testbed.wavelengths.workload:WAVELENGTHS",
    ),
    "simulate": Listed(
        SIMULATE, "simulate an interconnection network", "testbed.simulation.workload:SIMULATION"
    ),
}
"""Command -> its workload, in the order of ``testbed --help``."""


def load(command: str) -> "Work":
    """The workload of a command of ``LISTED``."""
    workload: Work = resolve_name(LISTED[command].value)
    return workload
