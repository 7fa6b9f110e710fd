"""Striped files over a network of real switches: listeners, clients, circuits, faults, and the content verified after every run."""

from __future__ import annotations

import gc
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from sfio_emu.adapters.key_files import new_key
from testbed.bulk.circuit_rules import shared_return_rules, standing_rules
from testbed.bulk.coordinator import Circuit
from testbed.bulk.emulated.agent_process import process_groups
from testbed.bulk.emulated.switchboard import CircuitSwitchboard
from testbed.emulation.control.fault_injection import FaultSchedule
from testbed.emulation.machine.machine_strain import StrainGauge
from testbed.emulation.network.emulated_network import EmulatedNetwork
from testbed.model.progress import Progress, Reading, ReportProgress
from testbed.model.wiring import wire
from testbed.striping.emulated.admission import ClientTurns, TransferAdmission
from testbed.striping.emulated.clients import (
    Client,
    Group,
    Reach,
    ThreadGroup,
    all_at_once,
    build_clients,
    close_all,
    operate,
    raise_first,
)
from testbed.striping.emulated.listeners import LISTENER_PORT, ListenerKiller, ListenerProcess
from testbed.striping.emulated.verification import verified_subfiles, write_subfiles
from testbed.striping.keeping_up import lateness_s
from testbed.striping.measurements import Direction, OperationRecord, StripingMeasurements
from testbed.striping.oracle import file_content
from testbed.striping.plan import StripingPlan

_COORDINATED_SEND_BUFFER = 80 << 10
_QUEUE_BYTES, _MIN_WINDOW = 150_000, 20_000
_CIRCUIT_PATIENCE_S, _CONGESTION_PATIENCE_S = 120.0, 12.0
_QUIET_S = 0.05
_SWITCH_INTERVAL_S = 0.0005
_MIN_STALL_S = 15.0


