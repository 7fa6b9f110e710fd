"""The relay: a process through which the packets of impaired and delayed links pass.

Links are delayed here only if the kernel has no netem. The relay takes packets off their detours
(``redirects``), and sends each of them on when, and as often as, the link's impairments say.

``testbed.faults.impaired_link`` decides what happens to a packet, as it does in virtual time. This
module adds only sockets and a clock. A packet's time begins when the kernel receives it, not when
the relay reads it. The same holds for the lateness with which it is sent on: a process that waits
for a processor is late, and reports it (for the rates that it supports, see
docs/reference/impairments.md, link delays).
"""

import contextlib
import gc
import heapq
import os
import select
import socket
import struct
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from testbed.emulation.sandbox.forked_process import ForkedProcess
from testbed.emulation.sandbox.process_lifetime import begin_child
from testbed.errors import InvalidRunError
from testbed.faults.impaired_link import ImpairedLink, most_late_s

# The relay goes before other processes: a packet that waits for it is late.
_NICENESS = -10

# The largest frame, with segmentation offload.
_FRAME_BYTES = 65_600

# Packets that are read from one lane before the others have their turn.
_BATCH = 64

_ANSWER_LIMIT_S = 5.0

# The kernel stamps each received packet with its time of arrival.
_SO_TIMESTAMPNS = 35

_SOL_PACKET = 263
_PACKET_STATISTICS = 6

# Two readings of clocks that are this close count as simultaneous.
_SIMULTANEOUS_S = 20e-6

#: Largest number of packets that wait in a lane, the same as in a netem queue of ours.
MAX_WAITING = 100_000

# Lateness is counted in steps of 20 us, because a network may be up for days.
_BIN_S = 20e-6

# Requests to the process.
_REPORT = "report"
_FORGET = "forget"


@dataclass(frozen=True, kw_only=True)
class Lane:
    """One link's path through the process.

    Attributes:
        name: The link and its impairments as text.
        make_link: Creates the link's impairments, in the process.
        reading: Receives the packets that arrive on the detour.
        writing: Sends them on.
        own_mac: MAC address of the detour's first interface, whose own packets are not the link's.
        delay_s: Delay of the link itself in seconds, which ``make_link`` has too.
    """

    name: str
    make_link: Callable[[], ImpairedLink]
    reading: socket.socket
    writing: socket.socket
    own_mac: bytes
    delay_s: float = 0.0


@dataclass(frozen=True, kw_only=True)
class LaneReport:
    """The packets of a lane, and how late they were sent on.

    Attributes:
        received: Packets that arrived.
        dropped: Packets that the impairments dropped.
        copies: Copies that the impairments added.
        refused: Packets that the link's queue dropped, as it may drop any packet.
        missed: Packets that were lost because the relay could not keep up.
        late_s: Lateness that 99 of 100 packets did not exceed, in seconds.
        latest_s: Largest lateness in seconds.
        delay_s: The part of the link's own delay that the relay makes, in seconds.
    """

    received: int
    dropped: int
    copies: int
    refused: int
    missed: int
    late_s: float
    latest_s: float
    delay_s: float

    def problem(self) -> str | None:
        """Return why a run over this link measured the machine and not the network, or None."""
        if self.missed:
            return f"{self.missed} packets were lost because the process that delays them was full"
        limit_s = most_late_s(self.delay_s)
        if self.late_s <= limit_s:
            return None
        return (
            f"packets were sent on {self.late_s * 1000:.1f} ms late "
            f"(99 of 100; limit {limit_s * 1000:g} ms)"
        )


