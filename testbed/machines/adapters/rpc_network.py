"""Requests to a machine that every workload uses: build a part of a network, fail cables, count.

Each function is called on the machine (``testbed.machines.rpc``), in the lane that the coordinator
chooses. Times are on the machine's monotonic clock, in seconds.
"""

import fcntl
import os
import socket
import struct
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from testbed.emulation.control.controller_link import ControllerLink, PortEvent
from testbed.emulation.machine.load_monitor import busy_fraction, processor_times
from testbed.emulation.network.emulated_network import EmulatedNetwork
from testbed.emulation.network.kernel.link_meter import read_counters
from testbed.emulation.network.open_vswitch.switches import flush_flow_cache
from testbed.errors import CapabilityError
from testbed.faults.fault import Direction
from testbed.faults.link_settings import LinkSettings
from testbed.machines.clocks.adapters.datagram_clock import ClockAnswers
from testbed.machines.machines_report import Counts
from testbed.machines.rpc import MAIN, MachineState
from testbed.model.progress import CounterReading
from testbed.model.wiring import Wiring, WiringPart
from testbed.openflow.rules import FlowRule, HostRoute
from topologies import LinkId

LANE_FAULTS = "faults"
LANE_RULES = "rules"
LANE_COUNTS = "counts"
LANE_LIVE = "live"
# Nice value of processes that must run in time.
PRIORITY_NICENESS = -10
# The UDP port of the discard service.
_DISCARD = 9
T = TypeVar("T")
# Requests of ioctl (linux/sockios.h).
_SIOCGIFADDR = 0x8915
_SIOCGIFMTU = 0x8921


@dataclass(frozen=True, kw_only=True)
class MachineFacts:
    """Properties of a machine.

    Attributes:
        underlay: Name of the interface towards the other machines.
        address: IPv4 address of this interface.
        mtu: MTU of this interface, in bytes.
        processors: Number of processors that the machine may use.
    """

    underlay: str
    address: str
    mtu: int
    processors: int


