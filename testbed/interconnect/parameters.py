"""What an interconnect simulation is run with: the two models of a hop, buffers, arbitration, routing, deadlock avoidance.

``SimulationParameters`` is the whole of it but for the network, the messages (testbed.interconnect.injection) and the faults.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields

from testbed.errors import InputError
from testbed.interconnect.ft_drb.ft_drb import FtDrbOptions

TICK_S = 1e-11
"""One tick of both engines: 10 ps. Times are whole ticks, so both engines order events alike."""
TICKS_PER_S = 10**11
PS_PER_TICK = 10
MAX_S = 20.0
"""Event keys hold 41 bits of ticks: 21.9 s."""

MODELS = ("booksim", "thesis")
ROUTINGS = ("dor", "d-mod-k", "table", "shortest-path", "ft-drb")
DEADLOCKS = ("none", "nac", "virtual-channels")
ARBITRATIONS = ("round-robin", "fifo")
ENGINES = ("compiled", "reference")


@dataclass(frozen=True, kw_only=True)
class HopModel:
    """Delays of a hop. Zero-load latency of a packet over H routers: injection + H (router + link) + serialization.

    ``output_buffers``: routers have buffers at their outputs too, as large as those at their inputs.
    ``release``: a slot is free again when the "tail" has left it, or already when the "head" has (credits of flits).
    ``to_itself``: nodes may send to themselves. ``ties``: dimension order where both ways round are as long: "plus", or
    either by chance ("random").
    """

    injection_delay_s: float
    router_delay_s: float
    link_delay_s: float
    credit_delay_s: float
    output_buffers: bool
    release: str
    to_itself: bool
    ties: str


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
    ),
}


@dataclass(frozen=True, kw_only=True)
class NacOptions:
    """Where the text of 4.2 leaves NAC open (the numbers are those of docs/workloads/interconnect.md).

    ``control_s``: t_f, for a control packet over a hop. ``retry_s``: after which a router still blocked identifies itself
    again (8; None: (n + 1) t_f on a ring of n, 4 k t_f on a torus of side k). ``repeat_when_full``: a router repeats
    identification packets even while its avoidance buffer is full (4). ``own_request``: the avoidance buffer has a
    crossbar request of its own (5); without it, its input waits behind it. ``reserve``: a freed slot is kept for the
    cycle until it is used (6). ``stop_local``: local injection stops while a router is blocked or recovering (4.2.1).
    ``recovery_run``: the recovery signal goes round the cycle (4.2.3); without it only the router that identified itself
    moves. ``slack``: condition 4.1 with size >= cap - slack, the variant of 4.3.
    """

    control_s: float = 0.3975e-6
    retry_s: float | None = None
    repeat_when_full: bool = True
    own_request: bool = True
    reserve: bool = True
    stop_local: bool = True
    recovery_run: bool = True
    slack: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.control_s < 1:
            raise InputError(f"nac: control_s {self.control_s}; give seconds above 0 and below 1")
        if self.retry_s is not None and not self.control_s <= self.retry_s < 1:
            raise InputError(f"nac: retry_s {self.retry_s}; give control_s ({self.control_s:g}) or more, below 1")
        if not 0 <= self.slack <= 8:
            raise InputError(f"nac: slack {self.slack}; give 0 to 8 packets")


@dataclass(frozen=True, kw_only=True)
class SimulationParameters:
    """Sizes in bytes, rates in bits a second, delays in seconds (None: the model's).

    ``buffer_bytes``: of every virtual channel of every input (and output, where the model has them); a packet takes a slot
    of ``packet_bytes``. ``virtual_channels``: 1 unless ``deadlock`` is "virtual-channels" (dateline, 2 or more).
    ``ack_buffer_bytes``: of the separate buffers for ACKs of FT-DRB (None: ``buffer_bytes``). ``watchdog_s``: so long
    without a packet having moved counts as no progress. ``drain_s``: so long after the last message packets may still
    arrive; what has not arrived then is undelivered. Raises InputError for values that make no simulation.
    """

    model: str = "booksim"
    routing: str = "dor"
    deadlock: str = "none"
    virtual_channels: int | None = None
    link_bps: float = 2e9
    packet_bytes: int = 2048
    flit_bytes: int = 64
    buffer_bytes: int = 4096
    ack_buffer_bytes: int | None = None
    arbitration: str = "round-robin"
    injection_delay_s: float | None = None
    router_delay_s: float | None = None
    link_delay_s: float | None = None
    credit_delay_s: float | None = None
    output_buffers: bool | None = None
    release: str | None = None
    ties: str | None = None
    watchdog_s: float = 0.01
    drain_s: float = 1.0
    seed: int = 1
    nac: NacOptions = field(default_factory=NacOptions)
    ft_drb: FtDrbOptions = field(default_factory=FtDrbOptions)

    def __post_init__(self) -> None:
        for name, value, words in (
            ("model", self.model, MODELS),
            ("routing", self.routing, ROUTINGS),
            ("deadlock", self.deadlock, DEADLOCKS),
            ("arbitration", self.arbitration, ARBITRATIONS),
            ("release", self.release or "tail", ("head", "tail")),
            ("ties", self.ties or "plus", ("plus", "random")),
        ):
            if value not in words:
                raise InputError(f"simulation: {name} {value!r}; give one of {', '.join(words)}")
        self._check_sizes()
        self._check_channels()
        for delay in ("injection_delay_s", "router_delay_s", "link_delay_s", "credit_delay_s"):
            given = getattr(self, delay)
            if given is not None and not 0 <= given < 1:
                raise InputError(f"simulation: {delay} {given}; give seconds, 0 or more and below 1")
        if self.hop.router_delay_s + self.hop.link_delay_s < TICK_S:
            raise InputError("simulation: a hop without any delay; give router_delay_s or link_delay_s above 0")
        for name in ("watchdog_s", "drain_s"):
            if not 0 < getattr(self, name) <= MAX_S:
                raise InputError(f"simulation: {name} {getattr(self, name)}; give seconds above 0, at most {MAX_S:g}")

    def _check_sizes(self) -> None:
        if not 1e3 <= self.link_bps <= 1e13:
            raise InputError(f"simulation: links of {self.link_bps:g} bit/s; give 1e3 to 1e13")
        for name in ("packet_bytes", "flit_bytes", "buffer_bytes"):
            if not 1 <= getattr(self, name) <= 10**9:
                raise InputError(f"simulation: {name} {getattr(self, name)}; give 1 to 1e9")
        if self.packet_bytes > self.buffer_bytes:
            raise InputError(
                f"simulation: a packet of {self.packet_bytes} B is larger than a buffer of {self.buffer_bytes} B; virtual "
                "cut-through holds whole packets: give smaller packets or larger buffers"
            )
        if self.slots > 64:
            raise InputError(f"simulation: buffers of {self.slots} packets; give at most 64 packets a buffer")
        if self.routing == "ft-drb" and self.ft_drb.ack_bytes > self.ack_bytes_of_buffer:
            raise InputError(f"simulation: an ACK of {self.ft_drb.ack_bytes} B is larger than its buffer")

    def _check_channels(self) -> None:
        channels = self.virtual_channels
        if self.deadlock == "virtual-channels" and channels is not None and channels < 2:
            raise InputError(f"simulation: {channels} virtual channels with a dateline; it needs 2 or more")
        if channels is not None and not 1 <= channels <= 16:
            raise InputError(f"simulation: {channels} virtual channels; give 1 to 16")
        if self.deadlock == "nac" and channels is not None and channels > 1:
            raise InputError(f"simulation: nac with {channels} virtual channels; it needs none: leave them out")

    @property
    def hop(self) -> HopModel:
        """The model's delays, with those that were given instead."""
        base = HOP_MODELS[self.model]
        given = {f.name: getattr(self, f.name, None) for f in fields(HopModel)}
        merged = {name: getattr(base, name) if value is None else value for name, value in given.items()}
        return HopModel(**merged)

    @property
    def channels(self) -> int:
        """Virtual channels for data."""
        return self.virtual_channels or (2 if self.deadlock == "virtual-channels" else 1)

    @property
    def slots(self) -> int:
        """Packets that a buffer holds."""
        return self.buffer_bytes // self.packet_bytes

    @property
    def ack_bytes_of_buffer(self) -> int:
        return self.buffer_bytes if self.ack_buffer_bytes is None else self.ack_buffer_bytes

    @property
    def ack_slots(self) -> int:
        return max(1, min(64, self.ack_bytes_of_buffer // self.ft_drb.ack_bytes))

    def packets_per_s(self, fraction: float) -> float:
        """Packets a second of a node that offers this fraction of its link.

        >>> round(SimulationParameters().packets_per_s(1.0))
        122070
        """
        return fraction * self.link_bps / (8 * self.packet_bytes)

    def serialization_ticks(self, size_bytes: int) -> int:
        """From a packet's head to its tail, in whole flits."""
        flits = math.ceil(size_bytes / self.flit_bytes)
        return max(1, round(flits * self.flit_bytes * 8 / self.link_bps * TICKS_PER_S))


def ticks(seconds: float) -> int:
    """Whole ticks.

    >>> ticks(256e-9)
    25600
    """
    return round(seconds * TICKS_PER_S)
