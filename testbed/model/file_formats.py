"""Formats of other programs' files, which plug-in packages read and write: a file's ending is the format's name
(``et.json``)."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from testbed.errors import CapabilityError, InputError, TestbedError
from testbed.model.schedule import Schedule
from testbed.model.traffic import Traffic
from topologies import Json, Network, TopologyError
from topologies.registry import Registry, function_check

F = TypeVar("F")
PACKAGES = {"xml": "collectives", "et": "chakra", "et.json": "chakra"}
"""Ending -> the package in ``plugins/`` that knows such files."""


@dataclass(frozen=True, kw_only=True)
class TrafficFormat:
    """``read(file, network, parameters)``: the messages of a simulation (``testbed schema messages``) and, under keys
    of its own, what ``--json`` adds. ``example(directory)`` writes a small file for a network of two hosts or more and
    returns its name."""

    read: Callable[[str, Network, Any], Json]
    example: Callable[[Path], str]


ScheduleFormat = Callable[[Traffic, Schedule], tuple[bytes, Json]]
"""A file's content, and what ``--json`` adds. InputError for what the format cannot say."""

SCHEDULE_FORMATS: Registry[ScheduleFormat] = Registry(
    "testbed.schedule_formats",
    "format",
    function_check("a traffic and a schedule"),
    (TestbedError, TopologyError),
)
ScheduleVerifier = Callable[[str, Network], Json]
"""What is to be said of a file's schedule over a network: ``valid``, ``text`` (for people), and what ``--json`` has.
InputError for what is no schedule."""
SCHEDULE_VERIFIERS: Registry[ScheduleVerifier] = Registry(
    "testbed.schedule_verifiers",
    "format",
    function_check("a file and a network"),
    (TestbedError, TopologyError),
)
TRAFFIC_FORMATS: Registry[TrafficFormat] = Registry(
    "testbed.traffic_formats",
    "format",
    lambda thing: (
        None if isinstance(thing, TrafficFormat) else f"it is no {__name__}.TrafficFormat"
    ),
)


# Where files of each kind of format are used.
_USES: tuple[tuple[Registry[Any], str], ...] = (
    (TRAFFIC_FORMATS, "simulate --traffic FILE"),
    (SCHEDULE_VERIFIERS, "schedule --verify FILE --network NETWORK"),
    (SCHEDULE_FORMATS, "schedule --output FILE, which writes them"),
)


def find_format(formats: Registry[F], file: str) -> F | None:
    """By the longest ending that has a format; None where none has. CapabilityError where a package of ours is not
    installed."""
    parts = Path(file).name.split(".")
    for ending in (".".join(parts[start:]) for start in range(1, len(parts))):
        if (ending != "json" or formats is SCHEDULE_VERIFIERS) and (
            found := formats.find(ending)
        ) is not None:
            return found
        for other, use in _USES:
            if other is not formats and ending in PACKAGES and other.find(ending) is not None:
                raise InputError(f"{file}: .{ending} files are not read here, but by {use}")
        if package := PACKAGES.get(ending):
            raise CapabilityError(
                f"{file}: pip install ./plugins/{package} in the project folder, for .{ending} files"
            )
    return None
