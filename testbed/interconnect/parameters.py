"""What an interconnect simulation is run with: a model of a hop, sizes of buffers, arbitration, routing, deadlock avoidance.

``SimulationParameters`` holds all of it but the network, the messages (``injection.py``) and the faults; ``NacOptions`` and
``FtDrbOptions`` are the parts for NAC and FT-DRB. Everything is in bytes, bits a second and seconds, checked where it is
built; ``engine_inputs.py`` turns it into the whole ticks that the engines count in.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from testbed.errors import InputError
from topologies.routing_tables import STATIC_ROUTINGS

TICKS_PER_S = 10**11
"""A tick is 10 ps. Times are whole ticks, so both engines order events alike."""
PS_PER_TICK = 10
MAX_S = 1000.0
"""Of a run. Some 50 bytes of memory a message are needed."""
MAX_TIMER_S = 10.0
"""Of a timer of routers: the compiled engine's event keys have room for 21.9 s (``compiled/stretches.py``)."""

FLIT_BYTES = 64
"""Packets are serialized in whole flits of so many bytes."""

ROUTINGS = ("dor", "d-mod-k", "nca", "table", "shortest-path", "ft-drb")
DEADLOCKS = ("none", "nac", "virtual-channels", "bubble", "disha")
ARBITRATIONS = ("round-robin", "fifo")


@dataclass(frozen=True, kw_only=True)
class HopModel:
    """Delays of a hop. Zero-load latency of a packet over H routers: injection + H (router + link) + serialization.

    ``output_buffers``: routers have buffers at their outputs too, as large as those at their inputs. ``release``: a slot is
    free again when the "tail" of its packet has left it, or already when the "head" has (credits of flits); its credit then
    takes ``credit_delay_s``. ``to_itself``: nodes may send to themselves. ``ties``: which way dimension order takes where
    both ways round a ring are as long: "plus", or either by chance ("random"), drawn for each dimension. ``turnaround_s``: from the tail
    of a packet to the next head out of the same queue of a router, or into the same lane behind one (a virtual channel is given anew
    only when the tail has left). ``lanes``: of several with room a packet takes the "first", or the one after that which the last out of
    its queue took ("in-turn"). ``dateline``: a packet that has to cross that of its ring keeps to the upper half of the lanes until
    "crossing" it, or while it is in the "ring" (FT-DRB, which may go round by other rings: until crossing it).
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
"""Inputs that one of NAC's identification packets may have been at; one that has been at so many counts as in a loop."""


@dataclass(frozen=True, kw_only=True)
class NacOptions:
    """Where the description of NAC (Zarza 2011, section 4.2) is open; the numbers in brackets are those of docs/workloads/interconnect.md.

    ``control_s``: t_f, the time of a control packet over a hop. ``retry_s``: after so long a router that is still blocked
    sends its identification packet again (8; None: (n + 1) t_f on a ring of n, 4 k t_f on a torus of side k).
    ``repeat_when_full``: a router repeats identification packets even while its avoidance buffer is full (4).
    ``own_request``: the avoidance buffer has a crossbar request of its own (5); without it, the input waits behind it.
    ``reserve``: a freed slot is kept for the cycle until it is used (6). ``stop_local``: injection from the router's own
    hosts is throttled while an input is blocked or recovering (4.2.1). ``recovery_run``: the recovery signal goes round
    the cycle (4.2.3); without it only the router that identified the cycle moves a packet. ``slack``: an output counts as
    full with so many free slots left, the variant of condition 4.1 in section 4.3. ``strict_slot``: the avoidance buffer is in
    use until the tail of its packet has left (17); without it the next packet may move in behind the head. ``stop_output``: an
    output that a blocked input asks for is closed to every input until that input is blocked no more (stop_st at detection, 4.2.1; 21).
    ``identify_anew``: a router that the recovery signal reaches identifies its input on the cycle by packets of its own (4.2.3; 22);
    without it the signal follows the path that the first identification recorded. ``ask_anew``: when a cable fails or works again, escaped
    messages at the heads of inputs leave out what is left of their escape paths (not in the document; 23). Raises InputError for values out of range.
    """

    control_s: float = 0.3975e-6
    retry_s: float | None = None
    repeat_when_full: bool = True
    own_request: bool = True
    reserve: bool = True
    stop_local: bool = True
    recovery_run: bool = True
    slack: int = 0
    strict_slot: bool = False
    stop_output: bool = False
    identify_anew: bool = False
    ask_anew: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.control_s < 1:
            raise InputError(f"nac: control_s {self.control_s}; give seconds above 0 and below 1")
        if self.retry_s is not None and not self.control_s <= self.retry_s < 1:
            raise InputError(f"nac: retry_s {self.retry_s}; give control_s ({self.control_s:g}) or more, below 1")
        if not 0 <= self.slack <= 8:
            raise InputError(f"nac: slack {self.slack}; give 0 to 8 packets")
        if self.stop_output and self.slack:
            raise InputError(f"nac: stop_output with slack {self.slack}; the slack would never be used: give 0")
        if self.identify_anew and not self.reserve:
            raise InputError(
                "nac: identify_anew without reserve; the freed slot would be gone before the cycle is known"
            )


