"""The processes at both ends of an uncoded stream."""

from __future__ import annotations

import json
import random
import select
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count

import numpy as np

from fec.adapters.raw_sockets import DatagramReceiver, read_waiting_datagrams, socket_drops
from fec.redundancy.labels import StratifiedLabels
from testbed.emulation.network.emulated_network import EmulatedNetwork
from testbed.metapath.labelled_paths import LabelledPathPair, dead_link_of, path_label
from testbed.metapath.plan import AFTER_END_S, MetapathPlan, ReceivedDatagrams, SentDatagrams
from testbed.metapath.source import MetapathSource, SourceEvent
from testbed.metapath.wire import Acknowledger, decode_packet, decode_report, encode_packet
from testbed.model.wiring import Wiring
from testbed.stream.emulated.endpoints import EndpointProcess, endpoint, sending_tick_s
from testbed.stream.emulated.ends import Arrivals, Run, discard_until, warm_up
from testbed.stream.emulated.frames import Frames
from topologies import JsonObject

# Maximum time that the sink waits for packets.
_IDLE_S = 0.02


@dataclass(frozen=True, kw_only=True)
class SourceResult:
    """The result of the sending end.

    Attributes:
        log: The datagrams that were sent.
        worst_lag_s: Maximum delay of a packet behind its schedule.
        refused: Number of frames that the socket refused.
        foreign: Number of datagrams from other hosts, which were ignored.
        events: The events at FT-DRB's source.
        zero_load_s: The latency without load that the source measured; None if it did not.
    """

    log: SentDatagrams
    worst_lag_s: float
    refused: int
    foreign: int
    events: tuple[SourceEvent, ...] = ()
    zero_load_s: float | None = None


@dataclass(frozen=True, kw_only=True)
class SinkResult:
    """The result of the receiving end.

    Attributes:
        log: The datagrams that arrived.
        socket_drops: Number of datagrams dropped at the full socket.
        reports: Number of reports sent.
        foreign: Number of datagrams from other hosts, which were ignored.
    """

    log: ReceivedDatagrams
    socket_drops: int
    reports: int
    foreign: int


class Steering:
    """Chooses the labels of packets, and passes notifications to the source.

    With FT-DRB, the source chooses a path, and the path gives the label. Without a source, labels
    follow in stratified order, and only the switches decide.
    """

    def __init__(self, source: MetapathSource | None = None) -> None:
        self.source = source
        self._labels = StratifiedLabels()
        self._index = count()

    def choose(self) -> Sequence[tuple[int, int]]:
        """Return the label and the path number of the next packet, and of each of its copies."""
        if self.source is None:
            return [(self._labels.label(next(self._index)), 0)]
        return [(path_label(path), path) for path in self.source.choose()]

    def sent(self, number: int, path: int, now_s: float) -> None:
        """Record that a packet was sent."""
        if self.source is not None:
            self.source.sent(number, path, now_s)

    def on_report(self, data: bytes, now_s: float) -> None:
        """Process a report of the sink; invalid data is ignored."""
        report = decode_report(data)
        if self.source is not None and report is not None:
            made_s, acknowledged = report
            self.source.on_report(made_s, acknowledged, now_s)

    def on_notice(self, data: bytes, now_s: float) -> None:
        """Process a port status that the controller forwards."""
        if self.source is not None:
            notice = json.loads(data)
            self.source.on_port(notice["cable"], notice["up"], now_s)


@contextmanager
def source_process(
    net: EmulatedNetwork,
    wiring: Wiring,
    plan: MetapathPlan,
    known_paths: LabelledPathPair | None,
    warm: Sequence[int],
) -> Iterator[tuple[EndpointProcess, Callable[[JsonObject], None]]]:
    """Start the process of the sending end.

    Args:
        net: The network.
        wiring: The hosts and their addresses.
        plan: The stream.
        known_paths: The known paths of FT-DRB; None for another routing.
        warm: Labels under which packets are sent before the start, so that switches look up flows.

    Yields:
        The process, and a function that sends it a port status (a JSON object).
    """
    source = wiring.host_at(plan.source)
    sink = wiring.host_at(plan.sink)
    notices_in, notices_out = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    notices_out.setblocking(False)
    tick_s = sending_tick_s(net, wiring)
    path_source = None
    if known_paths is not None:
        path_source = MetapathSource(
            known_paths.forward, plan.options, random.Random(plan.seed).random
        )

    def notify(notice: JsonObject) -> None:
        notices_in.sendall(json.dumps(notice).encode())

    start = _SourceStart(peer=sink.ip, notices=notices_out, tick_s=tick_s, warm=warm)
    prepare = partial(_begin_source, plan, path_source, start)
    with notices_in, notices_out, endpoint(net, "sender", source, sink, prepare) as process:
        yield process, notify


def sink_process(
    net: EmulatedNetwork,
    wiring: Wiring,
    plan: MetapathPlan,
    known_paths: LabelledPathPair | None,
) -> AbstractContextManager[EndpointProcess]:
    """Return the process of the receiving end.

    It sends reports over the known paths back; without known paths it sends none.
    """
    return_labels: tuple[int, ...] = ()
    if known_paths is not None:
        return_labels = known_paths.return_labels
    source = wiring.host_at(plan.source)
    sink = wiring.host_at(plan.sink)
    prepare = partial(_begin_sink, plan, source.ip, return_labels)
    return endpoint(net, "receiver", sink, source, prepare)


@dataclass(frozen=True)
class _SourceStart:
    """Parameters of the sending end.

    Attributes:
        peer: The address of the sink.
        notices: The socket on which port statuses arrive.
        tick_s: Minimum time between two batches of packets.
        warm: Labels under which packets are sent before the start.
    """

    peer: str
    notices: socket.socket
    tick_s: float
    warm: Sequence[int]


