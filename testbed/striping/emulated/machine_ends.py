"""Listeners and clients of striped files on a machine: what a run asks of it, on one alone as on each of several.

Listeners have sockets in their hosts' networks, one process for all of them; a node whose listener is to die on its own
gets a process of its own. The functions are requests (``testbed.machines.rpc``): listeners begin in the machine's first
thread, whose child their process is; clients are threads of the machine's process, told by the lane ``LANE_CLIENTS``.
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
from typing import Literal

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
from testbed.striping.placement import file_host
from testbed.striping.plan import StripingPlan

LISTENER_PORT = BULK_PORT
"""TCP port of every listener."""
_BACKLOG = 512
_READY_S = 20.0


class ListenerProcess(AgentProcess):
    """Serves the nodes' subfiles, each node's below its folder in ``root``, from construction until ``close`` (or
    ``kill``, as a crash would).

    ``key``: of the run, without which no client is served. ``coordinated``: clients wait for circuits;
    ``patience_s``: and may be silent so long. Raises CapabilityError where the process cannot begin.
    """

    def __init__(
        self, net: EmulatedNetwork, nodes: Sequence[str], root: Path, key: bytes, *, coordinated: bool = False,
        patience_s: float = 0.0,
    ) -> None:  # fmt: skip
        self.killed = False
        folders = {node: root / file_host(node) for node in nodes}
        limits = coordinated, patience_s
        serve = partial(_serve, NodeSockets.of(net, nodes), folders, key, limits)
        super().__init__("listener", nodes, serve)
        self.receive(_READY_S)

    def kill(self) -> None:
        self.killed = True
        super().kill()


def _serve(
    sockets: NodeSockets,
    folders: Mapping[str, Path],
    key: bytes,
    limits: tuple[bool, float],
    port: Connection,
) -> None:
    """Serve the nodes' folders; ``limits``: as of ``ListenerProcess``, coordinated and patience."""
    from sfio_emu.adapters.listener import LOG, Listener
    from sfio_emu.adapters.listener_clients import Limits

    LOG.setLevel(logging.ERROR)  # which clients were lost, and when, the run itself reports
    coordinated, least_silence_s = limits
    places = []
    for node, folder in folders.items():
        places.append((_listening_socket(sockets, node, coordinated=coordinated), folder))
    of_process = Limits.of_process()
    silence_s = max(of_process.silence_s, least_silence_s)
    listener = Listener(places, key=key, limits=replace(of_process, silence_s=silence_s))
    port.send(Ready())
    listener.serve_forever()


def _listening_socket(sockets: NodeSockets, node: str, *, coordinated: bool) -> socket.socket:
    sock = sockets.open(node, socket.AF_INET, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if coordinated:  # what it accepts inherits it
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _COORDINATED_SEND_BUFFER)
    sock.bind(("0.0.0.0", LISTENER_PORT))
    sock.listen(_BACKLOG)
    return sock


@contextmanager
def _killed_meanwhile(
    listeners: Sequence[ListenerProcess], times: Sequence[tuple[float, str]], start_s: float
) -> Iterator[None]:
    """The listeners of nodes end at their times (seconds after ``start_s`` on the monotonic clock)."""
    timers = [
        threading.Timer(max(0.0, start_s + at_s - time.monotonic()), listener.kill)
        for at_s, node in times
        for listener in listeners
        if node in listener.nodes
    ]
    for timer in timers:
        timer.start()
    try:
        yield
    finally:
        for timer in timers:
            timer.cancel()
            timer.join()


_COORDINATED_SEND_BUFFER = 80 << 10
_CIRCUIT_PATIENCE_S, _CONGESTION_PATIENCE_S = 120.0, 12.0
_MAX_PATIENCE_S = 36_000.0  # the kernel takes 65,000 s at most
_QUEUE_BYTES, _MIN_WINDOW = 150_000, 20_000
_SWITCH_INTERVAL_S = 0.0005


def patience_s(plan: StripingPlan) -> float:
    """A connection that waits for its circuit, perhaps for most of an operation, is silent and whole; one that loses
    packets to others' is slow and whole; where something is broken on purpose, it is given up."""
    if plan.faults or plan.killed:
        return TIMEOUT_S
    least_s = _CIRCUIT_PATIENCE_S if plan.coordinated else _CONGESTION_PATIENCE_S
    return min(_MAX_PATIENCE_S, max(least_s, 4 * plan.liquid_s))


