"""One network over several machines, for those who break cables and install rules: each request goes where the ends
are.

Times are given and returned on the coordinator's monotonic clock.
"""

import secrets
import socket
import time
from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cached_property
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
    lost_on_the_way,
    merged,
)
from testbed.machines.machines_request import MachinesRequest
from testbed.machines.partition import Placement, parse_placement, partition
from testbed.machines.tunnel_plan import plan_parts, require_room, tunnel_port
from testbed.model.progress import CounterReading, Progress, ReportProgress
from testbed.model.wiring import Wiring
from testbed.openflow.rules import FlowRule
from topologies import LinkId, label_of, reverse_of
from topologies.impairments import Impairments, to_text

T = TypeVar("T")
LEAD_S = 0.3
"""Between the ends' being ready and time zero."""
FAULT_LEAD_S = 0.03
"""A fault on a crossing cable is ordered so long before it is to be in force, so that both ends of a crossing cable
change at one moment."""
_NOTICED_S = 2.0
"""A machine that has died is known by then; what failed meanwhile failed because of it."""
_BUILD_S, _BUILD_SWITCH_S = 120.0, 0.3
"""How long machines may take over their parts: with more switches longer, because a part may have nearly all of
them."""


class DistributedNetwork(rpc_network.AllMachines):
    """A network whose parts are up: a platform (as of ``Here``) and its ``network`` in one.

    A run's crossing links are counted whenever it checks its machines, so that what they had carried is known when one
    dies.
    """

    def __init__(self, machines: Machines, wiring: Wiring, placement: Placement, mtu: int) -> None:
        self.machines, self.wiring, self.placement, self.mtu = machines, wiring, placement, mtu
        self.names, self.call, self.all = machines.names, machines.call, machines.all
        self.theirs_s, self.ours_s = machines.theirs_s, machines.ours_s
        self._machine = placement.device_machines(wiring)
        self._of_bridge = {s.device: self._machine[s.name] for s in wiring.switches}
        self._of_dpid = {s.dpid: self._machine[s.name] for s in wiring.switches}
        self.setup_seconds: tuple[Mapping[str, float], ...] = ()
        """Of each machine: step -> seconds."""
        self.gaps_s: list[float] = []
        """Between the two ends of a crossing cable, each time that it was cut or repaired: what is sent meanwhile is
        lost on the way."""
        self.crossing = tuple(
            link
            for index in placement.crossing(wiring)
            for link in (wiring.cables[index].forward, wiring.cables[index].backward)
            if link is not None
        )
        self._crossed: dict[str, int] | None = None
        self._start_s: float | None = None
        self._before = Counts(sent={}, arrived={})
        self._starts: tuple[float, ...] = ()

    @property
    def network(self) -> "DistributedNetwork":
        return self

    def machine_of(self, node: str) -> int:
        """Where the node's host or switch lies."""
        return self.placement.machine_of[node]

    def check(self) -> None:
        self.machines.check()
        counts = self.counts()
        self._crossed = {label_of(link): counts.sent[link][0] for link in self.crossing}

    @contextmanager
    def running(self, measured: Callable[[], Mapping[str, object]]) -> Iterator[None]:
        """Whatever goes wrong inside because a machine has died is a MachineDiedError with its name, when (seconds
        after the start) and ``measured()``; next to it the packets that had been sent onto each crossing link."""

        self._start_s, self._crossed = time.monotonic(), None
        self._before, self.gaps_s = self.counts(), []
        try:
            try:
                yield
                self.machines.check()
            except (OSError, EOFError, TestbedError) as error:
                if not isinstance(error, MachineDiedError):
                    self.machines.check(after_s=_NOTICED_S)
                raise
        except MachineDiedError as error:
            at_s = None if error.at_s is None else round(error.at_s - self._start_s, 3)
            error.measured = {"machine": self.names[error.number], "at_s": at_s, **measured()}
            if self._crossed is not None:
                error.measured["crossing_packets"] = self._crossed
            raise

    def start(self) -> float:
        self._start_s = time.monotonic() + LEAD_S
        self._starts = tuple(self.theirs_s(k, self._start_s) for k in range(len(self.machines)))
        return self._start_s

    def start_on(self, machine: int) -> float:
        return self._starts[machine]

    def after_start(self, machine: int, times_s: FloatArray) -> FloatArray:
        """By all exchanges of time stamps of the run."""
        if self._start_s is None or not len(times_s):
            return times_s
        return (
            self.machines.clock(machine).ours(times_s + self._starts[machine]).middle_s
            - self._start_s
        )

    @cached_property
    def _relays(self) -> tuple[bytes, list[tuple[str, int]]]:
        """The run's key, and where each machine offers its streams, as long as its part is up."""
        key, port = secrets.token_bytes(KEY_BYTES), tunnel_port(self.machines.run)
        places = [(facts.address, port) for facts in self.machines.facts]
        for one in [self.call(k, serve_streams, *place, key) for k, place in enumerate(places)]:
            one.result(30)
        return key, places

    def open_stream(self, machine: int, name: str) -> socket.socket:
        """Connected to the machine's stream of that name. CapabilityError where the machine does not answer."""
        key, places = self._relays
        return connect_relay(*places[machine], key, name)

    def bridge(self, name: str) -> socket.socket:
        return self.open_stream(self._of_bridge[name], BRIDGE + name)

    def live(self, request: Callable[..., CounterReading], progress: Progress) -> Progress:
        return replace(
            progress, read_remote=lambda: together(self.all(request, lane=rpc_network.LANE_LIVE))
        )

    def report(self, most_pps: float) -> MachinesReport:
        machines = self.machines
        sent, lost = lost_on_the_way(
            self._before, self.counts(), self.crossing, self.gaps_s, most_pps
        )
        if (degraded := machines.degraded_links()) is not None:
            raise InvalidRunError(degraded)
        return MachinesReport(
            clocks=tuple(
                _clock_report(machines, number, self._start_s or 0.0)
                for number in range(len(machines))
            ),
            crossing_links=len(self.crossing),
            sent=sent,
            lost=lost,
            cut_gaps_s=tuple(self.gaps_s),
            encrypted_by=machines.encrypted_by,
        )

    def set_link(self, link: LinkId, up: bool, direction: Direction = "both") -> float:
        if direction == "forward":
            return self.set_loss(link, 0.0 if up else 1.0, direction)
        return self._at_ends(link, direction, rpc_network.set_link, up)

    def set_loss(self, link: LinkId, fraction: float, direction: Direction = "both") -> float:
        return self._at_ends(link, direction, rpc_network.set_loss, fraction)

    def set_impairments(
        self, link: LinkId, impairments: Impairments, direction: Direction = "both"
    ) -> float:
        """Refused by name: CapabilityError."""
        raise CapabilityError(
            f"{to_text(impairments)} on {label_of(link)}: links are impaired on one machine only, or on the simulator"
        )

    def prepare_impairments(self, faults: Sequence[Fault]) -> None:
        """Refuse the first fault that impairs a link, before anything runs."""
        for fault in faults:
            if fault.impairments:
                self.set_impairments(fault.link, fault.impaired_by, fault.direction)

    def _at_ends(
        self, link: LinkId, direction: Direction, function: Callable[..., float], value: object
    ) -> float:
        """At both ends of the cable, or where the link is sent onto, at one moment, or at once where one machine has
        all of it.

        When it was in force for what is sent onto the link: a cable is cut with its first end and repaired with its
        last.
        """
        sender, receiver = self._ends(link)
        required = {self._machine[sender]} | (
            {self._machine[receiver]} if direction == "both" else set()
        )
        at_s = time.monotonic() + (FAULT_LEAD_S if len(required) > 1 else 0.0)
        requested = {
            k: self.call(
                k,
                function,
                link,
                value,
                direction,
                self.theirs_s(k, at_s),
                lane=rpc_network.LANE_FAULTS,
            )
            for k in sorted(required)
        }
        done_s = {k: self.ours_s(k, one.result(30)) for k, one in requested.items()}
        if (
            function is not rpc_network.set_link
        ):  # lost where it is sent, whenever the other end follows
            return done_s[self._machine[sender]]
        first_s, last_s = min(done_s.values()), max(done_s.values())
        if len(done_s) == 2:
            self.gaps_s.append(last_s - first_s)
        return last_s if value else first_s

    def _ends(self, link: LinkId) -> tuple[str, str]:
        """What sends onto the link, and what it leads to."""
        cable = self.wiring.cable_of(link)
        return (cable.a, cable.b) if cable.forward == link else (cable.b, cable.a)

    def configure(self, link: LinkId, settings: LinkSettings) -> float:
        """As of ``EmulatedNetwork``, each direction where it is sent."""
        links = [one for one in (link, reverse_of(link)) if one in self.wiring.network.link_index]
        alone, at_s = replace(settings, one_way=True), 0.0
        for one in links[: 1 if settings.one_way else 2]:
            machine = self._machine[self._ends(one)[0]]
            done = self.call(
                machine, rpc_network.configure, one, alone, lane=rpc_network.LANE_FAULTS
            )
            at_s = max(at_s, self.ours_s(machine, done.result(30)))
        return at_s

    def configured(self) -> Mapping[LinkId, str]:
        """As of ``EmulatedNetwork``."""
        return dict(ChainMap(*self.all(rpc_network.configured, lane=rpc_network.LANE_FAULTS)))

    def install(self, rules: Iterable[FlowRule], plan_id: int) -> float:
        """Rules to the machines whose switches they are for; the seconds of the slowest."""
        own: dict[int, list[FlowRule]] = {k: [] for k in range(len(self.machines))}
        for rule in rules:
            own[self._of_dpid[rule.dpid]].append(rule)
        lane = rpc_network.LANE_RULES
        requested = [
            self.call(k, rpc_network.install, some, plan_id, lane=lane) for k, some in own.items()
        ]
        return max(float(one.result()) for one in requested)

    def port_events(self) -> tuple[PortEvent, ...]:
        """Of all controllers, in order."""
        reported = self.all(rpc_network.port_events, lane=rpc_network.LANE_RULES)
        found = []
        for number, events in enumerate(reported):
            if not events:
                continue
            ours_s = self.machines.clock(number).ours([event.at_s for event in events]).middle_s
            found += [
                replace(event, at_s=float(at_s)) for event, at_s in zip(events, ours_s, strict=True)
            ]
        return tuple(sorted(found, key=lambda event: event.at_s))

    def counts(self) -> Counts:
        """Of all machines together."""
        return merged(self.all(rpc_network.count, lane=rpc_network.LANE_COUNTS))

    def link_counters(self) -> Mapping[LinkId, tuple[int, int, int]]:
        """As of ``EmulatedNetwork``."""
        return self.counts().sent

    def reading(self) -> CounterReading:
        """Bytes that each link has carried, and the links without a carrier, as the machines tell; for whoever
        watches."""
        return together(self.all(rpc_network.read_links, lane=rpc_network.LANE_LIVE))

    def links_down(self) -> tuple[LinkId, ...]:
        """As of ``EmulatedNetwork``."""
        return self.reading().down or ()


