"""Exchanges of time stamps over a datagram socket, throughout a run: one thread asks, one thread on the other machine
answers.

The clock is the monotonic one that all of a machine's stamps are read from.
"""

import contextlib
import select
import socket
import threading
import time
from collections.abc import Callable

from testbed.errors import InvalidRunError
from testbed.machines.clocks.exchange import (
    ANSWER_BYTES,
    Exchange,
    answer,
    parse_answer,
    parse_question,
    question,
)

PERIOD_S = 0.05
"""Between two questions: 20 a second cost a processor less than a thousandth, and one quick exchange sharpens what is
around it."""
WAIT_S = 1.0
"""A question that was not answered so long is lost."""
_POLL_S = 0.2

Clock = Callable[[], int]
"""Reads a clock in nanoseconds."""


class ClockAnswers:
    """Answers questions that come to a bound datagram socket until ``close``; those of another key are passed over."""

    def __init__(
        self, sock: socket.socket, key: bytes, clock_ns: Clock = time.monotonic_ns
    ) -> None:
        self._sock, self._key, self._clock_ns = sock, key, clock_ns
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="clock-answers", daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        self._sock.settimeout(_POLL_S)
        while not self._ended.is_set():
            try:
                data, asker = self._sock.recvfrom(2 * ANSWER_BYTES)
            except TimeoutError:
                continue
            except (
                OSError
            ):  # closed under it, or the way there is gone: the asker counts what is lost
                if self._ended.wait(_POLL_S):
                    return
                continue
            received_ns = self._clock_ns()
            sent_ns = parse_question(data, self._key)
            if sent_ns is not None:
                with contextlib.suppress(OSError):
                    self._sock.sendto(
                        answer(self._key, sent_ns, received_ns, self._clock_ns()), asker
                    )

    def close(self) -> None:
        """No more answers; the socket stays its owner's."""
        self._ended.set()
        self._thread.join(2 * _POLL_S + 1)


class ClockQuestions:
    """Asks the machine at the other end of a connected datagram socket every ``PERIOD_S``, until ``close``.

    ``exchanges`` and ``asked`` may be read at any time; ``asked`` counts what was answered or has waited ``WAIT_S``.
    """

    def __init__(self, sock: socket.socket, key: bytes) -> None:
        self._sock, self._key = sock, key
        self._waiting: set[int] = set()
        self._found: list[Exchange] = []
        self._lost = 0
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._ask, name="clock-questions", daemon=True)
        self._thread.start()

    @property
    def exchanges(self) -> tuple[Exchange, ...]:
        """All that came back so far, in the order in which they did."""
        with self._lock:
            return tuple(self._found)

    @property
    def requested(self) -> int:
        """Questions that were answered, and those that no longer will be."""
        with self._lock:
            return len(self._found) + self._lost

    def wait_for(self, count: int, timeout_s: float, machine: str) -> None:
        """Return when so many exchanges came back. InvalidRunError where they did not in time."""
        until = time.monotonic() + timeout_s
        while len(self.exchanges) < count:
            if time.monotonic() > until:
                raise InvalidRunError(
                    f"{machine} answered {len(self.exchanges)} of {count} questions for its clock "
                    f"within {timeout_s:g} s"
                )
            time.sleep(0.005)

    def close(self) -> None:
        """No more questions; the socket stays its owner's."""
        self._ended.set()
        self._thread.join(2 * PERIOD_S + 1)

    def _ask(self) -> None:
        due_s = time.monotonic()
        while not self._ended.is_set():
            sent_ns = time.monotonic_ns()
            with self._lock:
                self._waiting.add(sent_ns)
                late = {one for one in self._waiting if sent_ns - one > WAIT_S * 1e9}
                self._waiting -= late
                self._lost += len(late)
            with contextlib.suppress(OSError):  # refused or unreachable: lost, and counted so
                self._sock.send(question(self._key, sent_ns))
            due_s = max(due_s + PERIOD_S, time.monotonic())
            while (left_s := due_s - time.monotonic()) > 0 and not self._ended.is_set():
                self._take(left_s)

    def _take(self, within_s: float) -> None:
        """One answer, if one comes in time; an answer that nobody waits for (late, or twice) is passed over."""
        if not select.select((self._sock,), (), (), within_s)[0]:
            return
        try:
            data = self._sock.recv(2 * ANSWER_BYTES)
        except OSError:  # the other end's refusal of an earlier question
            return
        returned_ns = time.monotonic_ns()
        stamps = parse_answer(data, self._key)
        with self._lock:
            if stamps is None or stamps[0] not in self._waiting:
                return
            self._waiting.discard(stamps[0])
            self._found.append(
                Exchange(
                    sent_ns=stamps[0],
                    received_ns=stamps[1],
                    answered_ns=stamps[2],
                    returned_ns=returned_ns,
                )
            )
