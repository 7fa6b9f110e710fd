"""Runs the two ends of an emulated stream in their processes.

The sender moves batches of packets from a state machine to a socket, the receiver from a socket to
a state machine. Both write packet logs.
"""

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
    read_waiting_datagrams,
    socket_drops,
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

# Two readings of the monotonic clock that are further apart are repeated.
_MAX_CLOCK_READING_S = 5e-5
_CLOCK_READINGS = 3

# Time between two packets of the warm-up, and after the last one until all have arrived.
_WARM_UP_PACE_S = 0.001
_WARM_UP_REST_S = 0.2

# Datagrams are not discarded in this time before the start of a stream.
_DISCARD_MARGIN_S = 0.05

# Maximum time for which an end waits for datagrams, so that it writes its counters regularly.
_MAX_SENDER_WAIT_S = 0.05
_MAX_RECEIVER_WAIT_S = 0.02

# The columns of a row of `BatchSender.log`.
_LABEL = 3
_BLOCK_SIZE = 4


@dataclass(frozen=True, kw_only=True)
class SenderResult:
    """The result of the sending end.

    Attributes:
        log: The packets sent.
        worst_lag_s: Maximum delay of a packet behind its schedule.
        news: The loss reports that arrived, and the sender's conclusions.
        counters: The sender's counters.
    """

    log: SentPackets
    worst_lag_s: float
    news: LossReportLog = NO_LOSS_REPORTS
    counters: JsonObject = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class ReceiverResult:
    """The result of the receiving end.

    Attributes:
        log: The packets received.
        socket_drops: Number of datagrams that the socket's full buffer dropped.
        counters: The receiver's counters.
    """

    log: ReceivedPackets
    socket_drops: int
    counters: JsonObject = field(default_factory=dict)


# Runs one end of the stream from time zero, which is given on the monotonic clock, and returns its
# result.
Run = Callable[[float], object]


def build_batch_receiver(plan: StreamPlan, key: bytes | None) -> BatchReceiver:
    """Return a receiver that uses the C module if possible.

    Without the module, or without memory for its tables, the receiver is written in Python.
    """
    receiver: Any
    try:
        receiver = build_receiver(plan, key, CompiledReceiver)
    except (EngineUnavailable, MemoryError) as missing:
        _warn_once(str(missing))
        receiver = build_receiver(plan, key, BatchReceiver)
    return cast(BatchReceiver, receiver)


@cache
def _warn_once(message: str) -> None:
    LOGGER.warning("%s", message)


def warn_if_slower() -> None:
    """Warn if the C module is missing.

    Call this before the processes of the ends are started, so that not each of them warns.
    """
    if c_module() is None:
        _warn_once(SLOWER)


