"""A network over several machines. Each request goes to the machines that it is about.

Times are given and returned on the monotonic clock of the coordinator, in seconds.
"""

import secrets
import socket
import time
from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, TypeVar

from testbed.arrays import FloatArray
from testbed.emulation.control.controller_link import PortEvent
from testbed.errors import CapabilityError, InvalidRunError, MachineDiedError, TestbedError
from testbed.faults.fault import Direction, Fault
from testbed.faults.link_settings import LinkSettings
from testbed.machines.adapters import rpc_network
from testbed.machines.adapters.cluster import Machines, machines_up
from testbed.machines.adapters.stream_forwarding import (
    BRIDGE,
    KEY_BYTES,
    connect_relay,
    serve_streams,
)
from testbed.machines.machines_report import (
    ClockReport,
    Counts,
    MachinesReport,
    clock_report,
    count_crossing_packets,
    merge_counts,
)
from testbed.machines.machines_request import MachinesRequest
from testbed.machines.partition import Placement, parse_placement, partition
from testbed.machines.tunnel_plan import plan_parts, require_room, tunnel_port
from testbed.model.progress import CounterReading, Progress, ReportProgress
from testbed.model.wiring import Wiring, WiringPart
from testbed.openflow.rules import FlowRule
from topologies import LinkId, label_of, reverse_of
from topologies.impairments import Impairments, to_text

T = TypeVar("T")
# Time from the request for a start until time zero, in seconds, so that all machines are ready.
LEAD_S = 0.3
# A fault on a crossing cable is requested this long before it takes effect, in seconds, so that
# both ends of the cable change at the same time.
FAULT_LEAD_S = 0.03
# Time within which the death of a machine is noticed, in seconds. After another failure, the run
# waits for this time, to find out whether a dead machine was the cause.
_NOTICED_S = 2.0
# Limit on the time to build a network, in seconds. It grows with the number of switches, because
# one part may have nearly all of them.
_BUILD_S = 120.0
_BUILD_SWITCH_S = 0.3
# Limit on the time of a fault or a new setting, in seconds.
_CHANGE_S = 30


