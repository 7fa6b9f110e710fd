"""The processes at the two ends of an emulated stream: sockets of a host, a state machine, and logs handed back at the
end; and what a run asks a machine to do with them."""

from __future__ import annotations

import gc
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import asdict, replace
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
from testbed.stream.emulated.ends import Run, prepare_receiver, prepare_sender, say_what_is_missing
from testbed.stream.emulated.frames import Frames, frames_of
from testbed.stream.measurements import RELAYED
from testbed.stream.plan import StreamPlan
from topologies.text.json_types import JsonObject

KEY_BYTES = 32
"""Of the key that a run draws for each stream."""
_MAX_TICK_S, _PORT_POLL_S = 0.01, 3e-5
_READY = "ready"


class EndpointProcess:
    """A process that makes its end ready, waits for time zero, runs it and sends the result back.

    Args:
        role: The name of the end.
        prepare: Makes the end ready, in the process; a partial of a module's function.
        gauge: Numbers that it writes while it runs, for whoever watches; packets counted come first.
    """

    def __init__(self, role: str, prepare: Callable[[], Run], gauge: memoryview[float]) -> None:
        self.role = role
        self.gauge = gauge
        self._process = ForkedProcess(_child, prepare)
        self._pipe = self._process.pipe
        self._answer: object = None

    def wait_until_ready(self, timeout_s: float = 30.0) -> None:
        """Return when the end can begin at once. InvalidRunError where it cannot."""
        if not self._pipe.poll(timeout_s):
            raise InvalidRunError(f"the {self.role} was not ready within {timeout_s:g} s")
        answer = self._receive()
        if answer != _READY:
            raise InvalidRunError(f"the {self.role} failed: {answer}")

    def begin(self, start_s: float) -> None:
        """Time zero of the stream on the monotonic clock."""
        self._pipe.send(start_s)

    @property
    def alive(self) -> bool:
        return self._process.is_alive()

    @property
    def finished(self) -> bool:
        return self._answer is not None or self._pipe.poll()

    def check(self, now_s: float) -> None:
        """InvalidRunError where the process has ended without a result, ``now_s`` into the stream."""
        if not self.alive and not self.finished:
            raise InvalidRunError(
                f"the {self.role} ended early, {now_s:.1f} s into the stream: {self.error()}"
            )

    def error(self) -> str:
        return f"exit code {self._process.exit_code}"

    def result(self, timeout_s: float = 30.0) -> Any:
        """The end's result; InvalidRunError where it failed or does not answer."""
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
        """End the process, whatever it is doing."""
        self._process.close()


def _child(pipe: Connection, prepare: Callable[[], Run]) -> None:
    """Die with the parent, wait for the start, answer with the result or the error's text."""
    begin_child(-10)
    try:
        run = prepare()
        gc.collect()
        gc.freeze()
        gc.disable()  # a collection in mid-stream would show up as lag
        pipe.send(_READY)
        pipe.send(run(pipe.recv()))
    except Exception as error:  # noqa: BLE001 - whatever went wrong must reach the parent, which names the end point
        pipe.send(f"{type(error).__name__}: {error}")
    os._exit(0)


def datagram_socket(
    net: EmulatedNetwork, host: WiredHost, udp_port: int = STREAM_UDP_PORT
) -> socket.socket:
    """A socket of the host that takes the stream's datagrams without waiting."""
    sock = net.open_socket(host.name, socket.AF_INET, socket.SOCK_DGRAM, 0)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
    sock.bind(("0.0.0.0", udp_port))
    sock.setblocking(False)
    return sock


Prepare = Callable[[Frames, socket.socket, "memoryview[float]"], Run]
"""Makes an end ready in its own process: frames to the other end, datagrams from it, and what it counts for whoever
watches."""


@contextmanager
def endpoint(
    net: EmulatedNetwork,
    role: str,
    own: WiredHost,
    other: WiredHost,
    prepare: Prepare,
    split: LabelSplit | None = None,
) -> Iterator[EndpointProcess]:
    """The process of one host that streams to another, and its sockets, closed together; ``split`` as of
    ``frames_of``."""
    with frames_of(net, own, other, split) as frames, datagram_socket(net, own) as datagrams:
        gauge = shared_numbers(2)
        ready = partial(prepare, frames, datagrams, gauge)
        with closing(EndpointProcess(role, ready, gauge)) as process:
            yield process


