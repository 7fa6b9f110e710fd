"""Listeners and clients of striped files on a machine: what a run asks of it, on one alone as on each of several.

The functions are requests (``testbed.machines.rpc``): listeners begin in the machine's first thread, whose child their
process is; clients are threads of the machine's process, told by the lane ``LANE_CLIENTS``.
"""

import gc
import socket
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from sfio_emu.errors import SfioError
from testbed.bulk.emulated.agent_process import process_groups
from testbed.emulation.machine.load_monitor import LoadMonitor
from testbed.emulation.network.emulated_network import EmulatedNetwork
from testbed.emulation.sandbox.sandbox import require_sandbox
from testbed.errors import InputError
from testbed.machines.adapters.rpc_network import network_of
from testbed.machines.rpc import MachineState
from testbed.striping.emulated.admission import ClientTurns, TransferAdmission
from testbed.striping.emulated.clients import (
    Client,
    ClientGroup,
    Reach,
    all_at_once,
    build_clients,
    close_all,
    operate,
    raise_first,
)
from testbed.striping.emulated.listeners import LISTENER_PORT, ListenerKiller, ListenerProcess
from testbed.striping.measurements import Direction, OperationRecord
from testbed.striping.oracle import Bytes, file_content, verified_subfiles, write_subfiles
from testbed.striping.plan import StripingPlan

COORDINATED_SEND_BUFFER = 80 << 10
CIRCUIT_PATIENCE_S, _CONGESTION_PATIENCE_S = 120.0, 12.0
_QUEUE_BYTES, _MIN_WINDOW = 150_000, 20_000
_SWITCH_INTERVAL_S = 0.0005


def patience_s(plan: StripingPlan, timeout_s: float) -> float:
    """A connection that waits for its circuit is silent and whole; one that loses packets to others' is slow and whole;
    ``timeout_s`` where something is broken on purpose."""
    if plan.faults or plan.killed:
        return timeout_s
    return CIRCUIT_PATIENCE_S if plan.coordinated else _CONGESTION_PATIENCE_S


