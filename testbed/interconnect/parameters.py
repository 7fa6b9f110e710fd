"""The parameters of an interconnect simulation, except for its network, messages and faults.

``SimulationParameters`` contains the model of a hop, sizes of buffers, arbitration, routing and
deadlock avoidance. Its options are declared in ``options.py``. All values are in bytes, bits a
second and seconds, and are checked when it is built. ``engine_inputs.py`` converts them to the
whole ticks that the engines count in.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from testbed.errors import InputError
from testbed.interconnect.options import RouterOptions
from testbed.model.options.option import option, options

# A tick is 10 ps. Times are whole ticks, so that both engines order events alike.
TICKS_PER_S = 10**11
PS_PER_TICK = 10

# Packets are serialized in whole flits of this many bytes.
FLIT_BYTES = 64

ROUTINGS = ("dor", "d-mod-k", "nca", "table", "shortest-path", "ft-drb")


@dataclass(frozen=True, kw_only=True)
class HopModel:
    """The delays and buffers of a hop.

    The zero-load latency of a packet over H routers is: injection + H (router + link) +
    serialization.

    Attributes:
        injection_delay_s: Delay of a packet's head from its host to the first router.
        router_delay_s: Delay of a packet's head in a router.
        link_delay_s: Delay of a packet's head on a link between routers, and to the destination.
        credit_delay_s: Time until the credit of a freed slot has returned.
        output_buffers: Whether routers have buffers at their outputs, as large as those at their
            inputs.
        release: When a slot becomes free: when the "tail" of its packet has left it, or already
            when the "head" has (credits per flit).
        to_itself: Whether nodes may send to themselves.
        ties: The direction that dimension order takes if both directions round a ring are equally
            long: "plus", or a "random" one, drawn for each dimension.
        turnaround_s: Time from the tail of a packet to the next head out of the same queue of a
            router, or into the same lane behind a router, because a virtual channel is reassigned
            only when the tail has left.
        lanes: The lane that a packet takes if several have room: the "first", or the one after the
            lane of the previous packet of its queue ("in-turn").
        dateline: How long a packet that has to cross the dateline of its ring stays in the upper
            half of the lanes: until "crossing" it, or while it is in the "ring". With FT-DRB, whose
            packets may leave for other rings, it is always until crossing.
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


# One cycle of BookSim2 in the reference's setting: 64 B at 2 Gbps.
FLIT_CYCLE_S = 256e-9

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


# An identification packet of NAC that has visited this many inputs is treated as being in a loop.
MAX_CYCLE = 513


@options
class SimulationParameters(RouterOptions):
    """The parameters of routers and links, their ``routing``, and the ``seed`` of all random draws.

    Attributes:
        routing: A name of ROUTINGS, of a static routing, or of a routing relation.
        seed: Seed of all random draws.
        capacities: Whether each link transmits at its capacity. ``link_bps`` is then only the rate
            that loads are shares of.

    Raises:
        InputError: A value is invalid, or two values contradict each other.
    """

    routing: str = option(default="dor")
    seed: int = option(default=1)
    capacities: bool = option(default=False)

    def __post_init__(self) -> None:
        # Help pages need these options, but not this import, which takes long.
        from topologies.routing_tables import STATIC_ROUTINGS

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
                f"simulation: a packet of {self.packet_bytes} B is larger than a buffer of "
                f"{self.buffer_bytes} B; virtual cut-through holds whole packets: "
                "give smaller packets or larger buffers"
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
                f"simulation: an ACK of {self.ft_drb.ack_bytes} B is larger than the slot that "
                "it shares"
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
        """The delays and buffers of the model, with the router delay that was requested."""
        model = HOP_MODELS[self.model]
        if self.router_delay_s is None:
            return model
        return replace(model, router_delay_s=self.router_delay_s)

    @property
    def stores(self) -> bool:
        """True if a packet leaves a router only when it has arrived completely."""
        return self.switching == "store-and-forward"

    @property
    def header_bytes(self) -> int:
        """Bytes that the routing adds to every message."""
        return self.ft_drb.header_bytes if self.routing == "ft-drb" else 0

    @property
    def shares_ack_buffers(self) -> bool:
        """True if FT-DRB's ACKs wait in the buffers of messages."""
        return self.routing == "ft-drb" and self.ft_drb.ack_buffers == "shared"

    @property
    def channels(self) -> int:
        """Number of virtual channels for data."""
        if self.virtual_channels:
            return self.virtual_channels
        return 2 if self.deadlock == "virtual-channels" else 1

    @property
    def slots(self) -> int:
        """Number of packets that a buffer holds."""
        return self.buffer_bytes // self.packet_bytes

    @property
    def last_lane_slots(self) -> int:
        """Number of slots of the lane behind the data lanes.

        This lane is for FT-DRB's ACKs, or for the packet that recovers from a deadlock.
        """
        return 1 if self.deadlock == "disha" else self.ack_slots

    @property
    def ack_slots(self) -> int:
        """Number of ACKs that a buffer for ACKs holds."""
        return max(1, min(64, self.buffer_bytes // self.ft_drb.ack_bytes))

    def packets_per_s(self, fraction: float) -> float:
        """Return the packets per second of a node that offers this fraction of its link.

        >>> round(SimulationParameters().packets_per_s(1.0))
        122070
        """
        return fraction * self.link_bps / (8 * self.packet_bytes)

    def serialization_ticks(self, size_bytes: int) -> int:
        """Return the ticks from a packet's head to its tail, in whole flits."""
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
    """Return a time as a whole number of ticks.

    >>> ticks(256e-9)
    25600
    """
    return round(seconds * TICKS_PER_S)
