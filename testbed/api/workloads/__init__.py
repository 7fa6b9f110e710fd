"""The built-in workloads that are commands. A new workload adds one line here.

No workload is imported until it is used, so that ``testbed --help`` starts fast. ``registry`` finds
the workload of a plan, also if the workload comes from a plug-in.
"""

from pkgutil import resolve_name
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from testbed.model.workload import Work

# The headings of ``testbed --help``, as in the README.
SEND = "send coded streams and files while links fail"
ROUTE = "compute routes and compare them"
SCHEDULE = "compute schedules and carry them out"
STRIPE = "stripe files, run programs on the hosts"
SIMULATE = "simulate routers of an interconnection network"
REPLICATE = "replicate figures of the papers"
INSPECT = "inspect a network or the machine, try things by hand"
PURPOSES = (SEND, ROUTE, SCHEDULE, STRIPE, SIMULATE, REPLICATE, INSPECT)


class Listed(NamedTuple):
    """A workload that is a command.

    Attributes:
        purpose: The heading of ``testbed --help`` below which the command is listed.
        summary: The description of the command there.
        value: The module and the name of its ``Workload``, as "package.module:NAME".
    """

    purpose: str
    summary: str
    value: str


_STREAM = "stream coded packets over a network while links fail, and check every prediction"
_MOBILITY = "stream coded packets while nodes move and routes are replaced"
_DOWNLOAD = "send a file over many paths to a host behind a slow last-mile link"
_TUNNEL = "carry the packets of any program through a coded tunnel while links fail"
# The workload of each command, in the order of ``testbed --help``.
LISTED = {
    "stream": Listed(SEND, _STREAM, "testbed.api.workloads.streams:STREAM_COMMAND"),
    "mobility": Listed(SEND, _MOBILITY, "testbed.stream.workload:MOBILITY"),
    "bulk": Listed(
        SCHEDULE,
        "carry out bulk transfers frame by frame over circuits",
        "testbed.bulk.workload:BULK",
    ),
    "download": Listed(SEND, _DOWNLOAD, "testbed.download.workload:DOWNLOAD"),
    "tunnel": Listed(SEND, _TUNNEL, "testbed.tunnel.workload:TUNNEL"),
    "sfio": Listed(
        STRIPE,
        "write and read striped files over an emulated network",
        "testbed.striping.workload:STRIPING",
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


def load(command: str) -> "Work":
    """Import and return the workload of a command of ``LISTED``."""
    workload: Work = resolve_name(LISTED[command].value)
    return workload
