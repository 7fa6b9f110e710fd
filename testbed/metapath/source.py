"""The source of FT-DRB on switches, without a socket or a clock: which path each packet takes, and what ACKs teach it.

Theory of operation
------------------- FT-DRB (Fault-Tolerant Distributed Routing Balancing; Zarza 2011, chapter 3) sends a pair's packets
over one minimal path while nothing fails, and over several paths, a *metapath*, while something does. Here switches do
the forwarding and hosts the thinking, in five steps, each in a module of its own:

1. *Known paths* (``labelled_paths``). A multistep path goes by one or two intermediate routers, each segment by the
   network's static routing (Zarza 2011, equations 3.1 and 3.2). Every path of the pair has an interval of labels (UDP
   source ports) of its own, so that the source chooses a path by choosing a label.
2. *Escapes* (``escape_rules``). Where a packet meets a dead link, its switch sends it round at once by a way that was
   installed beforehand as a fast-failover group (Zarza 2011, section 3.2); nobody is asked. An escaped packet carries
   the number of the dead link in its label and the router that it is bound for in its DSCP bits. ``escape_check`` finds
   out in advance whether the escapes lead round several dead links at once.
3. *Notification*. A source learns of a dead link in three ways: the sink's report says that a packet escaped from it
   (the header's flag), the controller passes a switch's port status on (``on_port``), or packets stay unacknowledged
   although later reports came (silence: a fault that no switch sees). ``wire`` has the bytes of packets and reports.
4. *Permanent or transient* (Zarza 2011, section 3.4). So many notifications in a row mark the cable as permanent, and
   the source keeps off it; one packet that comes through unescaped clears the mark. One packet in ``probe_every`` still
   goes by the minimal path, to find out that it works again.
5. *Metapath size and shares*. A metapath gets one path more where its latency (that of its paths in parallel, equation
   3.5) rises above threshold + tolerance, and one less where it falls below threshold - tolerance (algorithm 3.3); each
   packet draws its path with a probability proportional to 1 / latency (equations 3.6 to 3.8, algorithm 3.4).

This module is steps 3 to 5. It is driven from outside: ``choose`` and ``sent`` for each packet, ``on_report`` and
``on_port`` for what comes in, each with the caller's clock; ``events`` records what was learned and done.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from statistics import median

from testbed.metapath.labelled_paths import LabelledPaths
from testbed.metapath.options import MetapathOptions
from topologies import reverse_of

CALIBRATING = 50
"""Latencies of the minimal path whose median is the zero-load latency."""


@dataclass(frozen=True, kw_only=True)
class PacketAck:
    """One packet in a report: its number, how long it took, and the link (index) it escaped from last, if any."""

    number: int
    latency_s: float
    dead_link: int | None = None


@dataclass(frozen=True, kw_only=True)
class SourceEvent:
    """Something that the source has learned or done: "notified", "marked", "cleared", "configured", "grown", "shrunk".

    ``cause``: "controller", "header", "silence", "probe"; ``cable`` where it is about one; ``paths`` in use after it.
    """

    at_s: float
    kind: str
    cause: str = ""
    cable: int | None = None
    paths: tuple[int, ...] = ()


@dataclass
class _Cable:
    """An entry of the source's list: notifications in a row, when the last came, what marked it ("" while
    transient)."""

    notified: int = 0
    notified_s: float = float("-inf")
    marked_by: str = ""


@dataclass
class _PathState:
    """Packets under way (send time, number), how many in a row are missing since when, and the estimate of its latency.

    ``answered_s``: when the latest packet was sent that arrived at all, ``proved_s`` that arrived without an escape.
    """

    latency_s: float
    under_way: deque[tuple[float, int]] = field(default_factory=deque)
    missing: int = 0
    first_missing_s: float = 0.0
    answered_s: float = float("-inf")
    proved_s: float = float("-inf")


def metapath_bandwidth(latencies_s: Sequence[float]) -> tuple[float, ...]:
    """Each path's share of the traffic: 1 / latency over their sum (Zarza 2011, equations 3.6 to 3.8, read
    as probabilities).

    >>> metapath_bandwidth((1.0, 1.0, 2.0))
    (0.4, 0.4, 0.2)
    """
    total = sum(1 / latency for latency in latencies_s)
    return tuple(1 / latency / total for latency in latencies_s)


def metapath_step(latencies_s: Sequence[float], *, threshold_s: float, tolerance_s: float) -> int:
    """1: one path more (latency above Thl + Tol), -1: one less (below Thl - Tol), 0: as it is (Zarza 2011,
    algorithm 3.3).

    The metapath's latency is that of all its paths in parallel: 1 / sum of 1 / latency (Zarza 2011, equation 3.5).
    """
    together = 1 / sum(1 / latency for latency in latencies_s)
    return (together > threshold_s + tolerance_s) - (together < threshold_s - tolerance_s)


class MetapathSource:
    """One source's memory and decisions for one destination. Times are seconds on the caller's clock.

    ``draw`` gives numbers uniform in [0, 1). ``events`` grows as things happen.
    """

    def __init__(
        self, known: LabelledPaths, options: MetapathOptions, draw: Callable[[], float]
    ) -> None:
        self._known, self._options, self._draw = known, options, draw
        self._cables = {cable: _Cable() for path in known.cables for cable in path}
        self._paths = [_PathState(latency_s=float(len(path))) for path in known.inner]
        self._sent: dict[int, tuple[float, int]] = {}
        self._calibration: list[float] = []
        self._since_probe = 0
        self._newest_report_s = float("-inf")
        self.zero_load_s: float | None = None
        self.metapath: tuple[int, ...] = ()
        self.active = 0
        self.events: list[SourceEvent] = []
        self._configure(0.0, record=False)

    @property
    def weights(self) -> tuple[tuple[int, float], ...]:
        """(path, probability) of the paths in use."""
        used = self.metapath[: self.active]
        return tuple(
            zip(used, metapath_bandwidth([self._paths[k].latency_s for k in used]), strict=True)
        )

    @property
    def diverted(self) -> bool:
        """Whether the minimal path has a marked cable, so that packets keep off it."""
        return any(self._cables[cable].marked_by for cable in self._known.cables[0])

    def choose(self) -> tuple[int, ...]:
        """The path of the next packet; a second one where a copy of it is to probe the minimal path.

        A probe of a path whose cable a switch reported is the packet itself: the switch would let it escape. Where
        packets vanished silently, a copy goes.
        """
        if not self.diverted and not self._options.always:
            return (0,)
        if self.diverted:
            self._since_probe += 1
            if self._since_probe >= self._options.probe_every:
                self._since_probe = 0
                silent = any(self._cables[c].marked_by == "silence" for c in self._known.cables[0])
                return (self._drawn(), 0) if silent else (0,)
        return (self._drawn(),)

    def _drawn(self) -> int:
        left = self._draw()
        for path, share in self.weights:
            left -= share
            if left < 0:
                return path
        return self.weights[-1][0]

    def sent(self, number: int, path: int, now_s: float) -> None:
        """Packet ``number`` (a new one for each copy) has left by that path."""
        self._sent[number] = (now_s, path)
        self._paths[path].under_way.append((now_s, number))

    def on_report(self, made_s: float, acknowledged: Iterable[PacketAck], now_s: float) -> None:
        """A report made at ``made_s`` has come; one that is older than another, or a copy, teaches nothing new."""
        for one in acknowledged:
            if one.number in self._sent:
                self._on_acknowledgement(one, *self._sent.pop(one.number), now_s)
        self._newest_report_s = max(self._newest_report_s, made_s)
        for path in range(len(self._paths)):
            self._count_missing(path, now_s)
        if self.zero_load_s is not None and (self.diverted or self._options.always):
            self._size(now_s)

    def _on_acknowledgement(self, one: PacketAck, sent_s: float, path: int, now_s: float) -> None:
        state = self._paths[path]
        state.missing, state.answered_s = 0, max(state.answered_s, sent_s)
        if one.dead_link is not None:
            self._on_escape(one.dead_link, sent_s, now_s)
            return
        state.proved_s = max(state.proved_s, sent_s)
        for cable in self._known.cables[path]:
            entry = self._cables[cable]
            if entry.notified and sent_s > entry.notified_s:
                self._forget(cable, "probe", now_s)
        self._learn_latency(path, one.latency_s)

    def _on_escape(self, dead_link: int, sent_s: float, now_s: float) -> None:
        """The header flag of a packet that has escaped (Zarza 2011, section 3.6.1: destination-based notification)."""
        link = self._known.network.links[dead_link].id
        back = self._known.network.link_index.get(reverse_of(link), dead_link)
        cable = min(dead_link, back)
        if self._options.notify != "controller" and cable in self._cables:
            self._notify(cable, "header", sent_s, now_s)

    def on_port(self, cable: int, up: bool, now_s: float) -> None:
        """A switch notified the controller, and the controller this source, that a cable lost its carrier or got it
        back."""
        if cable not in self._cables:
            return
        if up:
            if self._options.link_up == "controller":
                self._forget(cable, "controller", now_s)
        elif self._options.notify != "header":
            self._notify(cable, "controller", now_s, now_s, count=self._options.notifications)

    def _count_missing(self, path: int, now_s: float) -> None:
        """Count what is missing on a path; enough in a row marks every cable that no other path has proved alive
        since."""
        state, until = self._paths[path], self._newest_report_s - self._options.silence_s
        while state.under_way and state.under_way[0][0] < until:
            sent_s, number = state.under_way.popleft()
            if self._sent.pop(number, None) is None or sent_s < state.answered_s:
                continue  # acknowledged, or lost before a later packet came through
            if not state.missing:
                state.first_missing_s = sent_s
            state.missing += 1
            if state.missing >= self._options.notifications:
                self._mark_failed(path, sent_s, now_s)

    def _mark_failed(self, path: int, sent_s: float, now_s: float) -> None:
        if any(self._cables[cable].marked_by for cable in self._known.cables[path]):
            return  # that explains it
        since = self._paths[path].first_missing_s
        proved = {
            c
            for k, p in enumerate(self._paths)
            if p.proved_s > since
            for c in self._known.cables[k]
        }
        for cable in sorted(self._known.cables[path] - proved):
            self._notify(cable, "silence", sent_s, now_s, count=self._options.notifications)

    def _notify(
        self, cable: int, cause: str, noticed_s: float, now_s: float, count: int = 1
    ) -> None:
        """``noticed_s``: only what is sent later than this can prove the cable alive."""
        entry = self._cables[cable]
        if not entry.notified:
            self.events.append(SourceEvent(at_s=now_s, kind="notified", cause=cause, cable=cable))
        entry.notified += count
        entry.notified_s = max(entry.notified_s, noticed_s)
        if entry.notified >= self._options.notifications and not entry.marked_by:
            entry.marked_by = cause
            self.events.append(SourceEvent(at_s=now_s, kind="marked", cause=cause, cable=cable))
            self._since_probe = 0
            self._configure(now_s)

    def _forget(self, cable: int, cause: str, now_s: float) -> None:
        entry = self._cables[cable]
        marked, self._cables[cable] = entry.marked_by, _Cable()
        if entry.notified:
            self.events.append(SourceEvent(at_s=now_s, kind="cleared", cause=cause, cable=cable))
        if marked:
            self._configure(now_s)

    def _configure(self, now_s: float, *, record: bool = True) -> None:
        """The shortest known paths over no listed cable; where there is none, over as few marked ones as can be."""
        listed = {cable for cable, entry in self._cables.items() if entry.notified}
        marked = {cable for cable in listed if self._cables[cable].marked_by}
        everything = range(len(self._paths))
        clean = [k for k in everything if not self._known.cables[k] & listed]
        if not clean:
            least = min(len(self._known.cables[k] & marked) for k in everything)
            clean = [k for k in everything if len(self._known.cables[k] & marked) == least]
        self.metapath = tuple(clean[: self._options.paths])
        self.active = min(self._options.first_paths, len(self.metapath))
        if record:
            self._record(now_s, "configured")

    def _learn_latency(self, path: int, latency_s: float) -> None:
        if path == 0 and self.zero_load_s is None:
            self._calibration.append(latency_s)
            if len(self._calibration) == CALIBRATING:
                self._calibrate(median(self._calibration))
            return
        if self.zero_load_s is None:
            return
        state = self._paths[path]
        state.latency_s += self._options.smoothing * (max(latency_s, 1e-6) - state.latency_s)

    def _calibrate(self, zero_load_s: float) -> None:
        """From now on latencies are seconds; a path that was never used is taken to be as slow as its length says."""
        self.zero_load_s = zero_load_s
        hop_s = zero_load_s / len(self._known.inner[0])
        for state, inner in zip(self._paths, self._known.inner, strict=True):
            state.latency_s = max(hop_s * len(inner), 1e-6)

    def _size(self, now_s: float) -> None:
        """One path more, the fastest of those that are closed, or one less, the slowest of those that are open."""
        assert self.zero_load_s is not None
        threshold_s = self._options.threshold * self.zero_load_s
        used = [self._paths[k].latency_s for k in self.metapath[: self.active]]
        step = metapath_step(
            used, threshold_s=threshold_s, tolerance_s=self._options.tolerance * threshold_s
        )
        required = min(max(self.active + step, 1), len(self.metapath))
        if required == self.active:
            return
        open_, closed = list(self.metapath[: self.active]), list(self.metapath[self.active :])
        if step > 0:
            open_.append(closed.pop(closed.index(min(closed, key=self._slowness))))
        else:
            closed.insert(0, open_.pop(open_.index(max(open_, key=self._slowness))))
        self.metapath, self.active = (*open_, *closed), required
        self._record(now_s, "grown" if step > 0 else "shrunk")

    def _slowness(self, path: int) -> tuple[float, int]:
        return self._paths[path].latency_s, path

    def _record(self, now_s: float, kind: str) -> None:
        self.events.append(SourceEvent(at_s=now_s, kind=kind, paths=self.metapath[: self.active]))