def _begin_source(
    plan: MetapathPlan,
    path_source: MetapathSource | None,
    start: _SourceStart,
    frames: Frames,
    reports: socket.socket,
    _: memoryview[float],
) -> Run:
    reported = DatagramReceiver(reports, peer=start.peer)
    sockets = (reports, reported, start.notices)
    return _prepare_source(plan, Steering(path_source), frames, sockets, start.tick_s, start.warm)


def _begin_sink(
    plan: MetapathPlan,
    peer: str,
    return_labels: Sequence[int],
    frames: Frames,
    stream: socket.socket,
    _: memoryview[float],
) -> Run:
    arrivals = Arrivals(stream, plan.packet_bytes, peer=peer)
    return _prepare_sink(plan, frames, (stream, arrivals), return_labels)


def _prepare_source(
    plan: MetapathPlan,
    steering: Steering,
    frames: Frames,
    sockets: tuple[socket.socket, DatagramReceiver, socket.socket],
    tick_s: float,
    warm: Sequence[int],
) -> Run:
    """Warm up the switches, and return the function that sends the stream.

    Args:
        plan: The stream.
        steering: Chooses labels.
        frames: Sends frames by label.
        sockets: The socket of reports, its receiver, and the socket of port statuses.
        tick_s: Minimum time between two batches of packets.
        warm: Labels under which packets are sent before the start.
    """
    warm_up(frames, warm, plan.packet_bytes)
    reports, reported, notices = sockets

    def run(start_s: float) -> SourceResult:
        discard_until(start_s, reports)
        # Time of sending, message, path, and 1 for a copy.
        log: list[tuple[float, int, int, int]] = []
        message = 0
        worst_lag_s = 0.0
        while (now_s := time.monotonic() - start_s) < plan.duration_s:
            while (due_s := message / plan.rate_pps) <= now_s:
                for copy, (label, path) in enumerate(steering.choose()):
                    sent_s = time.monotonic() - start_s
                    frames.send(label, encode_packet(len(log), path, sent_s, plan.packet_bytes))
                    steering.sent(len(log), path, sent_s)
                    log.append((sent_s, message, path, int(copy > 0)))
                worst_lag_s = max(worst_lag_s, time.monotonic() - start_s - due_s)
                message += 1
            next_s = max(message / plan.rate_pps, now_s + tick_s)
            wait_s = next_s - (time.monotonic() - start_s)
            ready, _, _ = select.select((reports, notices), (), (), max(0.0, wait_s))
            if reports in ready:
                for data in reported.receive():
                    steering.on_report(data, time.monotonic() - start_s)
            if notices in ready:
                for data in read_waiting_datagrams(notices):
                    steering.on_notice(data, time.monotonic() - start_s)
        rows = np.array(log, dtype=np.float64).reshape(-1, 4)
        sent = SentDatagrams(
            time_s=rows[:, 0],
            message=rows[:, 1].astype(np.int64),
            path=rows[:, 2].astype(np.int64),
            copy=rows[:, 3].astype(np.int64),
        )
        events: tuple[SourceEvent, ...] = ()
        zero_load_s = None
        if steering.source is not None:
            events = tuple(steering.source.events)
            zero_load_s = steering.source.zero_load_s
        return SourceResult(
            log=sent,
            worst_lag_s=worst_lag_s,
            refused=frames.refused,
            foreign=reported.foreign,
            events=events,
            zero_load_s=zero_load_s,
        )

    return run


def _prepare_sink(
    plan: MetapathPlan,
    frames: Frames,
    forward: tuple[socket.socket, Arrivals],
    return_labels: Sequence[int],
) -> Run:
    """Warm up the switches, and return the function that receives the stream.

    Args:
        plan: The stream.
        frames: Sends reports by label.
        forward: The socket of the stream, and its receiver.
        return_labels: The labels of the reports; empty for no reports.
    """
    stream, arrivals = forward
    warm_up(frames, return_labels, plan.packet_bytes)

    def run(start_s: float) -> SinkResult:
        discard_until(start_s, stream)
        # Time of arrival, number, and the link that the packet escaped from, or -1.
        log: list[tuple[float, int, int]] = []
        acknowledger = Acknowledger(interval_s=plan.report_s)
        reports = 0
        while (now_s := time.monotonic() - start_s) < plan.duration_s + AFTER_END_S:
            wait_s = max(0.0, min(acknowledger.next_s - now_s, _IDLE_S))
            select.select((stream,), (), (), wait_s)
            while datagrams := arrivals.waiting(start_s):
                for (at_s, data), label in zip(datagrams, arrivals.labels, strict=True):
                    packet = decode_packet(data)
                    if packet is None:
                        continue
                    number, _, sent_s = packet
                    # Labels name dead links only with FT-DRB.
                    link = None
                    if return_labels:
                        link = dead_link_of(label)
                    logged_link = -1
                    if link is not None:
                        logged_link = link
                    log.append((at_s, number, logged_link))
                    acknowledger.receive(number, sent_s, at_s, link)
            report = acknowledger.report_due(time.monotonic() - start_s)
            if report is not None and return_labels:
                reports += 1
                for label in return_labels:
                    frames.send(label, report)
        rows = np.array(log, dtype=np.float64).reshape(-1, 3)
        received = ReceivedDatagrams(
            time_s=rows[:, 0],
            number=rows[:, 1].astype(np.int64),
            dead_link=rows[:, 2].astype(np.int64),
        )
        return SinkResult(
            log=received,
            socket_drops=socket_drops(stream),
            reports=reports,
            foreign=arrivals.foreign,
        )

    return run
