"""The options of routers, NAC and FT-DRB, with their bounds, for the command and the library.

Values are in bytes, bits per second and seconds.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from testbed.errors import InputError
from testbed.model.options import kinds
from testbed.model.options.option import Only, ends, nested, option, options, routed, sent

# Longest run. A run needs some 50 bytes of memory per message.
MAX_S = 1000.0
# Longest timer of routers. The compiled engine's event keys have room for 21.9 s
# (``compiled/compiled_run.py``).
MAX_TIMER_S = 10.0
MIN_LINK_BPS = 1e3
MAX_LINK_BPS = 1e13
LINK_RATE = replace(kinds.rate_bps, least=MIN_LINK_BPS, most=MAX_LINK_BPS, above=False)
_BELOW_1_S = replace(kinds.short, below=True)
_LASTING = kinds.times(0, MAX_S, above=True)
WITH_NAC = "NAC (with --deadlock-avoidance nac)"


def _uses_nac(requested: Any) -> bool:
    return bool(requested.deadlock == "nac")


def _uses_ft_drb(requested: Any) -> bool:
    return bool(requested.routing == "ft-drb")


NAC = Only(when=_uses_nac, needs="--deadlock-avoidance nac")
FT_DRB = Only(when=_uses_ft_drb, needs="--routing ft-drb")


@options
class NacOptions:
    """The options of NAC where its description (Zarza 2011, section 4.2) is open.

    The numbers in brackets refer to the decisions listed in docs/workloads/nac_decisions.md.

    Attributes:
        control_s: Time t_f of a control packet over one hop.
        retry_s: Time after which a blocked input identifies itself again (8). None: (n + 1) t_f on
            a ring of n routers, 4 k t_f on a torus of side k.
        repeat_when_full: Whether identification packets are repeated while the avoidance buffer is
            full (4).
        own_request: Whether the avoidance buffer requests the crossbar itself (5). Otherwise the
            input waits behind the avoidance buffer.
        reserve: Whether a freed slot is reserved for the cycle until it is used (6).
        stop_local: Whether local injection stops while a router is blocked or recovers (section
            4.2.1).
        recovery_run: Whether the recovery signal travels round the cycle (section 4.2.3). Otherwise
            only the router that identified the cycle moves a packet.
        slack: An output counts as full with this many free slots: the variant of condition 4.1 in
            section 4.3.
        strict_slot: Whether the avoidance buffer is in use until the tail of its packet has left
            (17). Otherwise the next packet may move in behind the head.
        stop_output: Whether an output that a blocked input requests is closed to every input until
            that input is no longer blocked (21).
        identify_anew: Whether each router that the recovery signal reaches identifies the cycle
            itself (22). Otherwise the signal follows the path that the first identification
            recorded.
        ask_anew: Whether heads of inputs are routed again when a cable fails or is repaired (23).

    Raises:
        InputError: A value is out of range, or two values contradict each other.
    """

    control_s: float = option(
        default="3.975e-7",
        kind=_BELOW_1_S,
        flag="--control-delay",
        help="time t_f of a control packet per hop",
    )
    retry_s: float | None = option(
        default=None,
        kind=_BELOW_1_S,
        flag="--retry-interval",
        help="time until a blocked router identifies itself again (default: (n + 1) t_f on a "
        "ring of n routers, 4 k t_f on a k-torus)",
    )
    repeat_when_full: bool = option(
        default=True, help="repeat identification packets while the avoidance buffer is full"
    )
    own_request: bool = option(
        flag="--avoidance-requests",
        default=True,
        help="let the avoidance buffer request the crossbar by itself",
    )
    reserve: bool = option(
        flag="--reserve-slot", default=True, help="reserve a freed slot for the cycle"
    )
    stop_local: bool = option(
        flag="--throttle-injection",
        default=True,
        help="stop local injection while a router is blocked or recovering",
    )
    recovery_run: bool = option(
        flag="--recovery-signal", default=True, help="send the recovery signal round the cycle"
    )
    slack: int = option(
        default=0,
        kind=kinds.packets_of_slack,
        help="react N packets before a buffer is full (variant of section 4.3; default: {default})",
    )
    strict_slot: bool = option(
        flag="--slot-until-tail",
        default=False,
        negated=True,
        help="treat the avoidance buffer as in use until the tail of its packet has left",
    )
    stop_output: bool = option(
        flag="--throttle-output",
        default=False,
        negated=True,
        help="close an output that a blocked input requests from detection on (stop_st, section "
        "4.2.1)",
    )
    identify_anew: bool = option(
        flag="--reidentify",
        default=False,
        negated=True,
        help="let each router that the recovery signal reaches identify the cycle again "
        "(section 4.2.3)",
    )
    ask_anew: bool = option(
        flag="--reroute-heads",
        default=False,
        negated=True,
        help="route the heads of inputs again without their escape paths when a cable fails or "
        "is repaired (not in the document)",
    )

    def __post_init__(self) -> None:
        if self.retry_s is not None and self.retry_s < self.control_s:
            raise InputError(
                f"nac: retry_s {self.retry_s}; give control_s ({self.control_s:g}) or more, below 1"
            )
        if self.stop_output and self.slack:
            raise InputError(
                f"nac: stop_output with slack {self.slack}; the slack would never be used: give 0"
            )
        if self.identify_anew and not self.reserve:
            raise InputError(
                "nac: identify_anew without reserve; the freed slot would be gone before the cycle "
                "is known"
            )


@options
class FtDrbOptions:
    """The parameters of FT-DRB with the defaults of Zarza 2011.

    They include the design alternatives of its section 3.6.

    Attributes:
        paths: Largest number of multistep paths of a metapath.
        first_paths: Number of paths in use at first.
        marking: When a failure becomes permanent (Table 3.2).
        notifications: Number of consecutive notifications that make a failure permanent.
        marking_s: Time without a latency ACK that makes a failure permanent, with marking by clock.
        probing: When the minimal path is probed while it has a permanent failure (Table 3.1).
        probe_every: Every how many messages one is a probe.
        probe_s: Time between probes, with probing by clock.
        probes: A "synthetic" probe is a packet of ``ack_bytes``, whose ACK clears failures and
            reports no latency (3.6.2).
        notifier: The "router" that meets the failure notifies the source, or the "destination",
            because of an error flag in the packet.
        link_up: Probes detect a repaired link, or its "router" notifies the sources that it had
            notified of the failure.
        reuse_notifications: Whether hosts on the path of a notification use it, too (3.6.1).
        notify_queued: Whether the sources of all packets that wait for a failed link are notified
            (3.6.1).
        threshold: Thl, as a multiple of the zero-load latency of the pair's minimal path.
        tolerance: Tol, as a fraction of Thl.
        averaging: A new latency moves the mean of its path by one part in this many of the
            difference.
        hysteresis: Whether a metapath changes its size only after all paths in use have reported
            their latency again, and loses a path only if the remaining ones are below Thl - Tol
            without it. Otherwise a path that was added may be removed by the next ACK.
        ack_bytes: Size of an ACK.
        ack_buffers: ACKs have their "own" buffers or, in "shared" ones, each takes the slot of a
            message (3.1).
        header_bytes: Bytes that the multiple header (Figure 3.12) adds to each message. It takes
            time in whole flits.
        always: Whether Algorithm 3.3 applies to every pair, as in the document. Otherwise it
            applies only to pairs with a failure on their minimal path.
        hop_cap_diameters: Hop limit of a packet, in diameters of the network.

    Raises:
        InputError: ``first_paths`` exceeds ``paths``.
    """

    paths: int = option(
        flag="--max-paths",
        default=4,
        kind=kinds.simulated_paths,
        help="maximum number of alternative paths per pair",
    )
    first_paths: int = option(
        flag="--initial-paths",
        default=1,
        kind=kinds.simulated_paths,
        help="number of paths with which a metapath starts",
    )
    marking: str = option(
        default="ack",
        choices=("ack", "clock", "hybrid"),
        help="rule for a permanent failure: consecutive notifications (ack), a time without a "
        "latency ACK (clock), or either (hybrid)",
    )
    notifications: int = option(
        default=5,
        kind=kinds.occurrences,
        help="number of consecutive notifications that mark a link as failed",
    )
    marking_s: float = option(
        default=0.05,
        kind=kinds.search_limit,
        flag="--marking-time",
        help="time without a latency ACK that marks a link (marking by clock)",
    )
    probing: str = option(
        default="request",
        choices=("request", "clock", "hybrid"),
        help="rule for probing failed paths: once every N messages (request), periodically "
        "(clock), or both (hybrid)",
    )
    probe_every: int = option(
        default=100, kind=kinds.simulated_interval, help="probe with one in N messages"
    )
    probe_s: float = option(
        default=0.05,
        kind=kinds.short,
        flag="--probe-period",
        help="time between two probes (probing by clock)",
    )
    probes: str = option(
        default="message",
        choices=("message", "synthetic"),
        help="packet that probes a failed path: the message itself, or a separate small packet "
        "(synthetic)",
    )
    notifier: str = option(
        flag="--failure-notifier",
        default="router",
        choices=("router", "destination"),
        help="sender of the notification of a failure to the source",
    )
    link_up: str = option(
        flag="--repair-detection",
        default="probe",
        choices=("probe", "router"),
        help="detector of a repaired link: probes, or the router of the link",
    )
    reuse_notifications: bool = option(
        flag="--notification-reuse",
        default=False,
        help="let hosts on the path of a notification use it too",
    )
    notify_queued: bool = option(
        flag="--notify-queued-sources",
        default=False,
        help="notify the sources of all packets that wait for a failed link",
    )
    threshold: float = option(
        flag="--latency-threshold",
        short=("--thl",),
        default="4",
        kind=kinds.times_zero_load,
        metavar="X",
        help="threshold Thl, as a multiple of the pair's latency without load",
    )
    tolerance: float = option(
        flag="--latency-tolerance",
        short=("--tol",),
        default=0.25,
        kind=kinds.share,
        metavar="X",
        help="tolerance Tol, as a fraction of Thl",
    )
    averaging: int = option(
        flag="--latency-smoothing",
        default=8,
        kind=kinds.whole(1, 1000),
        help="weight 1/N of a new latency in the mean of its path",
    )
    hysteresis: bool = option(
        default=True,
        help="give up a path only if the remaining paths stay below Thl - Tol without it "
        "(default: yes; no: exactly Algorithm 3.3)",
    )
    ack_bytes: int = option(default=64, kind=kinds.bytes_up_to(65535), help="size of every ACK")
    ack_buffers: str = option(
        default="own",
        choices=("own", "shared"),
        help="buffers of ACKs: separate ones (own), or those of messages (shared)",
    )
    header_bytes: int = option(
        default=0,
        kind=replace(kinds.bytes_up_to(255), least=0),
        help="bytes that the header of FT-DRB adds to every message",
    )
    always: bool = option(
        default=True, flag="--always-metapaths", help="use metapaths for pairs without failures too"
    )
    hop_cap_diameters: int = option(
        default=16,
        kind=kinds.diameters,
        flag="--hop-limit",
        help="number of network diameters after which a packet counts as livelocked",
    )

    def __post_init__(self) -> None:
        if self.first_paths > self.paths:
            raise InputError(f"ft-drb: first_paths {self.first_paths}; give 1 to {self.paths}")


@options
class RouterOptions:
    """The options of routers and links.

    Attributes:
        model: A name of HOP_MODELS.
        switching: Whether a packet may leave a router when its first byte has arrived, or when its
            last has.
        router_delay_s: Delay of a packet's head in each router; None: that of the model.
        deadlock: The method of avoiding deadlocks or recovering from them.
        virtual_channels: Virtual channels of every link; None: 2 with a dateline, else 1.
        link_bps: Rate of every link.
        packet_bytes: Largest size of a message, and the size of a slot.
        buffer_bytes: Size of every virtual channel of every input (and output, if the model has
            output buffers), and of the separate buffers for FT-DRB's ACKs.
        arbitration: Order in which requests for a channel are granted.
        timeout_s: Time that the first packet of an input waits before it is treated as deadlocked
            ("disha").
        watchdog_s: Time without any movement after which the run has made no progress.
        drain_s: Time after the last message during which packets may still arrive.
        ft_drb: Options of FT-DRB.
        nac: Options of NAC.
    """

    model: str = routed(
        default="booksim",
        choices=("booksim", "thesis"),
        help="model of a hop: its delays and buffers",
    )
    switching: str = routed(
        default="cut-through",
        choices=("cut-through", "store-and-forward"),
        help="time at which a packet may leave a router: when its head has arrived "
        "(cut-through), or when it has arrived completely",
    )
    router_delay_s: float | None = routed(
        default=None,
        kind=_BELOW_1_S,
        help="delay of a packet's head in each router (default: that of the model)",
    )
    deadlock: str = routed(
        flag="--deadlock-avoidance",
        default="none",
        choices=("none", "nac", "virtual-channels", "bubble", "disha"),
        help="method of avoiding deadlocks, or of recovering from them",
    )
    virtual_channels: int | None = routed(
        default=None,
        kind=kinds.virtual_channels,
        help="number of virtual channels per link (default: 2 with a dateline, otherwise 1)",
    )
    link_bps: float = ends(
        flag="--link-rate",
        default="2Gbps",
        kind=LINK_RATE,
        help="rate of every link",
    )
    packet_bytes: int = sent(
        default=2048, kind=kinds.bytes_up_to(10**9), help="size of a packet, in bytes"
    )
    buffer_bytes: int = routed(
        default=4096, kind=kinds.bytes_up_to(10**9), help="buffer size of every (virtual) channel"
    )
    arbitration: str = routed(
        default="round-robin",
        choices=("round-robin", "fifo"),
        help="order in which inputs get an output",
    )
    timeout_s: float = option(
        default=1e-4,
        kind=kinds.times(0, MAX_TIMER_S, above=True),
        listed=False,
        help='time after which the first packet of an input counts as deadlocked ("disha")',
    )
    watchdog_s: float = option(
        default=0.01,
        kind=_LASTING,
        listed=False,
        help="time without any movement of packets that counts as no progress",
    )
    drain_s: float = option(
        default=1.0,
        kind=_LASTING,
        listed=False,
        help="time after the last message in which packets may arrive; later ones count as "
        "undelivered",
    )
    ft_drb: FtDrbOptions = nested(
        default_factory=FtDrbOptions,
        group="FT-DRB (with --routing ft-drb)",
        only=(FT_DRB,),
    )
    nac: NacOptions = nested(
        default_factory=NacOptions, prefix="--nac-", group=WITH_NAC, only=(NAC,)
    )