def together(reported: Sequence[CounterReading]) -> CounterReading:
    """What several machines tell as one: links of all, packets of all, the one block size that is told."""
    carried: dict[LinkId, int] = {}
    for one in reported:
        carried |= one.link_bytes
    sent = [one.sent for one in reported if one.sent is not None]
    received = [one.received for one in reported if one.received is not None]
    return CounterReading(
        link_bytes=carried,
        down=tuple(dict.fromkeys(link for one in reported for link in one.down or ())),
        sent=sum(sent) if sent else None,
        received=sum(received) if received else None,
        block_size=next((one.block_size for one in reported if one.block_size is not None), None),
    )


def _clock_report(machines: Machines, number: int, start_s: float) -> ClockReport:
    clock = machines.clock(number)
    from_s, to_s = machines.theirs_s(number, start_s), clock.exchanges[-1].answered_ns / 1e9
    return clock_report(
        clock, requested=machines.clocks[number].requested, from_s=from_s, to_s=to_s
    )


def placement_of(machines: Machines, wiring: Wiring, requested: MachinesRequest) -> Placement:
    """As the user said, or by what each machine's processors can carry."""
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
    """The wiring's network up over the machines that are requested, which go with it; ``options`` as of
    ``distributed_network``. ``at_most``: a smaller ``mtu`` will do, where packets of that size do not fit through the
    machines' tunnels.

    Bad input is refused before anything is started; CapabilityError names machines that did not come up.
    """
    if requested.place is not None:
        parse_placement(
            requested.place, wiring.network, "--machine-placement", machines=requested.count or None
        )
    report_progress(Progress(doing="starting the machines"))
    with machines_up(requested) as machines:
        report_progress(Progress(doing="building the network"))
        mtu = min(mtu, machines.widest_mtu) if at_most else mtu
        with distributed_network(
            machines, wiring, placement_of(machines, wiring, requested), mtu=mtu, **options
        ) as network:
            yield network


