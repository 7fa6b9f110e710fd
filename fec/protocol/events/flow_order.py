"""Packets of many flows handed on in the order of each flow, held for a missing one at most so long."""

import heapq
import math
from typing import NamedTuple

from fec.protocol.events.event_sender import NUMBERS
from fec.protocol.framing import signed

_MOST_WAITING = 4096
"""Packets of one flow; more than a flow sends within any sensible time to hold them."""


class Delivered(NamedTuple):
    """A packet for the listener; ``number``: in its flow, counted on beyond 2^24; ``came_s``: when it was there,
    ``at_s``: when it was handed on; ``recovered``: by the code."""

    flow: int
    number: int
    payload: bytes
    came_s: float
    at_s: float
    recovered: bool


class _Flow:
    __slots__ = ("held", "next")

    def __init__(self) -> None:
        self.next = 0
        self.held: list[tuple[int, float, bytes, bool]] = []


class FlowOrder:
    """``order_s`` 0: packets are handed on as they come. A packet that comes after later ones of its flow went on
    follows at once: late is better than never.

    >>> order = FlowOrder(0.08)
    >>> [order.take(3, number, b"", 0.0, False) for number in (1,)], order.next_s()
    ([[]], 0.08)
    >>> [packet.number for packet in order.take(3, 0, b"", 0.01, True)]
    [0, 1]
    """

    def __init__(self, order_s: float) -> None:
        self._order_s = order_s
        self._flows: dict[int, _Flow] = {}
        self._until: list[tuple[float, int]] = []
        """(time, flow) of everything held, some of which may have gone on by then."""

    def take(self, flow: int, number: int, payload: bytes, now_s: float, recovered: bool) -> list[Delivered]:
        """A packet of the network; what may be handed on now."""
        own = self._flows.setdefault(flow, _Flow())
        number = own.next + signed(number - own.next, NUMBERS)
        if not self._order_s or number < own.next:
            own.next = max(own.next, number + 1)
            return [Delivered(flow, number, payload, now_s, now_s, recovered)]
        heapq.heappush(own.held, (number, now_s, payload, recovered))
        if number > own.next:
            heapq.heappush(self._until, (now_s + self._order_s, flow))
        out = self._consecutive(flow, own, now_s)
        return out if len(own.held) <= _MOST_WAITING else out + self._go_on(flow, own, now_s)

    def due(self, now_s: float) -> list[Delivered]:
        """What has been held long enough, and all before it."""
        out: list[Delivered] = []
        while self._until and self._until[0][0] <= now_s:
            _, flow = heapq.heappop(self._until)
            own = self._flows[flow]
            while any(came_s + self._order_s <= now_s for _, came_s, _, _ in own.held):
                out += self._go_on(flow, own, now_s)
        return out

    def next_s(self) -> float:
        """When ``due`` has something to give, at the earliest (inf: never)."""
        return self._until[0][0] if self._until else math.inf

    def restart(self, now_s: float) -> list[Delivered]:
        """The numbers of flows begin again; all that is held."""
        flows, self._flows, self._until = self._flows, {}, []
        return [
            Delivered(flow, number, payload, came_s, now_s, recovered)
            for flow, own in flows.items()
            for number, came_s, payload, recovered in sorted(own.held)
        ]

    def _go_on(self, flow: int, own: _Flow, now_s: float) -> list[Delivered]:
        own.next = own.held[0][0]
        return self._consecutive(flow, own, now_s)

    def _consecutive(self, flow: int, own: _Flow, now_s: float) -> list[Delivered]:
        out: list[Delivered] = []
        while own.held and own.held[0][0] <= own.next:
            number, came_s, payload, recovered = heapq.heappop(own.held)
            own.next = number + 1
            out.append(Delivered(flow, number, payload, came_s, now_s, recovered))
        return out
