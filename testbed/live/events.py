"""The events that a run sends to its live page, and their encoding.

A view describes the drawing: a network, its predicted loads and its planned faults. Samples follow,
until the next view or the end of the run. A message is one event, as a compressed JSON object.
Messages may be dropped, because counters are totals and not differences.

This module uses neither sockets nor clocks.
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

# The load of a link is a share of the packets of the source, or of the capacity of the link.
LoadUnit = Literal["stream", "capacity"]


@dataclass(frozen=True, kw_only=True)
class RunView:
    """The contents of the live page.

    Attributes:
        title: Title of the page.
        network: Node-link document of the network, empty if there is no drawing.
        links: The links that will carry traffic, with their planned loads.
        faults: The planned faults.
        source: Source of a stream, or empty.
        sink: Sink of a stream, or empty.
        method: Routing method.
        share: Unit of the loads.
        duration_s: Planned duration.
        source_packets: M of the stream's code.
        stores: I/O nodes whose transferred bytes are shown.
        control: Name under which the network takes requests. The page then can cut and repair
            cables.
        parameters: Further parameters of the stream.
    """

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
        """Return the view in the form of a stored stream, because figures are drawn from these.

        Args:
            timeline: The curves, or None.
        """
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
    """The state of the run at one time.

    Attributes:
        clock_s: The time on the monotonic clock of the machine.
        reading: The counters.
        done: Completed share of the run, or None if only counters were read.
        doing: Description of the current activity, or None.
    """

    clock_s: float
    reading: CounterReading = field(default_factory=CounterReading)
    done: float | None = None
    doing: str | None = None


@dataclass(frozen=True, kw_only=True)
class InterimResults:
    """The results of a study from the points measured up to now.

    Attributes:
        outcomes: Pairs of an outcome ("holds", "fails", "cannot-tell" or the state of a run) and
            the name of its check or run.
        figures: SVG documents by name.
    """

    outcomes: tuple[tuple[str, str], ...] = ()
    figures: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class RunEnded:
    """The end of the run.

    Attributes:
        outcome: The outcome as text.
        page: Path of the run's stored page, empty if nothing was stored.
        html: Contents of that page, which the server fills in.
    """

    outcome: str
    page: str = ""
    html: str = ""


Event = RunView | Sample | InterimResults | RunEnded


_KINDS: Mapping[str, type[Event]] = {
    kind.__name__.lower(): kind for kind in (RunView, Sample, InterimResults, RunEnded)
}


def encode(event: Event) -> bytes:
    """Return the event as a message, without the fields that are None."""
    document: JsonObject = json_ready(event, without=NoneType)
    # The keys of a JSON object are texts, so counters of links become a list.
    if isinstance(event, Sample):
        links = event.reading.link_bytes.items()
        document["reading"]["link_bytes"] = [[*link, octets] for link, octets in links]
    document["event"] = type(event).__name__.lower()
    return zlib.compress(json.dumps(document, separators=(",", ":")).encode(), 1)


def decode(message: bytes) -> Event:
    """Return the event of a message.

    Raises:
        UsageError: The message is not one of ``encode``.

    >>> decode(encode(RunEnded(outcome="passed", page="page.html")))
    RunEnded(outcome='passed', page='page.html', html='')
    """
    try:
        document = json.loads(zlib.decompress(message))
        kind = _KINDS[document["event"]]
        counters = document["reading"].pop("link_bytes") if kind is Sample else ()
        event: Event = from_json(kind, document, "event")
        if isinstance(event, Sample):
            link_bytes: dict[LinkId, int] = {}
            for source, target, key, octets in counters:
                link_bytes[source, target, key] = octets
            return replace(event, reading=replace(event.reading, link_bytes=link_bytes))
        return event
    except (zlib.error, ValueError, KeyError, TypeError, AttributeError, InputError) as error:
        raise UsageError(
            f"a message of {len(message)} bytes is no event of a live page: {error}"
        ) from None