class EmulatedStriping:
    """A network with the listeners of a plan, inside the sandbox only; a context manager. ``run`` may be called again.

    ``root``: where the subfiles lie, a directory for each I/O node; ``timeout_s``: until a silent listener is given up. Raises CapabilityError where this machine cannot build it.
    """

    def __init__(
        self,
        plan: StripingPlan,
        root: Path,
        *,
        mtu: int,
        timeout_s: float,
        report_progress: ReportProgress | None = None,
    ) -> None:
        self._plan, self._root, self._mtu, self._timeout_s = plan, root, mtu, timeout_s
        self._report_progress = report_progress or (lambda _: None)
        self._circuits = plan.options.switching == "circuit" and bool(plan.transfers)
        self._admission: TransferAdmission | None = None
        self._key = new_key()
        self._content = file_content(plan.file_bytes, plan.options.seed)

    def __enter__(self) -> EmulatedStriping:
        with ExitStack() as stack:
            self._build(stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _build(self, stack: ExitStack) -> None:
        plan = self._plan
        self._report_progress(Progress(done_s=0, total_s=1, doing="building the network"))
        self._wiring = wire(plan.network)
        self._net = stack.enter_context(EmulatedNetwork(self._wiring, mtu=self._mtu))
        self._meter = self._net.link_meter()
        pairs = [(t.source, t.sink) for t in plan.transfers]
        self._switchboard = CircuitSwitchboard(self._wiring, pairs)
        stack.callback(self._switchboard.close)
        paths = plan.placement.remote
        self._standing = standing_rules(self._wiring, paths)
        self._switchboard.change_rules((*shared_return_rules(self._wiring, paths), *self._standing), "add")
        killed = [plan.placement.names[k.node] for k in plan.options.killed]
        self._listeners = list[ListenerProcess]()
        stack.callback(self._close_listeners)
        for group in process_groups(plan.placement.io, killed):
            self._listeners.append(self._listen(group))
        if self._circuits:
            self._switchboard.prepare(Circuit(transfer=i, path=t.path) for i, t in enumerate(plan.transfers))

    def _close_listeners(self) -> None:
        for listener in self._listeners:
            listener.close()

    def _listen(self, nodes: tuple[str, ...]) -> ListenerProcess:
        send_buffer = _COORDINATED_SEND_BUFFER if self._plan.coordinated else None
        patience_s = _CIRCUIT_PATIENCE_S if self._plan.coordinated else None
        return ListenerProcess(
            self._net,
            self._wiring,
            nodes,
            self._root,
            key=self._key,
            send_buffer_bytes=send_buffer,
            client_silence_s=patience_s,
        )

    def run(self) -> StripingMeasurements:
        """All operations of the plan; those that a fault broke once more, when it is mended."""
        operations: list[OperationRecord] = []
        options = self._plan.options
        directions = options.directions
        clients = self._clients()
        try:
            self._open(clients)
            if "write" not in directions:
                write_subfiles(self._content, self._root, self._plan.placement, options.stripe_unit)
            for number, direction in enumerate(directions):
                self._report(number, direction)
                faulty = number == 0 and bool(options.faults or options.killed)
                operations.append(self._operate(clients, direction, attempt=1, faulty=faulty))
                if operations[-1].errors:
                    self._mend(clients)
                    operations.append(self._operate(clients, direction, attempt=2, faulty=False))
                if operations[-1].errors:
                    break
        finally:
            close_all(clients)
        return StripingMeasurements(fabric="emulation", operations=tuple(operations), mtu_bytes=self._mtu)

    def _report(self, number: int, direction: Direction) -> None:
        total_s = len(self._plan.options.directions) + 0.5
        done = Progress(done_s=number + 0.5, total_s=total_s, doing=direction, look=self._look)
        self._report_progress(done)

    def _look(self) -> Reading:
        return Reading(link_bytes=self._meter.carried_bytes(), down=self._meter.without_carrier())

    def _clients(self) -> list[Client]:
        addresses = {n: (self._wiring.host_at(n).ip, LISTENER_PORT) for n in self._plan.placement.io}
        reach = Reach(
            addresses=addresses,
            timeout_s=patience_s(self._plan, self._timeout_s),
            open_socket=self._open_socket,
            key=self._key,
        )
        return build_clients(self._plan, self._content, reach, turns=self._turns_of)

    def _turns_of(self, client: Client) -> ClientTurns:
        order = [
            self._plan.transfers[i].sink
            for frame in self._plan.frames
            for i in frame
            if self._plan.transfers[i].source == client.node
        ]
        return ClientTurns(lambda: self._admission, client.node, order, client.flush)

    def _open_socket(self, node: str, host: str) -> socket.socket:
        return client_socket(self._net, self._plan, self._wiring.host_at(node).name)

    def _open(self, clients: list[Client]) -> None:
        """Collective; what goes wrong here is no measurement. Raises SfioError."""
        plan = self._plan
        open_clients(clients, ThreadGroup(len(clients)), plan)
        for node in plan.placement.io:
            (self._root / node / "rehearsal").unlink(missing_ok=True)

    def _operate(self, clients: list[Client], direction: Direction, *, attempt: int, faulty: bool) -> OperationRecord:
        options = self._plan.options
        fault_s = min((*(x.start_s for x in options.faults), *(x.at_s for x in options.killed)), default=0.0)
        counters, changes = self._net.link_counters(), self._switchboard.changes
        with prompt_threads(), self._broken(faulty), self._admitting() as admission:
            with StrainGauge() as gauge:
                done = operate(clients, direction, optimised=options.optimise, fault_s=fault_s)
            changes = self._switchboard.changes - changes
        time.sleep(_QUIET_S)
        drops = sum(now[2] - counters[link][2] for link, now in self._net.link_counters().items())
        verified = done.verified
        if direction == "write":
            verified = verified_subfiles(self._content, self._root, self._plan.placement, options.stripe_unit)
        return replace(
            done,
            attempt=attempt,
            faulty=faulty,
            verified=verified,
            deadlocks=len(admission.deadlocks) if admission else 0,
            rule_changes=changes if self._circuits else 0,
            queue_drops=drops,
            strain=gauge.strain,
            late_s=lateness_s(self._plan, admission.late_s) if admission else 0.0,
            frame_times_s=admission.frame_times_s if admission else (),
            failure=admission.failure if admission else None,
        )

    @contextmanager
    def _admitting(self) -> Iterator[TransferAdmission | None]:
        """In a coordinated operation transfers wait to be admitted; with circuits no other way stands meanwhile."""
        if not self._plan.coordinated:
            yield None
            return
        plan = self._plan.bulk_plan()
        if self._circuits:
            self._switchboard.change_rules(self._standing, "remove")
            self._switchboard.forget_flows()
        try:
            stall_s = max(_MIN_STALL_S, 50 * plan.message_s)
            with TransferAdmission(plan, self._switchboard, stall_s=stall_s) as admission:
                self._admission = admission
                yield admission
        finally:
            self._admission = None
            if self._circuits:
                self._switchboard.change_rules(self._standing, "add")
                self._switchboard.forget_flows()

    @contextmanager
    def _broken(self, faulty: bool) -> Iterator[None]:
        """Faults in force while the block runs; when it is over they are all mended, except that killed listeners are dead."""
        if not faulty:
            yield
            return
        self._net.prepare_impairments(self._plan.options.faults)
        start = time.monotonic()
        faults = FaultSchedule(self._net, self._plan.options.faults, start)
        names = self._plan.placement.names
        with ListenerKiller(self._listeners, [(k.at_s, names[k.node]) for k in self._plan.options.killed], start):
            faults.start()
            try:
                yield
            finally:
                faults.stop()

    def _mend(self, clients: list[Client]) -> None:
        """Start what was killed anew, and open the file anew over what is whole again."""
        self._listeners = [self._listen(x.nodes) if x.killed else x for x in self._listeners]
        for client in clients:
            client.close()
        self._switchboard.forget_flows()
        self._open(clients)


def patience_s(plan: StripingPlan, timeout_s: float) -> float:
    """A connection that waits for its circuit is silent and whole; one that loses packets to others' is slow and whole; ``timeout_s``
    where something is broken on purpose."""
    if plan.options.faults or plan.options.killed:
        return timeout_s
    return _CIRCUIT_PATIENCE_S if plan.coordinated else _CONGESTION_PATIENCE_S


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


def open_clients(clients: Sequence[Client], group: Group, plan: StripingPlan) -> None:
    """Collective over all clients of the plan, here or elsewhere: the file is open, and a little of another has been written and
    read (``rehearsal``). Raises SfioError."""
    unit = plan.options.stripe_unit
    all_at_once(clients, lambda c: c.open(group, plan.placement.file_name(), unit, plan.file_bytes), group)
    raise_first(clients)
    all_at_once(clients, lambda c: c.rehearse(plan.placement.file_name("rehearsal"), unit), group)
    raise_first(clients)


@contextmanager
def prompt_threads() -> Iterator[None]:
    """Let a thread that is woken run at once: not after 5 ms, and not after a collection of everything ever made."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        sys.setswitchinterval(interval)
