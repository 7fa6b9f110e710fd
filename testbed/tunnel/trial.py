"""A trial: the same programs and faults over each mode of a tunnel and over the direct path.

A mode under comparison, or the direct path, is called a rival (``testbed.tunnel.options.RIVALS``).
Each rival has one run.
"""

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

# Start and stop of the three default failures, as shares of the run.
_DEFAULT_FAULT_TIMES = ((0.1, 0.25), (0.4, 0.55), (0.7, 0.85))
# Minimum duration of a run.
MIN_S = 2.0
# Length of the last part of a run, which is not counted, because ffmpeg takes time to start, and
# the last echoes are in transit.
ENDS_S = 1.5
# Interval of echoes and of voice packets.
EVERY_S = 0.02
UDP_PAYLOAD_BYTES = 1200
FRAMES_PER_S = 25
# Frames of the picture from one key frame to the next: an error is visible until then.
KEY_FRAME_EVERY = FRAMES_PER_S


@dataclass(frozen=True, kw_only=True, repr=False)
class TrialPlan(ShortRepr):
    """The plan of a trial.

    Attributes:
        tunnel: The adaptive tunnel. The other modes differ from it only in their mode.
        direct: One shortest path from source to sink.
        direct_back: One shortest path from sink to source.
        rivals: The rivals to run, in this order.
        workloads: The programs to run; ``tcp`` gets runs of its own, because it fills every link.
        faults: The faults of each run.
        duration_s: Duration of each run.
        udp_rate_bps: Rate of the workload ``udp`` in bit/s.
        command: The arguments of a program of the user, which runs at the source; or empty.
    """

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
        """The network of the trial."""
        return self.tunnel.there.network

    @property
    def source(self) -> str:
        """The first end of the tunnel, at which programs start."""
        return self.tunnel.there.source

    @property
    def sink(self) -> str:
        """The other end of the tunnel."""
        return self.tunnel.there.sink

    @property
    def only_tcp(self) -> bool:
        """True if the only program is TCP, which fills every link, so that queues drop packets."""
        return self.workloads == ("tcp",) and not self.command

    def reversed(self) -> "TrialPlan":
        """Return the plan as the sink sees it."""
        return replace(
            self,
            tunnel=self.tunnel.reversed(),
            direct=self.direct_back,
            direct_back=self.direct,
        )

    def least_sent(self, workload: str) -> float:
        """Return half of the packets that a workload should send.

        A run with fewer packets has not tested the tunnel. For video these are frames; tcp may send
        any number.
        """
        rates = {
            "udp": self.udp_rate_bps / 8 / UDP_PAYLOAD_BYTES,
            "video": FRAMES_PER_S,
            "tcp": 0.0,
        }
        return 0.5 * (self.duration_s - ENDS_S) * rates.get(workload, 1 / EVERY_S)

    def epochs(self) -> tuple[Epoch, ...]:
        """Return the intervals between changes of the faults, for the direction to the sink."""
        there = replace(self.tunnel.there, faults=self.faults, duration_s=self.duration_s)
        return planned_epochs(there)


@dataclass(frozen=True, kw_only=True)
class RivalRun:
    """The measurements of one rival's run.

    Attributes:
        rival: The rival.
        source: The log of the tunnel's end at the source; None for ``direct``.
        sink: The log of the tunnel's end at the sink; None for ``direct``.
        programs: The results of the programs by workload.
        faults: When each fault was active.
        lag_s: Maximum delay of the tunnel's ends and of the voice source by the machine.
        packets: Number of frames that left the switches of both ends.
        queue_drops: Number of frames dropped because a link's queue was full.
        machine_drops: Number of frames dropped because a switch, a socket or a device waited for a
            processor.
    """

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
    """The measurements of a trial.

    Attributes:
        runs: One run of each rival.
        missing: The programs that are not installed, by workload.
        fabric: The kind of network that the trial ran on.
    """

    runs: tuple[RivalRun, ...]
    missing: Mapping[str, str] = field(default_factory=dict)
    fabric: str = "emulation"


def build_trial(requested: TunnelOptions) -> TrialPlan:
    """Build the plan of a trial from its options.

    Raises:
        InputError: The ends, the workloads, the times or the faults are invalid.
    """
    network = known_network(requested.network)
    if isinstance(requested.between, str) or len(requested.between) != 2:
        raise InputError(f"between {requested.between!r}: give the two ends of the tunnel")
    first, second = requested.between
    source = read_node(first, network)
    sink = read_node(second, network)
    workloads = _read_workloads(requested)
    if requested.duration_s < MIN_S:
        raise InputError(f"duration {requested.duration_s:g} s: give at least {MIN_S:g} s")
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
    rivals: tuple[str, ...] = RIVALS
    if requested.mode is not None:
        rivals = (requested.mode,)
    if "static" in rivals:
        # Raises InputError if a static block would be too long.
        replace(tunnel, mode="static")
    direct = spray(route_by_name(network, source, sink, "single"))
    if requested.faults is None:
        faults = default_faults(tunnel, direct, requested.duration_s)
    else:
        faults = read_faults(requested.faults, network)
    for fault in faults:
        if fault.start_s >= requested.duration_s:
            raise InputError(
                f"fault at {fault.start_s:g} s: the run lasts {requested.duration_s:g} s; "
                "give an earlier one"
            )
    return TrialPlan(
        tunnel=tunnel,
        direct=direct,
        direct_back=spray(route_by_name(network, sink, source, "single")),
        rivals=rivals,
        workloads=workloads,
        faults=faults,
        duration_s=requested.duration_s,
        udp_rate_bps=requested.udp_rate_bps,
        command=tuple(requested.command),
    )


def default_faults(tunnel: TunnelPlan, direct: LabelSplit, duration_s: float) -> tuple[Fault, ...]:
    """Return three failures, one after another.

    The first is a cable of the direct path, the second the most loaded other cable, and the third
    both cables at once. The third is left out if it would leave no path.
    """
    split = tunnel.there.forward
    links = tunnel.there.network.links
    by_load = sorted(split.loaded, key=lambda i: (-split.load(i), i))
    first = next((i for i in direct.paths[0].links if i in split.loaded), by_load[0])
    first_cable = cable_name(links[first].id)
    second = next(i for i in by_load if cable_name(links[i].id) != first_cable)
    failures: list[tuple[Link, ...]] = [
        (links[first],),
        (links[second],),
        (links[first], links[second]),
    ]
    faults = []
    for failed_links, (start, stop) in zip(failures, _DEFAULT_FAULT_TIMES, strict=True):
        start_s = round(start * duration_s, 3)
        stop_s = round(stop * duration_s, 3)
        for link in failed_links:
            faults.append(Fault(link=link.id, start_s=start_s, stop_s=stop_s))
    plan = replace(tunnel.there, faults=tuple(faults), duration_s=duration_s)
    leaves_no_path = max(epoch.loss for epoch in planned_epochs(plan)) >= 1
    if leaves_no_path:
        return tuple(faults[:2])
    return tuple(faults)


def _read_workloads(requested: TunnelOptions) -> tuple[str, ...]:
    """Return the names of ``--workload``, each once.

    Raises:
        InputError: A name is unknown, or neither a workload nor a command is given.
    """
    workloads = tuple(dict.fromkeys(filter(None, requested.workload.split(","))))
    wrong = next((name for name in workloads if name not in WORKLOADS), None)
    if wrong is not None or not (workloads or requested.command):
        raise InputError(
            f"workload {wrong or requested.workload!r}; give some of {', '.join(WORKLOADS)}"
        )
    return workloads
