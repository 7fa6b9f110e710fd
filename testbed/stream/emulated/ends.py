"""What the two ends of an emulated stream do in their processes: batches of packets from a state machine to a socket or
the other way round, and logs."""

from __future__ import annotations

import logging
import select
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any, cast

import numpy as np

from fec import EngineUnavailable
from fec.adapters.raw_sockets import (
    DatagramReceiver,
    Messages,
    RowReceiver,
    socket_drops,
    waiting_datagrams,
)
from fec.protocol.batches import BatchReceiver, BatchSender
from fec.protocol.compiled.receiver import CompiledReceiver
from fec.protocol.row_seals import SLOWER, c_module
from fec.protocol.wire import HEADER_BYTES
from testbed.model.label_split import LabelSplit
from testbed.openflow.rules import label_prefixes
from testbed.stream.emulated.frames import Frames
from testbed.stream.endpoints import ContentCheck, build_receiver, build_sender, sender_counters
from testbed.stream.judgement.packet_logs import LossReportRecorder, ReceivedLog, SentLog
from testbed.stream.measurements import NO_LOSS_REPORTS, LossReportLog, ReceivedPackets, SentPackets
from testbed.stream.plan import StreamPlan
from testbed.stream.prediction.active_faults import RETURN_LABELS
from topologies.text.json_types import JsonObject

LOGGER = logging.getLogger(__name__)
_CLOCKS_WITHIN_S = 5e-5
_WARM_PACE_S, _WARM_REST_S = 0.001, 0.2
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


def build_batch_receiver(plan: StreamPlan, key: bytes | None) -> BatchReceiver:
    """Return a receiver that uses the C module, or one in Python if there is no such module or no memory for its
    tables."""
    receiver: Any
    try:
        receiver = build_receiver(plan, key, CompiledReceiver)
    except (EngineUnavailable, MemoryError) as missing:
        _say(str(missing))
        receiver = build_receiver(plan, key, BatchReceiver)
    return cast(BatchReceiver, receiver)


@cache
def _say(missing: str) -> None:
    LOGGER.warning("%s", missing)


def say_what_is_missing() -> None:
    """Before ends are forked, so that not each of them says it."""
    if c_module() is None:
        _say(SLOWER)


def prepare_sender(
    plan: StreamPlan,
    key: bytes,
    frames: Frames,
    backward: tuple[socket.socket, DatagramReceiver],
    tick_s: float,
    gauge: memoryview[float],
) -> Run:
    """``backward``: where reports come, and what takes them; ``gauge``: packets sent, and N of the last one."""
    headers = frames.template.headers_for(HEADER_BYTES + plan.stream.symbol_bytes)
    sender: Any = build_sender(plan, key=key, kind=partial(BatchSender, headers=headers))
    log, loss_reports, rows = SentLog(), LossReportRecorder(), Messages(sender.rows)
    reports, reported = backward
    sender.on_judgement = loss_reports.record_decision
    source_ends = plan.duration_s - plan.stream.playback_s

    warm_up(frames, warm_labels(plan.forward), HEADER_BYTES + plan.stream.symbol_bytes)

    def run(start_s: float) -> SenderResult:
        discard_until(start_s, reports)
        while (now := time.monotonic() - start_s) < plan.duration_s:
            if now >= source_ends:
                sender.finish_source()
            if made := sender.fill(now):
                began, packets = time.monotonic() - start_s, sender.log[:made]
                frames.send_rows(rows, packets[:, 3])
                log.add_batch(began, time.monotonic() - start_s, packets)
                gauge[0], gauge[1] = len(log), packets[-1, 4]
            due = max(sender.next_due_s(), now + tick_s)
            wait = min(due, plan.duration_s, now + 0.05) - (time.monotonic() - start_s)
            if select.select((reports,), (), (), max(0.0, wait))[0]:
                for data in reported.receive():
                    at = time.monotonic() - start_s
                    sender.receive(data, at)
                    loss_reports.report(at, sender.newest_reported_sent_s)
        counters = {
            **sender_counters(sender),
            "sent_refused": frames.refused,
            "sent_foreign": reported.foreign,
        }
        return SenderResult(
            log=log.packets(),
            worst_lag_s=log.worst_lag_s,
            news=loss_reports.log(),
            counters=counters,
        )

    return run


