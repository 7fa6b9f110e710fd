"""A trial of the estimate against the truth: a process in a time namespace of its own, whose offset from ours the
kernel was told.

What links between machines do, a relay does here: each way has its delay, and some datagrams are lost.
"""

from __future__ import annotations

import heapq
import json
import os
import random
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import numpy as np

from testbed.emulation.sandbox.sandbox import probe_sandbox
from testbed.errors import CapabilityError
from testbed.machines.clocks.adapters.datagram_clock import ClockAnswers, ClockQuestions
from testbed.machines.clocks.exchange import ANSWER_BYTES, KEY_BYTES
from testbed.machines.clocks.remote_clock import RemoteClock
from testbed.machines.machines_report import ClockReport, clock_report

_START_S = 10.0
_STAMPS = 2000
_BUSY = "while True: pass"


@dataclass(frozen=True, kw_only=True)
class TrialConditions:
    """``offset_s``: whole seconds by which the other clock is ahead. ``drift``: what it gains, seconds a second (made
    by the trial: a namespace cannot). ``there_s`` and ``back_s``: delay of each way; ``loss``: fraction of datagrams
    lost each way; ``busy``: processes that want a processor all the time."""

    name: str
    offset_s: int = 5000
    drift: float = 0.0
    there_s: float = 0.0
    back_s: float = 0.0
    loss: float = 0.0
    busy: int = 0


@dataclass(frozen=True, kw_only=True)
class TrialResult:
    """Seconds, over ``stamps`` moments of the run: how far the guess was from the truth at worst, what was claimed at
    least and at worst, and at how many moments the truth lay outside the bounds (0, or the estimator is wrong)."""

    conditions: TrialConditions
    report: ClockReport
    worst_error_s: float
    median_claimed_s: float
    worst_claimed_s: float
    stamps: int
    outside: int


def run_trial(conditions: TrialConditions, *, duration_s: float, seed: int = 1) -> TrialResult:
    """Exchange stamps for so long, then judge. CapabilityError where the kernel gives no time namespace."""
    with ExitStack() as stack:
        for _ in range(conditions.busy):
            stack.enter_context(_process([sys.executable, "-I", "-S", "-c", _BUSY]))
        key = os.urandom(KEY_BYTES)
        other = stack.enter_context(_process(_other_words(conditions, key)))
        port, their_start_ns = _hello(other)
        address = ("127.0.0.1", port)
        if conditions.there_s or conditions.back_s or conditions.loss:
            relay = _Relay(address, conditions, seed)
            stack.callback(relay.close)
            address = relay.address
        sock = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        sock.connect(address)
        questions = ClockQuestions(sock, key)
        try:
            questions.wait_for(1, _START_S, "the trial's other process")
            time.sleep(duration_s)
        finally:
            questions.close()
        clock = RemoteClock(machine="other", exchanges=questions.exchanges)
        return _judged(conditions, clock, questions.requested, their_start_ns)


def _judged(
    conditions: TrialConditions, clock: RemoteClock, asked: int, their_start_ns: int
) -> TrialResult:
    first, last = clock.exchanges[0].received_ns, clock.exchanges[-1].answered_ns
    stamps_ns = np.linspace(first, last, _STAMPS).astype(np.int64)
    # Whole nanoseconds first: what the namespace added is exact, and what the trial's drift added is counted from its
    # start.
    truth_ns = (stamps_ns - their_start_ns) / (1 + conditions.drift) + (
        their_start_ns - conditions.offset_s * 10**9
    )
    found = clock.ours(stamps_ns / 1e9)
    truth_s = truth_ns / 1e9
    outside = (truth_s < found.earliest_s) | (truth_s > found.latest_s)
    return TrialResult(
        conditions=conditions,
        report=clock_report(clock, requested=asked, from_s=first / 1e9, to_s=last / 1e9),
        worst_error_s=float(np.abs(found.middle_s - truth_s).max()),
        median_claimed_s=float(np.median(found.uncertainty_s)),
        worst_claimed_s=float(found.uncertainty_s.max()),
        stamps=_STAMPS,
        outside=int(outside.sum()),
    )


def _other_words(conditions: TrialConditions, key: bytes) -> list[str]:
    program = [sys.executable, "-P", __file__, key.hex(), repr(conditions.drift)]
    times = [
        "--time",
        "--monotonic",
        str(conditions.offset_s),
        "--boottime",
        str(conditions.offset_s),
    ]
    return ["unshare", "--user", "--map-root-user", *times, "--fork", "--kill-child", *program]


@contextmanager
def _process(words: list[str]) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def _hello(other: subprocess.Popen[str]) -> tuple[int, int]:
    """The other process' port, and its clock when its drift began."""
    assert other.stdout is not None
    line = other.stdout.readline()
    if not line:
        raise CapabilityError(
            probe_sandbox(clock_offset_s=1) or "the trial's other process did not start"
        )
    port, start_ns = json.loads(line)
    return int(port), int(start_ns)


class _Relay:
    """Passes datagrams on between the asker and one address, each after its way's delay, but for those that it
    loses."""

    def __init__(self, towards: tuple[str, int], conditions: TrialConditions, seed: int) -> None:
        self._front = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._front.bind(("127.0.0.1", 0))
        self._back = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._back.connect(towards)
        self._conditions, self._random = conditions, random.Random(seed)
        self.address: tuple[str, int] = self._front.getsockname()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._pass_on, daemon=True)
        self._thread.start()

    def _pass_on(self) -> None:
        waiting: list[tuple[float, int, bytes]] = []
        asker: tuple[str, int] | None = None
        while not self._ended.is_set():
            left_s = waiting[0][0] - time.monotonic() if waiting else 0.1
            for sock in select.select((self._front, self._back), (), (), max(0.0, left_s))[0]:
                data, sender = sock.recvfrom(2 * ANSWER_BYTES)
                there = sock is self._front
                asker = sender if there else asker
                if self._random.random() >= self._conditions.loss:
                    delay_s = self._conditions.there_s if there else self._conditions.back_s
                    heapq.heappush(waiting, (time.monotonic() + delay_s, there, data))
            while waiting and waiting[0][0] <= time.monotonic():
                _, onward, data = heapq.heappop(waiting)
                if onward:
                    self._back.send(data)
                elif asker is not None:
                    self._front.sendto(data, asker)

    def close(self) -> None:
        self._ended.set()
        self._thread.join(2)
        self._front.close()
        self._back.close()


def main(arguments: list[str]) -> int:
    """The other process: answers until its input closes. ``KEY DRIFT``."""
    key, drift = bytes.fromhex(arguments[0]), float(arguments[1])
    start_ns = time.monotonic_ns()

    def clock_ns() -> int:
        passed = time.monotonic_ns() - start_ns
        return start_ns + passed + round(passed * drift)

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        answers = ClockAnswers(sock, key, clock_ns)
        print(json.dumps([sock.getsockname()[1], start_ns]), flush=True)
        sys.stdin.read()
        answers.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
