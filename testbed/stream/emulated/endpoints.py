"""The processes at the two ends of an emulated stream: sockets of a host, a state machine, and logs handed back at the
end; and what a run asks a machine to do with them."""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import os
import select
import signal
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import asdict, dataclass, field, replace
from multiprocessing.connection import Connection
from typing import Any

from fec.adapters.raw_sockets import DatagramReceiver, socket_drops, waiting_datagrams
from fec.protocol.loss_report import MAX_REPORT_BYTES
from fec.protocol.wire import HEADER_BYTES, STREAM_UDP_PORT
from testbed.emulation.machine.shared_counters import shared_numbers
from testbed.emulation.network.emulated_network import EmulatedNetwork
from testbed.emulation.sandbox.process_lifetime import die_with_parent
from testbed.errors import InvalidRunError
from testbed.machines.adapters.rpc_network import network_of, read_links
from testbed.machines.rpc import MachineState
from testbed.model.label_split import LabelSplit
from testbed.model.progress import CounterReading
from testbed.model.wiring import WiredHost, Wiring
from testbed.openflow.rules import label_prefixes
from testbed.stream.emulated.frames import Frames, frames_of
from testbed.stream.endpoints import ContentCheck, build_receiver, build_sender, sender_counters
from testbed.stream.judgement.packet_logs import LossReportRecorder, ReceivedLog, SentLog
from testbed.stream.measurements import NO_LOSS_REPORTS, RELAYED, LossReportLog, ReceivedPackets, SentPackets
from testbed.stream.plan import StreamPlan
from testbed.stream.prediction.active_faults import RETURN_LABELS
from topologies.text.json_types import JsonObject

KEY_BYTES = 32
"""Of the key that a run draws for each stream."""
_MAX_TICK_S, _PORT_POLL_S = 0.01, 3e-5
_WARM_PACE_S, _WARM_REST_S = 0.001, 0.2
_CLOCKS_WITHIN_S = 5e-5
_SPARED_S = 0.05


@dataclass(frozen=True, kw_only=True)
class SenderResult:
    log: SentPackets
    worst_lag_s: float
    news: LossReportLog = NO_LOSS_REPORTS
    counters: JsonObject = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class ReceiverResult:
    log: ReceivedPackets
    socket_drops: int
    counters: JsonObject = field(default_factory=dict)


Run = Callable[[float], object]
"""Runs one end of the stream from the given time zero (monotonic clock) and returns its result."""
_READY = "ready"


class EndpointProcess:
    """A forked process that makes its end ready, waits for time zero, runs it and sends the result back.

    ``gauge``: numbers that it writes while it runs, for whoever watches; packets counted come first.
    """

    def __init__(self, role: str, prepare: Callable[[], Run], gauge: memoryview[float] | None = None) -> None:
        context = multiprocessing.get_context("fork")
        self.role = role
        self.gauge = gauge
        self._pipe, child = context.Pipe()
        self._process = context.Process(target=_child, args=(child, prepare), daemon=True)
        self._process.start()
        child.close()
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

    def error(self) -> str:
        return f"exit code {self._process.exitcode}"

    def result(self, timeout_s: float = 30.0) -> Any:
        """The end's result; InvalidRunError where it failed or does not answer."""
        if self._answer is None:
            if not self._pipe.poll(timeout_s):
                raise InvalidRunError(f"the {self.role} gave no result within {timeout_s:g} s of the stream's end")
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
        if self._process.is_alive():
            self._process.kill()
        self._process.join(2)
        self._pipe.close()


def _child(pipe: Connection, prepare: Callable[[], Run]) -> None:
    """Die with the parent, wait for the start, answer with the result or the error's text."""
    die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(PermissionError):  # an ordinary user's processes wait their turn
        os.setpriority(os.PRIO_PROCESS, 0, -10)
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


def datagram_socket(net: EmulatedNetwork, host: WiredHost, udp_port: int = STREAM_UDP_PORT) -> socket.socket:
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
        with closing(EndpointProcess(role, lambda: prepare(frames, datagrams, gauge), gauge)) as process:
            yield process