def prepare_receiver(
    plan: StreamPlan,
    key: bytes,
    frames: Frames,
    stream: socket.socket,
    peer: str,
    gauge: memoryview[float],
) -> Run:
    """``stream``: where packets of ``peer`` come; ``gauge``: packets that came."""
    receiver: Any = build_batch_receiver(plan, key)
    log, content, arrivals = ReceivedLog(), ContentCheck(plan), RowArrivals(stream, receiver, peer)

    warm_up(frames, RETURN_LABELS, HEADER_BYTES)

    def run(start_s: float) -> ReceiverResult:
        discard_until(start_s, stream)
        while (now := time.monotonic() - start_s) < plan.duration_s:
            select.select((stream,), (), (), max(0.0, min(receiver.next_deadline_s() - now, 0.02)))
            now = time.monotonic() - start_s
            count = arrivals.fill(start_s)
            content.take(receiver.receive_many(count))
            log.add_rows(receiver.log[: receiver.logged])
            gauge[0] = len(log)
            now = min(
                now, arrivals.until_s(start_s)
            )  # more may wait that came in time: their blocks stay open
            content.take(receiver.advance(now))
            for report in receiver.reports_due(now):
                for label in RETURN_LABELS:
                    frames.send(label, report)
        content.take(receiver.advance(plan.duration_s))
        lag_s = round(arrivals.worst_lag_s, 6)
        counters = {
            **content.counters(receiver),
            "foreign": arrivals.foreign,
            "worst_receive_lag_s": lag_s,
        }
        return ReceiverResult(
            log=log.packets(), socket_drops=socket_drops(stream), counters=counters
        )

    return run


class Arrivals:
    """Datagrams of a socket with the time at which they reached the machine, however late this process takes them.

    ``most`` are taken at once; ``worst_lag_s``: how long one lay there at most. ``peer``: whose alone are taken.
    """

    most = 64

    def __init__(self, sock: socket.socket, largest: int, peer: str | None = None) -> None:
        # One byte more than the longest: what is longer still must not pass for one of that length.
        self._datagrams: Any = DatagramReceiver(
            sock, most=self.most, largest=largest + 1, timestamps=True, peer=peer
        )
        self.worst_lag_s = 0.0

    @property
    def foreign(self) -> int:
        """Datagrams that others sent."""
        return int(self._datagrams.foreign)

    @property
    def labels(self) -> list[int]:
        """Under which the last ones that ``waiting`` gave were sent."""
        return list(self._datagrams.source_ports())

    def until_s(self, start_s: float) -> float:
        """All that came earlier was taken, since ``start_s``; infinity where nothing may wait."""
        return float(self._datagrams.until_s - clocks_apart_s() - start_s)

    def waiting(self, start_s: float) -> list[tuple[float, bytes]]:
        """(seconds since ``start_s`` of the monotonic clock, datagram) of some that wait, in order; none: empty."""
        got = self._datagrams.receive()
        if not got:
            return []
        apart_s = clocks_apart_s()
        now = time.monotonic() - start_s
        # The other clock may be set in between; nothing comes from the future.
        times = [
            min(now, at - apart_s - start_s) for at in self._datagrams.arrival_times_s(len(got))
        ]
        self.worst_lag_s = max([self.worst_lag_s, *(now - at for at in times)])
        return list(zip(times, got, strict=True))


class RowArrivals(Arrivals):
    """The same into a receiver's rows."""

    def __init__(self, sock: socket.socket, receiver: BatchReceiver, peer: str) -> None:
        self._datagrams, self._receiver, self.worst_lag_s = (
            RowReceiver(sock, receiver, peer),
            receiver,
            0.0,
        )

    def fill(self, start_s: float) -> int:
        """How many wait and are there now."""
        count = self._datagrams.receive()
        if count:
            apart_s = clocks_apart_s() + start_s
            now, times = time.monotonic() - start_s, self._receiver.times[:count]
            np.minimum(now, times - apart_s, out=times)
            self.worst_lag_s = max(self.worst_lag_s, now - float(times.min()))
        return int(count)


def clocks_apart_s() -> float:
    """Wall clock less monotonic clock. Read again, three times at most, where something came between the two
    readings."""
    for _ in range(3):
        before_s, wall_s, after_s = (
            time.monotonic(),
            time.clock_gettime(time.CLOCK_REALTIME),
            time.monotonic(),
        )
        if after_s - before_s < _CLOCKS_WITHIN_S:
            break
    return wall_s - (before_s + after_s) / 2


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
