"""Ways over links in virtual time, with their delays, impairments and breaks: packets come to each impaired link in the
order of their times, whatever path they take."""

import bisect
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from testbed.faults.fault import Fault
from testbed.faults.impaired_link import ImpairedLink, queue_bytes
from testbed.stream.prediction.active_faults import faulty_links, impaired_spans
from topologies import Network

FRAME_HEADERS_BYTES = 14 + 20 + 8
"""Ethernet, IPv4 and UDP around a datagram."""


class PacketInTransit(NamedTuple):
    """A packet of so many bytes that has come to the link at ``place`` of its path; after the last one it has
    arrived."""

    links: tuple[int, ...]
    place: int
    frame_bytes: int

    @property
    def arrived(self) -> bool:
        return self.place == len(self.links)


class _InForce(NamedTuple):
    start_s: float
    stop_s: float
    link: ImpairedLink


class Break(NamedTuple):
    """A link loses packets with probability ``loss`` from ``start_s`` to ``stop_s``."""

    start_s: float
    stop_s: float
    loss: float


class _BreaksInTime:
    """Of one link, by the times between which none begins or ends."""

    def __init__(self, breaks: Sequence[Break]) -> None:
        self._edges = sorted({at_s for one in breaks for at_s in (one.start_s, one.stop_s)})
        self._losses: list[list[float]] = [[] for _ in range(len(self._edges) + 1)]
        for one in breaks:
            for place in range(
                *(bisect.bisect_right(self._edges, at_s) for at_s in (one.start_s, one.stop_s))
            ):
                self._losses[place].append(one.loss)

    def take(self, at_s: float, chance: random.Random) -> bool:
        """Whether a packet that comes to the link then is lost."""
        losses = self._losses[bisect.bisect_right(self._edges, at_s)]
        return any(loss == 1 or chance.random() < loss for loss in losses)


def breaks_by_faults(network: Network, faults: Sequence[Fault]) -> dict[int, list[Break]]:
    """Link index -> when faults are in force on it, but for those that impair it."""
    found: dict[int, list[Break]] = {}
    for fault in faults:
        loss = fault.loss_fraction if fault.kind == "loss" else 1.0
        for index in faulty_links(network, fault) if fault.kind != "impaired" else ():
            found.setdefault(index, []).append(Break(fault.start_s, fault.stop_s, loss))
    return found


class ImpairedPaths:
    """Paths over the network's links, what the network and its faults impair, and ``breaks`` of links (by index)."""

    def __init__(
        self,
        network: Network,
        faults: Sequence[Fault],
        seed: int,
        breaks: Mapping[int, Sequence[Break]],
        chance: random.Random,
    ) -> None:
        self._delays = [link.delay_s for link in network.links]
        self._breaks, self._chance = (
            {link: _BreaksInTime(ones) for link, ones in breaks.items()},
            chance,
        )
        self._met: dict[int, list[_InForce]] = {}
        for number, span in enumerate(impaired_spans(network, faults)):
            link = network.links[span.link]
            room = queue_bytes(link.capacity_bps, packets=link.queue_packets)
            chain = ImpairedLink(span.impairments, link.id, seed=seed + number, queue_bytes=room)
            self._met.setdefault(span.link, []).append(_InForce(span.start_s, span.stop_s, chain))

    def next_hop_times(
        self, journey: PacketInTransit, at_s: float, now: float
    ) -> Iterator[tuple[float, PacketInTransit]]:
        """Where the packet is next, and when: at the first impaired link that it comes to later than now, or at its
        end; nowhere where it is lost, several times where it is duplicated."""
        links, first, frame_bytes = journey
        for place in range(first, len(links)):
            link = links[place]
            met = (
                [one for one in self._met[link] if one.start_s <= at_s < one.stop_s]
                if link in self._met
                else []
            )
            if met and at_s > now:
                yield at_s, PacketInTransit(links, place, frame_bytes)
                return
            if link in self._breaks and self._breaks[link].take(at_s, self._chance):
                return
            if met:
                further = PacketInTransit(links, place + 1, frame_bytes)
                for leaves in _through(met, at_s, frame_bytes):
                    yield from self.next_hop_times(further, leaves + self._delays[link], now)
                return
            at_s += self._delays[link]
        yield at_s, PacketInTransit(links, len(links), frame_bytes)


def _through(met: Sequence[_InForce], at_s: float, frame_bytes: int) -> list[float]:
    times = [at_s]
    for one in met:
        times = [later for at in times for later in one.link.offer(at, frame_bytes)]
    return times
