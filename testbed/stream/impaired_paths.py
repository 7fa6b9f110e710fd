"""Ways over impaired links in virtual time: packets come to each link in the order of their times, whatever path they
take."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from testbed.faults.impaired_link import ImpairedLink, queue_bytes
from testbed.stream.plan import StreamPlan
from testbed.stream.prediction.impaired_links import impaired_spans

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


class ImpairedPaths:
    """The impaired links of a plan. ``lost(link, at_s)``: whether a fault takes a packet that comes to the link
    then."""

    def __init__(self, plan: StreamPlan, lost: Callable[[int, float], bool]) -> None:
        links = plan.network.links
        self._delays = [link.delay_s for link in links]
        self._lost = lost
        self._met: dict[int, list[_InForce]] = {}
        for number, span in enumerate(impaired_spans(plan)):
            link = links[span.link]
            chain = ImpairedLink(
                span.impairments, link.id, seed=plan.seed + number, queue_bytes=queue_bytes(link.capacity_bps)
            )
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
        if self._lost(link, at_s):
            return
        further = journey._replace(place=journey.place + 1)
        for leaves in _through(met, at_s, journey.frame_bytes):
            yield from self.next_hop_times(further, leaves + self._delays[link], now)


def _through(met: Sequence[_InForce], at_s: float, frame_bytes: int) -> list[float]:
    times = [at_s]
    for one in met:
        times = [later for at in times for later in one.link.offer(at, frame_bytes)]
    return times