class DistributedNetwork(rpc_network.AllMachines):
    """A running network over several machines. It is a platform (as ``Here``) and its ``network``.

    The crossing links are counted whenever a run checks its machines. So the counts are known when
    a machine dies.

    Attributes:
        names: Name of each machine.
        setup_seconds: For each machine, the duration of each step of building, in seconds.
        gaps_s: For each cut or repair of a crossing cable, the time between the changes at its two
            ends, in seconds. Packets that are sent meanwhile are lost between the machines.
        crossing: The links whose ends are on two machines.
    """

    def __init__(self, machines: Machines, wiring: Wiring, placement: Placement, mtu: int) -> None:
        self.machines = machines
        self.wiring = wiring
        self.placement = placement
        self.mtu = mtu
        self.names = machines.names
        self.call = machines.call
        self.all = machines.all
        self.theirs_s = machines.theirs_s
        self.ours_s = machines.ours_s
        self.setup_seconds: tuple[Mapping[str, float], ...] = ()
        self.gaps_s: list[float] = []
        self.crossing = _crossing_links(wiring, placement)
        self._machine_of_device = placement.device_machines(wiring)
        self._machine_of_bridge: dict[str, int] = {}
        self._machine_of_dpid: dict[int, int] = {}
        for switch in wiring.switches:
            machine = self._machine_of_device[switch.name]
            self._machine_of_bridge[switch.device] = machine
            self._machine_of_dpid[switch.dpid] = machine
        # Packets sent onto each crossing link at the last check of the run.
        self._crossing_packets: dict[str, int] | None = None
        # Time zero of the run, on our clock and on each machine's.
        self._start_s: float | None = None
        self._starts: tuple[float, ...] = ()
        # The counts at the start of the run.
        self._before = Counts(sent={}, arrived={})

    @property
    def network(self) -> "DistributedNetwork":
        """The network of this platform, which is the platform itself."""
        return self

    def machine_of(self, node: str) -> int:
        """Return the machine of a host or switch."""
        return self.placement.machine_of[node]

    def check(self) -> None:
        """Raise a MachineDiedError if a machine has died. Otherwise count the crossing links."""
        self.machines.check()
        counts = self.counts()
        self._crossing_packets = {label_of(link): counts.sent[link][0] for link in self.crossing}

    @contextmanager
    def running(self, measured: Callable[[], Mapping[str, object]]) -> Iterator[None]:
        """Enclose a run. A failure because a machine died becomes a MachineDiedError.

        The error names the machine and the time of its death, in seconds after the start. It also
        has the packets sent onto each crossing link until then.

        Args:
            measured: Returns further measurements for the error.
        """
        began_s = time.monotonic()
        self._start_s = began_s
        self._crossing_packets = None
        self._before = self.counts()
        self.gaps_s = []
        try:
            try:
                yield
                self.machines.check()
            except (OSError, EOFError, TestbedError) as error:
                if not isinstance(error, MachineDiedError):
                    self.machines.check(after_s=_NOTICED_S)
                raise
        except MachineDiedError as error:
            at_s = None
            if error.at_s is not None:
                # ``start`` may have set the start of the run meanwhile.
                at_s = round(error.at_s - (self._start_s or began_s), 3)
            error.measured = {"machine": self.names[error.number], "at_s": at_s, **measured()}
            if self._crossing_packets is not None:
                error.measured["crossing_packets"] = self._crossing_packets
            raise

    def start(self) -> float:
        """Choose time zero of the run, soon after now, and return it."""
        self._start_s = time.monotonic() + LEAD_S
        machines = range(len(self.machines))
        self._starts = tuple(self.theirs_s(machine, self._start_s) for machine in machines)
        return self._start_s

    def start_on(self, machine: int) -> float:
        """Return time zero on the clock of a machine."""
        return self._starts[machine]

    def after_start(self, machine: int, times_s: FloatArray) -> FloatArray:
        """Convert times after the start from a machine's clock to ours.

        Call it when the run is over, because it uses all exchanges of the run.
        """
        if self._start_s is None or not len(times_s):
            return times_s
        clock = self.machines.clock(machine)
        return clock.ours(times_s + self._starts[machine]).middle_s - self._start_s

    @cached_property
    def _stream_servers(self) -> tuple[bytes, list[tuple[str, int]]]:
        """The key of the streams, and the address and port of each machine's server of streams."""
        key = secrets.token_bytes(KEY_BYTES)
        port = tunnel_port(self.machines.run)
        servers = [(facts.address, port) for facts in self.machines.facts]
        starting = [
            self.call(machine, serve_streams, address, port, key)
            for machine, (address, port) in enumerate(servers)
        ]
        for answer in starting:
            answer.result(30)
        return key, servers

    def open_stream(self, machine: int, name: str) -> socket.socket:
        """Connect to a stream of a machine.

        Raises:
            CapabilityError: The machine does not answer.
        """
        key, servers = self._stream_servers
        address, port = servers[machine]
        return connect_relay(address, port, key, name)

    def bridge(self, name: str) -> socket.socket:
        """Connect to the management socket of a bridge."""
        return self.open_stream(self._machine_of_bridge[name], BRIDGE + name)

    def live(self, request: Callable[..., CounterReading], progress: Progress) -> Progress:
        """Return the progress with a function that reads the counters of all machines."""
        return replace(progress, read_remote=partial(self._read_all, request))

    def _read_all(self, request: Callable[..., CounterReading]) -> CounterReading:
        return merge_readings(self.all(request, lane=rpc_network.LANE_LIVE))

    def report(self, max_pps: float) -> MachinesReport:
        """Report on the machines after a run.

        Args:
            max_pps: Highest rate of a link in the run, in packets per second.

        Raises:
            InvalidRunError: The network between the machines lost packets or was slow.
        """
        machines = self.machines
        sent, lost = count_crossing_packets(
            self._before, self.counts(), self.crossing, self.gaps_s, max_pps
        )
        if (degraded := machines.degraded_links()) is not None:
            raise InvalidRunError(degraded)
        start_s = self._start_s or 0.0
        return MachinesReport(
            clocks=tuple(
                _clock_report(machines, number, start_s) for number in range(len(machines))
            ),
            crossing_links=len(self.crossing),
            sent=sent,
            lost=lost,
            cut_gaps_s=tuple(self.gaps_s),
            encrypted_by=machines.encrypted_by,
        )

    def set_link(self, link: LinkId, up: bool, direction: Direction = "both") -> float:
        """Cut or repair a cable, or one direction of it.

        Returns:
            When the change took effect.
        """
        if direction == "forward":
            # A single direction cannot be cut; losing all its packets has the same effect.
            return self.set_loss(link, 0.0 if up else 1.0, direction)
        done_s = self._change_ends(link, direction, rpc_network.set_link, up)
        first_s = min(done_s.values())
        last_s = max(done_s.values())
        if len(done_s) == 2:
            self.gaps_s.append(last_s - first_s)
        # A cable is cut when its first end goes down, and repaired when its last end is up.
        return last_s if up else first_s

    def set_loss(self, link: LinkId, fraction: float, direction: Direction = "both") -> float:
        """Set the loss of a cable, or of one direction of it.

        Returns:
            When the change took effect for packets sent onto ``link``.
        """
        done_s = self._change_ends(link, direction, rpc_network.set_loss, fraction)
        # Packets are lost where they are sent, so the other end does not matter.
        sender, _ = self._ends(link)
        return done_s[self._machine_of_device[sender]]

    def set_impairments(
        self, link: LinkId, impairments: Impairments, direction: Direction = "both"
    ) -> float:
        """Refuse to impair a link, with a CapabilityError."""
        raise CapabilityError(
            f"{to_text(impairments)} on {label_of(link)}: links can be impaired on one machine "
            "only, or on the simulator"
        )

    def prepare_impairments(self, faults: Sequence[Fault]) -> None:
        """Refuse the first fault that impairs a link, before anything runs."""
        for fault in faults:
            if fault.impairments:
                self.set_impairments(fault.link, fault.impaired_by, fault.direction)

    def _change_ends(
        self, link: LinkId, direction: Direction, function: Callable[..., float], value: object
    ) -> dict[int, float]:
        """Change a link at its sending end, and for both directions at the other end too.

        Two machines change at the same time, a short time from now. One machine changes at once.

        Returns:
            For each machine, when the change took effect.
        """
        sender, receiver = self._ends(link)
        machines = {self._machine_of_device[sender]}
        if direction == "both":
            machines.add(self._machine_of_device[receiver])
        at_s = time.monotonic()
        if len(machines) > 1:
            at_s += FAULT_LEAD_S
        pending = {}
        for machine in sorted(machines):
            arguments = (link, value, direction, self.theirs_s(machine, at_s))
            pending[machine] = self.call(
                machine, function, *arguments, lane=rpc_network.LANE_FAULTS
            )
        done_s: dict[int, float] = {}
        for machine, answer in pending.items():
            done_s[machine] = self.ours_s(machine, answer.result(_CHANGE_S))
        return done_s

    def _ends(self, link: LinkId) -> tuple[str, str]:
        """Return the device that sends onto the link, and the one that receives from it."""
        cable = self.wiring.cable_of(link)
        return (cable.a, cable.b) if cable.forward == link else (cable.b, cable.a)

    def configure(self, link: LinkId, settings: LinkSettings) -> float:
        """Change the settings of a link, and of its reverse unless the settings are one-way.

        Each direction changes on the machine that sends onto it (see ``EmulatedNetwork``).

        Returns:
            When the last change took effect.
        """
        directions = [link]
        if not settings.one_way:
            directions.append(reverse_of(link))
        one_way = replace(settings, one_way=True)
        at_s = 0.0
        for changed in directions:
            if changed not in self.wiring.network.link_index:
                continue
            sender, _ = self._ends(changed)
            machine = self._machine_of_device[sender]
            answer = self.call(
                machine, rpc_network.configure, changed, one_way, lane=rpc_network.LANE_FAULTS
            )
            at_s = max(at_s, self.ours_s(machine, answer.result(_CHANGE_S)))
        return at_s

    def configured(self) -> Mapping[LinkId, str]:
        """Return the changed settings of all links, as text."""
        return dict(ChainMap(*self.all(rpc_network.configured, lane=rpc_network.LANE_FAULTS)))

    def install(self, rules: Iterable[FlowRule], plan_id: int) -> float:
        """Install the rules of a plan on the machines of their switches.

        Returns:
            The time of the slowest machine until all its switches confirmed, in seconds.
        """
        rules_of: dict[int, list[FlowRule]] = {k: [] for k in range(len(self.machines))}
        for rule in rules:
            rules_of[self._machine_of_dpid[rule.dpid]].append(rule)
        pending = [
            self.call(machine, rpc_network.install, part, plan_id, lane=rpc_network.LANE_RULES)
            for machine, part in rules_of.items()
        ]
        return max(float(answer.result()) for answer in pending)

    def port_events(self) -> tuple[PortEvent, ...]:
        """Return the port events of all controllers, in the order of their times."""
        events_of = self.all(rpc_network.port_events, lane=rpc_network.LANE_RULES)
        events: list[PortEvent] = []
        for machine, machine_events in enumerate(events_of):
            if not machine_events:
                continue
            times_s = self.machines.clock(machine).ours([event.at_s for event in machine_events])
            for event, at_s in zip(machine_events, times_s.middle_s, strict=True):
                events.append(replace(event, at_s=float(at_s)))
        return tuple(sorted(events, key=lambda event: event.at_s))

    def counts(self) -> Counts:
        """Return the packet counts of all machines."""
        return merge_counts(self.all(rpc_network.count, lane=rpc_network.LANE_COUNTS))

    def link_counters(self) -> Mapping[LinkId, tuple[int, int, int]]:
        """Return packets, bytes and drops of each link."""
        return self.counts().sent

    def reading(self) -> CounterReading:
        """Return the bytes that each link has carried, and the links that are down, for display."""
        return self._read_all(rpc_network.read_links)

    def links_down(self) -> tuple[LinkId, ...]:
        """Return the links that are down."""
        return self.reading().down or ()