def prepare_sender(
    plan: StreamPlan,
    key: bytes,
    frames: Frames,
    backward: tuple[socket.socket, DatagramReceiver],
    tick_s: float,
    gauge: memoryview[float],
) -> Run:
    """Prepare the sending end of a stream and return the function that runs it.

    Args:
        plan: The plan of the stream.
        key: The key of the stream.
        frames: Sends the packets.
        backward: The socket of the loss reports, and the receiver that reads it.
        tick_s: Time for which the sender collects packets that fall due.
        gauge: Receives the number of packets sent, and the block size N of the last one.
    """
    headers = frames.template.headers_for(HEADER_BYTES + plan.stream.symbol_bytes)
    sender: Any = build_sender(plan, key=key, kind=partial(BatchSender, headers=headers))
    log = SentLog()
    loss_reports = LossReportRecorder()
    rows = Messages(sender.rows)
    report_socket, report_receiver = backward
    sender.on_judgement = loss_reports.record_decision
    source_end_s = plan.duration_s - plan.stream.playback_s

    warm_up(frames, warm_labels(plan.forward), HEADER_BYTES + plan.stream.symbol_bytes)

    def run(start_s: float) -> SenderResult:
        discard_until(start_s, report_socket)
        while (now_s := time.monotonic() - start_s) < plan.duration_s:
            if now_s >= source_end_s:
                sender.finish_source()
            if count := sender.fill(now_s):
                packets = sender.log[:count]
                began_s = time.monotonic() - start_s
                frames.send_rows(rows, packets[:, _LABEL])
                log.add_batch(began_s, time.monotonic() - start_s, packets)
                gauge[0] = len(log)
                gauge[1] = packets[-1, _BLOCK_SIZE]
            due_s = max(sender.next_due_s(), now_s + tick_s)
            until_s = min(due_s, plan.duration_s, now_s + _MAX_SENDER_WAIT_S)
            wait_s = max(0.0, until_s - (time.monotonic() - start_s))
            if select.select((report_socket,), (), (), wait_s)[0]:
                for data in report_receiver.receive():
                    at_s = time.monotonic() - start_s
                    sender.receive(data, at_s)
                    loss_reports.report(at_s, sender.newest_reported_sent_s)
        counters = {
            **sender_counters(sender),
            "sent_refused": frames.refused,
            "sent_foreign": report_receiver.foreign,
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
    """Prepare the receiving end of a stream and return the function that runs it.

    Args:
        plan: The plan of the stream.
        key: The key of the stream.
        frames: Sends the loss reports.
        stream: The socket at which packets arrive.
        peer: IP address of the sender; packets from other addresses are ignored.
        gauge: Receives the number of packets that arrived.
    """
    receiver: Any = build_batch_receiver(plan, key)
    log = ReceivedLog()
    content = ContentCheck(plan)
    arrivals = RowArrivals(stream, receiver, peer)

    warm_up(frames, RETURN_LABELS, HEADER_BYTES)

    def run(start_s: float) -> ReceiverResult:
        discard_until(start_s, stream)
        while (now_s := time.monotonic() - start_s) < plan.duration_s:
            wait_s = min(receiver.next_deadline_s() - now_s, _MAX_RECEIVER_WAIT_S)
            select.select((stream,), (), (), max(0.0, wait_s))
            now_s = time.monotonic() - start_s
            count = arrivals.fill(start_s)
            content.take(receiver.receive_many(count))
            log.add_rows(receiver.log[: receiver.logged])
            gauge[0] = len(log)
            # Datagrams that arrived in time may still wait in the socket. Their blocks stay open.
            now_s = min(now_s, arrivals.until_s(start_s))
            content.take(receiver.advance(now_s))
            for report in receiver.reports_due(now_s):
                for label in RETURN_LABELS:
                    frames.send(label, report)
        content.take(receiver.advance(plan.duration_s))
        counters = {
            **content.counters(receiver),
            "foreign": arrivals.foreign,
            "worst_receive_lag_s": round(arrivals.worst_lag_s, 6),
        }
        return ReceiverResult(
            log=log.packets(), socket_drops=socket_drops(stream), counters=counters
        )

    return run


class Arrivals:
    """Reads datagrams from a socket, with the times at which they reached the machine.

    The times do not depend on when this process reads the datagrams.

    Args:
        sock: The socket.
        largest: Maximum length of a datagram in bytes. One byte more is returned of a longer one,
            so that it is not mistaken for one of this length.
        peer: IP address of the only sender whose datagrams are accepted; None for every sender.

    Attributes:
        limit: Maximum number of datagrams that are read at once.
        worst_lag_s: Maximum time for which a datagram waited in the socket.
    """

    limit = 64

    def __init__(self, sock: socket.socket, largest: int, peer: str | None = None) -> None:
        self._datagrams: Any = DatagramReceiver(
            sock, limit=self.limit, largest=largest + 1, timestamps=True, peer=peer
        )
        self.worst_lag_s = 0.0

    @property
    def foreign(self) -> int:
        """Number of datagrams from other senders, which were ignored."""
        return int(self._datagrams.foreign)

    @property
    def labels(self) -> list[int]:
        """The labels of the datagrams that ``waiting`` returned last."""
        return list(self._datagrams.source_ports())

    def until_s(self, start_s: float) -> float:
        """Return the time until which all datagrams have been read, in seconds after ``start_s``.

        It is infinite if no datagram can wait in the socket.
        """
        return float(self._datagrams.until_s - clock_difference_s() - start_s)

    def waiting(self, start_s: float) -> list[tuple[float, bytes]]:
        """Read datagrams that wait in the socket.

        Args:
            start_s: Time zero of the stream on the monotonic clock.

        Returns:
            The arrival time, in seconds after ``start_s``, and the content of each datagram, in
            order. The list is empty if none waits.
        """
        datagrams = self._datagrams.receive()
        if not datagrams:
            return []
        offset_s = clock_difference_s()
        now_s = time.monotonic() - start_s
        times_s = []
        for wall_s in self._datagrams.arrival_times_s(len(datagrams)):
            # If the wall clock was set meanwhile, a datagram seems to arrive in the future.
            times_s.append(min(now_s, wall_s - offset_s - start_s))
        self.worst_lag_s = max(self.worst_lag_s, now_s - min(times_s))
        return list(zip(times_s, datagrams, strict=True))


class RowArrivals(Arrivals):
    """Reads datagrams from a socket into the rows of a receiver.

    Args:
        sock: The socket.
        receiver: The receiver whose rows and arrival times are filled.
        peer: IP address of the only sender whose datagrams are accepted.
    """

    def __init__(self, sock: socket.socket, receiver: BatchReceiver, peer: str) -> None:
        self._datagrams = RowReceiver(sock, receiver, peer)
        self._receiver = receiver
        self.worst_lag_s = 0.0

    def fill(self, start_s: float) -> int:
        """Read datagrams that wait in the socket, and return their number.

        The receiver's times become seconds after ``start_s``, a time of the monotonic clock.
        """
        count = self._datagrams.receive()
        if count:
            offset_s = clock_difference_s() + start_s
            now_s = time.monotonic() - start_s
            times_s = self._receiver.times[:count]
            # If the wall clock was set meanwhile, a datagram seems to arrive in the future.
            np.minimum(now_s, times_s - offset_s, out=times_s)
            self.worst_lag_s = max(self.worst_lag_s, now_s - float(times_s.min()))
        return int(count)


def clock_difference_s() -> float:
    """Return the wall clock minus the monotonic clock.

    The clocks are read again, three times at most, if the process was interrupted in between.
    """
    for _ in range(_CLOCK_READINGS):
        before_s = time.monotonic()
        wall_s = time.clock_gettime(time.CLOCK_REALTIME)
        after_s = time.monotonic()
        if after_s - before_s < _MAX_CLOCK_READING_S:
            break
    return wall_s - (before_s + after_s) / 2


def warm_labels(split: LabelSplit) -> list[int]:
    """Return one label of every label prefix that a switch may have a rule for."""
    labels = []
    for path in split.paths:
        for label, _ in label_prefixes(path.start, path.stop):
            labels.append(label)
    return labels


def warm_up(frames: Frames, labels: Sequence[int], payload_bytes: int) -> None:
    """Send a packet of zeros with each label before time zero; the other end discards it.

    A switch looks up the first packet of a flow in its tables and caches the result. Without this,
    hundreds of flows that begin at once would measure the look-ups.

    Args:
        frames: Sends the packets.
        labels: The labels of the packets.
        payload_bytes: Length of a packet's payload.
    """
    zeros = bytes(payload_bytes)
    for label in labels:
        frames.send(label, zeros)
        time.sleep(_WARM_UP_PACE_S)
    time.sleep(_WARM_UP_REST_S)


def discard_until(start_s: float, sock: socket.socket) -> None:
    """Wait for the start of a stream, and discard the datagrams that arrive before it.

    Datagrams of the last moments are not discarded: a process that wakes up late would discard the
    first packet of the stream.

    Args:
        start_s: The start on the monotonic clock.
        sock: The socket from which datagrams are discarded.
    """
    while (remaining_s := start_s - _DISCARD_MARGIN_S - time.monotonic()) > 0:
        if select.select((sock,), (), (), remaining_s)[0]:
            for _ in read_waiting_datagrams(sock):
                pass
    time.sleep(max(0.0, start_s - time.monotonic()))