def sender_process(
    net: EmulatedNetwork, plan: StreamPlan, key: bytes
) -> AbstractContextManager[EndpointProcess]:
    """The source's end: coded packets out of a raw socket, loss reports in. ``key``: of this stream alone, at both
    ends."""
    source, sink = net.wiring.host_at(plan.source), net.wiring.host_at(plan.sink)
    tick_s = sending_tick_s(net, net.wiring)
    prepare = partial(_prepare_sender, plan, key, (sink.ip, tick_s))
    return endpoint(net, "sender", source, sink, prepare, plan.forward)


def _prepare_sender(
    plan: StreamPlan,
    key: bytes,
    sink: tuple[str, float],
    frames: Frames,
    reports: socket.socket,
    gauge: memoryview[float],
) -> Run:
    """``sink``: its address, and the sending tick in seconds."""
    peer, tick_s = sink
    reported = DatagramReceiver(reports, largest=MAX_REPORT_BYTES + 1, peer=peer)
    return prepare_sender(plan, key, frames, (reports, reported), tick_s, gauge)


def _prepare_receiver(
    plan: StreamPlan,
    key: bytes,
    peer: str,
    frames: Frames,
    stream: socket.socket,
    gauge: memoryview[float],
) -> Run:
    return prepare_receiver(plan, key, frames, stream, peer, gauge)


def receiver_process(
    net: EmulatedNetwork, plan: StreamPlan, key: bytes
) -> AbstractContextManager[EndpointProcess]:
    """The sink's end: packets in, loss reports out on both return paths. ``key``: of this stream alone, at both
    ends."""
    source, sink = net.wiring.host_at(plan.source), net.wiring.host_at(plan.sink)
    prepare = partial(_prepare_receiver, plan, key, source.ip)
    return endpoint(net, "receiver", sink, source, prepare, plan.backward)


def sending_tick_s(net: EmulatedNetwork, wiring: Wiring) -> float:
    """How long the sender gathers packets that fall due before it sends them.

    A user-space switch asks every port for packets whenever one arrives anywhere, so that one by one a thousand packets
    a second over a few hundred ports take a whole processor; sent in small groups they share that cost on every hop.
    """
    if net.datapath != "user":
        return 0.0
    return min(_MAX_TICK_S, 2 * len(wiring.cables) * _PORT_POLL_S)


SENDER, RECEIVER = "sender", "receiver"


def open_end(machine: MachineState, role: str, number: int, plan: StreamPlan, key: bytes) -> None:
    """Begin to make an end of stream ``number`` ready; it goes with the network. ``key``: the same for both of its
    ends."""
    net = network_of(machine)
    end = sender_process if role == SENDER else receiver_process
    say_what_is_missing()
    process = machine.objects["built"].enter_context(end(net, plan, key))
    machine.objects.setdefault("ends", {})[role, number] = process


def ask_end(machine: MachineState, role: str, number: int, request: str, *args: object) -> object:
    """What a method of ``EndpointProcess`` answers: ``wait_until_ready``, ``begin`` (at time zero of the stream, on
    this machine's clock), ``check`` (while it runs), ``result`` (when the stream is over; its times are seconds after
    its start)."""
    return getattr(machine.objects["ends"][role, number], request)(*args)


def read_ends(machine: MachineState) -> CounterReading:
    """What the links here and the ends here tell: packets of all streams, N of the first one."""
    gauges = {end: process.gauge for end, process in machine.objects.get("ends", {}).items()}
    first = gauges.get((SENDER, 0))
    sent, received = (
        sum(int(gauge[0]) for (role, _), gauge in gauges.items() if role == which)
        for which in (SENDER, RECEIVER)
    )
    block_size = None if first is None else first[1] or None
    return replace(read_links(machine), sent=sent, received=received, block_size=block_size)


def network_facts(machine: MachineState) -> JsonObject:
    """What a run on this machine alone tells of its network: what built it, how packets were switched, and what the
    relay did with them."""
    net = network_of(machine)
    impaired = {name: asdict(report) for name, report in net.impairment_reports().items()}
    return {
        "datapath": net.datapath,
        "built_by": net.built_by(),
        **({RELAYED: impaired} if impaired else {}),
    }