class Relay:
    """A process that serves some lanes.

    Args:
        lanes: The lanes. Their sockets are closed in this process.
    """

    def __init__(self, lanes: Sequence[Lane]) -> None:
        self.names = tuple(lane.name for lane in lanes)
        self._process = ForkedProcess(_run, tuple(lanes))
        self._pipe = self._process.pipe
        for lane in lanes:
            lane.reading.close()
            lane.writing.close()

    def reports(self) -> dict[str, LaneReport]:
        """Return the report of each lane until now, by the lane's name.

        Raises:
            InvalidRunError: The process died or does not answer.
        """
        return self._request(_REPORT)

    def forget(self) -> None:
        """Leave lateness and missed packets until now out of later reports, as a run begins."""
        self._request(_FORGET)

    def _request(self, request: str) -> dict[str, LaneReport]:
        # A pipe whose other end has died is reported below, like one without an answer.
        with contextlib.suppress(OSError, EOFError):
            self._pipe.send(request)
            if self._pipe.poll(_ANSWER_LIMIT_S):
                reports: dict[str, LaneReport] = self._pipe.recv()
                return reports
        lanes = ", ".join(self.names[:3])
        if len(self.names) > 3:
            lanes += f" and {len(self.names) - 3} more"
        raise InvalidRunError(f"the relay of {lanes} died or does not answer")

    def stop(self) -> None:
        """End the process; packets that wait in it are lost."""
        self._process.close()


class _Traffic:
    """The packets of one lane.

    Attributes:
        waiting: Number of packets that wait in the lane.
        after_s: Arrival of the last packet. No packet counts as having arrived before it.
        refused: Packets that the link's queue dropped.
        missed: Packets that the relay lost.
        late: Number of packets by their lateness in steps of ``_BIN_S``.
        latest_s: Largest lateness in seconds.
    """

    def __init__(self) -> None:
        self.waiting = 0
        self.after_s = 0.0
        self.forget()

    def forget(self) -> None:
        self.refused = 0
        self.missed = 0
        self.late = Counter[int]()
        self.latest_s = 0.0

    def note(self, late_s: float) -> None:
        self.late[int(late_s / _BIN_S)] += 1
        self.latest_s = max(self.latest_s, late_s)

    def late_s(self) -> float:
        """Return the lateness that 99 of 100 packets did not exceed, in seconds."""
        later_packets = 0.01 * self.late.total()
        for step in sorted(self.late, reverse=True):
            later_packets -= self.late[step]
            if later_packets < 0:
                return min(self.latest_s, (step + 1) * _BIN_S)
        return 0.0