def sender_process(net: EmulatedNetwork, plan: StreamPlan, key: bytes) -> AbstractContextManager[EndpointProcess]:
    """The source's end: coded packets out of a raw socket, loss reports in. ``key``: of this stream alone, at both
    ends."""
    source, sink = net.wiring.host_at(plan.source), net.wiring.host_at(plan.sink)
    tick_s = sending_tick_s(net, net.wiring)

    def prepare(frames: Frames, reports: socket.socket, gauge: memoryview[float]) -> Run:
        reported = DatagramReceiver(reports, largest=MAX_REPORT_BYTES + 1, peer=sink.ip)
        sender, log, loss_reports = build_sender(plan, key=key), SentLog(), LossReportRecorder()
        sender.on_judgement = loss_reports.record_decision
        source_ends = plan.duration_s - plan.stream.playback_s

        warm_up(frames, warm_labels(plan.forward), HEADER_BYTES + plan.stream.symbol_bytes)

        def run(start_s: float) -> SenderResult:
            discard_until(start_s, reports)
            while (now := time.monotonic() - start_s) < plan.duration_s:
                if now >= source_ends:
                    sender.finish_source()
                for packet in sender.packets_due(now):
                    frames.send(packet.label, packet.data)
                    at = time.monotonic() - start_s
                    log.add(at, packet.due_s, packet.block, packet.symbol, packet.label, packet.block_size)
                    gauge[0], gauge[1] = len(log), packet.block_size
                due = max(sender.next_due_s(), now + tick_s)
                wait = min(due, plan.duration_s, now + 0.05) - (time.monotonic() - start_s)
                if select.select((reports,), (), (), max(0.0, wait))[0]:
                    for data in reported.receive():
                        at = time.monotonic() - start_s
                        sender.receive(data, at)
                        loss_reports.report(at, sender.newest_reported_sent_s)
            counters = {**sender_counters(sender), "sent_refused": frames.refused, "sent_foreign": reported.foreign}
            return SenderResult(
                log=log.packets(), worst_lag_s=log.worst_lag_s, news=loss_reports.log(), counters=counters
            )

        return run

    return endpoint(net, "sender", source, sink, prepare, plan.forward)


def receiver_process(net: EmulatedNetwork, plan: StreamPlan, key: bytes) -> AbstractContextManager[EndpointProcess]:
    """The sink's end: packets in, loss reports out on both return paths. ``key``: of this stream alone, at both
    ends."""
    source, sink = net.wiring.host_at(plan.source), net.wiring.host_at(plan.sink)

    def prepare(frames: Frames, stream: socket.socket, gauge: memoryview[float]) -> Run:
        arrivals = Arrivals(stream, HEADER_BYTES + plan.stream.symbol_bytes, peer=source.ip)
        receiver, log, content = build_receiver(plan, key), ReceivedLog(), ContentCheck(plan)

        warm_up(frames, RETURN_LABELS, HEADER_BYTES)

        def run(start_s: float) -> ReceiverResult:
            discard_until(start_s, stream)
            while (now := time.monotonic() - start_s) < plan.duration_s:
                select.select((stream,), (), (), max(0.0, min(receiver.next_deadline_s() - now, 0.02)))
                now = time.monotonic() - start_s
                got = arrivals.waiting(start_s)
                for at, data in got:
                    before = receiver.received
                    content.take(receiver.receive(data, at))
                    if receiver.received > before:  # what the receiver refuses is no packet of the stream
                        log.add_datagram(at, data)
                gauge[0] = len(log)
                if len(got) == arrivals.most:
                    now = got[-1][0]  # more may wait that came in time: their blocks are not closed by the present time
                content.take(receiver.advance(now))
                for report in receiver.reports_due(now):
                    for label in RETURN_LABELS:
                        frames.send(label, report)
            content.take(receiver.advance(plan.duration_s))
            lag_s = round(arrivals.worst_lag_s, 6)
            counters = {**content.counters(receiver), "foreign": arrivals.foreign, "worst_receive_lag_s": lag_s}
            return ReceiverResult(log=log.packets(), socket_drops=socket_drops(stream), counters=counters)

        return run

    return endpoint(net, "receiver", sink, source, prepare, plan.backward)


def warm_labels(split: LabelSplit) -> list[int]:
    """A label of every prefix that some switch may look up on its own."""
    return [value for path in split.paths for value, _ in label_prefixes(path.start, path.stop)]


def warm_up(frames: Frames, labels: Sequence[int], payload_bytes: int) -> None:
    """Send a packet of zeros under each label before time zero, which the far end throws away.

    A switch looks the first packet of a flow up in its tables and keeps the answer; hundreds of flows that begin at
    once would measure that.
    """
    nothing = bytes(payload_bytes)
    for label in labels:
        frames.send(label, nothing)
        time.sleep(_WARM_PACE_S)
    time.sleep(_WARM_REST_S)


def discard_until(start_s: float, sock: socket.socket) -> None:
    """Wait for that moment of the monotonic clock, and throw away what came before.

    Nothing is thrown away in the last moments: a process that is woken late would take the stream's first packet for
    one of those that came before.
    """
    while (left := start_s - _SPARED_S - time.monotonic()) > 0:
        if select.select((sock,), (), (), left)[0]:
            for _ in waiting_datagrams(sock):
                pass
    time.sleep(max(0.0, start_s - time.monotonic()))


