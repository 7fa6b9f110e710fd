"""A platform: the interface of a run to a running network, on one or several machines.

``Here`` is the platform of one machine; ``DistributedNetwork`` is that of several. A request
(``testbed.machines.rpc``) is a function that is called on the machine of the nodes that it is
about. Times of a platform are on our monotonic clock. Times of a request are on the monotonic clock
of the machine that performs it. All are in seconds.
"""

import os
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Self, TypeAlias, TypeVar

from testbed.emulation.control.controller_link import ControllerLink, PortEvent
from testbed.emulation.machine.load_monitor import processor_times
from testbed.emulation.network.emulated_network import EmulatedNetwork
from testbed.emulation.network.open_vswitch.switches import connect_bridge
from testbed.errors import InvalidRunError
from testbed.machines.adapters import rpc_network
from testbed.machines.adapters.rpc_network import PRIORITY_NICENESS, AllMachines, PartitionSpec
from testbed.machines.machines_request import MachinesRequest
from testbed.machines.rpc import MAIN, MachineState
from testbed.model.machine.load import overload_message
from testbed.model.progress import CounterReading, Progress, ReportProgress
from testbed.model.wiring import Wiring
from testbed.openflow.rules import FlowRule

if TYPE_CHECKING:
    from testbed.arrays import FloatArray
    from testbed.machines.adapters.distributed_network import DistributedNetwork

T = TypeVar("T")
Platform: TypeAlias = "Here | DistributedNetwork"

# Time from the request for a start until time zero, in seconds, so that all ends are ready.
_LEAD_S = 0.15


class Answer(NamedTuple, Generic[T]):
    """An answer that is available at once."""

    value: T

    def result(self, limit_s: float = 0.0) -> T:
        """Return the answer. The limit on the time does not matter."""
        return self.value


class FromParts:
    """Base class of context managers that enter several others, their parts.

    If a part cannot be built, the parts before it are closed.
    """

    def _build(self, parts: ExitStack) -> None:
        """Build the parts. Each is entered into ``parts`` or registers its end there."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        with ExitStack() as parts:
            self._build(parts)
            self._parts = parts.pop_all()
        return self

    def __exit__(self, *error: Any) -> None:
        self._parts.__exit__(*error)


class Here(AllMachines):
    """The platform of one machine. A request is a plain function call, and its clock is ours.

    The descriptions of the methods are valid for all platforms.

    Attributes:
        names: Name of each machine. Machines are numbered from 0.
        network: The network, for faults and counters.
        wiring: The wiring of the network.
    """

    names = ("this machine",)

    def __init__(self, machine: MachineState) -> None:
        self._machine = machine
        self._start_s = 0.0
        self.network = rpc_network.network_of(machine)
        self.wiring = self.network.wiring

    @property
    def controller(self) -> ControllerLink:
        """The controller of all switches. Only this platform has it."""
        return rpc_network.controller_of(self._machine)

    def machine_of(self, node: str) -> int:
        """Return the machine of a host or switch."""
        return 0

    def call(
        self, machine: int, request: Callable[..., T], *args: object, lane: str = MAIN
    ) -> Answer[T]:
        """Send a request to one machine.

        Returns:
            The answer. Its ``result`` raises a MachineDiedError if a machine dies, and an
            InvalidRunError when the limit on the time is reached.
        """
        return Answer(request(self._machine, *args))

    def all(self, request: Callable[..., T], /, *args: object, lane: str = MAIN) -> list[T]:
        """Send the same request to all machines, and return their answers in order."""
        return [request(self._machine, *args)]

    def check(self) -> None:
        """Raise a MachineDiedError if a machine has died."""

    @contextmanager
    def running(self, measured: Callable[[], Mapping[str, object]]) -> Iterator[None]:
        """Enclose a run. If the network has a controller, the run gets priority.

        Args:
            measured: Returns measurements for the error if a machine dies.
        """
        self._machine.objects["processors"] = processor_times()
        with ExitStack() as stack:
            if "controller" in self._machine.objects:
                stack.enter_context(with_priority(self.controller.pid))
            yield

    def theirs_s(self, machine: int, ours_s: float) -> float:
        """Convert a time of our clock to the machine's clock."""
        return ours_s

    def ours_s(self, machine: int, theirs_s: float) -> float:
        """Convert a recent time of the machine's clock to our clock."""
        return theirs_s

    def start(self) -> float:
        """Choose time zero of the run, as soon as all machines can begin together."""
        self._start_s = time.monotonic() + _LEAD_S
        return self._start_s

    def start_on(self, machine: int) -> float:
        """Return time zero on the machine's clock."""
        return self._start_s

    def after_start(self, machine: int, times_s: "FloatArray") -> "FloatArray":
        """Convert times after the start from the machine's clock to ours, after the run."""
        return times_s

    def install(self, rules: Iterable[FlowRule], plan_id: int) -> float:
        """Install the rules of a plan.

        Returns:
            The time until every switch confirmed, in seconds.
        """
        return self.controller.install(rules, plan_id)

    def bridge(self, name: str) -> socket.socket:
        """Connect to the management socket of a bridge (``WiredSwitch.device``)."""
        return connect_bridge(name)

    def open_stream(self, machine: int, name: str) -> socket.socket:
        """Connect to a stream of the machine (``stream_forwarding.register_stream``).

        Raises:
            CapabilityError: The machine does not answer.
        """
        connection, _ = self._machine.objects["stream", name]()
        return socket.socket(fileno=connection)

    def live(self, request: Callable[..., CounterReading], progress: Progress) -> Progress:
        """Return the progress with a function that reads the counters of all machines.

        It is ``read_local``, or ``read_remote`` if other machines have to be asked.
        """
        return replace(progress, read_local=partial(request, self._machine))

    def port_events(self) -> tuple[PortEvent, ...]:
        """Return the port events of all controllers, in the order of their times."""
        return self.controller.port_events()

    def report(self, max_pps: float) -> None:
        """Return a ``MachinesReport`` after a run; one machine has none.

        Args:
            max_pps: Highest rate of a link in the run, in packets per second.

        Raises:
            InvalidRunError: The network between the machines lost packets or was slow.
        """


