"""What an interconnect simulation is run with: a model of a hop, sizes of buffers, arbitration, routing, deadlock
avoidance.

``SimulationParameters`` holds all of it but the network, the messages (``injection.py``) and the faults; its options
are declared in ``options.py``. Everything is in bytes, bits a second and seconds, checked where it is built;
``engine_inputs.py`` turns it into the whole ticks that the engines count in.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from testbed.errors import InputError
from testbed.interconnect.options import RouterOptions
from testbed.model.options.option import option, options

TICKS_PER_S = 10**11
"""A tick is 10 ps. Times are whole ticks, so both engines order events alike."""
PS_PER_TICK = 10

FLIT_BYTES = 64
"""Packets are serialized in whole flits of so many bytes."""

ROUTINGS = ("dor", "d-mod-k", "nca", "table", "shortest-path", "ft-drb")


@dataclass(frozen=True, kw_only=True)
class HopModel:
    """Delays of a hop. Zero-load latency of a packet over H routers: injection + H (router + link) + serialization.

    ``output_buffers``: routers have buffers at their outputs too, as large as those at their inputs. ``release``: a
    slot is free again when the "tail" of its packet has left it, or already when the "head" has (credits of flits);
    its credit then takes ``credit_delay_s``. ``to_itself``: nodes may send to themselves. ``ties``: which way
    dimension order takes where both ways round a ring are as long: "plus", or either by chance ("random"), drawn for
    each dimension. ``turnaround_s``: from the tail of a packet to the next head out of the same queue of a router, or
    into the same lane behind one (a virtual channel is given again only when the tail has left). ``lanes``: of several
    with room a packet takes the "first", or the one after that which the last out of its queue took ("in-turn").
    ``dateline``: a packet that has to cross that of its ring keeps to the upper half of the lanes until "crossing"
    it, or while it is in the "ring" (FT-DRB, which may go round by other rings: until crossing it).
    """

    injection_delay_s: float
    router_delay_s: float
    link_delay_s: float
    credit_delay_s: float
    output_buffers: bool
    release: str
    to_itself: bool
    ties: str
    turnaround_s: float
    lanes: str
    dateline: str


FLIT_CYCLE_S = 256e-9
"""One cycle of BookSim2 in the reference's setting: 64 B at 2 Gbps."""

HOP_MODELS = {
    "booksim": HopModel(
        injection_delay_s=FLIT_CYCLE_S,
        router_delay_s=3 * FLIT_CYCLE_S,
        link_delay_s=FLIT_CYCLE_S,
        credit_delay_s=2 * FLIT_CYCLE_S,
        output_buffers=False,
        release="head",
        to_itself=True,
        ties="random",
        turnaround_s=FLIT_CYCLE_S,
        lanes="in-turn",
        dateline="ring",
    ),
    "thesis": HopModel(
        injection_delay_s=0.0,
        router_delay_s=127e-9,
        link_delay_s=0.0,
        credit_delay_s=0.0,
        output_buffers=True,
        release="tail",
        to_itself=False,
        ties="plus",
        turnaround_s=0.0,
        lanes="first",
        dateline="crossing",
    ),
}


MAX_CYCLE = 513
"""Inputs that one of NAC's identification packets may have been at; one that has been at so many counts as in a
loop."""


