"""The plan of an uncoded stream whose routing reacts to failures, and the measurements of a run."""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from testbed.errors import InputError
from testbed.faults.fault import Fault, FaultTimes, overlapping
from testbed.judgement.deliveries import Deliveries, packet_deliveries
from testbed.metapath.options import ROUTINGS, MetapathOptions, Routing
from testbed.metapath.source import SourceEvent
from testbed.metapath.wire import PACKET_BYTES
from testbed.model.short_repr import ShortRepr
from testbed.stream.measurements import FloatArray, IntArray, RunHealth
from topologies import Json, Network, label_of
from topologies.routing_tables import static_routing

# When background traffic starts. Until then the source learns the latency without load.
BACKGROUND_AFTER_S = 0.5
# Time between two reports.
REPORT_S = 0.01
# How long the sink waits for packets in transit after the last one was sent.
AFTER_END_S = 0.3
# Tolerance of every predicted time of the source: the scheduling of processes, and late reports.
SLACK_S = 0.05
MAX_PACKET_BYTES = 8900
# Ethernet, IPv4 and UDP.
_HEADERS_BYTES = 14 + 20 + 8
MAX_RATE_PPS = 20_000
# Largest share of a link's capacity that the stream may fill.
MAX_LOAD = 0.8


@dataclass(frozen=True, kw_only=True, repr=False)
class MetapathPlan(ShortRepr):
    """The plan of an uncoded stream.

    Attributes:
        network: The network.
        source: The node that sends.
        sink: The node that receives.
        routing: How the routing reacts to failures.
        rate_pps: Packets per second.
        packet_bytes: Payload of each packet.
        faults: The faults of the run.
        duration_s: Duration of the stream.
        options: Options of FT-DRB's source.
        background_bps: Rate of TCP on the minimal path, from half a second after the start; 0 for
            none.
        report_s: Time between two reports of the sink.
        seed: Seed of the source's choice of paths.

    Raises:
        InputError: A value is out of range, or the faults cannot be judged.
    """

    network: Network
    source: str
    sink: str
    routing: Routing = "ft-drb"
    rate_pps: float = 1000.0
    packet_bytes: int = 256
    faults: tuple[Fault, ...] = ()
    duration_s: float = 3.0
    options: MetapathOptions = field(default_factory=MetapathOptions)
    background_bps: float = 0.0
    report_s: float = 0.01
    seed: int = 1

    def __post_init__(self) -> None:
        if self.routing not in ROUTINGS:
            raise InputError(f"routing {self.routing!r}; give {', '.join(ROUTINGS)}")
        if not 1 <= self.rate_pps <= MAX_RATE_PPS:
            raise InputError(f"rate {self.rate_pps:g} packets/s; give 1 to 20000")
        if not PACKET_BYTES <= self.packet_bytes <= MAX_PACKET_BYTES:
            raise InputError(f"packets of {self.packet_bytes} bytes; give {PACKET_BYTES} to 8900")
        last_s = 0.0
        for fault in self.faults:
            change_s = fault.stop_s
            if fault.permanent:
                change_s = fault.start_s
            last_s = max(last_s, change_s)
        if not self.duration_s > last_s:
            raise InputError(
                f"duration {self.duration_s:g} s; the last fault begins or ends at {last_s:g} s, "
                "the stream must go on"
            )
        if self.background_bps and self.routing == "recomputed":
            raise InputError(
                "background TCP has no rules where a route is recomputed; leave one of the two out"
            )
        if overlapping(self.faults):
            self._check_overlap()
        self._check_faults()
        self._check_hosts()
        self._check_load()
        if self.routing == "ft-drb" and self.faults:
            self._check_timing()

    def _check_faults(self) -> None:
        """Raise InputError for a fault of a wrong kind, or on a link that does not exist."""
        for fault in self.faults:
            if fault.kind in ("loss", "impaired"):
                raise InputError(
                    f"fault on {label_of(fault.link)}: {fault.description}; give down or blackhole"
                )
            if fault.link not in self.network.link_index:
                raise InputError(
                    f"fault on {label_of(fault.link)}, which is no link of {self.network.name!r}"
                )

    def _check_load(self) -> None:
        """Raise InputError if the stream fills too much of the slowest link."""
        capacity_bps = min(link.capacity_bps for link in self.network.links)
        frame_bytes = self.packet_bytes + _HEADERS_BYTES
        if self.rate_pps * frame_bytes * 8 > MAX_LOAD * capacity_bps:
            raise InputError(
                f"{self.rate_pps:g} packets/s of {self.packet_bytes} bytes fill more than 80 % of "
                f"a link of {capacity_bps / 1e6:g} Mbit/s; lower --packet-rate or --symbol-size"
            )

    def _check_hosts(self) -> None:
        """Raise InputError if a host would have to choose a path: only switches do so here."""
        forwarding = [host.id for host in self.network.hosts if host.forwards]
        for end in (self.source, self.sink):
            if self.network.node(end).kind != "host":
                continue
            cables = len(self.network.out_links(end))
            if cables > 1:
                reason = f"{end!r} has {cables} cables"
            elif forwarding:
                reason = f"{forwarding[0]!r} forwards"
            else:
                continue
            raise InputError(
                f"routing {self.routing}: host {reason}, and it tells switches alone; give "
                "--routing capillary"
            )

    def found_s(self, kind: str) -> float:
        """Return the time from a failure to its detection by the source without the controller.

        The source needs several notifications, each from a packet, and a report that contains them.
        If packets vanish silently, each counts only after the loss timeout.

        Args:
            kind: The kind of the fault.
        """
        timeout_s = 0.0
        if kind == "blackhole":
            timeout_s = self.options.silence_s
        return timeout_s + self.options.notifications / self.rate_pps + REPORT_S

    @property
    def return_s(self) -> float:
        """The time from a repair to the return to the minimal path: a probe and two reports."""
        return self.options.probe_every / self.rate_pps + 2 * REPORT_S

    def _check_timing(self) -> None:
        """Raise InputError for faults that the source cannot detect in time.

        A failure of the minimal path must last until the source has detected it. After the repair,
        the source needs time to detect it before the next fault, or the end. Otherwise the run
        would fail whatever the network did.
        """
        minimal = {frozenset(link) for link in static_routing(self.network)(self.source, self.sink)}
        detected_by_source = {"blackhole"}
        if self.options.notify == "header":
            detected_by_source.add("down")
        probes_repair = self.options.link_up == "probe" and not overlapping(self.faults)
        for fault in self.faults:
            if frozenset(fault.link) not in minimal:
                continue
            if fault.kind in detected_by_source:
                self._check_detection(fault)
            if probes_repair and not fault.permanent:
                self._check_return(fault)

    def _check_detection(self, fault: Fault) -> None:
        """Raise InputError if the fault ends before the source can detect it."""
        lasts_s = min(fault.stop_s, self.duration_s) - fault.start_s
        detection_s = self.found_s(fault.kind)
        if lasts_s <= detection_s + SLACK_S:
            raise InputError(
                f"fault on {label_of(fault.link)} lasts {lasts_s:g} s; at {self.rate_pps:g} "
                f"packets/s the source finds it after {detection_s:.3g} s "
                f"({self.options.notifications} notifications): make the fault longer, raise the "
                "rate (--packet-rate), or ask for fewer notifications (--notifications)"
            )

    def _check_return(self, fault: Fault) -> None:
        """Raise InputError if too little time is left to detect the repair."""
        next_s = self.duration_s
        for other in self.faults:
            if other.start_s >= fault.stop_s:
                next_s = min(next_s, other.start_s)
        left_s = next_s - fault.stop_s
        if left_s <= self.return_s:
            raise InputError(
                f"fault on {label_of(fault.link)} ends {left_s:g} s before the next one or the "
                f"end; at {self.rate_pps:g} packets/s the source finds it over after "
                f"{self.return_s:.3g} s (one packet in {self.options.probe_every} probes): make "
                "the pause or the stream longer (--duration), the rate higher (--packet-rate), or "
                "probe more often (--probe-every)"
            )

    def _check_overlap(self) -> None:
        """Raise InputError unless the effects of overlapping faults can be told apart.

        This is possible only for failures of different cables under FT-DRB.
        """
        cables = {frozenset(fault.link[:2]) | {fault.link[2]} for fault in self.faults}
        all_down = all(fault.kind == "down" for fault in self.faults)
        if self.routing != "ft-drb" or not all_down or len(cables) < len(self.faults):
            raise InputError(
                f"routing {self.routing}: faults overlap; their effects cannot be distinguished "
                "(ft-drb: cuts of different cables may)"
            )


