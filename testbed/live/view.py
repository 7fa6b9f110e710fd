"""The state of a live page after each event: loads from differences of counters, curves and texts.

An ``Update`` is one server-sent event with its name and its JSON. A page that is opened later
receives ``replay``: the view and its last state. This module uses neither sockets nor clocks.
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

# Bins of the curves over the planned duration of a run.
BINS = 240
MIN_BIN_S = 0.25
# Rates are averaged over this time, so that packets sent in groups do not make them jump.
WINDOW_S = 0.8
# The rate of an idle source, by which loads are divided.
MIN_RATE_BPS = 1.0
# Packets may be in transit for this long beyond the usual time before they count as lost.
UNSURE_S = 0.02
# Stored samples of the loads and of packets sent. Beyond it, every second load sample is dropped.
MAX_SAMPLES = 480


@dataclass(frozen=True, kw_only=True)
class Update:
    """One server-sent event."""

    name: str
    data: Json


@dataclass
class _Bin:
    """The packets of one bin of the curves, and the last block size in it."""

    sent: float = 0.0
    lost: float = 0.0
    block_size: float | None = None


@dataclass
class LiveState:
    """The state of the page of one run, to which ``apply`` applies the events in their order.

    Attributes:
        view: The contents of the page, None before the run has begun.
        ended: The end of the run, or None.
        findings: The last interim results, or None.
        done: Completed share of the run.
        doing: Current activity.
        at_s: Time of the last sample since the start of the run.
        reading: The last value of each counter.
        rates_bps: Current rates of the links.
        history: Loads of the links over time.
    """

    view: RunView | None = None
    ended: RunEnded | None = None
    findings: InterimResults | None = None
    done: float = 0.0
    doing: str = ""
    at_s: float = 0.0
    reading: CounterReading = field(default_factory=CounterReading)
    rates_bps: dict[LinkId, float] = field(default_factory=dict)
    # The time on the machine's clock when the run began.
    _zero_s: float | None = None
    _counts_since_s: float = 0.0
    # The counters of the first sample.
    _first: dict[LinkId, int] = field(default_factory=dict)
    _counts: deque[tuple[float, Mapping[LinkId, int]]] = field(default_factory=deque)
    history: list[tuple[float, Mapping[LinkId, float]]] = field(default_factory=list)
    _sent: list[tuple[float, int]] = field(default_factory=list)
    # Shortest transit time of a packet.
    _transit_s: float = math.inf
    # Time, packets due and packets missing at the last sample.
    _due: tuple[float, float, float] = (0.0, 0.0, 0.0)
    # Packets sent and lost that are in the bins.
    _counted: tuple[float, float] = (0.0, 0.0)
    _bins: dict[int, _Bin] = field(default_factory=dict)

    def apply(self, event: Event) -> tuple[Update, ...]:
        """Apply an event, and return the updates that pages need."""
        if isinstance(event, RunView):
            # A new view starts from the initial state.
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
        """Return the updates for a page that is opened now."""
        end = () if self.ended is None else (self._end(),)
        if self.view is None:
            return end
        scene = Update(name="scene", data={"html": str(view_markup(self.session()))})
        findings = () if self.findings is None else (self._found(),)
        return (scene, self.state(), self.curves(), *findings, *end)

    def session(self) -> SessionRun:
        """Return the view and its curves up to now in the form of a stored stream, for figures."""
        assert self.view is not None
        return self.view.session(self._timeline())

    def curves(self) -> Update:
        """Return the drawing of loss, redundancy and loads over time."""
        html = str(curves_markup(self.session(), self.history))
        return Update(name="curves", data={"html": html})

    def state(self) -> Update:
        """Return everything that changes with each sample, except the curves."""
        view = self.view
        assert view is not None
        # Loads of a stream are drawn relative to the largest planned load.
        full_width_load = 1.0
        if view.share == "stream":
            full_width_load = max((float(load.load) for load in view.links), default=1.0) or 1.0
        links = {}
        for link, share in self.loads().items():
            width = line_width(min(share / full_width_load, 1.2))
            links[label_of(link)] = [round(share, 4), round(width, 2)]
        down = {label_of(link) for link in self.reading.down or ()}
        state = {
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
        return Update(name="state", data=_shown(state))

    def faults(self) -> list[str]:
        """Return the faults of the run, and other cables without a carrier, as text."""
        reported = list(self.reading.faults or ())
        named = " ".join(reported)
        for link in self.reading.down or ():
            if label_of(link) not in named and label_of(reverse_of(link)) not in named:
                reported.append(f"{label_of(link)} has no carrier")
                named += f" {label_of(link)}"
        return reported

    def loads(self) -> dict[LinkId, float]:
        """Return the loads of the drawn links, as shares of the stream or of their capacity."""
        view = self.view
        assert view is not None
        drawn = [(load.source, load.target, load.key) for load in view.links]
        if view.share == "stream":
            source_rates = [bps for link, bps in self.rates_bps.items() if link[0] == view.source]
            source_bps = max(sum(source_rates), MIN_RATE_BPS)
            return {link: self.rates_bps.get(link, 0.0) / source_bps for link in drawn}
        capacities_bps = {}
        for record in view.network.get("links", ()):
            link_id = (record["source"], record["target"], record.get("key", 0))
            capacities_bps[link_id] = record["capacity_bps"]
        loads = {}
        for link in drawn:
            if capacities_bps.get(link):
                loads[link] = self.rates_bps.get(link, 0.0) / capacities_bps[link]
        return loads

    def figures(self) -> list[list[str]]:
        """Return the name and the value of each figure at the top of the page, as text."""
        reading = self.reading
        loss = self.loss()
        redundancy = self.redundancy()
        tiles = []
        if loss is not None:
            tiles.append(["Packets lost", f"{100 * loss:.1f} %"])
        if redundancy is not None:
            tiles.append(["Redundancy N/M − 1", f"{100 * redundancy:.0f} %"])
        if reading.frame is not None:
            tiles.append(["Time frame", f"{reading.frame} of {reading.frames}"])
        for name, value in reading.figures.items():
            tiles.append([name, f"{value:.4g}"])
        if self.rates_bps:
            busiest = max(self.rates_bps, key=lambda link: self.rates_bps[link])
            rate = f"{self.rates_bps[busiest] / 1e6:.2f} Mbit/s"
            tiles.append([f"Busiest link, {label_of(busiest)}", rate])
        return tiles

    def loss(self) -> float | None:
        """Return the share of packets lost in the last bin with packets, or None."""
        for index in sorted(self._bins, reverse=True):
            if self._bins[index].sent:
                return _loss(self._bins[index])
        return None

    def redundancy(self) -> float | None:
        """Return N/M - 1 of the last packet, or None if it is unknown."""
        source_packets = self.view.source_packets if self.view else None
        return _redundancy(self.reading.block_size, source_packets)

    def stored(self) -> list[list[str | float]]:
        """Return each I/O node with the megabytes on its links since the view's first sample."""
        view = self.view
        assert view is not None
        rows: list[list[str | float]] = []
        for node in view.stores:
            total_bytes = 0
            for link, link_bytes in self.reading.link_bytes.items():
                if node in link[:2]:
                    total_bytes += link_bytes - self._first.get(link, 0)
            rows.append([node, round(total_bytes / 1e6, 3)])
        return rows

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
        """Update the state with a sample."""
        new = sample.reading
        if sample.done is not None:
            self.done = sample.done
            self.doing = sample.doing or ""
        if new.at_s is not None:
            self._zero_s = sample.clock_s - new.at_s
            self.at_s = new.at_s
        elif self._zero_s is not None:
            self.at_s = max(self.at_s, sample.clock_s - self._zero_s)
        # A counter that the sample does not have keeps its value.
        counters = dict(vars(self.reading))
        for name, value in vars(new).items():
            if value not in (None, {}):
                counters[name] = value
        self.reading = CounterReading(**counters)
        if new.link_bytes:
            self._rate(sample.clock_s, new.link_bytes)
        if new.sent is not None and new.received is not None:
            self._bin(new.sent, new.received, new.block_size)

    def _rate(self, clock_s: float, link_bytes: Mapping[LinkId, int]) -> None:
        """Update the rates of the links with their counters at this time."""
        self._first = self._first or dict(link_bytes)
        self._counts_since_s = self._counts_since_s or clock_s
        self._counts.append((clock_s, link_bytes))
        while len(self._counts) > 2 and clock_s - self._counts[1][0] >= WINDOW_S:
            self._counts.popleft()
        since_s, before = self._counts[0]
        if clock_s > since_s:
            self.rates_bps = {
                link: 8 * (count - before.get(link, count)) / (clock_s - since_s)
                for link, count in link_bytes.items()
            }
        time_s = self.at_s or clock_s - self._counts_since_s
        loads = self.loads() if self.view else {}
        self.history.append((time_s, loads))
        if len(self.history) > MAX_SAMPLES:
            del self.history[1::2]

    @property
    def _bin_s(self) -> float:
        duration_s = self.view.duration_s if self.view else 0.0
        return max(MIN_BIN_S, duration_s / BINS)

    def _bin_at(self, at_s: float) -> _Bin:
        index = int(max(0.0, at_s) / self._bin_s)
        return self._bins.setdefault(index, _Bin())

    def _bin(self, sent: int, received: int, block_size: float | None) -> None:
        """Add the packets sent and lost to the bins.

        The packets are those that can have arrived at the previous sample, because they were sent
        at least the shortest transit time before it. A packet that is missing at the previous
        sample and not at this one was delayed, not lost.

        Args:
            sent: All packets sent up to now.
            received: All packets received up to now.
            block_size: Current N, or None.
        """
        self._bin_at(self.at_s).block_size = block_size or None
        self._sent = [*self._sent, (self.at_s, sent)][-MAX_SAMPLES:]
        times_s = [time_s for time_s, _ in self._sent]
        counts = [count for _, count in self._sent]
        if received > counts[0]:
            received_sent_s = float(np.interp(received, counts, times_s))
            self._transit_s = min(self._transit_s, max(0.0, self.at_s - received_sent_s))
        due_s = self.at_s - self._transit_s
        if due_s <= times_s[0]:
            return
        due = float(np.interp(due_s, times_s, counts))
        rate_pps = (counts[-1] - counts[0]) / max(times_s[-1] - times_s[0], MIN_BIN_S)
        missing = due - received - UNSURE_S * rate_pps
        previous_due_s, previous_due, previous_missing = self._due
        counted_sent, counted_lost = self._counted
        if previous_due > counted_sent:
            lost = max(counted_lost, min(previous_missing, missing))
            bin_of_packets = self._bin_at(previous_due_s)
            bin_of_packets.sent += previous_due - counted_sent
            bin_of_packets.lost += lost - counted_lost
            self._counted = (previous_due, lost)
        self._due = (due_s, due, missing)

    def _timeline(self) -> TimelineRecord | None:
        if not self._bins or self.view is None:
            return None
        bin_s = self._bin_s
        source_packets = self.view.source_packets
        count = max(max(self._bins) + 1, int(self.view.duration_s / bin_s))
        bins = [self._bins.get(index, _Bin()) for index in range(count)]
        return TimelineRecord(
            session=0,
            bin_s=bin_s,
            t_s=tuple(index * bin_s for index in range(count)),
            sent_pps=tuple(each.sent / bin_s for each in bins),
            loss=tuple(_loss(each) for each in bins),
            block_size=tuple(each.block_size for each in bins),
            redundancy=tuple(_redundancy(each.block_size, source_packets) for each in bins),
        )


def _loss(one_bin: _Bin) -> float | None:
    """Return the share of packets lost, or None without packets."""
    if not one_bin.sent:
        return None
    return min(1.0, max(0.0, one_bin.lost / one_bin.sent))


def _redundancy(block_size: float | None, source_packets: int | None) -> float | None:
    if not block_size or not source_packets:
        return None
    return block_size / source_packets - 1


def _shown(value: object) -> Any:
    """Return the value with every text in it printable, like the names in the drawing."""
    if isinstance(value, Mapping):
        return {printable(key): _shown(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_shown(entry) for entry in value]
    return printable(value) if isinstance(value, str) else value
