"""Exchanges of time stamps over a datagram socket throughout a run.

One thread asks, and one thread on the other machine answers. The clock is the monotonic clock from
which all time stamps of a machine are read.
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

# Time between two questions, in seconds. 20 questions per second cost less than a thousandth of a
# processor, and one quick exchange tightens the bounds for a minute.
PERIOD_S = 0.05
# A question without an answer for this long is lost, in seconds.
WAIT_S = 1.0
# How often a waiting thread looks whether it has to end, in seconds.
_POLL_S = 0.2

# Reads a clock, in nanoseconds.
Clock = Callable[[], int]


class ClockAnswers:
    """Answers questions at a bound datagram socket until ``close``.

    Questions with another key are ignored.

    Args:
        sock: The socket. The caller closes it.
        key: The key of the run.
        clock_ns: The clock.
    """

    def __init__(
        self, sock: socket.socket, key: bytes, clock_ns: Clock = time.monotonic_ns
    ) -> None:
        self._sock = sock
        self._key = key
        self._clock_ns = clock_ns
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
            except OSError:
                # The socket was closed, or its route has gone. The asking side counts the losses.
                if self._ended.wait(_POLL_S):
                    return
                continue
            received_ns = self._clock_ns()
            sent_ns = parse_question(data, self._key)
            if sent_ns is None:
                continue
            with contextlib.suppress(OSError):
                datagram = answer(self._key, sent_ns, received_ns, self._clock_ns())
                self._sock.sendto(datagram, asker)

    def close(self) -> None:
        """Stop answering."""
        self._ended.set()
        self._thread.join(2 * _POLL_S + 1)


class ClockQuestions:
    """Asks the other end of a connected datagram socket every ``PERIOD_S`` until ``close``.

    ``exchanges`` and ``requested`` may be read at any time, from any thread.

    Args:
        sock: The socket. The caller closes it.
        key: The key of the run.
    """

    def __init__(self, sock: socket.socket, key: bytes) -> None:
        self._sock = sock
        self._key = key
        # The stamps of the questions that are in transit.
        self._pending_ns: set[int] = set()
        self._exchanges: list[Exchange] = []
        self._lost = 0
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._ask, name="clock-questions", daemon=True)
        self._thread.start()

    @property
    def exchanges(self) -> tuple[Exchange, ...]:
        """The exchanges so far, in the order in which the answers arrived."""
        with self._lock:
            return tuple(self._exchanges)

    @property
    def requested(self) -> int:
        """Number of questions that were answered or lost."""
        with self._lock:
            return len(self._exchanges) + self._lost

    def wait_for(self, count: int, timeout_s: float, machine: str) -> None:
        """Wait for a number of exchanges.

        Args:
            count: The number.
            timeout_s: Limit on the time, in seconds.
            machine: Name of the machine, for the message.

        Raises:
            InvalidRunError: The limit on the time was reached.
        """
        until_s = time.monotonic() + timeout_s
        while len(self.exchanges) < count:
            if time.monotonic() > until_s:
                raise InvalidRunError(
                    f"{machine} answered {len(self.exchanges)} of {count} questions for its clock "
                    f"within {timeout_s:g} s"
                )
            time.sleep(0.005)

    def close(self) -> None:
        """Stop asking."""
        self._ended.set()
        self._thread.join(2 * PERIOD_S + 1)

    def _ask(self) -> None:
        due_s = time.monotonic()
        while not self._ended.is_set():
            sent_ns = time.monotonic_ns()
            with self._lock:
                self._pending_ns.add(sent_ns)
                lost = {
                    asked_ns for asked_ns in self._pending_ns if sent_ns - asked_ns > WAIT_S * 1e9
                }
                self._pending_ns -= lost
                self._lost += len(lost)
            # A question that cannot be sent is counted as lost when its time is over.
            with contextlib.suppress(OSError):
                self._sock.send(question(self._key, sent_ns))
            due_s = max(due_s + PERIOD_S, time.monotonic())
            while (left_s := due_s - time.monotonic()) > 0 and not self._ended.is_set():
                self._receive(left_s)

    def _receive(self, timeout_s: float) -> None:
        """Receive one answer if one arrives in time. Late and repeated answers are ignored."""
        readable, _, _ = select.select((self._sock,), (), (), timeout_s)
        if not readable:
            return
        try:
            data = self._sock.recv(2 * ANSWER_BYTES)
        except OSError:
            # The other end refused an earlier question.
            return
        returned_ns = time.monotonic_ns()
        stamps = parse_answer(data, self._key)
        if stamps is None:
            return
        sent_ns, received_ns, answered_ns = stamps
        with self._lock:
            if sent_ns not in self._pending_ns:
                return
            self._pending_ns.discard(sent_ns)
            exchange = Exchange(
                sent_ns=sent_ns,
                received_ns=received_ns,
                answered_ns=answered_ns,
                returned_ns=returned_ns,
            )
            self._exchanges.append(exchange)
