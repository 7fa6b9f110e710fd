"""The processes at the two ends of a plain stream over metapaths: sockets of a host, and the source's state machine."""

from __future__ import annotations

import json
import random
import select
import socket
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from fec.adapters.raw_sockets import DatagramReceiver, FrameSender, socket_drops, waiting_datagrams
from fec.redundancy.labels import StratifiedLabels
from testbed.emulation.network.emulated_network import EmulatedNetwork
from testbed.metapath.labelled_paths import LabelledPathPair, dead_link_of, path_label
from testbed.metapath.plan import MetapathPlan, ReceivedDatagrams, SentDatagrams
from testbed.metapath.source import MetapathSource, SourceEvent
from testbed.metapath.wire import Acknowledger, decode_packet, decode_report, encode_packet
from testbed.model.wiring import Wiring
from testbed.stream.emulated.endpoints import (
    EndpointProcess,
    Run,
    datagram_socket,
    discard_until,
    frame_sender,
    raw_socket,
    sending_tick_s,
)
from topologies.text.json_types import JsonObject

_TIMESTAMPNS = 35
_STAMP = struct.Struct("ll")
_WARM_PACE_S, _WARM_REST_S = 0.002, 0.2
_END_S = 0.3
"""After the last packet, for those under way."""


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


class Steering(Protocol):
    """Where packets go and what is learned: labels of the next packet (with path numbers), and what comes back."""

    def choose(self) -> Sequence[tuple[int, int]]: ...

    def sent(self, number: int, path: int, now_s: float) -> None: ...

    def on_report(self, data: bytes, now_s: float) -> None: ...

    def on_notice(self, data: bytes, now_s: float) -> None: ...


@dataclass
class MetapathSteering:
    """FT-DRB: the source's decisions become labels."""

    source: MetapathSource

    def choose(self) -> Sequence[tuple[int, int]]:
        return [(path_label(path), path) for path in self.source.choose()]

    def sent(self, number: int, path: int, now_s: float) -> None:
        self.source.sent(number, path, now_s)

    def on_report(self, data: bytes, now_s: float) -> None:
        report = decode_report(data)
        if report is not None:
            self.source.on_report(report[0], report[1], now_s)

    def on_notice(self, data: bytes, now_s: float) -> None:
        notice = json.loads(data)
        self.source.on_port(notice["cable"], notice["up"], now_s)


@dataclass
class LabelSteering:
    """Labels in stratified order whatever happens: the switches alone decide."""

    order: StratifiedLabels = field(default_factory=StratifiedLabels)
    index: int = 0

    def choose(self) -> Sequence[tuple[int, int]]:
        label = self.order.label(self.index)
        self.index += 1
        return [(label, 0)]

    def sent(self, number: int, path: int, now_s: float) -> None:
        pass

    def on_report(self, data: bytes, now_s: float) -> None:
        pass

    def on_notice(self, data: bytes, now_s: float) -> None:
        pass


def steering_of(plan: MetapathPlan, known: LabelledPathPair | None) -> Steering:
    """FT-DRB where there are known paths, else plain labels."""
    if known is None:
        return LabelSteering()
    return MetapathSteering(MetapathSource(known.forward, plan.options, random.Random(plan.seed).random))


@contextmanager
def source_process(
    net: EmulatedNetwork, wiring: Wiring, plan: MetapathPlan, known: LabelledPathPair | None, warm: Sequence[int]
) -> Iterator[tuple[EndpointProcess, Callable[[JsonObject], None]]]:
    """The source's end, and the call that notifies it of a port (a JSON object). ``warm``: labels to send under before the start."""
    source, sink = wiring.host_at(plan.source), wiring.host_at(plan.sink)
    raw, reports = raw_socket(net, source), datagram_socket(net, source)
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    there.setblocking(False)
    frames, reported = frame_sender(raw, source, sink), DatagramReceiver(reports, peer=sink.ip)
    tick_s = sending_tick_s(net, wiring)
    with raw, reports, here, there:
        process = EndpointProcess(
            "sender",
            lambda: _prepare_source(plan, steering_of(plan, known), frames, (reports, reported, there), tick_s, warm),
        )
        try:
            yield process, lambda notice: here.sendall(json.dumps(notice).encode())
        finally:
            process.close()


