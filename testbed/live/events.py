"""What a run tells its live page, as values and as bytes: a scene, samples of it, and the end. No socket, no clock.

A scene is what is drawn: a network, the loads that theory says, the faults that are planned. Samples follow, until the
next scene or the end. One message is one event, a JSON object deflated: a message too many can be dropped, since sums
and not differences are told.
"""

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import NoneType
from typing import Literal

from testbed.errors import InputError, UsageError
from testbed.model.json_values import from_json, json_ready
from testbed.model.progress import CounterReading
from testbed.model.run_records import (
    FaultRecord,
    LinkLoad,
    SessionRecord,
    SessionRun,
    TimelineRecord,
)
from topologies import Json, JsonObject, LinkId

LoadUnit = Literal["stream", "capacity"]
"""What a link's load is a share of: of what the source sends, or of what the link can carry."""


@dataclass(frozen=True, kw_only=True)
class RunView:
    """What is drawn. ``network``: node-link document (empty: there is none to draw); ``links``: those that are planned
    to carry, with their planned loads; ``source``, ``sink``: of a stream, else empty; ``source_packets``: M of its
    code; ``stores``: I/O nodes whose bytes are shown; ``control``: by which name others reach the network, whose cables
    the page then cuts and repairs."""

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
    control: str = ""
    parameters: Json = field(default_factory=dict)

    def session(self, timeline: TimelineRecord | None = None) -> SessionRun:
        """It as what drawings are made from."""
        record = SessionRecord(
            session=0,
            title=self.title,
            network=self.network,
            source=self.source,
            sink=self.sink,
            method=self.method,
            fabric="",
            links=self.links,
            parameters={
                "source_packets": self.source_packets,
                "control": self.control,
                **self.parameters,
            },
            duration_s=self.duration_s,
        )
        return SessionRun(session=record, faults=self.faults, timeline=timeline)


@dataclass(frozen=True, kw_only=True)
class Sample:
    """One look at the run. ``clock_s``: when, on the machine's monotonic clock; ``done``: share of the run, None where
    only counters were read."""

    clock_s: float
    reading: CounterReading = field(default_factory=CounterReading)
    done: float | None = None
    doing: str | None = None


@dataclass(frozen=True, kw_only=True)
class InterimResults:
    """What the points of a study say so far. ``outcomes``: ("holds", "fails", "cannot-tell" or a run's state, what it
    is of) one by one; ``figures``: name -> SVG document."""

    outcomes: tuple[tuple[str, str], ...] = ()
    figures: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class RunEnded:
    """The run is over: how, and where its own page lies (empty: nothing was stored); ``html``: that page, which the
    server reads."""

    outcome: str
    page: str = ""
    html: str = ""


Event = RunView | Sample | InterimResults | RunEnded


_KINDS: Mapping[str, type[Event]] = {
    kind.__name__.lower(): kind for kind in (RunView, Sample, InterimResults, RunEnded)
}


def encode(event: Event) -> bytes:
    """The event as one message: its fields that are not None."""
    document: JsonObject = json_ready(event, without=NoneType)
    if isinstance(event, Sample):  # links are no keys of JSON
        links = event.reading.link_bytes.items()
        document["reading"]["link_bytes"] = [[*link, octets] for link, octets in links]
    document["event"] = type(event).__name__.lower()
    return zlib.compress(json.dumps(document, separators=(",", ":")).encode(), 1)


def decode(message: bytes) -> Event:
    """The event of a message. Raises UsageError for bytes that ``encode`` did not write.

    >>> decode(encode(RunEnded(outcome="passed", page="page.html")))
    RunEnded(outcome='passed', page='page.html', html='')
    """
    try:
        reported = json.loads(zlib.decompress(message))
        kind = _KINDS[reported["event"]]
        counted = reported["reading"].pop("link_bytes") if kind is Sample else ()
        event: Event = from_json(kind, reported, "event")
        if isinstance(event, Sample):
            carried: dict[LinkId, int] = {(a, b, key): octets for a, b, key, octets in counted}
            return replace(event, reading=replace(event.reading, link_bytes=carried))
        return event
    except (zlib.error, ValueError, KeyError, TypeError, AttributeError, InputError) as error:
        raise UsageError(
            f"a message of {len(message)} bytes is no event of a live page: {error}"
        ) from None
