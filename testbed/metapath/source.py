"""The source of FT-DRB on switches: chooses the path of each packet, and learns from reports.

This module opens no sockets and reads no clocks.

FT-DRB (Fault-Tolerant Distributed Routing Balancing; Zarza 2011, chapter 3) sends the packets of a
pair over one minimal path while nothing fails, and over several paths, a *metapath*, during
failures. Here switches forward packets and hosts make the decisions. There are five parts:

1. *Known paths* (``labelled_paths``). A multistep path goes through one or two intermediate
routers.
   Each of its segments follows the network's static routing (Zarza 2011, equations 3.1 and 3.2).
   Every path has its own interval of labels (UDP source ports): the source chooses a path by a
   label.
2. *Escapes* (``escape_rules``). If a packet meets a dead link, its switch immediately sends it over
a
   path that was installed in advance as a fast-failover group (Zarza 2011, section 3.2). An escaped
   packet carries the number of the dead link in its label, and its next router in its DSCP bits.
   ``escape_check`` checks in advance that escapes lead around several dead links at once.
3. *Notification*. A source learns of a dead link in three ways: the sink reports that a packet
escaped
   from it (the header's flag), the controller forwards a switch's port status (``on_port``), or
   packets stay unacknowledged although later reports arrived (silence: a fault that no switch
   detects). ``wire`` encodes packets and reports.
4. *Permanent or transient* (Zarza 2011, section 3.4). Several notifications in a row mark the cable
as
   permanently failed, and the source avoids it. One packet that arrives without an escape clears
   the mark. One packet in ``probe_every`` still takes the minimal path to test it.
5. *Metapath size and shares*. A metapath gets one more path if its latency (of all paths in
parallel,
   equation 3.5) rises above threshold + tolerance, and one less if it falls below threshold -
   tolerance (algorithm 3.3). Each packet draws its path with a probability proportional to 1 /
   latency (equations 3.6 to 3.8, algorithm 3.4).

This module implements parts 3 to 5. The caller calls ``choose`` and ``sent`` for each packet, and
``on_report`` and ``on_port`` for each report and port status, with the time of its clock.
``events`` records what the source learned and did.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from statistics import median

from testbed.metapath.labelled_paths import LabelledPaths
from testbed.metapath.options import MetapathOptions
from topologies import reverse_of

# Number of packets on the minimal path whose median latency is the zero-load latency.
CALIBRATING = 50
# Lower limit of latencies, because paths are weighted by 1 / latency.
_MIN_LATENCY_S = 1e-6


@dataclass(frozen=True, kw_only=True)
class PacketAck:
    """The acknowledgement of one packet in a report.

    Attributes:
        number: The number of the packet.
        latency_s: The time from sending to arrival.
        dead_link: The link (index) that the packet escaped from last; None if it did not escape.
    """

    number: int
    latency_s: float
    dead_link: int | None = None


@dataclass(frozen=True, kw_only=True)
class SourceEvent:
    """An event at the source.

    Attributes:
        at_s: When it happened.
        kind: "notified", "marked" or "cleared" (of a cable); "configured", "grown" or "shrunk" (of
            the metapath).
        cause: "controller", "header", "silence" or "probe"; empty for events of the metapath.
        cable: The number of the cable; None for events of the metapath.
        paths: The paths in use after an event of the metapath.
    """

    at_s: float
    kind: str
    cause: str = ""
    cable: int | None = None
    paths: tuple[int, ...] = ()


@dataclass
class _Cable:
    """The state of a cable as the source knows it.

    Attributes:
        notified: Number of notifications in a row.
        notified_s: Only packets sent after this time can prove that the cable works.
        marked_by: The cause that marked the cable as permanently failed; empty if it is not marked.
    """

    notified: int = 0
    notified_s: float = float("-inf")
    marked_by: str = ""


@dataclass
class _PathState:
    """The state of a path.

    Attributes:
        latency_s: The estimate of its latency; before the calibration its number of links.
        in_transit: The time of sending and the number of each packet in transit.
        missing: Number of packets that are missing in a row.
        first_missing_s: When the first of these was sent.
        answered_s: When the latest packet that arrived was sent.
        proved_s: When the latest packet that arrived without an escape was sent.
    """

    latency_s: float
    in_transit: deque[tuple[float, int]] = field(default_factory=deque)
    missing: int = 0
    first_missing_s: float = 0.0
    answered_s: float = float("-inf")
    proved_s: float = float("-inf")


def metapath_bandwidth(latencies_s: Sequence[float]) -> tuple[float, ...]:
    """Return the share of the traffic of each path, which is proportional to 1 / latency.

    These are equations 3.6 to 3.8 of Zarza 2011, read as probabilities.

    >>> metapath_bandwidth((1.0, 1.0, 2.0))
    (0.4, 0.4, 0.2)
    """
    total = sum(1 / latency for latency in latencies_s)
    return tuple(1 / latency / total for latency in latencies_s)


def metapath_step(latencies_s: Sequence[float], *, threshold_s: float, tolerance_s: float) -> int:
    """Return the change of the number of paths (Zarza 2011, algorithm 3.3).

    The latency of a metapath is that of its paths in parallel: 1 / sum of 1 / latency (Zarza 2011,
    equation 3.5).

    Args:
        latencies_s: The latency of each path.
        threshold_s: The target latency Thl.
        tolerance_s: The tolerance Tol.

    Returns:
        1 for one more path (latency above Thl + Tol), -1 for one less (below Thl - Tol), else 0.
    """
    metapath_latency_s = 1 / sum(1 / latency for latency in latencies_s)
    if metapath_latency_s > threshold_s + tolerance_s:
        return 1
    if metapath_latency_s < threshold_s - tolerance_s:
        return -1
    return 0


class MetapathSource:
    """The state and the decisions of a source for one destination.

    Times are in seconds on the caller's clock.

    Attributes:
        zero_load_s: The latency of the minimal path without load; None before it was measured.
        metapath: The paths that may be used, the active ones first.
        active: Number of paths in use.
        events: The events so far.
    """

    def __init__(
        self,
        known_paths: LabelledPaths,
        options: MetapathOptions,
        draw: Callable[[], float],
    ) -> None:
        """Begin with the minimal path.

        Args:
            known_paths: The known paths.
            options: The options.
            draw: Returns a random number, uniform in [0, 1).
        """
        self._known = known_paths
        self._options = options
        self._draw = draw
        self._cables: dict[int, _Cable] = {}
        for cables in known_paths.cables:
            for cable in cables:
                self._cables[cable] = _Cable()
        self._paths = [_PathState(latency_s=float(len(path))) for path in known_paths.inner]
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
        """The number and the probability of each path in use."""
        used = self.metapath[: self.active]
        shares = metapath_bandwidth([self._paths[path].latency_s for path in used])
        return tuple(zip(used, shares, strict=True))

    @property
    def diverted(self) -> bool:
        """The minimal path has a marked cable, so that packets avoid it."""
        return any(self._cables[cable].marked_by for cable in self._known.cables[0])

    def choose(self) -> tuple[int, ...]:
        """Return the paths of the next packet and of its copies.

        If a switch reported a cable of the minimal path, the packet itself tests this path, because
        the switch would let it escape. If packets vanished silently, a copy tests it.
        """
        if not self.diverted and not self._options.always:
            return (0,)
        if self.diverted:
            self._since_probe += 1
            if self._since_probe >= self._options.probe_every:
                self._since_probe = 0
                minimal_cables = self._known.cables[0]
                if any(self._cables[cable].marked_by == "silence" for cable in minimal_cables):
                    return self._draw_path(), 0
                return (0,)
        return (self._draw_path(),)

    def _draw_path(self) -> int:
        """Draw a path by the shares of the paths in use."""
        remaining = self._draw()
        for path, share in self.weights:
            remaining -= share
            if remaining < 0:
                return path
        # Rounding: the shares add up to slightly less than 1.
        return self.weights[-1][0]

    def sent(self, number: int, path: int, now_s: float) -> None:
        """Record that a packet was sent; each copy has its own number."""
        self._sent[number] = (now_s, path)
        self._paths[path].in_transit.append((now_s, number))

    def on_report(self, made_s: float, acknowledged: Iterable[PacketAck], now_s: float) -> None:
        """Process a report. Copies, and reports that arrive out of order, do no harm.

        Args:
            made_s: When the report was made.
            acknowledged: The packets that it lists.
            now_s: The current time.
        """
        for ack in acknowledged:
            if ack.number in self._sent:
                sent_s, path = self._sent.pop(ack.number)
                self._on_acknowledgement(ack, sent_s, path, now_s)
        self._newest_report_s = max(self._newest_report_s, made_s)
        for path in range(len(self._paths)):
            self._count_missing(path, now_s)
        if self.zero_load_s is not None and (self.diverted or self._options.always):
            self._resize(now_s)

    def _on_acknowledgement(self, ack: PacketAck, sent_s: float, path: int, now_s: float) -> None:
        state = self._paths[path]
        state.missing = 0
        state.answered_s = max(state.answered_s, sent_s)
        if ack.dead_link is not None:
            self._on_escape(ack.dead_link, sent_s, now_s)
            return
        state.proved_s = max(state.proved_s, sent_s)
        for cable in self._known.cables[path]:
            entry = self._cables[cable]
            if entry.notified and sent_s > entry.notified_s:
                self._forget(cable, "probe", now_s)
        self._learn_latency(path, ack.latency_s)

    def _on_escape(self, dead_link: int, sent_s: float, now_s: float) -> None:
        """Process an escape (Zarza 2011, section 3.6.1: destination-based notification)."""
        link = self._known.network.links[dead_link].id
        back = self._known.network.link_index.get(reverse_of(link), dead_link)
        cable = min(dead_link, back)
        if self._options.notify != "controller" and cable in self._cables:
            self._notify(cable, "header", sent_s, now_s)

    def on_port(self, cable: int, up: bool, now_s: float) -> None:
        """Process the port status of a cable, which the controller forwards.

        Args:
            cable: The number of the cable.
            up: The cable has a carrier.
            now_s: The current time.
        """
        if cable not in self._cables:
            return
        if up:
            if self._options.link_up == "controller":
                self._forget(cable, "controller", now_s)
        elif self._options.notify != "header":
            self._notify(cable, "controller", now_s, now_s, count=self._options.notifications)

    def _count_missing(self, path: int, now_s: float) -> None:
        """Count the missing packets of a path, and mark its cables if there are too many."""
        state = self._paths[path]
        until_s = self._newest_report_s - self._options.silence_s
        while state.in_transit and state.in_transit[0][0] < until_s:
            sent_s, number = state.in_transit.popleft()
            acknowledged = self._sent.pop(number, None) is None
            # A later packet arrived, so the path works.
            lost_before = sent_s < state.answered_s
            if acknowledged or lost_before:
                continue
            if not state.missing:
                state.first_missing_s = sent_s
            state.missing += 1
            if state.missing >= self._options.notifications:
                self._mark_failed(path, sent_s, now_s)

    def _mark_failed(self, path: int, sent_s: float, now_s: float) -> None:
        """Mark the cables of a silent path that no other path has proved to work since."""
        if any(self._cables[cable].marked_by for cable in self._known.cables[path]):
            # The marked cable explains the missing packets.
            return
        since_s = self._paths[path].first_missing_s
        working: set[int] = set()
        for other, state in enumerate(self._paths):
            if state.proved_s > since_s:
                working |= self._known.cables[other]
        for cable in sorted(self._known.cables[path] - working):
            self._notify(cable, "silence", sent_s, now_s, count=self._options.notifications)

    def _notify(
        self,
        cable: int,
        cause: str,
        noticed_s: float,
        now_s: float,
        count: int = 1,
    ) -> None:
        """Count notifications of a cable, and mark it if there are enough in a row.

        Args:
            cable: The number of the cable.
            cause: The cause of the notification.
            noticed_s: Only packets sent after this time can prove that the cable works.
            now_s: The current time.
            count: Number of notifications.
        """
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
        """Clear the notifications and the mark of a cable."""
        entry = self._cables[cable]
        self._cables[cable] = _Cable()
        if entry.notified:
            self.events.append(SourceEvent(at_s=now_s, kind="cleared", cause=cause, cable=cable))
        if entry.marked_by:
            self._configure(now_s)

    def _configure(self, now_s: float, *, record: bool = True) -> None:
        """Choose the shortest known paths without a notified cable as the metapath.

        If there is none, choose those with the fewest marked cables.
        """
        notified = {cable for cable, entry in self._cables.items() if entry.notified}
        marked = {cable for cable in notified if self._cables[cable].marked_by}
        chosen = []
        for path, cables in enumerate(self._known.cables):
            if not cables & notified:
                chosen.append(path)
        if not chosen:
            marked_counts = [len(cables & marked) for cables in self._known.cables]
            fewest = min(marked_counts)
            chosen = [path for path, count in enumerate(marked_counts) if count == fewest]
        self.metapath = tuple(chosen[: self._options.paths])
        self.active = min(self._options.first_paths, len(self.metapath))
        if record:
            self._record(now_s, "configured")

    def _learn_latency(self, path: int, latency_s: float) -> None:
        """Update the estimate of a path's latency; before the calibration, only collect samples."""
        if path == 0 and self.zero_load_s is None:
            self._calibration.append(latency_s)
            if len(self._calibration) == CALIBRATING:
                self._calibrate(median(self._calibration))
            return
        if self.zero_load_s is None:
            return
        state = self._paths[path]
        change_s = max(latency_s, _MIN_LATENCY_S) - state.latency_s
        state.latency_s += self._options.smoothing * change_s

    def _calibrate(self, zero_load_s: float) -> None:
        """Estimate the latency of every path in seconds, in proportion to its number of links."""
        self.zero_load_s = zero_load_s
        hop_s = zero_load_s / len(self._known.inner[0])
        for state, inner in zip(self._paths, self._known.inner, strict=True):
            state.latency_s = max(hop_s * len(inner), _MIN_LATENCY_S)

    def _resize(self, now_s: float) -> None:
        """Add the fastest of the other paths, or remove the slowest path in use, if necessary."""
        assert self.zero_load_s is not None
        threshold_s = self._options.threshold * self.zero_load_s
        tolerance_s = self._options.tolerance * threshold_s
        used = list(self.metapath[: self.active])
        unused = list(self.metapath[self.active :])
        latencies_s = [self._paths[path].latency_s for path in used]
        step = metapath_step(latencies_s, threshold_s=threshold_s, tolerance_s=tolerance_s)
        if step > 0 and unused:
            fastest = min(unused, key=self._latency_and_number)
            unused.remove(fastest)
            used.append(fastest)
            kind = "grown"
        elif step < 0 and len(used) > 1:
            slowest = max(used, key=self._latency_and_number)
            used.remove(slowest)
            unused.insert(0, slowest)
            kind = "shrunk"
        else:
            return
        self.metapath = (*used, *unused)
        self.active = len(used)
        self._record(now_s, kind)

    def _latency_and_number(self, path: int) -> tuple[float, int]:
        """Return the key that orders paths by latency, and equally fast ones by number."""
        return self._paths[path].latency_s, path

    def _record(self, now_s: float, kind: str) -> None:
        self.events.append(SourceEvent(at_s=now_s, kind=kind, paths=self.metapath[: self.active]))
