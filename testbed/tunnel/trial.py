"""A trial of a tunnel: the same programs and faults over it and over its rivals, one run each; what a run measures."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from testbed.errors import InputError
from testbed.faults.fault import Fault, FaultTimes
from testbed.faults.reading import read_faults
from testbed.model.label_split import LabelSplit
from testbed.model.naming.names import known_network, read_node
from testbed.model.short_repr import ShortRepr
from testbed.routing import route_by_name
from testbed.routing.label_split.spraying import spray
from testbed.stream.prediction.active_faults import Epoch, cable_name, planned_epochs
from testbed.tunnel.options import RIVALS, WORKLOADS, TunnelOptions
from testbed.tunnel.plan import EndLog, TunnelPlan, build_tunnel
from topologies import Json, Link, Network

_TIMES = ((0.1, 0.25), (0.4, 0.55), (0.7, 0.85))
"""Of the three failures that come where nothing else is said, as parts of a run."""
LEAST_S, ENDS_S = 2.0, 1.5
"""Before a run's end: ffmpeg takes its time to begin, and the last echoes are under way."""
EVERY_S, UDP_PAYLOAD_BYTES, FRAMES_PER_S = 0.02, 1200, 25
"""Of echoes and voice; of datagrams; of the picture."""
# Frames of the picture from one key frame to the next: an error is visible until then.
KEY_FRAME_EVERY = FRAMES_PER_S


@dataclass(frozen=True, kw_only=True, repr=False)
class TrialPlan(ShortRepr):
    """``tunnel``: of the mode adaptive; the others differ in their mode alone. ``direct``: one shortest path there, and
    ``direct_back``.
    ``rivals``: which run, in that order, each for ``duration_s`` (twice where ``workloads`` have tcp, which fills every
    link). ``command``: a program at the source."""

    tunnel: TunnelPlan
    direct: LabelSplit
    direct_back: LabelSplit
    rivals: tuple[str, ...]
    workloads: tuple[str, ...]
    faults: tuple[Fault, ...]
    duration_s: float
    udp_rate_bps: float
    command: tuple[str, ...] = ()

    @property
    def network(self) -> Network:
        return self.tunnel.there.network

    @property
    def source(self) -> str:
        return self.tunnel.there.source

    @property
    def sink(self) -> str:
        return self.tunnel.there.sink

    @property
    def only_tcp(self) -> bool:
        """Whether nothing goes but what fills every link, so that packets are lost to queues on purpose."""
        return self.workloads == ("tcp",) and not self.command

    def reversed(self) -> "TrialPlan":
        """Return the plan as its sink sees it."""
        return replace(
            self,
            tunnel=self.tunnel.reversed(),
            direct=self.direct_back,
            direct_back=self.direct,
        )

    def least_sent(self, workload: str) -> float:
        """Half of the packets (of a picture: frames) that a workload is to send; of tcp there may be any number."""
        rates = {
            "udp": self.udp_rate_bps / 8 / UDP_PAYLOAD_BYTES,
            "video": FRAMES_PER_S,
            "tcp": 0.0,
        }
        return 0.5 * (self.duration_s - ENDS_S) * rates.get(workload, 1 / EVERY_S)

    def epochs(self) -> tuple[Epoch, ...]:
        """Times between which links fail and are repaired, of the split way there."""
        return planned_epochs(
            replace(self.tunnel.there, faults=self.faults, duration_s=self.duration_s)
        )


@dataclass(frozen=True, kw_only=True)
class RivalRun:
    """``source``, ``sink``: the logs of the tunnel's ends there (none of direct).
    ``programs``: workload -> what it measured. ``lag_s``: by which the ends and the voice were late at worst;
    ``packets``: that left both ends' switches; ``queue_drops``: frames that found a queue of a link full,
    ``machine_drops``: of a switch, a socket or a device that waited for a processor."""

    rival: str
    source: EndLog | None = None
    sink: EndLog | None = None
    programs: Mapping[str, Json] = field(default_factory=dict)
    faults: tuple[FaultTimes, ...] = ()
    lag_s: float = 0.0
    packets: int = 0
    queue_drops: int = 0
    machine_drops: int = 0


@dataclass(frozen=True, kw_only=True)
class TrialMeasurements:
    """One run of each rival; ``missing``: workload -> the program that this machine does not have."""

    runs: tuple[RivalRun, ...]
    missing: Mapping[str, str] = field(default_factory=dict)
    fabric: str = "emulation"


def build_trial(requested: TunnelOptions) -> TrialPlan:
    """InputError where the two ends, the workloads or the faults do not fit the network."""
    network = known_network(requested.network)
    if isinstance(requested.between, str) or len(requested.between) != 2:
        raise InputError(f"between {requested.between!r}: give the two ends of the tunnel")
    source, sink = (read_node(node, network) for node in requested.between)
    workloads = tuple(dict.fromkeys(filter(None, requested.workload.split(","))))
    wrong = next((name for name in workloads if name not in WORKLOADS), None)
    if wrong is not None or not (workloads or requested.command):
        raise InputError(
            f"workload {wrong or requested.workload!r}; give some of {', '.join(WORKLOADS)}"
        )
    if requested.duration_s < LEAST_S:
        raise InputError(f"duration {requested.duration_s:g} s: give at least {LEAST_S:g} s")
    tunnel = build_tunnel(
        network,
        source,
        sink,
        flush_s=requested.flush_s,
        order_s=requested.order_s,
        source_packets=requested.source_packets,
        playback_s=requested.playback_s,
        method=requested.routing,
        seed=requested.seed,
    )
    rivals = RIVALS if requested.mode is None else (requested.mode,)
    if "static" in rivals:
        replace(tunnel, mode="static")  # which refuses what it has no blocks for
    direct = spray(route_by_name(network, source, sink, "single"))
    faults = requested.faults
    chosen = (
        default_faults(tunnel, direct, requested.duration_s)
        if faults is None
        else read_faults(faults, network)
    )
    late = next((fault for fault in chosen if fault.start_s >= requested.duration_s), None)
    if late is not None:
        raise InputError(
            f"fault at {late.start_s:g} s: the run lasts {requested.duration_s:g} s; give an earlier one"
        )
    return TrialPlan(
        tunnel=tunnel,
        direct=direct,
        direct_back=spray(route_by_name(network, sink, source, "single")),
        rivals=rivals,
        workloads=workloads,
        faults=chosen,
        duration_s=requested.duration_s,
        udp_rate_bps=requested.udp_rate_bps,
        command=tuple(requested.command),
    )


def default_faults(tunnel: TunnelPlan, direct: LabelSplit, duration_s: float) -> tuple[Fault, ...]:
    """A cable of the direct path, the most loaded other one, then both at once, unless that would leave no path."""
    split = tunnel.there.forward
    links = tunnel.there.network.links
    loaded = sorted(split.loaded, key=lambda i: (-split.load(i), i))
    first = next((i for i in direct.paths[0].links if i in split.loaded), loaded[0])
    second = next(i for i in loaded if cable_name(links[i].id) != cable_name(links[first].id))
    pairs: list[tuple[Link, ...]] = [
        (links[first],),
        (links[second],),
        (links[first], links[second]),
    ]
    faults = [
        Fault(
            link=link.id, start_s=round(start * duration_s, 3), stop_s=round(stop * duration_s, 3)
        )
        for cut, (start, stop) in zip(pairs, _TIMES, strict=True)
        for link in cut
    ]
    both = planned_epochs(replace(tunnel.there, faults=tuple(faults), duration_s=duration_s))
    return tuple(faults if max(epoch.loss for epoch in both) < 1 else faults[:2])
