"""The processes at the two ends of a plain stream over metapaths: sockets of a host, and the source's state machine."""

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

from fec.adapters.raw_sockets import DatagramReceiver, socket_drops, waiting_datagrams
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


@dataclass(frozen=True, kw_only=True)
class SourceResult:
    """``foreign``, of either end: datagrams of others than the other end, which were thrown away."""

    log: SentDatagrams
    worst_lag_s: float
    refused: int
    foreign: int
    events: tuple[SourceEvent, ...] = ()
    zero_load_s: float | None = None


@dataclass(frozen=True, kw_only=True)
class SinkResult:
    log: ReceivedDatagrams
    socket_drops: int
    reports: int
    foreign: int


class Steering:
    """Where packets go and what is learned: FT-DRB's decisions become labels; without a source labels in stratified
    order whatever happens, where the switches alone decide."""

    def __init__(self, source: MetapathSource | None = None) -> None:
        self.source = source
        self._order, self._index = StratifiedLabels(), count()

    def choose(self) -> Sequence[tuple[int, int]]:
        """The labels of the next packet and its copies, with the numbers of their paths."""
        if self.source is None:
            return [(self._order.label(next(self._index)), 0)]
        return [(path_label(path), path) for path in self.source.choose()]

    def sent(self, number: int, path: int, now_s: float) -> None:
        """A packet has left."""
        if self.source is not None:
            self.source.sent(number, path, now_s)

    def on_report(self, data: bytes, now_s: float) -> None:
        """A report has come."""
        if self.source is not None and (report := decode_report(data)) is not None:
            self.source.on_report(report[0], report[1], now_s)

    def on_notice(self, data: bytes, now_s: float) -> None:
        """The controller tells of a cable."""
        if self.source is not None:
            notice = json.loads(data)
            self.source.on_port(notice["cable"], notice["up"], now_s)


@contextmanager
def source_process(
    net: EmulatedNetwork,
    wiring: Wiring,
    plan: MetapathPlan,
    known: LabelledPathPair | None,
    warm: Sequence[int],
) -> Iterator[tuple[EndpointProcess, Callable[[JsonObject], None]]]:
    """The source's end, and the call that notifies it of a port (a JSON object). ``warm``: labels to send under before
    the start."""
    source, sink = wiring.host_at(plan.source), wiring.host_at(plan.sink)
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    there.setblocking(False)
    tick_s = sending_tick_s(net, wiring)
    path_source = None
    if known is not None:
        path_source = MetapathSource(known.forward, plan.options, random.Random(plan.seed).random)

    prepare = partial(_begin_source, plan, path_source, (sink.ip, there, tick_s, warm))
    with here, there, endpoint(net, "sender", source, sink, prepare) as process:
        yield process, lambda notice: here.sendall(json.dumps(notice).encode())


def sink_process(
    net: EmulatedNetwork, wiring: Wiring, plan: MetapathPlan, known: LabelledPathPair | None
) -> AbstractContextManager[EndpointProcess]:
    """The sink's end: packets in, reports out over the known paths back (none: no reports)."""
    return_labels = () if known is None else known.return_labels
    source, sink = wiring.host_at(plan.source), wiring.host_at(plan.sink)
    prepare = partial(_begin_sink, plan, source.ip, return_labels)
    return endpoint(net, "receiver", sink, source, prepare)


def _begin_source(
    plan: MetapathPlan,
    path_source: MetapathSource | None,
    start: tuple[str, socket.socket, float, Sequence[int]],
    frames: Frames,
    reports: socket.socket,
    _: memoryview[float],
) -> Run:
    """Begin the sending end.

    ``start`` is the sink's address, the socket of notices, the time between two packets, and
    labels to warm up.
    """
    peer, notices, tick_s, warm = start
    reported = DatagramReceiver(reports, peer=peer)
    sockets = reports, reported, notices
    return _prepare_source(plan, Steering(path_source), frames, sockets, tick_s, warm)


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
    """``sockets``: where reports come, what takes them, and where notices come."""
    warm_up(frames, warm, plan.packet_bytes)
    reports, reported, notices = sockets

    def run(start_s: float) -> SourceResult:
        discard_until(start_s, reports)
        log: list[tuple[float, int, int, int]] = []
        message, worst_lag_s = 0, 0.0
        while (now := time.monotonic() - start_s) < plan.duration_s:
            while (due := message / plan.rate_pps) <= now:
                for copy, (label, path) in enumerate(steering.choose()):
                    at = time.monotonic() - start_s
                    frames.send(label, encode_packet(len(log), path, at, plan.packet_bytes))
                    steering.sent(len(log), path, at)
                    log.append((at, message, path, int(copy > 0)))
                worst_lag_s = max(worst_lag_s, time.monotonic() - start_s - due)
                message += 1
            wait = max(message / plan.rate_pps, now + tick_s) - (time.monotonic() - start_s)
            ready, _, _ = select.select((reports, notices), (), (), max(0.0, wait))
            for data in reported.receive() if reports in ready else ():
                steering.on_report(data, time.monotonic() - start_s)
            for data in waiting_datagrams(notices) if notices in ready else ():
                steering.on_notice(data, time.monotonic() - start_s)
        rows = np.array(log, dtype=np.float64).reshape(-1, 4)
        messages, paths, copies = (rows[:, k].astype(np.int64) for k in (1, 2, 3))
        learned = steering.source
        return SourceResult(
            log=SentDatagrams(time_s=rows[:, 0], message=messages, path=paths, copy=copies),
            worst_lag_s=worst_lag_s,
            refused=frames.refused,
            foreign=reported.foreign,
            events=() if learned is None else tuple(learned.events),
            zero_load_s=None if learned is None else learned.zero_load_s,
        )

    return run


def _prepare_sink(
    plan: MetapathPlan,
    frames: Frames,
    forward: tuple[socket.socket, Arrivals],
    return_labels: Sequence[int],
) -> Run:
    """``forward``: where packets come, and what takes them."""
    stream, arrivals = forward
    warm_up(frames, return_labels, plan.packet_bytes)

    def run(start_s: float) -> SinkResult:
        discard_until(start_s, stream)
        log: list[tuple[float, int, int]] = []
        acknowledger, reports = Acknowledger(interval_s=plan.report_s), 0
        while (now := time.monotonic() - start_s) < plan.duration_s + AFTER_END_S:
            select.select((stream,), (), (), max(0.0, min(acknowledger.next_s - now, 0.02)))
            while got := arrivals.waiting(start_s):
                for (at, data), label in zip(got, arrivals.labels, strict=True):
                    packet = decode_packet(data)
                    if packet is None:
                        continue
                    link = dead_link_of(label) if return_labels else None
                    log.append((at, packet[0], -1 if link is None else link))
                    acknowledger.receive(packet[0], packet[2], at, link)
            report = acknowledger.report_due(time.monotonic() - start_s)
            if report is not None and return_labels:
                reports += 1
                for label in return_labels:
                    frames.send(label, report)
        rows = np.array(log, dtype=np.float64).reshape(-1, 3)
        taken = ReceivedDatagrams(
            time_s=rows[:, 0],
            number=rows[:, 1].astype(np.int64),
            dead_link=rows[:, 2].astype(np.int64),
        )
        return SinkResult(
            log=taken, socket_drops=socket_drops(stream), reports=reports, foreign=arrivals.foreign
        )

    return run
