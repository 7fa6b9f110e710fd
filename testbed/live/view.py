"""What a live page shows after each event: loads from differences of counters, curves in bins, words. Values only: no
clock, no socket.

A ``Message`` is what one server-sent event carries: its name and its JSON. Who comes late gets ``replay``: the scene
and its last state.
"""

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from testbed.live.events import Event, InterimResults, RunEnded, RunView, Sample
from testbed.live.page import curves_markup, findings_markup, view_markup
from testbed.model.naming.printable import printable
from testbed.model.progress import CounterReading
from testbed.model.run_records import SessionRun, TimelineRecord
from testbed.report.drawing.network_drawing import line_width
from topologies import Json, LinkId, label_of, reverse_of

BINS = 240
"""Bins of the curves over a run's planned length."""
MIN_BIN_S = 0.25
WINDOW_S = 0.8
"""Rates are told over so long, so that packets sent in groups do not make them jump."""
MIN_RATE_BPS = 1.0
UNSURE_S = 0.02
"""Packets of so long may be in transit, or waiting to be counted, beyond those that usually are: they are no losses."""
MAX_SAMPLES = 480
"""Of the loads and of packets sent; of more every second is dropped."""


@dataclass(frozen=True, kw_only=True)
class Update:
    """One server-sent event."""

    name: str
    data: Json


@dataclass
class _Bin:
    """Sums of one bin of the curves."""

    sent: float = 0.0
    lost: float = 0.0
    block_size: float | None = None