def _crossing_links(wiring: Wiring, placement: Placement) -> tuple[LinkId, ...]:
    links: list[LinkId] = []
    for index in placement.crossing(wiring):
        cable = wiring.cables[index]
        links += [link for link in (cable.forward, cable.backward) if link is not None]
    return tuple(links)


def merge_readings(reported: Sequence[CounterReading]) -> CounterReading:
    """Merge the readings of several machines.

    Links and packet counts are combined. At most one machine reports a block size.
    """
    link_bytes: dict[LinkId, int] = {}
    # A dictionary, not a set: it keeps the order.
    down: dict[LinkId, None] = {}
    block_size = None
    for reading in reported:
        link_bytes |= reading.link_bytes
        down.update(dict.fromkeys(reading.down or ()))
        if block_size is None:
            block_size = reading.block_size
    sent = [reading.sent for reading in reported if reading.sent is not None]
    received = [reading.received for reading in reported if reading.received is not None]
    return CounterReading(
        link_bytes=link_bytes,
        down=tuple(down),
        sent=sum(sent) if sent else None,
        received=sum(received) if received else None,
        block_size=block_size,
    )


def _clock_report(machines: Machines, number: int, start_s: float) -> ClockReport:
    clock = machines.clock(number)
    return clock_report(
        clock,
        requested=machines.clocks[number].requested,
        from_s=machines.theirs_s(number, start_s),
        to_s=clock.exchanges[-1].answered_ns / 1e9,
    )


