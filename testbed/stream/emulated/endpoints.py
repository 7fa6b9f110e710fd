"""The processes at both ends of an emulated stream.

Each process uses sockets of its host and one state machine, and returns its packet log at the end.
The last functions of this module are those that a run calls on each machine.
"""

from __future__ import annotations

import gc
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

from fec.adapters.raw_sockets import DatagramReceiver
from fec.protocol.loss_report import MAX_REPORT_BYTES
from fec.protocol.wire import STREAM_UDP_PORT
from testbed.emulation.network.emulated_network import EmulatedNetwork
from testbed.emulation.sandbox.forked_process import ForkedProcess
from testbed.emulation.sandbox.process_lifetime import begin_child
from testbed.emulation.sandbox.shared_counters import shared_numbers
from testbed.errors import InvalidRunError
from testbed.machines.adapters.rpc_network import network_of, read_links
from testbed.machines.rpc import MachineState
from testbed.model.label_split import LabelSplit
from testbed.model.progress import CounterReading
from testbed.model.wiring import WiredHost, Wiring
from testbed.stream.emulated.ends import Run, prepare_receiver, prepare_sender, warn_if_slower
from testbed.stream.emulated.frames import Frames, frames_of
from testbed.stream.measurements import RELAYED
from testbed.stream.plan import StreamPlan
from topologies.text.json_types import JsonObject

# Length of the random key of each stream.
KEY_BYTES = 32

# A sender never collects packets for longer than this.
_MAX_TICK_S = 0.01

# Time in which a user-space switch asks one port for packets.
_PORT_POLL_S = 3e-5

# Time for a process to prepare its end, and to return its result after the stream.
_ANSWER_LIMIT_S = 30.0

# Nice value of an end point: it must not wait for the other processes of the run.
_NICENESS = -10

# Receive buffer of a stream's socket.
_RECEIVE_BUFFER_BYTES = 8 << 20

_READY = "ready"

# Prepares an end in its own process. The arguments are the frames to the other end, the socket of
# its datagrams, and the counters that the end writes while it runs.
Prepare = Callable[[Frames, socket.socket, "memoryview[float]"], Run]


class EndpointProcess:
    """A process that prepares an end point, waits for time zero, runs it and returns its result.

    Args:
        role: The name of the end point, for messages.
        prepare: Prepares the end point in the process; a partial of a module's function.
        gauge: Counters that the process writes while it runs; the number of packets comes first.
    """

    def __init__(self, role: str, prepare: Callable[[], Run], gauge: memoryview[float]) -> None:
        self.role = role
        self.gauge = gauge
        self._process = ForkedProcess(_child, prepare)
        self._pipe = self._process.pipe
        self._answer: object = None

    def wait_until_ready(self, timeout_s: float = _ANSWER_LIMIT_S) -> None:
        """Wait until the end point is prepared.

        Raises:
            InvalidRunError: It failed, or did not answer in time.
        """
        if not self._pipe.poll(timeout_s):
            raise InvalidRunError(f"the {self.role} was not ready within {timeout_s:g} s")
        answer = self._receive()
        if answer != _READY:
            raise InvalidRunError(f"the {self.role} failed: {answer}")

    def begin(self, start_s: float) -> None:
        """Let the end point run; ``start_s`` is the stream's time zero on the monotonic clock."""
        self._pipe.send(start_s)

    @property
    def alive(self) -> bool:
        """True while the process runs."""
        return self._process.is_alive()

    @property
    def finished(self) -> bool:
        """True once the process has returned its result or an error."""
        return self._answer is not None or self._pipe.poll()

    def check(self, now_s: float) -> None:
        """Check that the process runs or has returned a result.

        Args:
            now_s: Time since the start of the stream, for the message.

        Raises:
            InvalidRunError: The process has ended without a result.
        """
        if not self.alive and not self.finished:
            raise InvalidRunError(
                f"the {self.role} ended early, {now_s:.1f} s into the stream: {self.error()}"
            )

    def error(self) -> str:
        """Return how the process ended, for messages."""
        return f"exit code {self._process.exit_code}"

    def result(self, timeout_s: float = _ANSWER_LIMIT_S) -> Any:
        """Wait for the result of the end point and return it.

        Raises:
            InvalidRunError: The end point failed, or did not answer in time.
        """
        if self._answer is None:
            if not self._pipe.poll(timeout_s):
                raise InvalidRunError(
                    f"the {self.role} gave no result within {timeout_s:g} s of the stream's end"
                )
            self._answer = self._receive()
        if isinstance(self._answer, str):
            raise InvalidRunError(f"the {self.role} failed: {self._answer}")
        return self._answer

    def _receive(self) -> object:
        try:
            return self._pipe.recv()
        except EOFError:
            raise InvalidRunError(f"the {self.role} died: {self.error()}") from None

    def close(self) -> None:
        """End the process at once."""
        self._process.close()