@options
class SimulationParameters(RouterOptions):
    """How routers are made and what they do: their ``routing``, and the ``seed`` of all that is drawn. Raises
    InputError for values that make no simulation."""

    routing: str = option(default="dor")
    seed: int = option(default=1)
    capacities: bool = option(default=False)
    """Whether each link transmits at its capacity. Then ``link_bps`` is only the rate that loads are shares of."""

    def __post_init__(self) -> None:
        from topologies.routing_tables import (
            STATIC_ROUTINGS,
        )  # not for the help page, which has these options too

        if self.routing not in ROUTINGS and STATIC_ROUTINGS.find(self.routing) is None:
            known = dict.fromkeys((*ROUTINGS, *STATIC_ROUTINGS.names()))
            raise InputError(
                f"simulation: routing {self.routing!r}; give one of {', '.join(known)}"
            )
        self._check_sizes()
        self._check_channels()

    def _check_sizes(self) -> None:
        if self.packet_bytes > self.buffer_bytes:
            raise InputError(
                f"simulation: a packet of {self.packet_bytes} B is larger than a buffer of {self.buffer_bytes} B; "
                "virtual cut-through holds whole packets: give smaller packets or larger buffers"
            )
        if self.slots > 64:
            raise InputError(
                f"simulation: buffers of {self.slots} packets; give at most 64 packets a buffer"
            )
        if self.routing == "ft-drb" and self.ft_drb.ack_bytes > self.buffer_bytes:
            raise InputError(
                f"simulation: an ACK of {self.ft_drb.ack_bytes} B is larger than its buffer"
            )
        if self.shares_ack_buffers and self.ft_drb.ack_bytes > self.packet_bytes:
            raise InputError(
                f"simulation: an ACK of {self.ft_drb.ack_bytes} B is larger than the slot that it shares"
            )

    def _check_channels(self) -> None:
        channels = self.virtual_channels
        if self.deadlock == "virtual-channels" and channels is not None and channels < 2:
            raise InputError(
                f"simulation: {channels} virtual channels with a dateline; it needs 2 or more"
            )
        if self.deadlock == "nac" and channels is not None and channels > 1:
            raise InputError(
                f"simulation: nac with {channels} virtual channels; it needs none: leave them out"
            )

    @property
    def hop(self) -> HopModel:
        """The delays and buffers of the model, its routers' delay as given."""
        own = HOP_MODELS[self.model]
        return (
            own if self.router_delay_s is None else replace(own, router_delay_s=self.router_delay_s)
        )

    @property
    def stores(self) -> bool:
        """Whether a packet leaves a router only when all of it is there."""
        return self.switching == "store-and-forward"

    @property
    def header_bytes(self) -> int:
        """What the routing adds to every message."""
        return self.ft_drb.header_bytes if self.routing == "ft-drb" else 0

    @property
    def shares_ack_buffers(self) -> bool:
        """Whether FT-DRB's ACKs wait in the buffers of messages."""
        return self.routing == "ft-drb" and self.ft_drb.ack_buffers == "shared"

    @property
    def channels(self) -> int:
        """Virtual channels for data."""
        return self.virtual_channels or (2 if self.deadlock == "virtual-channels" else 1)

    @property
    def slots(self) -> int:
        """Packets that a buffer holds."""
        return self.buffer_bytes // self.packet_bytes

    @property
    def last_lane_slots(self) -> int:
        """Slots of the lane behind those for data: of ACKs, or one for the packet that recovers."""
        return 1 if self.deadlock == "disha" else self.ack_slots

    @property
    def ack_slots(self) -> int:
        """ACKs that a buffer for ACKs holds."""
        return max(1, min(64, self.buffer_bytes // self.ft_drb.ack_bytes))

    def packets_per_s(self, fraction: float) -> float:
        """Packets a second of a node that offers this fraction of its link.

        >>> round(SimulationParameters().packets_per_s(1.0))
        122070
        """
        return fraction * self.link_bps / (8 * self.packet_bytes)

    def serialization_ticks(self, size_bytes: int) -> int:
        """Ticks from a packet's head to its tail, in whole flits."""
        return transmission_ticks(flits_of(size_bytes), self.link_bps)


def flits_of(size_bytes: int) -> int:
    """Return the number of flits of a packet.

    >>> flits_of(65)
    2
    """
    return math.ceil(size_bytes / FLIT_BYTES)


def transmission_ticks(flits: int, rate_bps: float) -> int:
    """Return the ticks from the head of a packet to its tail.

    >>> transmission_ticks(32, 2e9)
    819200
    """
    return max(1, round(flits * FLIT_BYTES * 8 / rate_bps * TICKS_PER_S))


def ticks(seconds: float) -> int:
    """Whole ticks.

    >>> ticks(256e-9)
    25600
    """
    return round(seconds * TICKS_PER_S)
