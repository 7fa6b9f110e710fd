"""Exchange of time stamps between two machines: its four stamps, and its two datagrams.

A datagram contains the key of the run, so that answers from other programs are ignored. Each
question is answered once.
"""

import hmac
import struct
from dataclasses import dataclass

from testbed.errors import InputError

# Length of the key of a run.
KEY_BYTES = 16
_QUESTION = struct.Struct(f"!4s{KEY_BYTES}sq")
_ANSWER = struct.Struct(f"!4s{KEY_BYTES}sqqq")
_QUESTION_MAGIC = b"tbq1"
_ANSWER_MAGIC = b"tba1"
ANSWER_BYTES = _ANSWER.size


@dataclass(frozen=True, kw_only=True)
class Exchange:
    """Four time stamps of a question and its answer, in nanoseconds.

    The clock is read for ``sent_ns`` before the question leaves, and for ``received_ns`` after it
    arrives. The same holds for the answer. Nothing else is assumed: both directions may have any
    delay, and the delays may differ.

    Attributes:
        sent_ns: When the question was sent, on our clock.
        received_ns: When it arrived, on the other clock.
        answered_ns: When the answer was sent, on the other clock.
        returned_ns: When the answer arrived, on our clock.

    Raises:
        InputError: A clock went backwards.
    """

    sent_ns: int
    received_ns: int
    answered_ns: int
    returned_ns: int

    def __post_init__(self) -> None:
        if self.returned_ns < self.sent_ns or self.answered_ns < self.received_ns:
            raise InputError(f"exchange of time stamps {self}: a clock ran backwards in it")

    @property
    def round_trip_s(self) -> float:
        """Round-trip time without the other machine's time to answer, in seconds."""
        total_ns = self.returned_ns - self.sent_ns
        answering_ns = self.answered_ns - self.received_ns
        return (total_ns - answering_ns) / 1e9


def question(key: bytes, sent_ns: int) -> bytes:
    """Encode a question.

    Args:
        key: ``KEY_BYTES`` bytes that both machines know.
        sent_ns: When the question is sent, in nanoseconds.
    """
    return _QUESTION.pack(_QUESTION_MAGIC, key, sent_ns)


def parse_question(data: bytes, key: bytes) -> int | None:
    """Return the stamp of a question, or None if the datagram is not a question of this run."""
    if len(data) != _QUESTION.size:
        return None
    magic, datagram_key, sent_ns = _QUESTION.unpack(data)
    if magic != _QUESTION_MAGIC or not hmac.compare_digest(datagram_key, key):
        return None
    return int(sent_ns)


def answer(key: bytes, sent_ns: int, received_ns: int, answered_ns: int) -> bytes:
    """Encode an answer: the stamp of the question, and two stamps of the machine that answers."""
    return _ANSWER.pack(_ANSWER_MAGIC, key, sent_ns, received_ns, answered_ns)


def parse_answer(data: bytes, key: bytes) -> tuple[int, int, int] | None:
    """Return the stamp of the question and both stamps of the other machine.

    The result is None if the datagram is not an answer of this run.

    >>> parse_answer(answer(bytes(16), 1, 20, 30), bytes(16))
    (1, 20, 30)
    >>> parse_answer(answer(bytes(16), 1, 20, 30), b"another key, 16B")
    """
    if len(data) != _ANSWER.size:
        return None
    magic, datagram_key, sent_ns, received_ns, answered_ns = _ANSWER.unpack(data)
    if magic != _ANSWER_MAGIC or not hmac.compare_digest(datagram_key, key):
        return None
    return sent_ns, received_ns, answered_ns