def _child(pipe: Connection, prepare: Callable[[], Run]) -> None:
    """Run an end point in its process, and send the result or the text of the error."""
    begin_child(_NICENESS)
    try:
        run = prepare()
        # A garbage collection during the stream would appear as lag.
        gc.collect()
        gc.freeze()
        gc.disable()
        pipe.send(_READY)
        start_s = pipe.recv()
        pipe.send(run(start_s))
    except Exception as error:  # noqa: BLE001 - the parent reports every error
        pipe.send(f"{type(error).__name__}: {error}")
    # The process was forked, so the cleanup of the parent must not run in it.
    os._exit(0)


def datagram_socket(
    net: EmulatedNetwork, host: WiredHost, udp_port: int = STREAM_UDP_PORT
) -> socket.socket:
    """Open a non-blocking socket in the host that receives the stream's datagrams."""
    sock = net.open_socket(host.name, socket.AF_INET, socket.SOCK_DGRAM, 0)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER_BYTES)
    sock.bind(("0.0.0.0", udp_port))
    sock.setblocking(False)
    return sock


@contextmanager
def endpoint(
    net: EmulatedNetwork,
    role: str,
    host: WiredHost,
    peer: WiredHost,
    prepare: Prepare,
    split: LabelSplit | None = None,
) -> Iterator[EndpointProcess]:
    """Start the process of one end point; the process and its sockets are closed together.

    Args:
        net: The network.
        role: The name of the end point, for messages.
        host: The host of the end point.
        peer: The host of the other end.
        prepare: Prepares the end point in the process.
        split: Assigns the labels of the packets that it sends to paths (see ``frames_of``).
    """
    with frames_of(net, host, peer, split) as frames, datagram_socket(net, host) as datagrams:
        gauge = shared_numbers(2)
        ready = partial(prepare, frames, datagrams, gauge)
        with closing(EndpointProcess(role, ready, gauge)) as process:
            yield process


def sender_process(
    net: EmulatedNetwork, plan: StreamPlan, key: bytes
) -> AbstractContextManager[EndpointProcess]:
    """Start the process of a stream's source, which sends coded packets and receives loss reports.

    Args:
        net: The network.
        plan: The plan of the stream.
        key: The key of this stream, which the receiver has as well.
    """
    source = net.wiring.host_at(plan.source)
    sink = net.wiring.host_at(plan.sink)
    tick_s = sending_tick_s(net, net.wiring)
    prepare = _SenderSetup(plan=plan, key=key, peer=sink.ip, tick_s=tick_s)
    return endpoint(net, "sender", source, sink, prepare, plan.forward)


@dataclass(frozen=True, kw_only=True)
class _SenderSetup:
    """Prepares a sender in its process; instances can be pickled.

    Attributes:
        plan: The plan of the stream.
        key: The key of the stream.
        peer: IP address of the sink.
        tick_s: Time for which the sender collects packets.
    """

    plan: StreamPlan
    key: bytes
    peer: str
    tick_s: float

    def __call__(self, frames: Frames, reports: socket.socket, gauge: memoryview[float]) -> Run:
        report_receiver = DatagramReceiver(reports, largest=MAX_REPORT_BYTES + 1, peer=self.peer)
        backward = (reports, report_receiver)
        return prepare_sender(self.plan, self.key, frames, backward, self.tick_s, gauge)


