"""What machines are asked to do for every workload: hold a network or a part of one up, break its cables, count.

Each function is a request's (``testbed.machines.rpc``): performed on the machine, in the lane that the coordinator
chose. Times are those of the machine's own monotonic clock.
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

LANE_FAULTS, LANE_RULES, LANE_COUNTS, LANE_LIVE = "faults", "rules", "counts", "live"
FIRST = -10
"""Nice value of everything that has to be in time."""
_DISCARD = 9
T = TypeVar("T")
_SIOCGIFADDR, _SIOCGIFMTU = 0x8915, 0x8921


@dataclass(frozen=True, kw_only=True)
class MachineFacts:
    """What a machine says of itself. ``underlay``: its interface towards the others; ``processors`` that it may use."""

    underlay: str
    address: str
    mtu: int
    processors: int


def describe_machine(machine: MachineState, underlay: str) -> MachineFacts:
    """CapabilityError where there is no such interface, or it has no address."""
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
    """Answer questions for this machine's clock from now on. ``asker``: the address that they come from.

    We speak first: an uplink by pasta delivers nothing to a network that it has not heard of yet.
    """
    sock = machine.stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    sock.bind((address, port))
    with suppress(OSError):
        sock.sendto(b"", (asker, _DISCARD))
    answers = ClockAnswers(sock, key)
    machine.stack.callback(answers.close)


@dataclass(frozen=True, kw_only=True)
class PartitionSpec:
    """What a machine is to build; fields as of ``EmulatedNetwork``. ``part``: None for all of it; ``controlled``: its
    switches get a controller, else they look for one at ``controller_port`` (None: they have none); ``seed``: of
    impaired links."""

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
    """Build the part and connect its switches to a controller of this machine's own; seconds a step."""
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
            [s.dpid for s in spec.wiring.switches if s.name in net.switch_names]
        )
        machine.objects["controller"] = controller
        if spec.part is not None:  # a process of its own: here a run alone goes first
            _go_first(controller.pid)
    machine.objects["net"] = net
    machine.objects["processors"] = processor_times()
    return net.setup_seconds


def _go_first(controller_pid: int) -> None:
    """This process, whose threads note when faults are in force, and the controller go before other programs."""
    with suppress(PermissionError):  # an ordinary user's processes wait their turn
        threads = [
            p for pid in (controller_pid, os.getpid()) for p in Path(f"/proc/{pid}/task").iterdir()
        ]
        for thread in threads:
            os.setpriority(os.PRIO_PROCESS, int(thread.name), FIRST)


def remove_network(machine: MachineState) -> None:
    """What was built goes; the machine can be asked again."""
    built = machine.objects.pop("built", None)
    machine.objects.clear()
    if built is not None:
        built.close()


def network_of(machine: MachineState) -> EmulatedNetwork:
    """The part that is up here."""
    return machine.held("net", EmulatedNetwork)


def controller_of(machine: MachineState) -> ControllerLink:
    """The controller of the part that is up here."""
    return machine.held("controller", ControllerLink)


def install(machine: MachineState, rules: Sequence[FlowRule], plan_id: int) -> float:
    return controller_of(machine).install(rules, plan_id)


def remove(machine: MachineState, plan_id: int) -> None:
    controller_of(machine).remove(plan_id)


def change_routes(machine: MachineState, routes: Sequence[HostRoute], add: bool) -> None:
    """Of the hosts that lie here."""
    addresses = network_of(machine).addresses
    assert addresses is not None
    addresses.change(routes, add=add)


def forget(machine: MachineState) -> None:
    """The switches' memory of earlier packets goes, where there are switches."""
    if network_of(machine).switch_names:
        flush_flow_cache()


def port_events(machine: MachineState) -> tuple[PortEvent, ...]:
    return controller_of(machine).port_events()


def set_link(
    machine: MachineState, link: LinkId, up: bool, direction: Direction, at_s: float
) -> float:
    """Cut or repair at that moment, at whatever ends of the cable are here; when it was in force."""
    _wait_until(at_s)
    return network_of(machine).set_link(link, up, direction)


def set_loss(
    machine: MachineState, link: LinkId, fraction: float, direction: Direction, at_s: float
) -> float:
    """Likewise; 1 is a blackhole."""
    _wait_until(at_s)
    return network_of(machine).set_loss(link, fraction, direction)


def configure(machine: MachineState, link: LinkId, settings: LinkSettings) -> float:
    return network_of(machine).configure(link, settings)


def configured(machine: MachineState) -> dict[LinkId, str]:
    return dict(network_of(machine).configured())


def _wait_until(at_s: float) -> None:
    time.sleep(max(0.0, at_s - time.monotonic()))


def count(machine: MachineState) -> Counts:
    """What the interfaces here have sent and received."""
    net = network_of(machine)
    return Counts(sent=net.link_counters(), arrived=net.arrival_counters())


def read_links(machine: MachineState) -> CounterReading:
    """Bytes and carriers of the links that are sent onto here."""
    if "meter" not in machine.objects:
        machine.objects["meter"] = network_of(machine).link_meter()
    return read_counters(machine.objects["meter"])


def forget_lateness(machine: MachineState) -> None:
    """What the relay here was late by until now is in no later report."""
    network_of(machine).forget_lateness()


def delay_problem(machine: MachineState) -> str | None:
    """Why links whose delay a process makes here spoil a run, None where none does."""
    reports = network_of(machine).impairment_reports()
    return next(
        (
            f"{name}: {why}"
            for name, one in reports.items()
            if one.delay_s and (why := one.problem())
        ),
        None,
    )


def switch_drops(machine: MachineState) -> int:
    """Frames that found a full socket of a switch here, as of ``EmulatedNetwork``."""
    return network_of(machine).switch_drops()


def processors_busy(machine: MachineState) -> float:
    """Share since the network was up."""
    return busy_fraction(machine.objects["processors"], processor_times())


class AskAll(Protocol):
    """Asks all machines the same; their answers in order."""

    def __call__(
        self, request: Callable[..., T], /, *args: object, lane: str = MAIN
    ) -> list[T]: ...


class AllMachines:
    """What a platform asks of all its machines alike."""

    all: AskAll

    def remove(self, plan_id: int) -> None:
        """Take a plan's rules away."""
        self.all(remove, plan_id, lane=LANE_RULES)

    def route(self, routes: Iterable[HostRoute], *, add: bool = True) -> None:
        """Put a plan's routes into the hosts, or take them away."""
        if known := tuple(routes):
            self.all(change_routes, known, add, lane=LANE_RULES)

    def forget(self) -> None:
        """Every switch's memory of earlier packets goes."""
        self.all(forget, lane=LANE_RULES)

    def switch_drops(self) -> tuple[int, ...]:
        """Of each machine: frames that found a full socket of a switch since its part was built."""
        return tuple(self.all(switch_drops, lane=LANE_COUNTS))

    def busy(self) -> float:
        """Share of the processors, of the busiest machine, during the run."""
        return float(max(self.all(processors_busy, lane=LANE_COUNTS)))
