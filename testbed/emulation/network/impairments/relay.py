"""The process that packets of impaired links pass, and of delayed ones where the kernel has no netem: it takes them off
their detours and sends them on when, and as often as, they may go.

What becomes of a packet is decided by ``testbed.faults.impaired_link``, as in virtual time; here are only sockets and a
clock. A packet's time begins when the kernel hands it over, not when it is read, and so does what it is late by: a
process that is given no processor is late, and says so (what it carries: docs/reference/impairments.md, link delays).
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

_NICE = -10
_FRAME_BYTES = 65_600
_BATCH = 64
_ANSWERS_WITHIN_S = 5.0
_STAMPED = 35  # SO_TIMESTAMPNS: the kernel notes when each packet came
_PACKET_STATISTICS = (263, 6)
_AT_ONCE_S = 20e-6
MAX_WAITING = 100_000
"""Packets that a lane holds at most, as a netem queue of ours does."""
_BIN_S = 20e-6
"""Lateness is counted in steps of 20 us: a network may be up for days."""
_REPORT, _FORGET = "report", "forget"


@dataclass(frozen=True, kw_only=True)
class Lane:
    """One link's path through the process.

    Attributes:
        name: The link and its impairments, for a person.
        make_link: Makes the link's impairments, in the process.
        reading: Takes the packets that come on the detour.
        writing: Sends them on.
        own_mac: The MAC address of the detour's first interface, whose own packets are not the link's.
        delay_s: The delay of the link itself, which ``make_link`` has too.
    """

    name: str
    make_link: Callable[[], ImpairedLink]
    reading: socket.socket
    writing: socket.socket
    own_mac: bytes
    delay_s: float = 0.0


@dataclass(frozen=True, kw_only=True)
class LaneReport:
    """What became of a lane's packets, and how late they were sent on in seconds: 99 of 100, and the latest.

    ``refused``: by the link's queue, as any packet may be; ``missed``: lost by the relay itself, which could not keep
    up. ``delay_s``: the part of the link's own delay that the relay makes.
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
        """Why a run over this link measured the machine, None where it did not."""
        if self.missed:
            return f"{self.missed} packets found the process that delays them full"
        most_s = most_late_s(self.delay_s)
        if self.late_s <= most_s:
            return None
        return f"packets were sent on {self.late_s * 1000:.1f} ms late (99 of 100; limit {most_s * 1000:g} ms)"


class Relay:
    """A process for some lanes; ``reports`` asks it how it goes, ``stop`` ends it."""

    def __init__(self, lanes: Sequence[Lane]) -> None:
        self.names = tuple(lane.name for lane in lanes)
        self._process = ForkedProcess(_run, tuple(lanes))
        self._pipe = self._process.pipe
        for lane in lanes:
            lane.reading.close()
            lane.writing.close()

    def reports(self) -> dict[str, LaneReport]:
        """Lane -> its report until now. InvalidRunError where the process died."""
        return self._ask(_REPORT)

    def forget(self) -> None:
        """What was late or missed until now is not reported any more: a run begins."""
        self._ask(_FORGET)

    def _ask(self, what: str) -> dict[str, LaneReport]:
        with contextlib.suppress(OSError, EOFError):
            self._pipe.send(what)
            if self._pipe.poll(_ANSWERS_WITHIN_S):
                found: dict[str, LaneReport] = self._pipe.recv()
                return found
        some = ", ".join(self.names[:3]) + (
            f" and {len(self.names) - 3} more" if len(self.names) > 3 else ""
        )
        raise InvalidRunError(f"the relay of {some} died or does not answer")

    def stop(self) -> None:
        """End the process; what it still holds is lost."""
        self._process.close()


class _Traffic:
    """What a lane has seen. ``waiting``: packets that it holds; ``after_s``: no packet came before the last one."""

    def __init__(self) -> None:
        self.waiting = 0
        self.after_s = 0.0
        self.forget()

    def forget(self) -> None:
        self.refused = self.missed = 0
        self.late = Counter[int]()
        self.latest_s = 0.0

    def note(self, late_s: float) -> None:
        self.late[int(late_s / _BIN_S)] += 1
        self.latest_s = max(self.latest_s, late_s)

    def late_s(self) -> float:
        """What 99 of 100 packets were late by at most."""
        left = 0.01 * self.late.total()
        for place in sorted(self.late, reverse=True):
            left -= self.late[place]
            if left < 0:
                return min(self.latest_s, (place + 1) * _BIN_S)
        return 0.0


