"""What a source decides under FT-DRB in the reference engine (Zarza 2011, sections 3.3 and 3.4): objects, one a host.

Written apart from ``testbed/interconnect/ft_drb/source_steps.py``, from the same definition; the names are the
document's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate

from testbed.interconnect.engine_inputs import FtDrbSettings
from testbed.interconnect.static_paths import NONE
from tests.oracles.interconnect.ft_drb_paths import MINIMAL, MODULUS, Middles, RoutingMap, draw

COUNTED = (
    "notifications",
    "latencies",
    "marked_permanent",
    "cleared",
    "metapaths_configured",
    "metapaths_grown",
    "metapaths_shrunk",
    "probes",
    "sent_direct",
    "sent_alternative",
    "escapes",
    "escapes_without_way",
    "sent_balanced",
)
"""What all sources and routers count together, by its name in results."""


@dataclass(kw_only=True)
class Failure:
    """An entry of the link faults list: notifications in a row, the first at ``since``, and whether it counts as
    permanent."""

    since: int
    notifications: int = 0
    permanent: bool = False


@dataclass(kw_only=True)
class MultistepPath:
    """A path of a metapath and the mean of its latencies (ticks); its bandwidth is 1 / latency (Zarza 2011, eq. 3.6).

    ``told``: whether an ACK has told it, and not only the zero-load latency; ``told_anew``: since the metapath's size
    changed.
    """

    middles: Middles
    latency: int
    told: bool = False
    told_anew: bool = False

    def average(self, latency: int, parts: int) -> None:
        """One latency more: the first tells the mean, later ones move it by a part of the difference (rounded down)."""
        self.latency = max(
            self.latency + (latency - self.latency) // parts if self.told else latency, 1
        )
        self.told = self.told_anew = True


@dataclass(kw_only=True)
class Metapath:
    """A pair's alternative paths, the shortest first (Zarza 2011, eq. 3.4); the first ``size`` of them are in use."""

    version: int
    paths: list[MultistepPath]
    size: int

    def bandwidths(self) -> list[float]:
        """Sums of the bandwidths of the first path in use, the first two, ... The last is that of the metapath (eq.
        3.7)."""
        return list(accumulate(1.0 / path.latency for path in self.paths[: self.size]))

    def select(self, chance: float) -> Middles:
        """The path for a chance from 0 to below 1, drawn with probability bandwidth over sum of bandwidths (eq.
        3.8)."""
        sums = self.bandwidths()
        place = next(
            (k for k, known in enumerate(sums) if chance * sums[-1] < known), len(sums) - 1
        )
        return self.paths[place].middles

    def latency(self) -> float:
        """The latency of the whole metapath (eq. 3.5)."""
        return 1.0 / self.bandwidths()[-1]

    def resize(self, change: int) -> None:
        """One path more, or one less, is in use, and all have to tell their latencies anew."""
        self.size += change
        for path in self.paths:
            path.told_anew = False