def placement_of(machines: Machines, wiring: Wiring, requested: MachinesRequest) -> Placement:
    """Return the requested placement, or one in proportion to the machines' processors."""
    if requested.place is not None:
        return parse_placement(
            requested.place, wiring.network, "--machine-placement", machines=len(machines)
        )
    return partition(wiring.network, [float(facts.processors) for facts in machines.facts])


@contextmanager
def over_machines(
    requested: MachinesRequest,
    wiring: Wiring,
    report_progress: ReportProgress,
    *,
    mtu: int = 1500,
    at_most: bool = False,
    **options: Any,
) -> Iterator[DistributedNetwork]:
    """Start machines and run a network on them. Both end with the block.

    Bad input is refused before anything is started.

    Args:
        requested: The machines.
        wiring: The wiring of the network.
        report_progress: Called before each step.
        mtu: MTU of the network, in bytes.
        at_most: Use a smaller MTU if the tunnels of the machines need that.
        options: Further fields of ``PartitionSpec``.

    Raises:
        CapabilityError: Machines did not start.
    """
    if requested.place is not None:
        parse_placement(
            requested.place, wiring.network, "--machine-placement", machines=requested.count or None
        )
    report_progress(Progress(doing="starting the machines"))
    with machines_up(requested) as machines:
        report_progress(Progress(doing="building the network"))
        if at_most:
            mtu = min(mtu, machines.widest_mtu)
        placement = placement_of(machines, wiring, requested)
        with distributed_network(machines, wiring, placement, mtu=mtu, **options) as network:
            yield network


@contextmanager
def distributed_network(
    machines: Machines, wiring: Wiring, placement: Placement, *, mtu: int = 1500, **options: Any
) -> Iterator[DistributedNetwork]:
    """Run a network on machines, which build their parts concurrently.

    Args:
        machines: The machines.
        wiring: The wiring of the network.
        placement: The machine of each node.
        mtu: MTU of the network, in bytes.
        options: Further fields of ``PartitionSpec``.

    Raises:
        CapabilityError: The MTU of the underlay is too small.
        InvalidRunError: A machine did not build its part in time.
    """
    for name, facts, carrier in zip(machines.names, machines.facts, machines.carriers, strict=True):
        require_room(mtu, name, facts.mtu, facts.mtu - carrier.mtu)

    def spec(part: WiringPart) -> rpc_network.PartitionSpec:
        return rpc_network.PartitionSpec(wiring=wiring, part=part, mtu=mtu, **options)

    parts = plan_parts(wiring, placement, run=machines.run, carriers=machines.carriers)
    pending = [machines.call(k, rpc_network.build, spec(part)) for k, part in enumerate(parts)]
    limit_s = _BUILD_S + _BUILD_SWITCH_S * len(wiring.switches)
    network = DistributedNetwork(machines, wiring, placement, mtu)
    network.setup_seconds = tuple(answer.result(limit_s) for answer in pending)
    if not pending:
        raise InvalidRunError("there are no machines")
    try:
        yield network
    except MachineDiedError:
        # The other machines end too, so nothing has to be removed.
        raise
    except TestbedError:
        # The first error matters, not one of removing the network.
        with suppress(TestbedError):
            machines.all(rpc_network.remove_network)
        raise
    machines.all(rpc_network.remove_network)
