"""One exchange of time stamps between two machines, as a value and as two small datagrams.

A datagram carries the run's key, so that nobody else's answers are believed, and a question is answered once.
"""

import hmac
import struct
from dataclasses import dataclass

from testbed.errors import InputError

KEY_BYTES = 16
_QUESTION = struct.Struct(f"!4s{KEY_BYTES}sq")
_ANSWER = struct.Struct(f"!4s{KEY_BYTES}sqqq")
_ASKS, _SAYS = b"tbq1", b"tba1"
ANSWER_BYTES = _ANSWER.size


@dataclass(frozen=True, kw_only=True)
class Exchange:
    """Four stamps in nanoseconds: ``sent_ns`` and ``returned_ns`` on our clock, ``received_ns`` and ``answered_ns`` on
    theirs.

    The question left at or after ``sent_ns`` was read and came at or before ``received_ns`` was; the answer likewise:
    nothing else is assumed of the ways, which may take as long as they like, each its own time. InputError where a
    clock ran backwards.
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
        """Both ways together, without the time that the other machine took to answer; seconds."""
        return ((self.returned_ns - self.sent_ns) - (self.answered_ns - self.received_ns)) / 1e9


def question(key: bytes, sent_ns: int) -> bytes:
    """The datagram that asks; ``key``: ``KEY_BYTES`` bytes that both machines know."""
    return _QUESTION.pack(_ASKS, key, sent_ns)


def parse_question(data: bytes, key: bytes) -> int | None:
    """The asker's stamp, or None for what is no question of this run."""
    if len(data) != _QUESTION.size:
        return None
    kind, given, sent_ns = _QUESTION.unpack(data)
    return int(sent_ns) if kind == _ASKS and hmac.compare_digest(given, key) else None


def answer(key: bytes, sent_ns: int, received_ns: int, answered_ns: int) -> bytes:
    """The datagram that answers: the question's stamp, and two of our own."""
    return _ANSWER.pack(_SAYS, key, sent_ns, received_ns, answered_ns)


def parse_answer(data: bytes, key: bytes) -> tuple[int, int, int] | None:
    """(our stamp, their two), or None for what is no answer of this run.

    >>> [parse_answer(answer(bytes(16), 1, 20, 30), key) for key in (bytes(16), b"another key, 16B")]
    [(1, 20, 30), None]
    """
    if len(data) != _ANSWER.size:
        return None
    kind, given, *stamps = _ANSWER.unpack(data)
    return (
        (stamps[0], stamps[1], stamps[2])
        if kind == _SAYS and hmac.compare_digest(given, key)
        else None
    )