class _Loop:
    """Receives packets, lets them wait, and sends them on.

    Attributes:
        lanes: The lanes.
        links: The impairments of each lane.
        traffic: The packets of each lane.
        waiting: Heap of the packets that wait: when they are due, their number, lane and frame.
        count: Number of packets that have waited so far.
        ahead_s: Difference between the monotonic clock and the clock of the kernel's time stamps.
    """

    def __init__(self, lanes: Sequence[Lane]) -> None:
        self.lanes = lanes
        self.links = [lane.make_link() for lane in lanes]
        self.traffic = [_Traffic() for _ in lanes]
        self.waiting: list[tuple[float, int, int, bytes]] = []
        self.count = 0
        self.ahead_s = time.monotonic() - time.time()
        for lane in lanes:
            lane.reading.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)

    def take(self, number: int) -> None:
        """Receive a batch of a lane's packets, and send on those that need not wait.

        The loop runs for every packet, so it calls no further functions for speed.
        """
        lane = self.lanes[number]
        traffic = self.traffic[number]
        self._compare_clocks()
        for _ in range(_BATCH):
            try:
                frame, stamps, _, address = lane.reading.recvmsg(_FRAME_BYTES, 64)
            except BlockingIOError:
                return
            if address[2] == socket.PACKET_OUTGOING or frame[6:12] == lane.own_mac:
                continue
            now = time.monotonic()
            if stamps:
                seconds, nanoseconds = struct.unpack("=qq", stamps[0][2])
                arrived_s = seconds + nanoseconds * 1e-9 + self.ahead_s
                traffic.after_s = max(traffic.after_s, min(now, arrived_s))
            else:
                traffic.after_s = now
            for due_s in self.links[number].offer(traffic.after_s, len(frame)):
                if due_s <= now:
                    self._send(number, frame, due_s)
                elif traffic.waiting >= MAX_WAITING:
                    traffic.missed += 1
                else:
                    # Of packets that are due at the same time, the first one goes first.
                    self.count += 1
                    traffic.waiting += 1
                    heapq.heappush(self.waiting, (due_s, self.count, number, frame))

    def _compare_clocks(self) -> None:
        """Update how far the monotonic clock is ahead of the clock of the kernel's time stamps.

        Only readings without a pause between them count; otherwise packets would be due too soon.
        """
        for _ in range(3):
            before = time.monotonic()
            stamp = time.time()
            after = time.monotonic()
            if after - before < _SIMULTANEOUS_S:
                self.ahead_s = after - stamp
                return

    def send_due(self) -> float | None:
        """Send the packets that are due, and return the seconds until the next one, or None."""
        while self.waiting:
            due_s = self.waiting[0][0]
            remaining_s = due_s - time.monotonic()
            if remaining_s > 0:
                return remaining_s
            _, _, number, frame = heapq.heappop(self.waiting)
            self.traffic[number].waiting -= 1
            self._send(number, frame, due_s)
        return None

    def _send(self, number: int, frame: bytes, due_s: float) -> None:
        traffic = self.traffic[number]
        try:
            self.lanes[number].writing.send(frame)
        except OSError:
            # The link's queue is full, or the carrier is lost, as for any packet sent there.
            traffic.refused += 1
        traffic.note(time.monotonic() - due_s)

    def answer(self, request: str) -> dict[str, LaneReport]:
        """Carry out a request, and return the report of each lane."""
        reports = {}
        for lane, link, traffic in zip(self.lanes, self.links, self.traffic, strict=True):
            # Packets that found the socket full since the last request: the kernel then restarts
            # its counters at 0.
            statistics = lane.reading.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, 8)
            _, drops = struct.unpack("=II", statistics)
            traffic.missed += drops
            if request == _FORGET:
                traffic.forget()
            counts = link.counts
            reports[lane.name] = LaneReport(
                received=counts.came,
                dropped=counts.lost,
                copies=counts.copies,
                refused=traffic.refused,
                missed=traffic.missed,
                late_s=traffic.late_s(),
                latest_s=traffic.latest_s,
                delay_s=lane.delay_s,
            )
        return reports


def _run(pipe: Connection, lanes: Sequence[Lane]) -> None:
    """Serve the lanes and the requests until the pipe is closed; the body of the process."""
    begin_child(_NICENESS)
    _use_real_time_scheduling()
    # The garbage collector would stop the relay for milliseconds.
    gc.freeze()
    gc.disable()
    loop = _Loop(lanes)
    lane_numbers = {lane.reading.fileno(): number for number, lane in enumerate(lanes)}
    request_descriptor = pipe.fileno()
    ready = select.epoll()
    for descriptor in (*lane_numbers, request_descriptor):
        ready.register(descriptor, select.EPOLLIN)
    # epoll waits for whole milliseconds, and select for microseconds. So epoll watches the lanes,
    # and select watches the descriptor of epoll, which must be below 1024.
    os.dup2(ready.fileno(), 0)
    while True:
        select.select([0], (), (), loop.send_due())
        for descriptor, _ in ready.poll(0):
            if descriptor == request_descriptor:
                with contextlib.suppress(EOFError, OSError):
                    pipe.send(loop.answer(pipe.recv()))
                    continue
                # The process that started the relay has closed the pipe or ended.
                os._exit(0)
            loop.take(lane_numbers[descriptor])
            loop.send_due()


def _use_real_time_scheduling() -> None:
    """Let this process run before all others, if the user may choose that."""
    # The processes of an ordinary user wait their turn.
    with contextlib.suppress(OSError):
        # In an automatic group (autogroup), a nice value counts within one session only. So the
        # relay gets a session of its own, whose group has the nice value.
        os.setsid()
        Path("/proc/self/autogroup").write_text(str(_NICENESS))
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