def client_socket(net: EmulatedNetwork, plan: StripingPlan, host: str) -> socket.socket:
    """A TCP socket of a compute node, in the host of that name, with buffers that fit the run."""
    sock = net.open_socket(host, socket.AF_INET, socket.SOCK_STREAM)
    if plan.coordinated:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _COORDINATED_SEND_BUFFER)
    else:  # what is under way to and from all listeners finds room in the queue before this host's link
        window = max(_MIN_WINDOW, _QUEUE_BYTES // plan.options.io_nodes)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, window)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, max(_MIN_WINDOW, window // 2))
    return sock


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
        root = Path(
            built.enter_context(
                tempfile.TemporaryDirectory(prefix=SUBFILES, dir=require_sandbox() / "tmp")
            )
        )
        for node in share.io:
            (root / file_host(node)).mkdir()
    objects = machine.objects["striping"] = _MachineObjects(share, network_of(machine), root)
    built.callback(objects.close_listeners)
    built.callback(objects.close_clients)
    killed = [share.plan.placement.names[k.node] for k in share.plan.killed]
    for group in process_groups(share.io, killed):
        objects.listeners.append(objects.listen(group))


def restart_listeners(machine: MachineState) -> None:
    """Those that were killed."""
    objects = occupied_of(machine)
    objects.listeners = [
        objects.listen(one.nodes) if one.killed else one for one in objects.listeners
    ]


def start_clients(machine: MachineState, group_address: str) -> None:
    """Collective over all machines with compute nodes: connect, open the file, rehearse.
    InputError where that fails, CapabilityError if the disk of an I/O node is full."""
    objects = occupied_of(machine)
    share, plan, net = objects.share, objects.share.plan, objects.net

    def open_socket(node: str, _: str) -> socket.socket:
        return client_socket(net, plan, net.wiring.host_at(node).name)

    addresses = {
        file_host(node): (net.wiring.host_at(node).ip, LISTENER_PORT) for node in plan.placement.io
    }
    reach = Reach(
        addresses=addresses, timeout_s=patience_s(plan), open_socket=open_socket, key=share.key
    )
    built = build_clients(plan, share.content(), reach, turns=objects.turns_of)
    objects.clients = [client for client in built if client.node in share.compute]
    try:
        open_together(objects.clients, lambda client: client.open(group_address, plan))
        open_together(objects.clients, lambda client: client.rehearse(plan))
    except SfioError as error:
        raise opening_error(error) from None
    if share.root is not None:
        for node in share.io:
            (share.root / file_host(node) / "rehearsal").unlink(missing_ok=True)


def operate_clients(
    machine: MachineState,
    start_s: float,
    direction: Direction,
    fault_s: float,
    deaths: tuple[tuple[float, str], ...],
) -> Operated:
    """All clients here write, or read, from ``start_s`` on the machine's clock; ``fault_s`` after it the first fault
    begins, and the listeners of ``deaths`` (seconds, node) die."""
    objects = occupied_of(machine)
    with (
        prompt_threads(),
        _killed_meanwhile(objects.listeners, deaths, start_s),
        LoadMonitor() as gauge,
    ):
        time.sleep(max(0.0, start_s - time.monotonic()))
        optimised = objects.share.plan.options.optimise
        record = operate(objects.clients, direction, optimised=optimised, fault_s=fault_s)
        ended_s = time.monotonic()
    return Operated(
        record=replace(record, machine_load=gauge.strain),
        began_s=ended_s - record.seconds,
        ended_s=ended_s,
    )


def close_clients(machine: MachineState) -> None:
    """Let go of the listeners and of the group."""
    occupied_of(machine).close_clients()


def subfiles(machine: MachineState, action: Literal["fill", "verify"]) -> bool:
    """Put the content into the subfiles that lie here, or hold them against it."""
    objects = occupied_of(machine)
    share, plan = objects.share, objects.share.plan
    if action == "verify":
        return verified_subfiles(
            share.content(), objects.root, plan.placement, plan.options.stripe_unit, share.io
        )
    write_subfiles(
        share.content(), objects.root, plan.placement, plan.options.stripe_unit, share.io
    )
    return True


@dataclass
class _MachineObjects:
    """``admission``: of the coordinated operation under way, on one machine alone."""

    share: Share
    net: EmulatedNetwork
    root: Path
    listeners: list[ListenerProcess] = field(default_factory=list)
    clients: list[Client] = field(default_factory=list)
    admission: TransferAdmission | None = None

    def listen(self, nodes: tuple[str, ...]) -> ListenerProcess:
        """Of these nodes, in a process of its own."""
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
        """The order of the client's transfers in a coordinated operation."""
        plan = self.share.plan
        own = (
            plan.transfers[i]
            for frame in plan.frames
            for i in frame
            if plan.transfers[i].source == client.node
        )
        return ClientTurns(lambda: self.admission, client.node, [t.sink for t in own], client.flush)

    def close_clients(self) -> None:
        close_all(self.clients)
        self.clients = []

    def close_listeners(self) -> None:
        for listener in self.listeners:
            listener.close()


def occupied_of(machine: MachineState) -> _MachineObjects:
    """What the machine holds of the run."""
    return machine.held("striping", _MachineObjects)
