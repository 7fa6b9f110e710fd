"""A plain stream (no code) whose routing reacts to failures: its plan, and what a run of it measured; values only."""

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

BACKGROUND_AFTER_S = 0.5
"""Until then the source learns the zero-load latency of an empty network."""
REPORT_S = 0.01
AFTER_END_S = 0.3
"""After the last packet, for those under way."""
SLACK_S = 0.05
"""Scheduling of the ends' processes, a few reports that come late: allowed over every predicted time of the source."""


@dataclass(frozen=True, kw_only=True, repr=False)
class MetapathPlan(ShortRepr):
    """``packet_bytes``: payload of each packet. ``background_bps``: TCP next to the stream on its minimal path, from
    half a second after its start (0: none). ``report_s``: from one report of the sink to the next. ``seed``: of the
    draws among paths. InputError for values out of range."""

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
        if not 1 <= self.rate_pps <= 20_000:
            raise InputError(f"rate {self.rate_pps:g} packets/s; give 1 to 20000")
        if not PACKET_BYTES <= self.packet_bytes <= 8900:
            raise InputError(f"packets of {self.packet_bytes} bytes; give {PACKET_BYTES} to 8900")
        last = max((f.start_s if f.permanent else f.stop_s for f in self.faults), default=0.0)
        if not self.duration_s > last:
            raise InputError(
                f"duration {self.duration_s:g} s; the last fault begins or ends at {last:g} s, the stream must go on"
            )
        if self.background_bps and self.routing == "recomputed":
            raise InputError(
                "background TCP has no rules where a route is recomputed; leave one of the two out"
            )
        if overlapping(self.faults):
            self._check_overlap()
        for fault in self.faults:
            if fault.kind in ("loss", "impaired"):
                raise InputError(
                    f"fault on {label_of(fault.link)}: {fault.description}; give down or blackhole"
                )
            if fault.link not in self.network.link_index:
                raise InputError(
                    f"fault on {label_of(fault.link)}, which is no link of {self.network.name!r}"
                )
        self._check_hosts()
        capacity = min(link.capacity_bps for link in self.network.links)
        if self.rate_pps * (self.packet_bytes + 42) * 8 > 0.8 * capacity:
            raise InputError(
                f"{self.rate_pps:g} packets/s of {self.packet_bytes} bytes fill more than 80 % of a link of "
                f"{capacity / 1e6:g} Mbit/s; lower --packet-rate or --symbol-size"
            )

        if self.routing == "ft-drb" and self.faults:
            self._check_timing()

    def _check_hosts(self) -> None:
        """InputError where hosts would have to choose: these routings tell switches alone."""
        forwarding = [host.id for host in self.network.hosts if host.forwards]
        for end in (self.source, self.sink):
            out = len(self.network.out_links(end))
            if self.network.node(end).kind == "host" and (out > 1 or forwarding):
                what = f"{end!r} has {out} cables" if out > 1 else f"{forwarding[0]!r} forwards"
                raise InputError(
                    f"routing {self.routing}: host {what}, and it tells switches alone; give --routing capillary"
                )

    def found_s(self, kind: str) -> float:
        """From a failure to its discovery by the source alone: so many packets tell of it, if they go missing each
        after so long, and a report shows it."""
        missing_s = self.options.silence_s if kind == "blackhole" else 0.0
        return missing_s + self.options.notifications / self.rate_pps + REPORT_S

    @property
    def return_s(self) -> float:
        """From a repair to the return to the minimal path: a packet that tries it, its report, and the next one."""
        return self.options.probe_every / self.rate_pps + 2 * REPORT_S

    def _check_timing(self) -> None:
        """InputError for a failure of the minimal path that is over before the source can find it, or that the source
        cannot find to be over before the next one, or the end: whatever the network did, such a run would be held to
        have failed."""
        minimal = {frozenset(link) for link in static_routing(self.network)(self.source, self.sink)}
        at = f"at {self.rate_pps:g} packets/s"
        by_source = {"blackhole"} | ({"down"} if self.options.notify == "header" else set())
        for fault in self.faults:
            if frozenset(fault.link) not in minimal:
                continue
            name, lasts_s = (
                f"fault on {label_of(fault.link)}",
                min(fault.stop_s, self.duration_s) - fault.start_s,
            )
            if fault.kind in by_source and lasts_s <= self.found_s(fault.kind) + SLACK_S:
                raise InputError(
                    f"{name} lasts {lasts_s:g} s; {at} the source finds it after {self.found_s(fault.kind):.3g} s "
                    f"({self.options.notifications} notifications): make the fault longer, raise the rate "
                    "(--packet-rate), or ask for fewer notifications (--notifications)"
                )
            if fault.permanent:
                continue
            following = [other.start_s for other in self.faults if other.start_s >= fault.stop_s]
            left_s = min([*following, self.duration_s]) - fault.stop_s
            if (
                self.options.link_up == "probe"
                and not overlapping(self.faults)
                and left_s <= self.return_s
            ):
                raise InputError(
                    f"{name} ends {left_s:g} s before the next one or the end; {at} the source finds it over after "
                    f"{self.return_s:.3g} s (one packet in {self.options.probe_every} probes): make the pause or the "
                    "stream longer (--duration), the rate higher (--packet-rate), or probe more often (--probe-every)"
                )

    def _check_overlap(self) -> None:
        """Only cuts of different cables, which FT-DRB's routers answer, can be distinguished while both are in
        force."""
        cables = {frozenset(f.link[:2]) | {f.link[2]} for f in self.faults}
        if (
            self.routing != "ft-drb"
            or any(f.kind != "down" for f in self.faults)
            or len(cables) < len(self.faults)
        ):
            raise InputError(
                f"routing {self.routing}: faults overlap; their effects cannot be distinguished (ft-drb: cuts of "
                "different cables may)"
            )


@dataclass(frozen=True, kw_only=True)
class SentDatagrams:
    """Shape (n,): when each left, the message it carries (a copy carries the same), its path, 1 where it is a copy."""

    time_s: FloatArray
    message: IntArray
    path: IntArray
    copy: IntArray


@dataclass(frozen=True, kw_only=True)
class ReceivedDatagrams:
    """Shape (n,): arrivals; ``number`` indexes the sent ones; the link that it escaped from last, -1 for none."""

    time_s: FloatArray
    number: IntArray
    dead_link: IntArray


@dataclass(frozen=True, kw_only=True)
class Rerouting:
    """A port's change reached the controller at ``notified_s``, the new split was there at ``routed_s``, switches
    applied it at ``done_s``."""

    notified_s: float
    routed_s: float
    done_s: float
    rules: int


@dataclass(frozen=True, kw_only=True)
class MetapathRun:
    """What was measured, times in seconds since the stream's start; ``events``: what the source learned and did."""

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