MAX_PATHS = 64
"""Of a metapath."""


@dataclass(frozen=True, kw_only=True)
class FtDrbOptions:
    """FT-DRB's parameters with the defaults of Zarza 2011, and the design alternatives of its section 3.6.

    ``paths``: at most so many multistep paths in a metapath; ``first_paths``: it starts with so many. ``marking``: a failed
    link becomes permanent after ``notifications`` in a row ("ack"), after ``marking_s`` without a latency ACK ("clock"), or
    either ("hybrid"; Table 3.2). ``probing``: the minimal path, while it has a permanent failure, is tried by 1 in
    ``probe_every`` messages ("request"), by one every ``probe_s`` ("clock"), or either ("hybrid"; Table 3.1); ``probes``: by the "message" itself, or by a "synthetic" packet of
    ``ack_bytes`` beside it, whose ACK clears failures and tells no latency (3.6.2). ``notifier``:
    who notifies the source of a failure, the "router" that meets it or the "destination" (by an error flag in the packet).
    ``link_up``: whether the source finds out by "probe" that a link works again, or the "router" tells those that it
    notified. ``reuse_notifications``: hosts that a notification passes learn from it; ``notify_queued``: the sources of all
    packets that wait for the link are notified at once (the two improvements of 3.6.1). ``threshold``: Thl over the
    zero-load latency of the pair's minimal path; ``tolerance``: Tol over Thl; ``averaging``: a latency moves the mean of its path by
    one part in so many; ``hysteresis``: a path is given up only where those that are left are below Thl - Tol without it, and
    none comes or goes before all in use have told their latency anew (without it: Algorithm 3.3 to the letter, by which a path that
    came goes again with the next ACK). ``ack_bytes``: size of every ACK; ``ack_buffers``: ACKs have buffers of their "own", or "shared"
    ones with messages (3.1), where each takes a message's slot. ``header_bytes``: what
    the multiple header adds to every message (Figure 3.12), which takes time in whole flits. ``always``: Algorithm 3.3 for every pair, as the
    document has it; without it only for those with a failure on their minimal path. ``hop_cap_diameters``: a packet that has crossed so many diameters of
    links counts as a livelock. Raises InputError for values out of range.
    """

    paths: int = 4
    first_paths: int = 1
    notifications: int = 5
    marking: str = "ack"
    marking_s: float = 0.05
    probing: str = "request"
    probe_every: int = 100
    probe_s: float = 0.05
    probes: str = "message"
    notifier: str = "router"
    link_up: str = "probe"
    reuse_notifications: bool = False
    notify_queued: bool = False
    threshold: float = 4.0
    tolerance: float = 0.25
    averaging: int = 8
    hysteresis: bool = True
    ack_bytes: int = 64
    ack_buffers: str = "own"
    header_bytes: int = 0
    always: bool = True
    hop_cap_diameters: int = 16

    def __post_init__(self) -> None:
        for name, least, most in (
            ("paths", 1, MAX_PATHS),
            ("first_paths", 1, self.paths),
            ("notifications", 1, 255),
            ("probe_every", 1, 10**9),
            ("ack_bytes", 1, 65535),
            ("header_bytes", 0, 255),
            ("averaging", 1, 1000),
            ("hop_cap_diameters", 2, 10**6),
        ):
            if not least <= getattr(self, name) <= most:
                raise InputError(f"ft-drb: {name} {getattr(self, name)}; give {least} to {most}")
        for name in ("marking_s", "probe_s", "threshold"):
            if not getattr(self, name) > 0:
                raise InputError(f"ft-drb: {name} {getattr(self, name)}; give a number above 0")
        if not 0 <= self.tolerance < 1:
            raise InputError(f"ft-drb: tolerance {self.tolerance}; give 0 or more, below 1")
        for name, words in (
            ("marking", ("ack", "clock", "hybrid")),
            ("probing", ("request", "clock", "hybrid")),
            ("notifier", ("router", "destination")),
            ("link_up", ("probe", "router")),
            ("probes", ("message", "synthetic")),
            ("ack_buffers", ("own", "shared")),
        ):
            if getattr(self, name) not in words:
                raise InputError(f"ft-drb: {name} {getattr(self, name)!r}; give {' or '.join(words)}")


