"""Paths over links in virtual time, with the delays, impairments and failures of the links.

Packets reach each impaired link in the order of their times, whatever path they take.
"""

import bisect
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from testbed.faults.fault import Fault
from testbed.faults.impaired_link import ImpairedLink, queue_bytes
from testbed.stream.prediction.active_faults import (
    faulty_links,
    impaired_spans,
)
from topologies import Network

# Ethernet, IPv4 and UDP around a datagram.
FRAME_HEADERS_BYTES = 14 + 20 + 8


class PacketInTransit(NamedTuple):
    """A packet that has reached a link of its path, or the end of it.

    Attributes:
        links: The links of its path, by index.
        place: The position in ``links`` of the link that it has reached; the number of links at the
            end of the path.
        frame_bytes: The size of its Ethernet frame.
    """

    links: tuple[int, ...]
    place: int
    frame_bytes: int

    @property
    def arrived(self) -> bool:
        """True if the packet has crossed all links."""
        return self.place == len(self.links)


class _ActiveImpairment(NamedTuple):
    """The impairments of a link, and the time interval in which they are active."""

    start_s: float
    stop_s: float
    link: ImpairedLink


class Break(NamedTuple):
    """A time interval in which a link loses packets with the probability ``loss``."""

    start_s: float
    stop_s: float
    loss: float


class _BreaksInTime:
    """The breaks of one link, grouped by time intervals in which no break begins or ends."""

    def __init__(self, breaks: Sequence[Break]) -> None:
        edges_s = set()
        for each in breaks:
            edges_s |= {each.start_s, each.stop_s}
        self._edges_s = sorted(edges_s)
        self._losses: list[list[float]] = [[] for _ in range(len(self._edges_s) + 1)]
        for each in breaks:
            first = bisect.bisect_right(self._edges_s, each.start_s)
            end = bisect.bisect_right(self._edges_s, each.stop_s)
            for position in range(first, end):
                self._losses[position].append(each.loss)

    def take(self, at_s: float, rng: random.Random) -> bool:
        """Return whether a packet that reaches the link at this time is lost."""
        losses = self._losses[bisect.bisect_right(self._edges_s, at_s)]
        return any(loss == 1 or rng.random() < loss for loss in losses)


def breaks_by_faults(network: Network, faults: Sequence[Fault]) -> dict[int, list[Break]]:
    """Return the breaks of each link by its index; faults that impair a link are left out."""
    breaks: dict[int, list[Break]] = {}
    for fault in faults:
        if fault.kind == "impaired":
            continue
        loss = fault.loss_fraction if fault.kind == "loss" else 1.0
        for index in faulty_links(network, fault):
            breaks.setdefault(index, []).append(Break(fault.start_s, fault.stop_s, loss))
    return breaks


class ImpairedPaths:
    """Paths over the links of a network with their delays, breaks and impairments."""

    def __init__(
        self,
        network: Network,
        faults: Sequence[Fault],
        seed: int,
        breaks: Mapping[int, Sequence[Break]],
        rng: random.Random,
    ) -> None:
        """Create the paths.

        Args:
            network: The network, which may impair links itself.
            faults: The faults, of which some may impair links.
            seed: The seed of the first impairment; the others have the numbers after it.
            breaks: The breaks of links, by index.
            rng: The random generator of breaks that lose a share of the packets.
        """
        self._delays = [link.delay_s for link in network.links]
        self._breaks = {link: _BreaksInTime(of_link) for link, of_link in breaks.items()}
        self._rng = rng
        self._impairments: dict[int, list[_ActiveImpairment]] = {}
        for number, span in enumerate(impaired_spans(network, faults)):
            link = network.links[span.link]
            room = queue_bytes(link.capacity_bps, packets=link.queue_packets)
            chain = ImpairedLink(
                span.impairments,
                link.id,
                seed=seed + number,
                queue_bytes=room,
            )
            active = _ActiveImpairment(span.start_s, span.stop_s, chain)
            self._impairments.setdefault(span.link, []).append(active)

    def next_hop_times(
        self, journey: PacketInTransit, at_s: float, now: float
    ) -> Iterator[tuple[float, PacketInTransit]]:
        """Yield the time at which the packet reaches its next stop, and the packet there.

        The next stop is the first impaired link that it reaches later than now, or the end of its
        path. A packet that is lost has none, and a packet that is duplicated has several.

        Args:
            journey: The packet and its position.
            at_s: When it reaches that position.
            now: The present time.
        """
        links, first, frame_bytes = journey
        for position in range(first, len(links)):
            link = links[position]
            met = []
            if link in self._impairments:
                active = self._impairments[link]
                met = [each for each in active if each.start_s <= at_s < each.stop_s]
            if met and at_s > now:
                yield at_s, PacketInTransit(links, position, frame_bytes)
                return
            if link in self._breaks and self._breaks[link].take(at_s, self._rng):
                return
            if met:
                further = PacketInTransit(links, position + 1, frame_bytes)
                for leaves_s in _through(met, at_s, frame_bytes):
                    yield from self.next_hop_times(further, leaves_s + self._delays[link], now)
                return
            at_s += self._delays[link]
        yield at_s, PacketInTransit(links, len(links), frame_bytes)


def _through(met: Sequence[_ActiveImpairment], at_s: float, frame_bytes: int) -> list[float]:
    """Return when each copy of a packet leaves the impairments of a link; empty if it is lost."""
    times_s = [at_s]
    for impairment in met:
        leaving_s = []
        for reached_s in times_s:
            leaving_s += impairment.link.offer(reached_s, frame_bytes)
        times_s = leaving_s
    return times_s