def network_up(
    machines: MachinesRequest | None,
    wiring: Wiring,
    report_progress: ReportProgress,
    **options: Any,
) -> AbstractContextManager[Platform]:
    """Run a network on this machine (``here``) or on several (``over_machines``).

    On several machines the MTU may become smaller than requested.

    Args:
        machines: The machines; None: this machine alone.
        wiring: The wiring of the network.
        report_progress: Called before each step.
        options: Further fields of ``PartitionSpec``.
    """
    if machines is None:
        report_progress(Progress(doing="building the network"))
        return here(wiring, **options)
    from testbed.machines.adapters.distributed_network import over_machines

    return over_machines(machines, wiring, report_progress, at_most=True, **options)


@contextmanager
def here(wiring: Wiring, **options: Any) -> Iterator[Here]:
    """Run a network on this machine, with every switch connected to its controller.

    This works only in the sandbox.

    Args:
        wiring: The wiring of the network.
        options: Further fields of ``PartitionSpec``.

    Raises:
        CapabilityError: The machine cannot build the network.
    """
    machine = MachineState(name=Here.names[0])
    with machine.stack:
        rpc_network.build(machine, PartitionSpec(wiring=wiring, **options))
        yield Here(machine)


@contextmanager
def use_running_network(net: EmulatedNetwork, controller: ControllerLink) -> Iterator[Here]:
    """Use a network that the caller runs.

    Everything that a run starts on the network ends with the block.
    """
    machine = MachineState(name=Here.names[0])
    with machine.stack as built:
        machine.objects |= {"net": net, "controller": controller, "built": built}
        yield Here(machine)


@contextmanager
def timely(platform: Platform) -> Iterator[None]:
    """Enclose a run, and refuse it if the process that delays packets was too late or lost some.

    Streams do not use this, because they judge the delays themselves.

    Raises:
        InvalidRunError: The process was later than ``testbed.faults.impaired_link.most_late_s``
            allows, or lost packets.
    """
    platform.all(rpc_network.forget_lateness)
    yield
    for problem in platform.all(rpc_network.delay_problem):
        if problem is not None:
            raise InvalidRunError(overload_message(problem))


@contextmanager
def with_priority(controller_pid: int) -> Iterator[None]:
    """Give the controller and this process, which times the faults, priority over other programs.

    This process gets its former priority back in the end.
    """
    former_niceness = os.getpriority(os.PRIO_PROCESS, 0)
    # An ordinary user may not raise the priority of a process.
    with suppress(PermissionError):
        tasks = Path(f"/proc/{controller_pid}/task").iterdir()
        for thread in (0, *(int(task.name) for task in tasks)):
            # A thread of the controller may have ended since it was listed.
            with suppress(ProcessLookupError):
                # Linux sets the priority of a thread. The threads that it starts inherit it.
                os.setpriority(os.PRIO_PROCESS, thread, PRIORITY_NICENESS)
    try:
        yield
    finally:
        with suppress(PermissionError):
            os.setpriority(os.PRIO_PROCESS, 0, former_niceness)