@dataclass(frozen=True, kw_only=True)
class SimulationParameters:
    """Sizes in bytes, rates in bits a second, times in seconds.

    ``model``: a name of HOP_MODELS. ``buffer_bytes``: of every virtual channel of every input (and output, where the model
    has them), and of the separate buffers for FT-DRB's ACKs; a packet takes a slot of ``packet_bytes``.
    ``virtual_channels``: 1 unless ``deadlock`` is "virtual-channels" (dateline, 2 or more). ``timeout_s``: so long the first packet of an
    input waits before it is taken for deadlocked ("disha"). ``watchdog_s``: so long without
    a packet having moved counts as no progress. ``drain_s``: so long after the last message packets may still arrive; what
    has not arrived then is undelivered. Raises InputError for values that make no simulation.
    """

    model: str = "booksim"
    routing: str = "dor"
    deadlock: str = "none"
    virtual_channels: int | None = None
    link_bps: float = 2e9
    packet_bytes: int = 2048
    buffer_bytes: int = 4096
    arbitration: str = "round-robin"
    timeout_s: float = 1e-4
    watchdog_s: float = 0.01
    drain_s: float = 1.0
    seed: int = 1
    nac: NacOptions = field(default_factory=NacOptions)
    ft_drb: FtDrbOptions = field(default_factory=FtDrbOptions)

    def __post_init__(self) -> None:
        for name, value, words in (
            ("model", self.model, HOP_MODELS),
            ("deadlock", self.deadlock, DEADLOCKS),
            ("arbitration", self.arbitration, ARBITRATIONS),
        ):
            if value not in words:
                raise InputError(f"simulation: {name} {value!r}; give one of {', '.join(words)}")
        if self.routing not in ROUTINGS and STATIC_ROUTINGS.find(self.routing) is None:
            known = dict.fromkeys((*ROUTINGS, *STATIC_ROUTINGS.names()))
            raise InputError(f"simulation: routing {self.routing!r}; give one of {', '.join(known)}")
        self._check_sizes()
        self._check_channels()
        for name, most in (("watchdog_s", MAX_S), ("drain_s", MAX_S), ("timeout_s", MAX_TIMER_S)):
            if not 0 < getattr(self, name) <= most:
                raise InputError(f"simulation: {name} {getattr(self, name)}; give seconds above 0, at most {most:g}")

    def _check_sizes(self) -> None:
        if not 1e3 <= self.link_bps <= 1e13:
            raise InputError(f"simulation: links of {self.link_bps:g} bit/s; give 1e3 to 1e13")
        for name in ("packet_bytes", "buffer_bytes"):
            if not 1 <= getattr(self, name) <= 10**9:
                raise InputError(f"simulation: {name} {getattr(self, name)}; give 1 to 1e9")
        if self.packet_bytes > self.buffer_bytes:
            raise InputError(
                f"simulation: a packet of {self.packet_bytes} B is larger than a buffer of {self.buffer_bytes} B; virtual "
                "cut-through holds whole packets: give smaller packets or larger buffers"
            )
        if self.slots > 64:
            raise InputError(f"simulation: buffers of {self.slots} packets; give at most 64 packets a buffer")
        if self.routing == "ft-drb" and self.ft_drb.ack_bytes > self.buffer_bytes:
            raise InputError(f"simulation: an ACK of {self.ft_drb.ack_bytes} B is larger than its buffer")
        if self.shares_ack_buffers and self.ft_drb.ack_bytes > self.packet_bytes:
            raise InputError(f"simulation: an ACK of {self.ft_drb.ack_bytes} B is larger than the slot that it shares")

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
        """The delays and buffers of the model."""
        return HOP_MODELS[self.model]

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
        flits = math.ceil(size_bytes / FLIT_BYTES)
        return max(1, round(flits * FLIT_BYTES * 8 / self.link_bps * TICKS_PER_S))


def ticks(seconds: float) -> int:
    """Whole ticks.

    >>> ticks(256e-9)
    25600
    """
    return round(seconds * TICKS_PER_S)