@contextmanager
def sink_process(
    net: EmulatedNetwork, wiring: Wiring, plan: MetapathPlan, known: LabelledPathPair | None
) -> Iterator[EndpointProcess]:
    """The sink's end: packets in, reports out over the known paths back (none: no reports)."""
    return_labels = () if known is None else known.return_labels
    source, sink = wiring.host_at(plan.source), wiring.host_at(plan.sink)
    raw, stream = raw_socket(net, sink), datagram_socket(net, sink)
    stream.setsockopt(socket.SOL_SOCKET, _TIMESTAMPNS, 1)
    frames = frame_sender(raw, sink, source)
    with raw, stream:
        process = EndpointProcess("receiver", lambda: _prepare_sink(plan, frames, stream, source.ip, return_labels))
        try:
            yield process
        finally:
            process.close()


def _warm_up(frames: FrameSender, labels: Sequence[int], size: int) -> None:
    """One packet of zeros under each label, which the far end throws away: switches look flows up before time zero."""
    for label in labels:
        frames.send(label, bytes(size))
        time.sleep(_WARM_PACE_S)
    time.sleep(_WARM_REST_S)


def _prepare_source(
    plan: MetapathPlan,
    steering: Steering,
    frames: FrameSender,
    sockets: tuple[socket.socket, DatagramReceiver, socket.socket],
    tick_s: float,
    warm: Sequence[int],
) -> Run:
    """``sockets``: where reports come, what takes them, and where notices come."""
    _warm_up(frames, warm, plan.packet_bytes)
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
        return _source_result(log, worst_lag_s, (frames.refused, reported.foreign), steering)

    return run


def _source_result(
    log: Sequence[tuple[float, int, int, int]], worst_lag_s: float, counts: tuple[int, int], steering: Steering
) -> SourceResult:
    """``counts``: frames refused, and datagrams of others."""
    source = steering.source if isinstance(steering, MetapathSteering) else None
    return SourceResult(
        log=_sent(log),
        worst_lag_s=worst_lag_s,
        refused=counts[0],
        foreign=counts[1],
        events=tuple(source.events) if source else (),
        zero_load_s=source.zero_load_s if source else None,
    )


def _sent(log: Sequence[tuple[float, int, int, int]]) -> SentDatagrams:
    rows = np.array(log, dtype=np.float64).reshape(-1, 4)
    message, path, copy = (rows[:, k].astype(np.int64) for k in (1, 2, 3))
    return SentDatagrams(time_s=rows[:, 0], message=message, path=path, copy=copy)


def _prepare_sink(
    plan: MetapathPlan, frames: FrameSender, stream: socket.socket, peer: str, return_labels: Sequence[int]
) -> Run:
    """``peer``: the source's IPv4 address; its datagrams alone are taken."""
    _warm_up(frames, return_labels, plan.packet_bytes)

    def run(start_s: float) -> SinkResult:
        discard_until(start_s, stream)
        log: list[tuple[float, int, int]] = []
        acknowledger, reports, foreign = Acknowledger(interval_s=plan.report_s), 0, 0
        while (now := time.monotonic() - start_s) < plan.duration_s + _END_S:
            select.select((stream,), (), (), max(0.0, min(acknowledger.next_s - now, 0.02)))
            for at, (address, label), data in _waiting(stream, start_s):
                if address != peer:
                    foreign += 1
                    continue
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
        got = ReceivedDatagrams(
            time_s=rows[:, 0], number=rows[:, 1].astype(np.int64), dead_link=rows[:, 2].astype(np.int64)
        )
        return SinkResult(log=got, socket_drops=socket_drops(stream), reports=reports, foreign=foreign)

    return run


def _waiting(sock: socket.socket, start_s: float) -> Iterator[tuple[float, tuple[str, int], bytes]]:
    """(when it reached the machine, seconds since the start; its sender's address and its label; the datagram) of all that wait."""
    apart_s = time.clock_gettime(time.CLOCK_REALTIME) - time.monotonic()
    while True:
        try:
            data, ancillary, _, address = sock.recvmsg(65536, 64)
        except BlockingIOError:
            return
        at = time.monotonic() - start_s
        for level, kind, value in ancillary:
            if level == socket.SOL_SOCKET and kind == _TIMESTAMPNS:
                seconds, nanoseconds = _STAMP.unpack(value[: _STAMP.size])
                at = min(at, seconds + nanoseconds * 1e-9 - apart_s - start_s)
        yield at, address, data