@dataclass
class Source:
    """One host: the failures it knows by cable, its metapaths by destination, and when it last sent a probe.

    ``probe_due``: a synthetic probe is to follow the message whose path was chosen last.
    """

    host: int
    network: RoutingMap
    settings: FtDrbSettings
    counters: Counter[str]
    failures: dict[int, Failure] = field(default_factory=dict)
    metapaths: dict[int, Metapath] = field(default_factory=dict)
    minimal: dict[int, MultistepPath] = field(default_factory=dict)
    version: int = 0
    diverted: int = 0
    probed_at: int = 0
    probe_due: bool = False

    @property
    def router(self) -> int:
        """The router that the host hangs on."""
        return self.network.host_router[self.host]

    def minimal_path(self, destination: int) -> tuple[int, ...]:
        """Links of the pair's minimal static path."""
        return self.network.multistep(self.router, MINIMAL, self.network.target_of(destination))

    def select_path(self, destination: int, message: int, now: int) -> Middles:
        """The intermediates of the next message (Zarza 2011, Figure 3.11)."""
        cables = self.network.cables(self.minimal_path(destination))
        if self.settings.mark_by_clock:
            self._mark_old_failures(cables, now)
        diverted = any(
            cable in self.failures and self.failures[cable].permanent for cable in cables
        )
        if diverted and self._is_probe(now):
            self.counters["probes"] += 1
            if not self.settings.synthetic_probes:
                return MINIMAL
            self.probe_due = True
        opened = destination in self.metapaths or self.settings.first_paths > 1
        if diverted or (self.settings.always and opened):
            metapath = self._metapath(destination)
            if metapath.paths:
                middles = metapath.select(draw(self.settings.seed + message, self.host) / MODULUS)
                balanced = "sent_direct" if middles == MINIMAL else "sent_balanced"
                self.counters["sent_alternative" if diverted else balanced] += 1
                return middles
        self.counters["sent_direct"] += 1
        return MINIMAL

    def record_failure(self, cable: int, now: int) -> None:
        """A failure notification names the cable (Figure 3.10)."""
        self.counters["notifications"] += 1
        failure = self.failures.setdefault(cable, Failure(since=now))
        failure.notifications += 1
        if self.settings.mark_by_count and failure.notifications >= self.settings.notifications:
            self._mark_permanent(failure, now)

    def clear_failure(self, cable: int) -> None:
        """The cable works again: its entry leaves the list."""
        failure = self.failures.pop(cable, None)
        if failure is not None:
            self.counters["cleared"] += 1
            self.version += failure.permanent

    def record_latency(self, destination: int, middles: Middles, latency: int) -> None:
        """A latency ACK of the path: all its cables work, and the metapath may change its size (Algorithm 3.3).

        Of a synthetic probe (latency 0): they work.
        """
        self.counters["latencies"] += 1
        links = self.network.multistep(self.router, middles, self.network.target_of(destination))
        for cable in self.network.cables(links):
            self.clear_failure(cable)
        if latency == 0:
            return
        metapath = self.metapaths.get(destination)
        if metapath is None:
            if self.settings.always and middles == MINIMAL:
                alone = self.minimal.setdefault(
                    destination, MultistepPath(middles=MINIMAL, latency=0)
                )
                alone.average(latency, self.settings.averaging)
                self._open(alone, destination)
            return
        path = next((p for p in metapath.paths if p.middles == middles), None)
        if path is not None:
            path.average(latency, self.settings.averaging)
            self._resize(metapath, destination)

    def _mark_old_failures(self, cables: list[int], now: int) -> None:
        for failure in (self.failures[cable] for cable in cables if cable in self.failures):
            if now - failure.since >= self.settings.marking_ticks:
                self._mark_permanent(failure, now)

    def _mark_permanent(self, failure: Failure, now: int) -> None:
        if failure.permanent:
            return
        if not any(known.permanent for known in self.failures.values()):
            self.diverted, self.probed_at = 0, now
        failure.permanent = True
        self.version += 1
        self.counters["marked_permanent"] += 1

    def _is_probe(self, now: int) -> bool:
        """Whether a diverted message tries the minimal path all the same (Table 3.1)."""
        self.diverted += 1
        by_count = self.settings.probe_by_count and self.diverted >= self.settings.probe_every
        by_clock = (
            self.settings.probe_by_clock and now - self.probed_at >= self.settings.probe_ticks
        )
        if by_count or by_clock:
            self.diverted, self.probed_at = 0, now
        return by_count or by_clock

    def _interval(self, destination: int) -> tuple[float, float]:
        """Thl - Tol and Thl + Tol of the pair."""
        threshold = self.settings.threshold * self._zero_load(len(self.minimal_path(destination)))
        tolerance = self.settings.tolerance * threshold
        return threshold - tolerance, threshold + tolerance

    def _open(self, alone: MultistepPath, destination: int) -> None:
        """The minimal path alone, without failures: above Thl + Tol the pair gets a metapath that starts with it."""
        if alone.latency <= self._interval(destination)[1]:
            return
        metapath = self._metapath(destination)
        if metapath.paths and metapath.paths[0].middles == MINIMAL:
            metapath.paths[0].average(alone.latency, 1)
        if metapath.size < len(metapath.paths):
            metapath.resize(1)
            self.counters["metapaths_grown"] += 1

    def _resize(self, metapath: Metapath, destination: int) -> None:
        """Algorithm 3.3; with hysteresis a path less only where those left are below Thl - Tol, and all have told
        anew."""
        hysteresis, (low, high) = self.settings.hysteresis, self._interval(destination)
        if hysteresis and not all(path.told_anew for path in metapath.paths[: metapath.size]):
            return
        if metapath.latency() > high and metapath.size < len(metapath.paths):
            metapath.resize(1)
            self.counters["metapaths_grown"] += 1
        elif metapath.size > 1 and 1.0 / metapath.bandwidths()[-2 if hysteresis else -1] < low:
            metapath.resize(-1)
            self.counters["metapaths_shrunk"] += 1

    def _zero_load(self, links: int) -> int:
        return self.settings.base_ticks + self.settings.hop_ticks * links

    def _metapath(self, destination: int) -> Metapath:
        """The pair's metapath, configured anew where the permanent failures have changed since."""
        known = self.metapaths.get(destination)
        if known is not None and known.version == self.version:
            return known
        self.counters["metapaths_configured"] += 1
        found: dict[tuple[int, ...], Middles] = {}
        for tier in self._tiers(destination):
            for middles in tier:
                links = self.network.multistep(
                    self.router, middles, self.network.target_of(destination)
                )
                if self.network.is_usable(links, self.failures):
                    found.setdefault(links, middles)
            if len(found) >= self.settings.paths:
                break
        shortest = sorted(found.items(), key=lambda item: len(item[0]))[: self.settings.paths]
        paths = [
            MultistepPath(middles=middles, latency=self._zero_load(len(links)))
            for links, middles in shortest
        ]
        metapath = Metapath(
            version=self.version, paths=paths, size=min(self.settings.first_paths, len(paths))
        )
        self.metapaths[destination] = metapath
        return metapath

    def _tiers(self, destination: int) -> Iterator[list[Middles]]:
        """Candidates by preference: over nearest common ancestors, or over intermediates of one hop, then of up to
        two."""
        start, end = self.router, self.network.host_router[destination]
        if self.network.radix:
            yield [
                MINIMAL,
                *((ancestor, NONE) for ancestor in self._ancestors(start, end, destination)),
            ]
            return
        for nodes in (self.network.neighbours, self.network.supernode):
            yield [
                (first, second) for first in (NONE, *nodes[start]) for second in (NONE, *nodes[end])
            ]

    def _ancestors(self, start: int, end: int, destination: int) -> list[int]:
        """The nearest common ancestors of two leaves of a k-ary n-tree, from one on that depends on the pair."""
        level = 0
        while start // self.network.radix**level != end // self.network.radix**level:
            level += 1
        if level == 0:
            return []
        many = self.network.radix**level
        first = level * self.network.width + start // many * many
        turn = draw(self.host, destination) % many
        return [first + (turn + k) % many for k in range(many)]
