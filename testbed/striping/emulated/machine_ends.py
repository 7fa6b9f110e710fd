"""The listeners and clients of striped files on one machine, and the requests of a run to them.

Listeners have sockets in their hosts' networks. One process serves all of them. A node whose
listener is killed during the run has a separate process. The public functions with a
``MachineState`` are requests (``testbed.machines.rpc``). Listeners are started in the machine's
first thread, because their process is its child. Clients are threads of the machine's process,
which ``LANE_CLIENTS`` serves.
"""

import gc
import logging
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

from sfio_emu.errors import SfioError
from testbed.bulk.circuit_rules import BULK_PORT
from testbed.bulk.emulated.agent_process import AgentProcess, NodeSockets, process_groups
from testbed.bulk.messages import Ready
from testbed.emulation.machine.load_monitor import LoadMonitor
from testbed.emulation.network.emulated_network import EmulatedNetwork
from testbed.emulation.sandbox.sandbox import require_sandbox
from testbed.machines.adapters.rpc_network import network_of
from testbed.machines.rpc import MachineState
from testbed.striping.emulated.admission import ClientTurns, TransferAdmission
from testbed.striping.emulated.clients import (
    Client,
    Reach,
    build_clients,
    close_all,
    open_together,
    opening_error,
    operate,
)
from testbed.striping.measurements import TIMEOUT_S, Direction, OperationRecord
from testbed.striping.oracle import Bytes, file_content, verified_subfiles, write_subfiles
from testbed.striping.placement import encoded_node_name
from testbed.striping.plan import StripingPlan

# TCP port of every listener.
LISTENER_PORT = BULK_PORT
# The lane of the requests to clients, which may wait for one another.
LANE_CLIENTS = "clients"
# Prefix of the folder of a machine's subfiles, in its directory of temporary files.
SUBFILES = "subfiles-"

# The maximum number of connections that wait to be accepted by a listener.
_BACKLOG = 512
# How long the process of listeners may take to start.
_READY_S = 20.0
# A connection with a circuit sends at most this much ahead of its acknowledgements.
_COORDINATED_SEND_BUFFER = 80 << 10
# How long a listener may be silent in a run without faults: with circuits, because it may wait for
# its circuit during most of an operation; and without, because its packets may be lost in full
# queues. It may also be silent for this number of times the duration at the liquid throughput.
_CIRCUIT_PATIENCE_S = 120.0
_CONGESTION_PATIENCE_S = 12.0
_PATIENCE_TIMES_LIQUID = 4
# The kernel accepts at most 65,000 s.
_MAX_PATIENCE_S = 36_000.0
# Without time frames and circuits, the data in flight to and from all listeners fits into this part
# of the queue before the client's link, unless the windows would be smaller than the minimum.
_QUEUE_BYTES = 150_000
_MIN_WINDOW = 20_000
# How long a thread may keep the interpreter while other threads wait for it.
_SWITCH_INTERVAL_S = 0.0005


class ListenerProcess(AgentProcess):
    """A process that serves the subfiles of nodes until ``close``, or until ``kill``."""

    def __init__(
        self,
        net: EmulatedNetwork,
        nodes: Sequence[str],
        root: Path,
        key: bytes,
        *,
        coordinated: bool = False,
        patience_s: float = 0.0,
    ) -> None:
        """Start the process.

        Args:
            net: The network.
            nodes: The I/O nodes.
            root: The directory with the folder of each node.
            key: The key of the run. Clients without it are refused.
            coordinated: Whether clients wait for circuits.
            patience_s: How long clients may be silent, if this is longer than usual.

        Raises:
            CapabilityError: The process cannot be started.
        """
        self.killed = False
        sockets = NodeSockets.of(net, nodes)
        folders = {node: root / encoded_node_name(node) for node in nodes}
        serve = partial(_serve, sockets, folders, key, coordinated, patience_s)
        super().__init__("listener", nodes, serve)
        self.receive(_READY_S)

    def kill(self) -> None:
        """End the process at once, like a crash."""
        self.killed = True
        super().kill()


def _serve(
    sockets: NodeSockets,
    folders: Mapping[str, Path],
    key: bytes,
    coordinated: bool,
    patience_s: float,
    pipe: Connection,
) -> None:
    """Serve the folders of the nodes; the arguments are those of ``ListenerProcess``."""
    from sfio_emu.adapters.listener import LOG, Listener
    from sfio_emu.adapters.listener_clients import Limits

    # The run itself reports which clients disconnected, and when.
    LOG.setLevel(logging.ERROR)
    served = []
    for node, folder in folders.items():
        served.append((_listening_socket(sockets, node, coordinated=coordinated), folder))
    usual = Limits.of_process()
    limits = replace(usual, silence_s=max(usual.silence_s, patience_s))
    listener = Listener(served, key=key, limits=limits)
    pipe.send(Ready())
    listener.serve_forever()