class _Loop:
    def __init__(self, lanes: Sequence[Lane]) -> None:
        self.lanes = lanes
        self.links = [lane.make_link() for lane in lanes]
        self.traffic = [_Traffic() for _ in lanes]
        self.waiting: list[tuple[float, int, int, bytes]] = []
        self.count = 0
        self.ahead_s = time.monotonic() - time.time()
        for lane in lanes:
            lane.reading.setsockopt(socket.SOL_SOCKET, _STAMPED, 1)

    def take(self, number: int) -> None:
        """Some of the packets that lie at a lane."""
        lane, traffic = self.lanes[number], self.traffic[number]
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
                traffic.after_s = max(
                    traffic.after_s, min(now, seconds + nanoseconds * 1e-9 + self.ahead_s)
                )
            else:
                traffic.after_s = now
            for due_s in self.links[number].offer(traffic.after_s, len(frame)):
                if due_s <= now:
                    self._send(number, frame, due_s)
                elif traffic.waiting >= MAX_WAITING:
                    traffic.missed += 1
                else:
                    self.count += 1  # of packets that are due at once, the first goes first
                    traffic.waiting += 1
                    heapq.heappush(self.waiting, (due_s, self.count, number, frame))

    def _compare_clocks(self) -> None:
        """How far the monotonic clock is ahead of that of the kernel's stamps: only what was read without a pause
        counts, or a packet would be due too soon."""
        for _ in range(3):
            before, stamp, after = time.monotonic(), time.time(), time.monotonic()
            if after - before < _AT_ONCE_S:
                self.ahead_s = after - stamp
                return

    def send_due(self) -> float | None:
        """Send on what may go; seconds until the next one, None where nothing waits."""
        while self.waiting:
            due_s = self.waiting[0][0]
            left_s = due_s - time.monotonic()
            if left_s > 0:
                return left_s
            _, _, number, frame = heapq.heappop(self.waiting)
            self.traffic[number].waiting -= 1
            self._send(number, frame, due_s)
        return None

    def _send(self, number: int, frame: bytes, due_s: float) -> None:
        traffic = self.traffic[number]
        try:
            self.lanes[number].writing.send(frame)
        except (
            OSError
        ):  # the link's queue is full, or its carrier is gone: as for any packet that is sent there
            traffic.refused += 1
        traffic.note(time.monotonic() - due_s)

    def answer(self, what: str) -> dict[str, LaneReport]:
        found = {}
        for lane, link, traffic in zip(self.lanes, self.links, self.traffic, strict=True):
            # Packets that found the socket full since this was asked last: the kernel counts them from 0 each time.
            traffic.missed += struct.unpack("=II", lane.reading.getsockopt(*_PACKET_STATISTICS, 8))[
                1
            ]
            if what == _FORGET:
                traffic.forget()
            counts = link.counts
            found[lane.name] = LaneReport(
                received=counts.came,
                dropped=counts.lost,
                copies=counts.copies,
                refused=traffic.refused,
                missed=traffic.missed,
                late_s=traffic.late_s(),
                latest_s=traffic.latest_s,
                delay_s=lane.delay_s,
            )
        return found


def _run(pipe: Connection, lanes: Sequence[Lane]) -> None:
    begin_child(_NICE)
    with contextlib.suppress(OSError):  # an ordinary user's processes wait their turn
        os.setsid()  # else a nice value counts among the processes of one session only
        Path("/proc/self/autogroup").write_text(str(_NICE))
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    gc.freeze()
    gc.disable()
    loop = _Loop(lanes)
    numbers = {lane.reading.fileno(): number for number, lane in enumerate(lanes)}
    requested = pipe.fileno()
    ready = select.epoll()
    for one in (*numbers, requested):
        ready.register(one, select.EPOLLIN)
    # epoll waits for whole milliseconds, select for microseconds: the one watches the lanes, the other its descriptor,
    # which must be below 1024
    os.dup2(ready.fileno(), 0)
    while True:
        select.select([0], (), (), loop.send_due())
        for one, _ in ready.poll(0):
            if one == requested:
                with contextlib.suppress(EOFError, OSError):
                    pipe.send(loop.answer(pipe.recv()))
                    continue
                os._exit(0)
            loop.take(numbers[one])
            loop.send_due()
