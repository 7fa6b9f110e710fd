"""A network of real switches that is up, here or over several machines, as a run sees it; one machine is the case n =
1.

A request (``testbed.machines.rpc``) is a function that is performed where the nodes lie that it is about. What the
platform is given and answers is told on our monotonic clock; what a request is given or answers, on that of the machine
which performs it.
"""

import os
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
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
from testbed.machines.adapters.rpc_network import FIRST, AllMachines, PartitionSpec
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

_LEAD_S = 0.15
"""Between the ends' being ready and time zero."""


class Answer(NamedTuple, Generic[T]):
    """An answer that is there at once."""

    value: T

    def result(self, limit_s: float = 0.0) -> T:
        return self.value


class FromParts:
    """A context manager of what is built over a platform: entered, all of its parts stand; where one cannot be made,
    those before it are ended."""

    def _build(self, parts: ExitStack) -> None:
        """Make the parts; ``parts`` gets the end of each."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        with ExitStack() as parts:
            self._build(parts)
            self._parts = parts.pop_all()
        return self

    def __exit__(self, *error: Any) -> None:
        self._parts.__exit__(*error)


class Here(AllMachines):
    """The platform of one machine: requests are plain calls, and its clock is ours. What each method says holds for
    every platform.

    ``network``: whose cables break and count. ``names``: of the machines, which are numbered from 0.
    """

    names = ("this machine",)

    def __init__(self, machine: MachineState) -> None:
        self._machine = machine
        self._start_s = 0.0
        self.network = rpc_network.network_of(machine)
        self.wiring = self.network.wiring

    @property
    def controller(self) -> ControllerLink:
        """Of all switches; here alone."""
        return rpc_network.controller_of(self._machine)

    def machine_of(self, node: str) -> int:
        """Where the node's host or switch lies."""
        return 0

    def call(
        self, machine: int, request: Callable[..., T], *args: object, lane: str = MAIN
    ) -> Answer[T]:
        """Ask one machine. The answer's ``result`` raises MachineDiedError where a machine dies first, InvalidRunError
        after its limit."""
        return Answer(request(self._machine, *args))

    def all(self, request: Callable[..., T], /, *args: object, lane: str = MAIN) -> list[T]:
        """Ask all machines the same; their answers in order."""
        return [request(self._machine, *args)]

    def check(self) -> None:
        """MachineDiedError where a machine has died."""

    @contextmanager
    def running(self, measured: Callable[[], Mapping[str, object]]) -> Iterator[None]:
        """Around a run, which goes before other programs where it has a controller. ``measured``: what is told of it
        where a machine dies."""
        self._machine.objects["processors"] = processor_times()
        with (
            going_first(self.controller.pid)
            if "controller" in self._machine.objects
            else nullcontext()
        ):
            yield

    def theirs_s(self, machine: int, ours_s: float) -> float:
        """What the machine's clock shows at that moment of ours."""
        return ours_s

    def ours_s(self, machine: int, theirs_s: float) -> float:
        """A moment of the machine's clock not long ago on ours."""
        return theirs_s

    def start(self) -> float:
        """Time zero of the run: as soon as all machines can begin together."""
        self._start_s = time.monotonic() + _LEAD_S
        return self._start_s

    def start_on(self, machine: int) -> float:
        """Time zero on the machine's clock."""
        return self._start_s

    def after_start(self, machine: int, times_s: "FloatArray") -> "FloatArray":
        """Seconds after time zero on the machine's clock as seconds after it on ours; when the run is over."""
        return times_s

    def install(self, rules: Iterable[FlowRule], plan_id: int) -> float:
        """Install a plan's rules; the seconds until every switch had confirmed."""
        return self.controller.install(rules, plan_id)

    def bridge(self, name: str) -> socket.socket:
        """A connection to the management socket of a bridge (``WiredSwitch.device``)."""
        return connect_bridge(name)

    def open_stream(self, machine: int, name: str) -> socket.socket:
        """Connected to the machine's stream of that name (``stream_forwarding.register_stream``). CapabilityError where
        the machine does not answer."""
        connection, _ = self._machine.objects["stream", name]()
        return socket.socket(fileno=connection)

    def live(self, request: Callable[..., CounterReading], progress: Progress) -> Progress:
        """The progress, with a way for a live page to read all machines: ``look``, or ``ask`` where others have to be
        asked."""
        return replace(progress, read_local=partial(request, self._machine))

    def port_events(self) -> tuple[PortEvent, ...]:
        """Of all controllers, in order."""
        return self.controller.port_events()

    def report(self, most_pps: float) -> None:
        """A ``MachinesReport`` of a run that is over, with at most ``most_pps`` packets a second on a link; None of one
        machine.

        InvalidRunError where the network between the machines lost packets or was slow.
        """


def network_up(
    machines: MachinesRequest | None,
    wiring: Wiring,
    report_progress: ReportProgress,
    **options: Any,
) -> AbstractContextManager[Platform]:
    """The wiring's network, up on this machine as of ``here``, or over those that are requested as of
    ``over_machines``, where a smaller ``mtu`` will do."""
    if machines is None:
        report_progress(Progress(doing="building the network"))
        return here(wiring, **options)
    from testbed.machines.adapters.distributed_network import over_machines

    return over_machines(machines, wiring, report_progress, at_most=True, **options)


@contextmanager
def here(wiring: Wiring, **options: Any) -> Iterator[Here]:
    """The wiring's network, up, every switch connected to its controller; ``options`` as of ``PartitionSpec``. Inside
    the sandbox only.

    CapabilityError where this machine cannot build it.
    """
    machine = MachineState(name=Here.names[0])
    with machine.stack:
        rpc_network.build(machine, PartitionSpec(wiring=wiring, **options))
        yield Here(machine)


@contextmanager
def occupied_here(net: EmulatedNetwork, controller: ControllerLink) -> Iterator[Here]:
    """A network that others hold up; what runs of the block have begun on it ends with the block."""
    machine = MachineState(name=Here.names[0])
    with machine.stack as built:
        machine.objects |= {"net": net, "controller": controller, "built": built}
        yield Here(machine)


@contextmanager
def timely(platform: Platform) -> Iterator[None]:
    """Around a run: InvalidRunError where the process that makes links' delays was later than a run that counts may be,
    or lost packets (``testbed.faults.impaired_link.most_late_s``). Streams judge it themselves."""
    platform.all(rpc_network.forget_lateness)
    yield
    for problem in platform.all(rpc_network.delay_problem):
        if problem is not None:
            raise InvalidRunError(overload_message(problem))


@contextmanager
def going_first(controller_pid: int) -> Iterator[None]:
    """Meanwhile this process, which notes when faults and changes are in force, and the controller go before other
    programs."""
    usual = os.getpriority(os.PRIO_PROCESS, 0)
    with suppress(PermissionError):  # an ordinary user's processes wait their turn
        for thread in (0, *(int(p.name) for p in Path(f"/proc/{controller_pid}/task").iterdir())):
            with suppress(ProcessLookupError):  # a thread of the controller that has ended since
                os.setpriority(
                    os.PRIO_PROCESS, thread, FIRST
                )  # of one thread; those that it starts inherit it
    try:
        yield
    finally:
        with suppress(PermissionError):
            os.setpriority(os.PRIO_PROCESS, 0, usual)
