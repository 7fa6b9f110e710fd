"""Registries of the file formats of other programs, which plug-in packages read and write.

The ending of a file's name is the name of its format, such as ``et.json``.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from testbed.errors import CapabilityError, InputError, TestbedError
from testbed.model.schedule import Schedule
from testbed.model.traffic import Traffic
from topologies import Json, Network, TopologyError
from topologies.registry import Registry, function_check

F = TypeVar("F")

# File ending -> the package in ``plugins/`` that reads such files.
PACKAGES = {"xml": "collectives", "et": "chakra", "et.json": "chakra"}


@dataclass(frozen=True, kw_only=True)
class TrafficFormat:
    """A format of files that describe the messages of a simulation.

    Attributes:
        read: Called with the file, the network and the parameters of the simulation. Returns the
            messages (see ``testbed schema messages``) and, under further keys, what ``--json``
            prints in addition.
        example: Called with a directory. Writes a small file for a network of two hosts or more,
            and returns the file's name.
    """

    read: Callable[[str, Network, Any], Json]
    example: Callable[[Path], str]


def _check_traffic_format(thing: object) -> str | None:
    if isinstance(thing, TrafficFormat):
        return None
    return f"it is no {__name__}.TrafficFormat"


# Returns the content of a file with this schedule, and what ``--json`` prints in addition. Raises
# InputError for a schedule that the format cannot represent.
ScheduleFormat = Callable[[Traffic, Schedule], tuple[bytes, Json]]

# Checks the schedule in a file against a network. Returns ``valid``, ``text`` (for people) and what
# ``--json`` prints. Raises InputError for a file without a schedule.
ScheduleVerifier = Callable[[str, Network], Json]

SCHEDULE_FORMATS: Registry[ScheduleFormat] = Registry(
    "testbed.schedule_formats",
    "format",
    function_check("a traffic and a schedule"),
    (TestbedError, TopologyError),
)
SCHEDULE_VERIFIERS: Registry[ScheduleVerifier] = Registry(
    "testbed.schedule_verifiers",
    "format",
    function_check("a file and a network"),
    (TestbedError, TopologyError),
)
TRAFFIC_FORMATS: Registry[TrafficFormat] = Registry(
    "testbed.traffic_formats",
    "format",
    _check_traffic_format,
)


# The command that uses the files of each registry.
_USES: tuple[tuple[Registry[Any], str], ...] = (
    (TRAFFIC_FORMATS, "simulate --traffic FILE"),
    (SCHEDULE_VERIFIERS, "schedule --verify FILE --network NETWORK"),
    (SCHEDULE_FORMATS, "schedule --output FILE, which writes them"),
)


def find_format(formats: Registry[F], file: str) -> F | None:
    """Return the format of a file by the longest ending of its name that is registered.

    Args:
        formats: One of the three registries of this module.
        file: The file's name or path. The file need not exist.

    Returns:
        The format, or None if no ending is known.

    Raises:
        InputError: Another command uses files with this ending.
        CapabilityError: The plug-in package for such files is not installed.
    """
    for ending in _endings(file):
        # Most commands read JSON of the testbed itself. A verifier may be registered for "json".
        if ending != "json" or formats is SCHEDULE_VERIFIERS:
            file_format = formats.find(ending)
            if file_format is not None:
                return file_format
        for other, use in _USES:
            if other is not formats and ending in PACKAGES and other.find(ending) is not None:
                raise InputError(f"{file}: .{ending} files are not read here, but by {use}")
        package = PACKAGES.get(ending)
        if package:
            raise CapabilityError(
                f"{file}: pip install ./plugins/{package} in the project folder, "
                f"for .{ending} files"
            )
    return None


def _endings(file: str) -> Iterator[str]:
    """Yield the endings of a file's name, the longest first: "et.json", then "json"."""
    parts = Path(file).name.split(".")
    for start in range(1, len(parts)):
        yield ".".join(parts[start:])
