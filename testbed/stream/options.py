"""The options of streams, for the command and the library.

There are options of coding, of a stream under failures, and of a stream while nodes move.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Literal

from fec import FecError
from fec.redundancy.labels import WEYL_MULTIPLIER, LabelRule, stratified_labels
from testbed.errors import InputError
from testbed.faults.fault import Direction, FaultKind, PoissonFaults
from testbed.faults.reading import FAULT_WORDS, FaultsLike
from testbed.model.naming.names import NetworkLike
from testbed.model.options import kinds
from testbed.model.options.arguments import with_checked_methods
from testbed.model.options.option import (
    Only,
    coded,
    ends,
    failing,
    option,
    options,
    routed,
    running,
    sent,
)
from topologies import Json

LabelOrder = Literal["stratified", "random"]
Handover = Literal["after", "before"]

# Parameters of common streams. voip: a packet of 160 bytes (G.711) every 20 ms, blocks of 0.4 s.
# video: 2 Mbit/s, blocks of 0.16 s, a buffer of two seconds. Source: Gabrielyan 2007, section 4.3
# (VOIP packets of 20 ms permit 20 to 25 packets per block; packetized TV can wait for large
# blocks).
PROFILES: Mapping[str, Json] = {
    "voip": {"rate_pps": 50.0, "source_packets": 20, "symbol_bytes": 162, "playback_s": 0.8},
    "video": {"rate_pps": 250.0, "source_packets": 40, "symbol_bytes": 1002, "playback_s": 2.0},
}

# The default playback buffer is 0.4 s, but never shorter than the time of four blocks.
MIN_PLAYBACK_S = 0.4
MIN_PLAYBACK_BLOCKS = 4

# While nodes move, the default playback buffer is MIN_PLAYBACK_S at this rate. It is longer at a
# lower rate, so that it always holds the same number of packets.
USUAL_RATE_PPS = 1000.0

# While nodes move, the rate of late parity is this multiple of the source rate. A hundred switches
# in user space forward only a few hundred packets per second.
LATE_PER_SOURCE = 3

# Methods of ``--routing`` whose streams have no code (``testbed.metapath``).
UNCODED = ("ft-drb", "recomputed")


@with_checked_methods
@dataclass(frozen=True, kw_only=True)
class EachLink:
    """Faults of the loaded links, one after another.

    Each lasts long enough for its loss to be measured.

    Attributes:
        kind: The kind of the faults.
        direction: The directions of the cable that fail.
        loss_fraction: Share of packets that a fault of kind "loss" loses.
        precision: Accepted error of the measured loss, as a fraction.
        most: Maximum number of links. They are chosen evenly from the order by load. None for all.
    """

    kind: FaultKind = "down"
    direction: Direction = "both"
    loss_fraction: float = 1.0
    precision: float = 0.01
    most: int | None = None


# The names of an option's handover, first those of 3GPP, and the name in a plan.
HANDOVERS: Mapping[str, Handover] = {
    "break-before-make": "after",
    "make-before-break": "before",
    "after": "after",
    "before": "before",
}


def _fails_each_link(args: Namespace) -> bool:
    return str(args.faults) == "each-link"


def _fails_each_link_by_loss(args: Namespace) -> bool:
    return args.fault_kind == "loss" and _fails_each_link(args)


def _is_capillary(args: Namespace) -> bool:
    method = getattr(args, "routing", None) or getattr(args, "method", "capillary")
    name, _, _ = str(method).partition(":")
    return name == "capillary"


def _is_coded(args: Namespace) -> bool:
    return getattr(args, "routing", None) not in UNCODED


def _is_probing(args: Namespace) -> bool:
    return bool(getattr(args, "probe_block_size", False))


def _is_not_probing(args: Namespace) -> bool:
    return not _is_probing(args)


def _is_on_one_machine(args: Namespace) -> bool:
    return args.machines is None


def _has_one_network(args: Namespace) -> bool:
    return len(args.frames) == 1


CODED = Only(when=_is_coded, needs="a coded stream (--routing ft-drb and recomputed send none)")
NOT_PROBING = Only(
    when=_is_not_probing, needs="a stream without --probe-block-size, which breaks its own link"
)
PROBING = Only(when=_is_probing, needs="--probe-block-size")
_ONE_MACHINE = Only(when=_is_on_one_machine, needs="a stream on one machine, without --machines")
_EACH_LINK = Only(when=_fails_each_link, needs="--faults each-link (the default)")
_CAPILLARY = Only(when=_is_capillary, needs="--routing capillary")


@options
class StreamParameters:
    """Parameters that say how a stream is coded, paced and reported.

    Attributes:
        rate_pps: Source packets per second. The network carries ``rate_pps * N / M``.
        source_packets: M, the number of source packets per block.
        tolerance: Loss that is tolerated in steady state.
        decoding_error_rate: Accepted share of blocks that cannot be decoded.
        labels: Order of the labels, "stratified" or "random".
        symbol_bytes: Length of a coded symbol in bytes.
        playback_s: Playback buffer. A source packet is late if it is not available this long after
            it was sent. None for 0.4 s, or for the time of four blocks if that is longer.
        most_overhead: Upper limit of (N - M) / M for any loss. Without a limit, a sender that
            answers the losses of its own congestion with more packets would never stop. None for
            the overhead that failures of the plan's links can require.
        hold_s: Time for which a lower loss must last before redundancy is reduced.
        report_interval_s: Time from one loss report to the next.
        report_packets: Number of packets after which a report is sent sooner.
        block_size: N, fixed for the whole run; None if N adapts to the losses.
        late_pps: Late parity packets per second, fewer if the switches are slow. None for eight
            times the rate, at least 1000.
        diagnosis: The sender finds out from the labels of lost packets which link has failed.
            Otherwise it only estimates the share of lost packets.
        label_multiplier: Multiplier that generates the stratified order of labels.
        label_slots: An order of equal slots of the label space that generates the stratified order
            instead (``fec.redundancy.labels.SlottedLabels``).
    """

    rate_pps: float = coded(
        flag="--packet-rate", default="1000", kind=kinds.rate_pps, help="source packets per second"
    )
    source_packets: int = coded(
        default=20,
        short=("--m",),
        metavar="M",
        kind=kinds.block_packets,
        only=(CODED,),
        help="source packets per block",
    )
    tolerance: float = coded(
        flag="--static-tolerance",
        metavar="T",
        default=0.05,
        kind=kinds.share,
        only=(CODED,),
        help="loss that the code repairs without any fault",
    )
    decoding_error_rate: float = coded(
        default=1e-5,
        short=("--der",),
        metavar="DER",
        kind=kinds.probability,
        only=(CODED,),
        help="largest accepted share of undecodable blocks",
    )
    labels: LabelOrder = coded(
        flag="--label-order",
        default="stratified",
        choices=("stratified", "random"),
        only=(CODED,),
        help="order in which packets use the labels",
    )
    symbol_bytes: int = coded(
        default=256, kind=kinds.symbol_bytes, help="size of a coded symbol, in bytes"
    )
    playback_s: float = coded(
        default=None,
        flag="--playback-buffer",
        kind=kinds.buffering,
        only=(CODED,),
        help="duration of the playback buffer (default: 0.4 s, or the duration of 4 blocks if "
        "that is longer)",
    )
    most_overhead: float | None = coded(
        flag="--max-overhead",
        default=None,
        kind=kinds.overhead,
        only=(CODED,),
        help="upper limit of (N - M) / M (default: enough for the failure of any link)",
    )
    hold_s: float = coded(
        default="2",
        flag="--hold-time",
        kind=kinds.holding,
        only=(CODED,),
        help="time without losses after which the redundancy is reduced (default: {default} s)",
    )
    report_interval_s: float = option(
        default=0.1, listed=False, help="seconds between two loss reports"
    )
    report_packets: int = option(
        default=100,
        listed=False,
        help="number of packets after which a loss report is sent earlier",
    )
    block_size: int | None = coded(
        default=None,
        kind=kinds.fixed_block,
        metavar="N",
        only=(CODED, NOT_PROBING),
        help="fixed number of packets per block, M to 255 (default: N follows the losses)",
    )
    late_pps: float | None = option(
        default=None, listed=False, help="late parity packets per second"
    )
    diagnosis: bool = option(
        default=True, listed=False, help="let the sender find out which cables failed"
    )
    label_multiplier: int = option(
        default=None, listed=False, help="multiplier of the stratified order of labels"
    )
    label_slots: tuple[int, ...] = option(
        default=(), listed=False, help="order of equal slots of the label space"
    )

    @property
    def label_rule(self) -> LabelRule:
        """The rule that generates the stratified order of labels."""
        return self.label_slots or self.label_multiplier

    @property
    def block_s(self) -> float:
        """Time in which the source packets of a block are sent."""
        return self.source_packets / self.rate_pps

    @property
    def recovery_s(self) -> float:
        """Time from a repair until the stream is in steady state again.

        It consists of the hold time, two reports and four blocks.
        """
        if self.block_size is not None:
            return 2 * self.report_interval_s
        return self.hold_s + 2 * self.report_interval_s + 4 * self.block_s

    @property
    def usual_playback_s(self) -> float:
        """The default playback buffer."""
        return max(MIN_PLAYBACK_S, MIN_PLAYBACK_BLOCKS * self.block_s)

    def __post_init__(self) -> None:
        if self.playback_s is None:
            object.__setattr__(self, "playback_s", self.usual_playback_s)
        if self.label_multiplier is None:
            object.__setattr__(self, "label_multiplier", WEYL_MULTIPLIER)
        if not (self.report_interval_s > 0 and self.report_packets > 0):
            raise InputError("stream: report interval and packets must be above 0")
        if self.late_pps is not None and not self.late_pps > 0:
            raise InputError(f"stream: late parity at {self.late_pps} packets/s; give more than 0")
        if self.block_size is not None and not self.source_packets <= self.block_size <= 255:
            raise InputError(
                f"stream: block size {self.block_size}; "
                f"give a number from M ({self.source_packets}) to 255"
            )
        try:
            stratified_labels(self.label_rule)
        except FecError as error:
            raise InputError(f"stream: {error}") from None


@options
class CodingOptions(StreamParameters):
    """Options of coding: the parameters of a stream, a profile and the kind of code.

    Attributes:
        profile: Name of a set of parameters (``PROFILES``).
        code: "reed-solomon", or "none" for a stream without parity.
    """

    profile: str | None = coded(
        default=None,
        choices=tuple(PROFILES),
        presets=PROFILES,
        only=(CODED,),
        help="preset of packet rate, M, symbol size and playback buffer",
    )

    code: Literal["reed-solomon", "none"] = coded(
        default="reed-solomon",
        choices=("reed-solomon", "none"),
        only=(CODED, NOT_PROBING),
        help="erasure code (default: {default}). With none, no parity is sent, and lost packets "
        "are not repaired",
    )

    @property
    def parameters(self) -> StreamParameters:
        """The parameters of the plan.

        Without a code, a block has M packets.
        """
        values = {field.name: getattr(self, field.name) for field in fields(StreamParameters)}
        if self.code == "none":
            if self.block_size not in (None, self.source_packets):
                raise InputError(
                    f"stream: block size {self.block_size} without a code; "
                    "leave out the block size (block_size, --block-size), or the code none"
                )
            values["block_size"] = self.source_packets
        return StreamParameters(**values)


@options
class StreamOptions(CodingOptions):
    """Options of one coded stream.

    Attributes:
        network: Catalogue name, file or network.
        source: The node at which the stream starts.
        sink: The node at which the stream ends.
        method: Routing method.
        routing: Another name of ``method``.
        layers: Number of layers of capillary routing; None for all.
        duration_s: Duration of the stream; None until the last fault has been answered.
        faults: Faults, "each-link" or an ``EachLink``, "none", or a Poisson process
            ("poisson:rate=R,lasts=S").
        fault_kind: Kind of the faults of "each-link".
        fault_loss: Share of packets that these faults lose, if their kind is "loss".
        one_way: These faults break only the loaded direction.
        precision: Accepted error of the measured loss, in percentage points.
        links: Maximum number of links that fail; they are chosen evenly from the order by load.
        seed: Seed of labels, faults and content.
    """

    network: NetworkLike = option(
        kw_only=False,
        positional=True,
        metavar="NETWORK",
        help="network: a catalogue name (see testbed topology list) or a file",
    )
    source: str = ends(
        kw_only=False, flag="--from", metavar="NODE", help="node that sends the stream"
    )
    sink: str = ends(
        kw_only=False, flag="--to", metavar="NODE", help="node that receives the stream"
    )
    method: str = routed(default="capillary", listed=False, help="routing method")
    routing: str | None = routed(default=None, listed=False, help="another name of method")
    layers: int | None = routed(
        default=None,
        kind=kinds.count,
        metavar="K",
        only=(CODED, _CAPILLARY),
        help="use only the first K layers (capillary routing only)",
    )
    duration_s: float | None = sent(
        default=None,
        kind=kinds.duration,
        metavar="S",
        only=(NOT_PROBING,),
        help="duration of the stream (default: until the sender has reacted to the last fault)",
    )
    faults: FaultsLike | EachLink | PoissonFaults = failing(
        default="each-link",
        metavar=f"each-link|none|poisson:...|{FAULT_WORDS}|FILE",
        only=(NOT_PROBING,),
        help="links that fail, and when (default: {default}). With poisson:rate=R,lasts=S, "
        "every loaded cable fails R times per second for S seconds, and failures may "
        "overlap",
    )
    fault_kind: FaultKind = failing(
        default="down",
        choices=("down", "blackhole", "loss"),
        only=(NOT_PROBING, _EACH_LINK),
        help="kind of failure (each-link only; default: {default})",
    )
    fault_loss: float = failing(
        default=0.5,
        kind=kinds.fraction,
        metavar="FRACTION",
        only=(CODED, Only(when=_fails_each_link_by_loss, needs="--fault-kind loss")),
        help="loss rate of --fault-kind loss",
    )
    one_way: bool = failing(
        default=False,
        only=(CODED, NOT_PROBING, _EACH_LINK),
        help="break only the direction that carries the stream (each-link only)",
    )
    precision: float = failing(
        flag="--loss-precision",
        default="1",
        kind=kinds.points,
        metavar="POINTS",
        only=(CODED, NOT_PROBING, _EACH_LINK),
        help="precision of the measured loss, in percentage points",
    )
    links: int | None = failing(
        flag="--max-faults",
        default=None,
        kind=kinds.count,
        only=(NOT_PROBING, _EACH_LINK),
        help="maximum number of links that fail, chosen evenly by load (each-link only)",
    )
    seed: int = running(
        default=1, kind=kinds.seed, help="seed of labels, faults and packet contents"
    )

    def __post_init__(self) -> None:
        _take_routing(self)
        super().__post_init__()


def _take_routing(requested: StreamOptions | MobilityOptions) -> None:
    """Use ``routing`` as the ``method``.

    Raises:
        InputError: Both are given and differ.
    """
    if requested.routing is None:
        return
    if requested.method not in ("capillary", requested.routing):
        raise InputError(
            f"routing {requested.routing!r} and method {requested.method!r} differ; "
            "give one of them"
        )
    object.__setattr__(requested, "method", requested.routing)


@options
class StreamRunOptions:
    """Options of a run of the command ``stream``.

    Attributes:
        background_bps: Rate of TCP traffic between the two ends at the same time; None for none.
        queues: "priority" sends streams before TCP on every link.
        mtu: Maximum size of an IP packet on every link, in bytes.
        pcap: Links to record, as ``a->b=FILE``.
    """

    background_bps: float | None = ends(
        default=None,
        flag="--background-rate",
        kind=kinds.rate_bps,
        only=(CODED, NOT_PROBING, _ONE_MACHINE),
        switches_only=True,
        help="rate of TCP traffic between the end points at the same time (emulation only; "
        "default: none)",
    )
    queues: Literal["fifo", "priority"] = ends(
        flag="--queueing",
        default="fifo",
        choices=("fifo", "priority"),
        only=(CODED, NOT_PROBING),
        switches_only=True,
        help="queueing on every link: one queue for all traffic (fifo), or streams before TCP "
        "(emulation only; default: {default})",
    )
    mtu: int = ends(
        default=1500,
        kind=kinds.mtu_bytes,
        only=(CODED, NOT_PROBING),
        switches_only=True,
        help="MTU of every interface, in bytes",
    )
    pcap: Sequence[str] = running(
        default=(),
        many=True,
        metavar="LINK=FILE",
        only=(CODED, NOT_PROBING, _ONE_MACHINE),
        switches_only=True,
        help="record the packets of link a->b in FILE (emulation only; repeatable)",
    )


@options
class MobilityOptions(CodingOptions):
    """Options of a coded stream while nodes move.

    The default playback buffer is 0.4 s, and longer at a lower rate. The default rate of late
    parity is three times the rate of the stream.

    Attributes:
        frames: One mobile network, or one network for each frame.
        source: The node at which the stream starts.
        sink: The node at which the stream ends.
        count: Number of frames of a mobile network.
        frame_s: Duration of a frame.
        warm_up_s: Time from the start of the stream to the first frame.
        handover: A key of ``HANDOVERS``.
        method: Routing method.
        routing: Another name of ``method``.
        layers: Number of layers of capillary routing; 0 for all.
        rate_pps: Source packets per second.
        faults: Faults, "none", or a Poisson process ("poisson:rate=R,lasts=S").
        seed: Seed of labels, faults and content.
    """

    frames: NetworkLike | Sequence[NetworkLike] = option(
        kw_only=False,
        positional=True,
        many=True,
        metavar="NETWORK",
        help="mobile network (manet:...), or one file for each frame",
    )
    source: str = ends(
        kw_only=False, flag="--from", metavar="NODE", help="node that sends the stream"
    )
    sink: str = ends(
        kw_only=False, flag="--to", metavar="NODE", help="node that receives the stream"
    )
    count: int = ends(
        default=20,
        flag="--frames",
        kind=kinds.some,
        only=(
            Only(when=_has_one_network, needs="one mobile network, not one file for each frame"),
        ),
        help="number of frames of a mobile network",
    )
    frame_s: float = ends(
        flag="--frame-duration",
        default="5",
        kind=kinds.answering,
        metavar="S",
        help="duration of each frame, in seconds",
    )
    warm_up_s: float = option(
        default=0.8, listed=False, help="seconds from the start of the stream to the first frame"
    )
    handover: str = ends(
        default="break-before-make",
        choices=tuple(HANDOVERS),
        metavar="{break-before-make,make-before-break}",
        help="replace the routes after links have disappeared without warning "
        "(break-before-make), or before they disappear",
    )
    method: str = routed(
        default="capillary",
        flag="--routing",
        metavar="METHOD",
        help="routing method, see testbed route (default: {default})",
    )
    routing: str | None = routed(default=None, listed=False, help="another name of method")
    layers: int | None = routed(
        default=3,
        kind=kinds.few,
        metavar="K",
        only=(_CAPILLARY,),
        help="use only the first K layers (capillary routing only; default: {default}; 0: all)",
    )
    rate_pps: float = coded(
        flag="--packet-rate", default="50", kind=kinds.rate_pps, help="source packets per second"
    )
    faults: FaultsLike | PoissonFaults = failing(
        default="none",
        metavar="none|poisson:rate=R,lasts=S",
        help="random failures besides the movement",
    )
    seed: int = running(
        default=1, kind=kinds.seed, help="seed of labels, faults and packet contents"
    )

    @property
    def usual_playback_s(self) -> float:
        """The default playback buffer."""
        return MIN_PLAYBACK_S * max(1.0, USUAL_RATE_PPS / self.rate_pps)

    def __post_init__(self) -> None:
        _take_routing(self)
        if self.late_pps is None:
            object.__setattr__(self, "late_pps", LATE_PER_SOURCE * self.rate_pps)
        super().__post_init__()