def client_socket(net: EmulatedNetwork, plan: StripingPlan, host: str) -> socket.socket:
    """A TCP socket of a compute node, in the host of that name, with buffers that fit the run."""
    sock = net.open_socket(host, socket.AF_INET, socket.SOCK_STREAM)
    if plan.coordinated:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, COORDINATED_SEND_BUFFER)
    else:  # what is under way to and from all listeners finds room in the queue before this host's link
        window = max(_MIN_WINDOW, _QUEUE_BYTES // plan.options.io_nodes)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, window)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, max(_MIN_WINDOW, window // 2))
    return sock


def open_clients(clients: Sequence[Client], group: ClientGroup, plan: StripingPlan) -> None:
    """Collective over all clients of the plan, here or elsewhere: the file is open, and a little of another has been
    written and read (``rehearsal``). Raises SfioError."""
    unit = plan.options.stripe_unit
    all_at_once(clients, lambda c: c.open(group.member, plan.placement.file_name(), unit, plan.file_bytes), group)
    raise_first(clients)
    all_at_once(clients, lambda c: c.rehearse(plan.placement.file_name("rehearsal"), unit), group)
    raise_first(clients)


@contextmanager
def prompt_threads() -> Iterator[None]:
    """Let a thread that is woken run at once: not after 5 ms, and not after a collection of everything ever made."""
    interval, collecting = sys.getswitchinterval(), gc.isenabled()
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    if collecting:  # else a block around this one has done it
        gc.collect()
        gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()
        sys.setswitchinterval(interval)


LANE_CLIENTS = "clients"
SUBFILES = "subfiles-"
"""How the folder of a machine's subfiles begins, in its temporary directory."""


@dataclass(frozen=True, kw_only=True)
class Share:
    """A machine's part of a run: the I/O nodes and the compute nodes that lie on it. ``key``: of the run; ``root``:
    where the folders of the subfiles are, None for a new place in the machine's own tmpfs."""

    plan: StripingPlan
    io: tuple[str, ...]
    compute: tuple[str, ...]
    key: bytes
    timeout_s: float
    root: Path | None = None

    def content(self) -> Bytes:
        return file_content(self.plan.file_bytes, self.plan.options.seed)


@dataclass(frozen=True, kw_only=True)
class Operated:
    """What the clients of one machine did; ``began_s`` and ``ended_s`` on its monotonic clock."""

    record: OperationRecord
    began_s: float
    ended_s: float


def start_listeners(machine: MachineState, share: Share) -> None:
    """Listeners of the I/O nodes that lie here, each over a folder of its own."""
    built, root = machine.objects["built"], share.root
    if root is None:
        root = Path(built.enter_context(tempfile.TemporaryDirectory(prefix=SUBFILES, dir=require_sandbox() / "tmp")))
        for node in share.io:
            (root / node).mkdir()
    objects = machine.objects["striping"] = _MachineObjects(share, network_of(machine), root)
    built.callback(objects.close_listeners)
    built.callback(objects.close_clients)
    killed = [share.plan.placement.names[k.node] for k in share.plan.killed]
    for group in process_groups(share.io, killed):
        objects.listeners.append(objects.listen(group))


def restart_listeners(machine: MachineState) -> None:
    """Those that were killed."""
    objects = occupied_of(machine)
    objects.listeners = [objects.listen(one.nodes) if one.killed else one for one in objects.listeners]


def start_clients(machine: MachineState, group_address: str) -> None:
    """Collective over all machines with compute nodes: connect, open the file, rehearse.
    InputError where that fails."""
    objects = occupied_of(machine)
    share, plan, net = objects.share, objects.share.plan, objects.net

    def open_socket(node: str, _: str) -> socket.socket:
        return client_socket(net, plan, net.wiring.host_at(node).name)

    addresses = {node: (net.wiring.host_at(node).ip, LISTENER_PORT) for node in plan.placement.io}
    patience = patience_s(plan, share.timeout_s)
    reach = Reach(addresses=addresses, timeout_s=patience, open_socket=open_socket, key=share.key)
    built = build_clients(plan, share.content(), reach, turns=objects.turns_of)
    objects.clients = [client for client in built if client.node in share.compute]
    objects.group = ClientGroup(group_address, len(plan.placement.compute))
    try:
        open_clients(objects.clients, objects.group, plan)
    except SfioError as error:
        raise InputError(f"the striped file could not be opened: {error}") from None
    if share.root is not None:
        for node in share.io:
            (share.root / node / "rehearsal").unlink(missing_ok=True)


def operate_clients(
    machine: MachineState, start_s: float, direction: Direction, fault_s: float, deaths: tuple[tuple[float, str], ...]
) -> Operated:
    """All clients here write, or read, from ``start_s`` on the machine's clock; ``fault_s`` after it the first fault
    begins, and the listeners of ``deaths`` (seconds, node) die."""
    objects = occupied_of(machine)
    with prompt_threads(), ListenerKiller(objects.listeners, deaths, start_s), LoadMonitor() as gauge:
        time.sleep(max(0.0, start_s - time.monotonic()))
        optimised = objects.share.plan.options.optimise
        record = operate(objects.clients, direction, optimised=optimised, fault_s=fault_s)
        ended_s = time.monotonic()
    return Operated(record=replace(record, strain=gauge.strain), began_s=ended_s - record.seconds, ended_s=ended_s)


def close_clients(machine: MachineState) -> None:
    """Let go of the listeners and of the group."""
    occupied_of(machine).close_clients()


def subfiles(machine: MachineState, action: Literal["fill", "verify"]) -> bool:
    """Put the content into the subfiles that lie here, or hold them against it."""
    objects = occupied_of(machine)
    share, plan = objects.share, objects.share.plan
    if action == "verify":
        return verified_subfiles(share.content(), objects.root, plan.placement, plan.options.stripe_unit, share.io)
    write_subfiles(share.content(), objects.root, plan.placement, plan.options.stripe_unit, share.io)
    return True


@dataclass
class _MachineObjects:
    """``admission``: of the coordinated operation under way, on one machine alone."""

    share: Share
    net: EmulatedNetwork
    root: Path
    listeners: list[ListenerProcess] = field(default_factory=list)
    clients: list[Client] = field(default_factory=list)
    group: ClientGroup | None = None
    admission: TransferAdmission | None = None

    def listen(self, nodes: tuple[str, ...]) -> ListenerProcess:
        """Of these nodes, in a process of its own."""
        coordinated = self.share.plan.coordinated
        return ListenerProcess(
            self.net,
            self.net.wiring,
            nodes,
            self.root,
            key=self.share.key,
            send_buffer_bytes=COORDINATED_SEND_BUFFER if coordinated else None,
            client_silence_s=CIRCUIT_PATIENCE_S if coordinated else None,
        )

    def turns_of(self, client: Client) -> ClientTurns:
        """The order of the client's transfers in a coordinated operation."""
        plan = self.share.plan
        own = (plan.transfers[i] for frame in plan.frames for i in frame if plan.transfers[i].source == client.node)
        return ClientTurns(lambda: self.admission, client.node, [t.sink for t in own], client.flush)

    def close_clients(self) -> None:
        close_all(self.clients)
        if self.group is not None:
            self.group.close()
        self.clients, self.group = [], None

    def close_listeners(self) -> None:
        for listener in self.listeners:
            listener.close()


def occupied_of(machine: MachineState) -> _MachineObjects:
    """What the machine holds of the run."""
    objects = machine.objects["striping"]
    assert isinstance(objects, _MachineObjects)
    return objects