def _listening_socket(sockets: NodeSockets, node: str, *, coordinated: bool) -> socket.socket:
    sock = sockets.open(node, socket.AF_INET, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if coordinated:
        # Accepted sockets inherit the size of the buffer.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _COORDINATED_SEND_BUFFER)
    sock.bind(("0.0.0.0", LISTENER_PORT))
    sock.listen(_BACKLOG)
    return sock


@contextmanager
def _killed_meanwhile(
    listeners: Sequence[ListenerProcess], deaths: Sequence[tuple[float, str]], start_s: float
) -> Iterator[None]:
    """Kill listeners during the block.

    Args:
        listeners: All listeners.
        deaths: When listeners are killed, in seconds after the start, and their nodes.
        start_s: The start on the monotonic clock.
    """
    timers = []
    for at_s, node in deaths:
        wait_s = max(0.0, start_s + at_s - time.monotonic())
        for listener in listeners:
            if node in listener.nodes:
                timers.append(threading.Timer(wait_s, listener.kill))
    for timer in timers:
        timer.start()
    try:
        yield
    finally:
        for timer in timers:
            timer.cancel()
            timer.join()


def patience_s(plan: StripingPlan) -> float:
    """Return how long a connection may be silent before it is given up.

    A connection that waits for its circuit or loses packets in full queues is not broken. In a run
    with faults, a silent connection is given up soon.
    """
    if plan.faults or plan.killed:
        return TIMEOUT_S
    min_s = _CIRCUIT_PATIENCE_S if plan.coordinated else _CONGESTION_PATIENCE_S
    return min(_MAX_PATIENCE_S, max(min_s, _PATIENCE_TIMES_LIQUID * plan.liquid_s))


def client_socket(net: EmulatedNetwork, plan: StripingPlan, host: str) -> socket.socket:
    """Return a TCP socket in a host, with buffers that suit the plan.

    Args:
        net: The network.
        plan: The plan.
        host: The name of the emulated host of a compute node.
    """
    sock = net.open_socket(host, socket.AF_INET, socket.SOCK_STREAM)
    if plan.coordinated:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _COORDINATED_SEND_BUFFER)
    else:
        window = max(_MIN_WINDOW, _QUEUE_BYTES // plan.options.io_nodes)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, window)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, max(_MIN_WINDOW, window // 2))
    return sock


@contextmanager
def prompt_threads() -> Iterator[None]:
    """Let threads run as soon as they are woken, for the duration of the block.

    They would otherwise wait for up to 5 ms for the interpreter, or for a garbage collection.
    """
    interval_s = sys.getswitchinterval()
    collecting = gc.isenabled()
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    # If it is disabled, an enclosing block has collected already.
    if collecting:
        gc.collect()
        gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()
        sys.setswitchinterval(interval_s)


@dataclass(frozen=True, kw_only=True)
class Share:
    """A machine's part of a run.

    Attributes:
        plan: The plan.
        io: The I/O nodes on the machine.
        compute: The compute nodes on the machine.
        key: The key of the run.
        root: The directory of the subfiles. None: a new one in the machine's tmpfs.
    """

    plan: StripingPlan
    io: tuple[str, ...]
    compute: tuple[str, ...]
    key: bytes
    root: Path | None = None

    def content(self) -> Bytes:
        """Return the content of the file."""
        return file_content(self.plan.file_bytes, self.plan.options.seed)


@dataclass(frozen=True, kw_only=True)
class ClientsResult:
    """The operation of the clients of one machine.

    Attributes:
        record: The record of these clients.
        began_s: The start on the machine's monotonic clock.
        ended_s: The end on the same clock.
    """

    record: OperationRecord
    began_s: float
    ended_s: float


def start_listeners(machine: MachineState, share: Share) -> None:
    """Start the listeners of the I/O nodes on this machine."""
    built = machine.objects["built"]
    root = share.root
    if root is None:
        folder = tempfile.TemporaryDirectory(prefix=SUBFILES, dir=require_sandbox() / "tmp")
        root = Path(built.enter_context(folder))
        for node in share.io:
            (root / encoded_node_name(node)).mkdir()
    objects = _MachineObjects(share, network_of(machine), root)
    machine.objects["striping"] = objects
    built.callback(objects.close_listeners)
    built.callback(objects.close_clients)
    killed = [share.plan.placement.names[k.node] for k in share.plan.killed]
    for group in process_groups(share.io, killed):
        objects.listeners.append(objects.listen(group))


def restart_listeners(machine: MachineState) -> None:
    """Restart the listeners that were killed."""
    objects = objects_of(machine)
    for position, listener in enumerate(objects.listeners):
        if listener.killed:
            objects.listeners[position] = objects.listen(listener.nodes)


def start_clients(machine: MachineState, group_address: str) -> None:
    """Start the clients on this machine: connect, open the file, rehearse.

    All machines with compute nodes must do this together.

    Args:
        machine: The machine.
        group_address: The address of the server of the group of all clients.

    Raises:
        InputError: The file cannot be opened.
        CapabilityError: The disk of an I/O node is full.
    """
    objects = objects_of(machine)
    share = objects.share
    plan = share.plan
    net = objects.net

    def open_socket(node: str, _: str) -> socket.socket:
        return client_socket(net, plan, net.wiring.host_at(node).name)

    addresses = {
        encoded_node_name(node): (net.wiring.host_at(node).ip, LISTENER_PORT)
        for node in plan.placement.io
    }
    reach = Reach(
        addresses=addresses, timeout_s=patience_s(plan), open_socket=open_socket, key=share.key
    )
    clients = build_clients(plan, share.content(), reach, turns=objects.turns_of)
    objects.clients = [client for client in clients if client.node in share.compute]
    try:
        open_together(objects.clients, lambda client: client.open(group_address, plan))
        open_together(objects.clients, lambda client: client.rehearse(plan))
    except SfioError as error:
        raise opening_error(error) from None
    if share.root is not None:
        for node in share.io:
            (share.root / encoded_node_name(node) / "rehearsal").unlink(missing_ok=True)


def operate_clients(
    machine: MachineState,
    start_s: float,
    direction: Direction,
    fault_s: float,
    deaths: tuple[tuple[float, str], ...],
) -> ClientsResult:
    """Let all clients on this machine write or read.

    Args:
        machine: The machine.
        start_s: The start on the machine's monotonic clock.
        direction: Whether the clients write or read.
        fault_s: The time between the start and the first fault.
        deaths: When listeners are killed, in seconds after the start, and their nodes.
    """
    objects = objects_of(machine)
    with (
        prompt_threads(),
        _killed_meanwhile(objects.listeners, deaths, start_s),
        LoadMonitor() as monitor,
    ):
        time.sleep(max(0.0, start_s - time.monotonic()))
        optimised = objects.share.plan.options.optimise
        record = operate(objects.clients, direction, optimised=optimised, fault_s=fault_s)
        ended_s = time.monotonic()
    return ClientsResult(
        record=replace(record, machine_load=monitor.strain),
        began_s=ended_s - record.seconds,
        ended_s=ended_s,
    )


def close_clients(machine: MachineState) -> None:
    """Close the connections of all clients on this machine."""
    objects_of(machine).close_clients()


def fill_subfiles(machine: MachineState) -> None:
    """Write the content into the subfiles on this machine."""
    objects = objects_of(machine)
    share = objects.share
    stripe_unit = share.plan.options.stripe_unit
    write_subfiles(share.content(), objects.root, share.plan.placement, stripe_unit, share.io)


def verify_subfiles(machine: MachineState) -> bool:
    """Return whether the subfiles on this machine have the right content."""
    objects = objects_of(machine)
    share = objects.share
    stripe_unit = share.plan.options.stripe_unit
    return verified_subfiles(
        share.content(), objects.root, share.plan.placement, stripe_unit, share.io
    )


@dataclass
class _MachineObjects:
    """The objects of a run on one machine.

    Attributes:
        share: The machine's part of the run.
        net: The machine's part of the network.
        root: The directory of the subfiles.
        listeners: The processes of the listeners.
        clients: The clients, while they are connected.
        admission: The admission of the current operation, if it is coordinated.
    """

    share: Share
    net: EmulatedNetwork
    root: Path
    listeners: list[ListenerProcess] = field(default_factory=list)
    clients: list[Client] = field(default_factory=list)
    admission: TransferAdmission | None = None

    def listen(self, nodes: tuple[str, ...]) -> ListenerProcess:
        """Start a process for the listeners of these nodes."""
        plan = self.share.plan
        return ListenerProcess(
            self.net,
            nodes,
            self.root,
            self.share.key,
            coordinated=plan.coordinated,
            patience_s=patience_s(plan),
        )

    def turns_of(self, client: Client) -> ClientTurns:
        """Return the object that orders a client's transfers in coordinated operations."""
        plan = self.share.plan
        sinks = []
        for frame in plan.frames:
            for index in frame:
                transfer = plan.transfers[index]
                if transfer.source == client.node:
                    sinks.append(transfer.sink)
        return ClientTurns(self.current_admission, client.node, sinks, client.flush)

    def current_admission(self) -> TransferAdmission | None:
        """Return the admission of the current operation, or None."""
        return self.admission

    def close_clients(self) -> None:
        """Close the connections of all clients."""
        close_all(self.clients)
        self.clients = []

    def close_listeners(self) -> None:
        """End the processes of the listeners."""
        for listener in self.listeners:
            listener.close()


def objects_of(machine: MachineState) -> _MachineObjects:
    """Return the objects of the run on this machine."""
    return machine.held("striping", _MachineObjects)