@dataclass(frozen=True, kw_only=True)
class SentDatagrams:
    """The datagrams that were sent.

    Attributes:
        time_s: Shape (n,): when each was sent.
        message: Shape (n,): the message that it carries; a copy carries the same as the original.
        path: Shape (n,): the number of its path.
        copy: Shape (n,): 1 for a copy, else 0.
    """

    time_s: FloatArray
    message: IntArray
    path: IntArray
    copy: IntArray


@dataclass(frozen=True, kw_only=True)
class ReceivedDatagrams:
    """The datagrams that arrived.

    Attributes:
        time_s: Shape (n,): when each arrived.
        number: Shape (n,): its index among the sent datagrams.
        dead_link: Shape (n,): the link (index) that it escaped from last; -1 for none.
    """

    time_s: FloatArray
    number: IntArray
    dead_link: IntArray


@dataclass(frozen=True, kw_only=True)
class Rerouting:
    """A change of the routes by the controller.

    Attributes:
        notified_s: When the change of a port reached the controller.
        routed_s: When the new split was computed.
        done_s: When the switches had applied it.
        rules: Number of rules.
    """

    notified_s: float
    routed_s: float
    done_s: float
    rules: int


@dataclass(frozen=True, kw_only=True)
class MetapathRun:
    """The measurements of a run, with times in seconds since the stream's start.

    Attributes:
        sent: The datagrams that were sent.
        received: The datagrams that arrived.
        faults: When each fault was active.
        events: The notifications and reactions of FT-DRB's source.
        rerouted: The changes of the routes by the controller.
        zero_load_s: The latency without load that the source measured; None if it did not.
        health: How well the machine kept up.
        counters: Other counters by name.
    """

    sent: SentDatagrams
    received: ReceivedDatagrams
    faults: tuple[FaultTimes, ...]
    events: tuple[SourceEvent, ...] = ()
    rerouted: tuple[Rerouting, ...] = ()
    zero_load_s: float | None = None
    health: RunHealth
    counters: Json = field(default_factory=dict)

    @cached_property
    def deliveries(self) -> Deliveries:
        """The fate of every datagram that was sent."""
        numbers = np.arange(len(self.sent.time_s))
        received = self.received
        return packet_deliveries(numbers, self.sent.time_s, received.number, received.time_s)
