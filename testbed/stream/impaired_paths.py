"""Ways over impaired links in virtual time: packets come to each link in the order of their times, whatever path they
take."""

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from testbed.faults.fault import Fault
from testbed.faults.impaired_link import ImpairedLink, queue_bytes
from testbed.stream.prediction.active_faults import faulty_links, impaired_spans
from topologies.network import Network

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

    def takes(self, at_s: float, chance: random.Random) -> bool:
        """A packet that comes to the link then."""
        return self.start_s <= at_s < self.stop_s and (self.loss == 1 or chance.random() < self.loss)


def breaks_by_faults(network: Network, faults: Sequence[Fault]) -> dict[int, list[Break]]:
    """Link index -> when faults are in force on it, but for those that impair it."""
    found: dict[int, list[Break]] = {}
    for fault in faults:
        loss = fault.loss_fraction if fault.kind == "loss" else 1.0
        for index in faulty_links(network, fault) if fault.kind != "impaired" else ():
            found.setdefault(index, []).append(Break(fault.start_s, fault.stop_s, loss))
    return found


class ImpairedPaths:
    """Paths over the links that the network, or its faults, impair; ``breaks`` of links (by index) take packets."""

    def __init__(
        self,
        network: Network,
        faults: Sequence[Fault],
        seed: int,
        breaks: Mapping[int, Sequence[Break]],
        chance: random.Random,
    ) -> None:
        self._delays = [link.delay_s for link in network.links]
        self._breaks, self._chance = breaks, chance
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
        if journey.arrived:
            yield at_s, journey
            return
        link = journey.links[journey.place]
        met = [one for one in self._met.get(link, ()) if one.start_s <= at_s < one.stop_s]
        if met and at_s > now:
            yield at_s, journey
            return
        if any(one.takes(at_s, self._chance) for one in self._breaks.get(link, ())):
            return
        further = journey._replace(place=journey.place + 1)
        for leaves in _through(met, at_s, journey.frame_bytes):
            yield from self.next_hop_times(further, leaves + self._delays[link], now)


def _through(met: Sequence[_InForce], at_s: float, frame_bytes: int) -> list[float]:
    times = [at_s]
    for one in met:
        times = [later for at in times for later in one.link.offer(at, frame_bytes)]
    return times