@contextmanager
def distributed_network(
    machines: Machines, wiring: Wiring, placement: Placement, *, mtu: int = 1500, **options: Any
) -> Iterator[DistributedNetwork]:
    """The network up, every part on its machine, built at the same time; ``options`` as of ``PartitionSpec``.

    CapabilityError where the underlay's MTU is too small; InvalidRunError where a machine did not finish in time.
    """
    for name, facts, carrier in zip(machines.names, machines.facts, machines.carriers, strict=True):
        require_room(mtu, name, facts.mtu, facts.mtu - carrier.mtu)
    parts = plan_parts(wiring, placement, run=machines.run, carriers=machines.carriers)
    requested = [
        machines.call(
            k,
            rpc_network.build,
            rpc_network.PartitionSpec(wiring=wiring, part=part, mtu=mtu, **options),
        )
        for k, part in enumerate(parts)
    ]
    limit_s = _BUILD_S + _BUILD_SWITCH_S * len(wiring.switches)
    network = DistributedNetwork(machines, wiring, placement, mtu)
    network.setup_seconds = tuple(one.result(limit_s) for one in requested)
    if not requested:
        raise InvalidRunError("there are no machines")
    try:
        yield network
    except MachineDiedError:
        raise  # the run is over, and the machines with it
    except TestbedError:
        with suppress(TestbedError):  # why the run ended is what matters
            machines.all(rpc_network.remove_network)
        raise
    machines.all(rpc_network.remove_network)