def sending_tick_s(net: EmulatedNetwork, wiring: Wiring) -> float:
    """How long the sender gathers packets that fall due before it sends them.

    A user-space switch asks every port for packets whenever one arrives anywhere, so that one by one a thousand packets
    a second over a few hundred ports take a whole processor; sent in small groups they share that cost on every hop.
    """
    if net.datapath != "user":
        return 0.0
    return min(_MAX_TICK_S, 2 * len(wiring.cables) * _PORT_POLL_S)


class Arrivals:
    """Datagrams of a socket with the time at which they reached the machine, however late this process takes them.

    ``most`` are taken at once; ``worst_lag_s``: how long one lay there at most. ``peer``: whose alone are taken.
    """

    most = 64

    def __init__(self, sock: socket.socket, largest: int, peer: str | None = None) -> None:
        # One byte more than the longest: what is longer still must not pass for one of that length.
        self._datagrams = DatagramReceiver(sock, most=self.most, largest=largest + 1, timestamps=True, peer=peer)
        self.worst_lag_s = 0.0

    @property
    def foreign(self) -> int:
        """Datagrams that others sent."""
        return self._datagrams.foreign

    @property
    def labels(self) -> list[int]:
        """Under which the last ones that ``waiting`` gave were sent."""
        return self._datagrams.source_ports()

    def waiting(self, start_s: float) -> list[tuple[float, bytes]]:
        """(seconds since ``start_s`` of the monotonic clock, datagram) of some that wait, in order; none: empty."""
        got = self._datagrams.receive()
        if not got:
            return []
        clocks_apart_s = _clocks_apart_s()
        now = time.monotonic() - start_s
        # The other clock may be set in between; nothing comes from the future.
        times = [min(now, at - clocks_apart_s - start_s) for at in self._datagrams.arrival_times_s(len(got))]
        self.worst_lag_s = max([self.worst_lag_s, *(now - at for at in times)])
        return list(zip(times, got, strict=True))


def _clocks_apart_s() -> float:
    """Wall clock less monotonic clock. Read again, three times at most, where something came between the two
    readings."""
    for _ in range(3):
        before_s, wall_s, after_s = time.monotonic(), time.clock_gettime(time.CLOCK_REALTIME), time.monotonic()
        if after_s - before_s < _CLOCKS_WITHIN_S:
            break
    return wall_s - (before_s + after_s) / 2


SENDER, RECEIVER = "sender", "receiver"


def open_end(machine: MachineState, role: str, number: int, plan: StreamPlan, key: bytes) -> None:
    """Begin to make an end of stream ``number`` ready; it goes with the network. ``key``: the same for both of its
    ends."""
    net = network_of(machine)
    end = sender_process if role == SENDER else receiver_process
    process = machine.objects["built"].enter_context(end(net, plan, key))
    machine.objects.setdefault("ends", {})[role, number] = process


def ask_end(machine: MachineState, role: str, number: int, request: str, *args: object) -> object:
    """What a method of ``EndpointProcess`` answers: ``wait_until_ready``, ``begin`` (at time zero of the stream, on
    this machine's clock), ``result`` (when the stream is over; its times are seconds after its start)."""
    return getattr(_end(machine, role, number), request)(*args)


def check_end(machine: MachineState, role: str, number: int, now_s: float) -> None:
    """InvalidRunError where the end's process has ended without a result, ``now_s`` into the stream."""
    process = _end(machine, role, number)
    if not process.alive and not process.finished:
        raise InvalidRunError(f"the {role} ended early, {now_s:.1f} s into the stream: {process.error()}")


def read_ends(machine: MachineState) -> CounterReading:
    """What the links here and the ends here tell: packets of all streams, N of the first one."""
    gauges = {
        end: process.gauge for end, process in machine.objects.get("ends", {}).items() if process.gauge is not None
    }
    first = gauges.get((SENDER, 0))
    sent, received = (
        sum(int(gauge[0]) for (role, _), gauge in gauges.items() if role == which) for which in (SENDER, RECEIVER)
    )
    block_size = None if first is None else first[1] or None
    return replace(read_links(machine), sent=sent, received=received, block_size=block_size)


def network_facts(machine: MachineState) -> JsonObject:
    """What a run on this machine alone tells of its network: what built it, how packets were switched, and what the
    relay did with them."""
    net = network_of(machine)
    impaired = {name: asdict(report) for name, report in net.impairment_reports().items()}
    return {"datapath": net.datapath, "built_by": net.built_by(), **({RELAYED: impaired} if impaired else {})}


def _end(machine: MachineState, role: str, number: int) -> EndpointProcess:
    process = machine.objects["ends"][role, number]
    assert isinstance(process, EndpointProcess)
    return process
