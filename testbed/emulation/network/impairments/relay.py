"""The process that packets of impaired links pass: it takes them off their detours and sends them on when, and as often
as, they may go.

What becomes of a packet is decided by ``testbed.faults.impaired_link``, as in virtual time; here are only sockets and a
clock. It notes how late it was (docs/replication/real_time.md: 99 of 100 packets 3 to 4 ms at most, on two busy cores).
"""

import contextlib
import gc
import heapq
import multiprocessing
import os
import select
import socket
import time
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection

from testbed.emulation.sandbox.process_lifetime import begin_child
from testbed.errors import InvalidRunError
from testbed.faults.impaired_link import ImpairedLink

_NICE = -10
_FRAME_BYTES = 65_600
_BATCH = 64
_ANSWERS_WITHIN_S = 5.0


@dataclass(frozen=True, kw_only=True)
class Lane:
    """One link's way through the process. ``own_mac``: of the detour's first interface, whose own packets are none of
    the link's."""

    name: str
    link: ImpairedLink
    reading: socket.socket
    writing: socket.socket
    own_mac: bytes


@dataclass(frozen=True, kw_only=True)
class LaneReport:
    """What became of a lane's packets, and how late they were sent on in seconds: 99 of 100, and the latest."""

    received: int
    dropped: int
    copies: int
    refused: int
    late_s: float
    latest_s: float


class Relay:
    """A forked process for some lanes; ``reports`` asks it how it goes, ``stop`` ends it."""

    def __init__(self, lanes: Sequence[Lane]) -> None:
        context = multiprocessing.get_context("fork")
        self.names = tuple(lane.name for lane in lanes)
        self._pipe, child = context.Pipe()
        self._process = context.Process(target=_run, args=(child, tuple(lanes)), name="relay", daemon=True)
        self._process.start()
        child.close()
        for lane in lanes:
            lane.reading.close()
            lane.writing.close()

    def reports(self) -> dict[str, LaneReport]:
        """Lane -> its report until now. InvalidRunError where the process died."""
        try:
            self._pipe.send(None)
            if self._pipe.poll(_ANSWERS_WITHIN_S):
                found: dict[str, LaneReport] = self._pipe.recv()
                return found
        except (OSError, EOFError):
            pass
        raise InvalidRunError(f"the relay of {', '.join(self.names)} died or does not answer")

    def stop(self) -> None:
        """End the process; what it still holds is lost."""
        self._process.kill()
        self._process.join(2)
        self._pipe.close()


class _Loop:
    def __init__(self, lanes: Sequence[Lane]) -> None:
        self.lanes = lanes
        self.waiting: list[tuple[float, int, int, bytes]] = []
        self.count = 0
        self.late: list[array[float]] = [array("f") for _ in lanes]
        self.refused = [0] * len(lanes)

    def take(self, number: int) -> None:
        """Some of the packets that lie at a lane."""
        lane = self.lanes[number]
        for _ in range(_BATCH):
            try:
                frame, address = lane.reading.recvfrom(_FRAME_BYTES)
            except BlockingIOError:
                return
            if address[2] == socket.PACKET_OUTGOING or frame[6:12] == lane.own_mac:
                continue
            now = time.monotonic()
            for due_s in lane.link.offer(now, len(frame)):
                if due_s <= now:
                    self._send(number, frame)
                    self.late[number].append(0.0)
                else:
                    self.count += 1
                    heapq.heappush(self.waiting, (due_s, self.count, number, frame))

    def send_due(self) -> float | None:
        """Send on what may go; seconds until the next one, None where nothing waits."""
        while self.waiting:
            now = time.monotonic()
            due_s, _, number, frame = self.waiting[0]
            if due_s > now:
                return due_s - now
            heapq.heappop(self.waiting)
            self._send(number, frame)
            self.late[number].append(now - due_s)
        return None

    def _send(self, number: int, frame: bytes) -> None:
        try:
            self.lanes[number].writing.send(frame)
        except OSError:  # the link's queue is full, or its carrier is gone: as for any packet that is sent there
            self.refused[number] += 1

    def reports(self) -> dict[str, LaneReport]:
        found = {}
        for lane, late, refused in zip(self.lanes, self.late, self.refused, strict=True):
            counts, ordered = lane.link.counts, sorted(late)
            found[lane.name] = LaneReport(
                received=counts.came,
                dropped=counts.lost,
                copies=counts.copies,
                refused=refused,
                late_s=ordered[int(0.99 * len(ordered))] if ordered else 0.0,
                latest_s=ordered[-1] if ordered else 0.0,
            )
        return found


def _run(pipe: Connection, lanes: Sequence[Lane]) -> None:
    begin_child(_NICE)
    gc.freeze()
    gc.disable()
    loop = _Loop(lanes)
    numbers = {lane.reading.fileno(): number for number, lane in enumerate(lanes)}
    requested = pipe.fileno()
    while True:
        readable, _, _ = select.select([*numbers, requested], (), (), loop.send_due())
        for one in readable:
            if one == requested:
                with contextlib.suppress(EOFError, OSError):
                    pipe.recv()
                    pipe.send(loop.reports())
                    continue
                os._exit(0)
            else:
                loop.take(numbers[one])