@dataclass
class LiveState:
    """All that the page of one run knows. ``take`` events in their order."""

    view: RunView | None = None
    ended: RunEnded | None = None
    findings: InterimResults | None = None
    done: float = 0.0
    doing: str = ""
    at_s: float = 0.0
    reading: CounterReading = field(default_factory=CounterReading)
    rates_bps: dict[LinkId, float] = field(default_factory=dict)
    _zero_s: float | None = None
    _counts_since_s: float = 0.0
    _first: dict[LinkId, int] = field(default_factory=dict)
    _counts: deque[tuple[float, Mapping[LinkId, int]]] = field(default_factory=deque)
    history: list[tuple[float, Mapping[LinkId, float]]] = field(default_factory=list)
    """Loads over time."""
    _sent: list[tuple[float, int]] = field(default_factory=list)
    _transit_s: float = math.inf
    _due: tuple[float, float, float] = (0.0, 0.0, 0.0)
    _counted: tuple[float, float] = (0.0, 0.0)
    _bins: dict[int, _Bin] = field(default_factory=dict)

    def apply(self, event: Event) -> tuple[Update, ...]:
        """The messages that tell a page of the event."""
        if isinstance(event, RunView):
            self.__init__(view=event)  # type: ignore[misc]
            return self.replay()
        if isinstance(event, RunEnded):
            self.ended = event
            return (self._end(),)
        if isinstance(event, InterimResults):
            self.findings = event
            return (self._found(),)
        self._note(event)
        return (self.state(),) if self.view is not None else ()

    def replay(self) -> tuple[Update, ...]:
        """What a page that opens now is told."""
        if self.view is None:
            return () if self.ended is None else (self._end(),)
        shown = Update(name="scene", data={"html": str(view_markup(self.session()))})
        found = () if self.findings is None else (self._found(),)
        return (
            shown,
            self.state(),
            self.curves(),
            *found,
            *(() if self.ended is None else (self._end(),)),
        )

    def session(self) -> SessionRun:
        """The scene with its curves so far, as what the final page's drawings are made from."""
        assert self.view is not None
        return self.view.session(self._timeline())

    def curves(self) -> Update:
        """Loss and redundancy over time, drawn; empty where nothing is lost or coded."""
        return Update(
            name="curves", data={"html": str(curves_markup(self.session(), self.history))}
        )

    def state(self) -> Update:
        """Loads, faults in force, counts: everything that changes from sample to sample but the curves."""
        view = self.view
        assert view is not None
        largest = (
            max((float(load.load) for load in view.links), default=1.0)
            if view.share == "stream"
            else 1.0
        )
        loads = self.loads()
        links = {
            label_of(link): [
                round(share, 4),
                round(line_width(min(share / (largest or 1.0), 1.2)), 2),
            ]
            for link, share in loads.items()
        }
        down = {label_of(link) for link in self.reading.down or ()}
        return Update(
            name="state",
            data=_shown(
                {
                    "network": bool(view.network),
                    "control": bool(view.control),
                    "done": self.done,
                    "doing": self.doing,
                    "at_s": round(self.at_s, 2),
                    "links": links,
                    "down": sorted(down),
                    "faults": self.faults(),
                    "tiles": self.figures(),
                    "stores": self.stored(),
                }
            ),
        )

    def faults(self) -> list[str]:
        """Faults in force, in words: those that the run tells, and cables without a carrier that no fault names."""
        reported = list(self.reading.faults or ())
        named = " ".join(reported)
        for link in self.reading.down or ():
            if label_of(link) not in named and label_of(reverse_of(link)) not in named:
                reported.append(f"{label_of(link)} has no carrier")
                named += f" {label_of(link)}"
        return reported

    def loads(self) -> dict[LinkId, float]:
        """Link -> its load now, as a share of the stream or of its capacity, of links that the scene draws."""
        view = self.view
        assert view is not None
        drawn = [(load.source, load.target, load.key) for load in view.links]
        if view.share == "stream":
            of = sum(rate for link, rate in self.rates_bps.items() if link[0] == view.source)
            return {link: self.rates_bps.get(link, 0.0) / max(of, MIN_RATE_BPS) for link in drawn}
        links = view.network.get("links", ())
        capacity = {
            (li["source"], li["target"], li.get("key", 0)): li["capacity_bps"] for li in links
        }
        return {
            link: self.rates_bps.get(link, 0.0) / capacity[link]
            for link in drawn
            if capacity.get(link)
        }

    def figures(self) -> list[list[str]]:
        """[what, value] of the tiles."""
        reading, found = self.reading, []
        loss, redundancy = self.loss(), self.redundancy()
        if loss is not None:
            found.append(["Packets lost", f"{100 * loss:.1f} %"])
        if redundancy is not None:
            found.append(["Redundancy N/M − 1", f"{100 * redundancy:.0f} %"])
        if reading.frame is not None:
            found.append(["Time frame", f"{reading.frame} of {reading.frames}"])
        found += [[name, f"{value:.4g}"] for name, value in reading.figures.items()]
        if self.rates_bps:
            busiest = max(self.rates_bps, key=lambda link: self.rates_bps[link])
            found.append(
                [
                    f"Busiest link, {label_of(busiest)}",
                    f"{self.rates_bps[busiest] / 1e6:.2f} Mbit/s",
                ]
            )
        return found

    def loss(self) -> float | None:
        """Share of the packets lost in the last bin that has any."""
        last = next((one for _, one in sorted(self._bins.items(), reverse=True) if one.sent), None)
        return None if last is None else min(1.0, max(0.0, last.lost / last.sent))

    def redundancy(self) -> float | None:
        """N/M - 1 of the last packet."""
        size, m = self.reading.block_size, self.view.source_packets if self.view else None
        return None if not size or not m else size / m - 1

    def stored(self) -> list[list[str | float]]:
        """[I/O node, megabytes over its links in both directions] since the scene's first sample."""
        view, counted = self.view, self.reading.link_bytes
        assert view is not None
        return [
            [
                node,
                round(
                    sum(n - self._first.get(k, 0) for k, n in counted.items() if node in k[:2])
                    / 1e6,
                    3,
                ),
            ]
            for node in view.stores
        ]

    def _found(self) -> Update:
        assert self.findings is not None
        return Update(
            name="findings",
            data={"html": str(findings_markup(self.findings.outcomes, self.findings.figures))},
        )

    def _end(self) -> Update:
        assert self.ended is not None
        ended = _shown({"outcome": self.ended.outcome, "page": self.ended.page})
        return Update(name="ended", data=ended | {"html": self.ended.html})

    def _note(self, sample: Sample) -> None:
        new, old = sample.reading, self.reading
        if sample.done is not None:
            self.done, self.doing = sample.done, sample.doing or ""
        if new.at_s is not None:
            self._zero_s, self.at_s = sample.clock_s - new.at_s, new.at_s
        elif self._zero_s is not None:
            self.at_s = max(self.at_s, sample.clock_s - self._zero_s)
        reported = {name: value for name, value in vars(new).items() if value not in (None, {})}
        self.reading = CounterReading(**{**vars(old), **reported})
        if new.link_bytes:
            self._rate(sample.clock_s, new.link_bytes)
        if new.sent is not None and new.received is not None:
            self._bin(new.sent, new.received, new.block_size)

    def _rate(self, clock_s: float, counted: Mapping[LinkId, int]) -> None:
        self._first = self._first or dict(counted)
        self._counts_since_s = self._counts_since_s or clock_s
        self._counts.append((clock_s, counted))
        while len(self._counts) > 2 and clock_s - self._counts[1][0] >= WINDOW_S:
            self._counts.popleft()
        since_s, before = self._counts[0]
        if clock_s > since_s:
            self.rates_bps = {
                k: 8 * (n - before.get(k, n)) / (clock_s - since_s) for k, n in counted.items()
            }
        self.history.append(
            (self.at_s or clock_s - self._counts_since_s, self.loads() if self.view else {})
        )
        if len(self.history) > MAX_SAMPLES:
            del self.history[1::2]

    @property
    def _bin_s(self) -> float:
        return max(MIN_BIN_S, (self.view.duration_s if self.view else 0.0) / BINS)

    def _bin(self, sent: int, received: int, block_size: float | None) -> None:
        """Count packets sent, and lost, up to what can have arrived by the sample before: as long ago as packets take
        at least. What is missing there and not here was late."""
        self._bins.setdefault(int(max(0.0, self.at_s) / self._bin_s), _Bin()).block_size = (
            block_size or None
        )
        self._sent = [*self._sent, (self.at_s, sent)][-MAX_SAMPLES:]
        times, counts = zip(*self._sent, strict=True)
        if received > counts[0]:
            self._transit_s = min(
                self._transit_s, max(0.0, self.at_s - float(np.interp(received, counts, times)))
            )
        due_s = self.at_s - self._transit_s
        if due_s <= times[0]:
            return
        due = float(np.interp(due_s, times, counts))
        rate_pps = (counts[-1] - counts[0]) / max(times[-1] - times[0], MIN_BIN_S)
        missing = due - received - UNSURE_S * rate_pps
        before_s, before, then_missing = self._due
        if before > self._counted[0]:
            lost = max(self._counted[1], min(then_missing, missing))
            one = self._bins.setdefault(int(max(0.0, before_s) / self._bin_s), _Bin())
            one.sent += before - self._counted[0]
            one.lost += lost - self._counted[1]
            self._counted = before, lost
        self._due = due_s, due, missing

    def _timeline(self) -> TimelineRecord | None:
        if not self._bins or self.view is None:
            return None
        bin_s, m = self._bin_s, self.view.source_packets
        count = max(max(self._bins) + 1, int(self.view.duration_s / bin_s))
        bins = [self._bins.get(k, _Bin()) for k in range(count)]
        loss = tuple(min(1.0, max(0.0, one.lost / one.sent)) if one.sent else None for one in bins)
        sizes = tuple(one.block_size for one in bins)
        return TimelineRecord(
            session=0,
            bin_s=bin_s,
            t_s=tuple(k * bin_s for k in range(count)),
            sent_pps=tuple(one.sent / bin_s for one in bins),
            loss=loss,
            block_size=sizes,
            redundancy=tuple(size / m - 1 if size and m else None for size in sizes),
        )


def _shown(value: object) -> Any:
    """The value with every text in it printable, as the drawing's own names are (``report.markup``)."""
    if isinstance(value, Mapping):
        return {printable(key): _shown(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_shown(one) for one in value]
    return printable(value) if isinstance(value, str) else value