@dataclass(frozen=True, kw_only=True)
class _ReceiverSetup:
    """Prepares a receiver in its process; instances can be pickled.

    Attributes:
        plan: The plan of the stream.
        key: The key of the stream.
        peer: IP address of the source.
    """

    plan: StreamPlan
    key: bytes
    peer: str

    def __call__(self, frames: Frames, stream: socket.socket, gauge: memoryview[float]) -> Run:
        return prepare_receiver(self.plan, self.key, frames, stream, self.peer, gauge)


def receiver_process(
    net: EmulatedNetwork, plan: StreamPlan, key: bytes
) -> AbstractContextManager[EndpointProcess]:
    """Start the process of a stream's sink, which sends loss reports over both return paths.

    Args:
        net: The network.
        plan: The plan of the stream.
        key: The key of this stream, which the sender has as well.
    """
    source = net.wiring.host_at(plan.source)
    sink = net.wiring.host_at(plan.sink)
    prepare = _ReceiverSetup(plan=plan, key=key, peer=source.ip)
    return endpoint(net, "receiver", sink, source, prepare, plan.backward)


def sending_tick_s(net: EmulatedNetwork, wiring: Wiring) -> float:
    """Return for how long the sender collects packets that fall due before it sends them.

    A user-space switch asks every port for packets whenever one arrives anywhere. A thousand single
    packets per second over a few hundred ports would take a complete processor. Packets of a small
    group share that cost on every hop.
    """
    if net.datapath != "user":
        return 0.0
    return min(_MAX_TICK_S, 2 * len(wiring.cables) * _PORT_POLL_S)


# The roles of the two ends of a stream.
SENDER = "sender"
RECEIVER = "receiver"


def open_end(machine: MachineState, role: str, number: int, plan: StreamPlan, key: bytes) -> None:
    """Start the process of an end point, without waiting until it is prepared.

    It is closed together with the machine's network.

    Args:
        machine: The state of the machine of the end point.
        role: SENDER or RECEIVER.
        number: The number of the stream.
        plan: The plan of the stream.
        key: The key of the stream, the same at both ends.
    """
    net = network_of(machine)
    start_process = sender_process if role == SENDER else receiver_process
    warn_if_slower()
    process = machine.objects["built"].enter_context(start_process(net, plan, key))
    machine.objects.setdefault("ends", {})[role, number] = process


def ask_end(machine: MachineState, role: str, number: int, request: str, *args: object) -> object:
    """Call a method of an end point's ``EndpointProcess`` and return the result.

    Args:
        machine: The state of the machine of the end point.
        role: SENDER or RECEIVER.
        number: The number of the stream.
        request: The method: ``wait_until_ready``, ``begin``, ``check`` or ``result``.
        args: The arguments of the method. ``begin`` needs time zero on this machine's clock.
    """
    process = machine.objects["ends"][role, number]
    return getattr(process, request)(*args)


def read_ends(machine: MachineState) -> CounterReading:
    """Return the counters of the machine's links, and those of its end points.

    The packets of all streams are counted together; the block size is that of the first stream.
    """
    sent = 0
    received = 0
    block_size = None
    for (role, number), process in machine.objects.get("ends", {}).items():
        packets = int(process.gauge[0])
        if role == RECEIVER:
            received += packets
            continue
        sent += packets
        if number == 0:
            # It is 0 until the first packet has been sent.
            block_size = process.gauge[1] or None
    return replace(read_links(machine), sent=sent, received=received, block_size=block_size)


def network_facts(machine: MachineState) -> JsonObject:
    """Return facts about the network of a run on one machine.

    The keys are ``datapath``, ``built_by`` and, if links are impaired, RELAYED with the counters of
    the relay.
    """
    net = network_of(machine)
    facts: JsonObject = {"datapath": net.datapath, "built_by": net.built_by()}
    reports = net.impairment_reports()
    if reports:
        facts[RELAYED] = {name: asdict(report) for name, report in reports.items()}
    return facts