def describe_machine(machine: MachineState, underlay: str) -> MachineFacts:
    """Return the properties of the machine.

    Raises:
        CapabilityError: There is no interface of this name, or it has no address.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        request = struct.pack("256s", underlay.encode())
        try:
            address = socket.inet_ntoa(fcntl.ioctl(sock, _SIOCGIFADDR, request)[20:24])
            (mtu,) = struct.unpack_from("=i", fcntl.ioctl(sock, _SIOCGIFMTU, request), 16)
        except OSError as error:
            raise CapabilityError(
                f"its interface {underlay} cannot be used ({error.strerror})"
            ) from None
    return MachineFacts(
        underlay=underlay, address=address, mtu=mtu, processors=len(os.sched_getaffinity(0))
    )


def answer_clocks(machine: MachineState, address: str, port: int, key: bytes, asker: str) -> None:
    """Answer questions for this machine's clock from now on.

    Args:
        machine: The machine.
        address: IPv4 address to listen on.
        port: UDP port to listen on.
        key: Key of the run.
        asker: IPv4 address from which the questions come.
    """
    sock = machine.stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    sock.bind((address, port))
    # An uplink by pasta delivers nothing to a network until it has seen a packet from there.
    with suppress(OSError):
        sock.sendto(b"", (asker, _DISCARD))
    answers = ClockAnswers(sock, key)
    machine.stack.callback(answers.close)


@dataclass(frozen=True, kw_only=True)
class PartitionSpec:
    """Parameters of the part of a network that a machine builds.

    Attributes:
        wiring: The wiring of the complete network.
        part: The part of it to build; None: all of it.
        mtu: MTU of the links, in bytes.
        shape: Whether links have their rates and delays.
        controlled: Whether a controller is started for the switches.
        first_udp_port: UDP port whose datagrams have priority in the queue of every link; None for
            one queue for all.
        talking: End points that may send, because their hosts know each other's addresses; None for
            all.
        seed: Seed of impaired links.
        controller_port: TCP port of an existing controller if ``controlled`` is false; None: the
            switches have no controller.
    """

    wiring: Wiring
    part: WiringPart | None = None
    mtu: int = 1500
    shape: bool = True
    controlled: bool = True
    first_udp_port: int | None = None
    talking: tuple[str, ...] | None = None
    seed: int = 1
    controller_port: int | None = None


def build(machine: MachineState, spec: PartitionSpec) -> Mapping[str, float]:
    """Build the part and connect its switches to a controller of this machine.

    Returns:
        The duration of each step, in seconds.
    """
    built = machine.stack.enter_context(ExitStack())
    machine.objects["built"] = built
    controller = None
    if spec.controlled:
        controller = ControllerLink()
        controller.start()
        built.callback(controller.stop)
    net = EmulatedNetwork(
        spec.wiring,
        mtu=spec.mtu,
        shape=spec.shape,
        controller_port=controller.port if controller else spec.controller_port,
        before_bridges=controller.wait_until_ready if controller else None,
        first_udp_port=spec.first_udp_port,
        talking=spec.talking,
        part=spec.part,
    )
    net.impairment_seed = spec.seed
    built.enter_context(net)
    if controller is not None:
        controller.wait_for_switches(
            [switch.dpid for switch in spec.wiring.switches if switch.name in net.switch_names]
        )
        machine.objects["controller"] = controller
        # A part has its own process, which may have priority permanently. A complete network is in
        # the process of the caller, which gets priority during a run only.
        if spec.part is not None:
            _raise_priority(controller.pid)
    machine.objects["net"] = net
    machine.objects["processors"] = processor_times()
    return net.setup_seconds


def _raise_priority(controller_pid: int) -> None:
    """Give the controller and this process, which times faults, priority over other programs."""
    # An ordinary user may not raise the priority of a process.
    with suppress(PermissionError):
        for pid in (controller_pid, os.getpid()):
            for thread in list(Path(f"/proc/{pid}/task").iterdir()):
                os.setpriority(os.PRIO_PROCESS, int(thread.name), PRIORITY_NICENESS)


def remove_network(machine: MachineState) -> None:
    """Remove the network. The machine can build another one afterwards."""
    built = machine.objects.pop("built", None)
    machine.objects.clear()
    if built is not None:
        built.close()


def network_of(machine: MachineState) -> EmulatedNetwork:
    """Return the part of the network on this machine."""
    return machine.held("net", EmulatedNetwork)


def controller_of(machine: MachineState) -> ControllerLink:
    """Return the controller of the part of the network on this machine."""
    return machine.held("controller", ControllerLink)


def install(machine: MachineState, rules: Sequence[FlowRule], plan_id: int) -> float:
    """Install the rules of a plan.

    Returns:
        The time until all switches confirmed, in seconds.
    """
    return controller_of(machine).install(rules, plan_id)


def remove(machine: MachineState, plan_id: int) -> None:
    """Remove the rules of a plan."""
    controller_of(machine).remove(plan_id)


def change_routes(machine: MachineState, routes: Sequence[HostRoute], add: bool) -> None:
    """Add or remove routes of the hosts on this machine."""
    addresses = network_of(machine).addresses
    assert addresses is not None
    addresses.change(routes, add=add)


def forget(machine: MachineState) -> None:
    """Flush the flow caches of the switches on this machine."""
    if network_of(machine).switch_names:
        flush_flow_cache()


def port_events(machine: MachineState) -> tuple[PortEvent, ...]:
    """Return the port events that the controller of this machine has received."""
    return controller_of(machine).port_events()


def set_link(
    machine: MachineState, link: LinkId, up: bool, direction: Direction, at_s: float
) -> float:
    """Cut or repair a cable at a given time, at the ends that are on this machine.

    Returns:
        When the change took effect, in seconds.
    """
    _wait_until(at_s)
    return network_of(machine).set_link(link, up, direction)


def set_loss(
    machine: MachineState, link: LinkId, fraction: float, direction: Direction, at_s: float
) -> float:
    """Set the loss of a link at a given time; 1 is a blackhole.

    Returns:
        When the change took effect, in seconds.
    """
    _wait_until(at_s)
    return network_of(machine).set_loss(link, fraction, direction)


def configure(machine: MachineState, link: LinkId, settings: LinkSettings) -> float:
    """Change the settings of a link, and return when they took effect, in seconds."""
    return network_of(machine).configure(link, settings)


def configured(machine: MachineState) -> dict[LinkId, str]:
    """Return the changed settings of the links on this machine, as text."""
    return dict(network_of(machine).configured())


def _wait_until(at_s: float) -> None:
    time.sleep(max(0.0, at_s - time.monotonic()))


def count(machine: MachineState) -> Counts:
    """Return the packet counts of the interfaces on this machine."""
    net = network_of(machine)
    return Counts(sent=net.link_counters(), arrived=net.arrival_counters())


def read_links(machine: MachineState) -> CounterReading:
    """Return bytes and carriers of the links whose sending end is on this machine."""
    if "meter" not in machine.objects:
        machine.objects["meter"] = network_of(machine).link_meter()
    return read_counters(machine.objects["meter"])


def forget_lateness(machine: MachineState) -> None:
    """Clear the delays that the relay on this machine has recorded so far."""
    network_of(machine).forget_lateness()


def delay_problem(machine: MachineState) -> str | None:
    """Return why the relay, which delays packets on this machine, makes a run invalid, or None."""
    for name, report in network_of(machine).impairment_reports().items():
        if not report.delay_s:
            continue
        problem = report.problem()
        if problem:
            return f"{name}: {problem}"
    return None


def switch_drops(machine: MachineState) -> int:
    """Return the number of frames that the switches here dropped because a socket was full."""
    return network_of(machine).switch_drops()


def processors_busy(machine: MachineState) -> float:
    """Return the share of processor time that was used since the network was built."""
    return busy_fraction(machine.objects["processors"], processor_times())


class AskAll(Protocol):
    """Sends the same request to all machines and returns their answers in order."""

    def __call__(self, request: Callable[..., T], /, *args: object, lane: str = MAIN) -> list[T]:
        """Call ``request(machine, *args)`` on every machine."""


class AllMachines:
    """Requests of a platform that go to all its machines."""

    all: AskAll

    def remove(self, plan_id: int) -> None:
        """Remove the rules of a plan from all switches."""
        self.all(remove, plan_id, lane=LANE_RULES)

    def route(self, routes: Iterable[HostRoute], *, add: bool = True) -> None:
        """Add or remove the routes of a plan in the hosts."""
        host_routes = tuple(routes)
        if host_routes:
            self.all(change_routes, host_routes, add, lane=LANE_RULES)

    def forget(self) -> None:
        """Flush the flow cache of every switch."""
        self.all(forget, lane=LANE_RULES)

    def switch_drops(self) -> tuple[int, ...]:
        """Return the frames dropped at full sockets of switches, by machine."""
        return tuple(self.all(switch_drops, lane=LANE_COUNTS))

    def busy(self) -> float:
        """Return the share of processor time that the busiest machine used during the run."""
        return float(max(self.all(processors_busy, lane=LANE_COUNTS)))
