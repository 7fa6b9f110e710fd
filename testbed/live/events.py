"""What a run tells its live page, as values and as bytes: a scene, samples of it, and the end. No socket, no clock.

A scene is what is drawn: a network, the loads that theory says, the faults that are planned. Samples follow, until the next scene or the end.
One message is one event, a JSON object deflated: a message too many can be dropped, since sums and not differences are told.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal

from testbed.errors import UsageError
from testbed.model.progress import CounterReading
from testbed.model.run_records import FaultRecord, LinkLoad
from topologies.network import LinkId
from topologies.text.json_types import Json, JsonObject

LoadUnit = Literal["stream", "capacity"]
"""What a link's load is a share of: of what the source sends, or of what the link can carry."""


@dataclass(frozen=True, kw_only=True)
class RunView:
    """What is drawn. ``network``: node-link document (empty: there is none to draw); ``links``: those that are planned to carry, with their planned loads;
    ``source``, ``sink``: of a stream, else empty; ``source_packets``: M of its code; ``stores``: I/O nodes whose bytes are shown."""

    title: str
    network: Json
    links: tuple[LinkLoad, ...] = ()
    faults: tuple[FaultRecord, ...] = ()
    source: str = ""
    sink: str = ""
    method: str = ""
    share: LoadUnit = "capacity"
    duration_s: float = 0.0
    source_packets: int | None = None
    stores: tuple[str, ...] = ()
    parameters: Json = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Sample:
    """One look at the run. ``clock_s``: when, on the machine's monotonic clock; ``done``: share of the run, None where only counters were read."""

    clock_s: float
    reading: CounterReading = field(default_factory=CounterReading)
    done: float | None = None
    doing: str | None = None


@dataclass(frozen=True, kw_only=True)
class InterimResults:
    """What the points of a study say so far. ``outcomes``: ("holds", "fails", "cannot-tell" or a run's state, what it is of) one by one;
    ``figures``: name -> SVG document."""

    outcomes: tuple[tuple[str, str], ...] = ()
    figures: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class RunEnded:
    """The run is over: how, and where its own page lies (empty: nothing was stored)."""

    outcome: str
    page: str = ""


Event = RunView | Sample | InterimResults | RunEnded


def encode(event: Event) -> bytes:
    """The event as one message."""
    kind = type(event).__name__.lower()
    return zlib.compress(json.dumps({"event": kind} | _plain(event), separators=(",", ":")).encode(), 1)


def decode(message: bytes) -> Event:
    """The event of a message. Raises UsageError for bytes that ``encode`` did not write.

    >>> decode(encode(RunEnded(outcome="passed", page="page.html")))
    RunEnded(outcome='passed', page='page.html')
    """
    try:
        reported = json.loads(zlib.decompress(message))
        kind = reported.pop("event")
        if kind == "runended":
            return RunEnded(**reported)
        if kind == "interimresults":
            return InterimResults(outcomes=tuple((a, b) for a, b in reported["outcomes"]), figures=reported["figures"])
        if kind == "sample":
            return Sample(**reported | {"reading": _reading(reported["reading"])})
        if kind == "runview":
            links = tuple(_link_load(link) for link in reported["links"])
            faults = tuple(FaultRecord(**fault) for fault in reported["faults"])
            return RunView(**reported | {"links": links, "faults": faults, "stores": tuple(reported["stores"])})
    except (zlib.error, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"a message of {len(message)} bytes is no event of a live page: {error}") from None
    raise UsageError(f"a message of {len(message)} bytes is no event of a live page: {kind!r} is none")


def _plain(event: Event) -> JsonObject:
    """The event's fields as JSON takes them."""
    if isinstance(event, RunEnded):
        return {"outcome": event.outcome, "page": event.page}
    if isinstance(event, InterimResults):
        return {"outcomes": event.outcomes, "figures": event.figures}
    if isinstance(event, Sample):
        return vars(event) | {"reading": _plain_reading(event.reading)}
    links = [vars(li) | {"load": str(li.load)} for li in event.links]
    faults = [
        {k: getattr(f, k) for k in ("session", "link", "kind", "start_s", "stop_s", "predicted_loss", "passed")}
        for f in event.faults
    ]
    return vars(event) | {"links": links, "faults": faults}


def _plain_reading(reading: CounterReading) -> JsonObject:
    reported = {name: value for name, value in vars(reading).items() if value not in (None, {})}
    if reading.link_bytes:
        reported["link_bytes"] = [[*link, octets] for link, octets in reading.link_bytes.items()]
    return reported


def _reading(reported: Json) -> CounterReading:
    counted = {_link(a, b, key): octets for a, b, key, octets in reported.get("link_bytes", ())}
    down = None if "down" not in reported else tuple(_link(*link) for link in reported["down"])
    faults = None if "faults" not in reported else tuple(reported["faults"])
    return CounterReading(**{**reported, "link_bytes": counted, "down": down, "faults": faults})


def _link(source: str, target: str, key: int) -> LinkId:
    return (source, target, key)


def _link_load(reported: Json) -> LinkLoad:
    intervals = tuple((start, stop) for start, stop in reported["intervals"])
    return LinkLoad(**{**reported, "load": Fraction(reported["load"]), "intervals": intervals})
