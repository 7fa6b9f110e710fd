"""What a bulk run and its end-point processes say to each other over a pipe: orders one way, reports the other.

Each process reports ``Ready`` once, when its receivers listen or all of its connections stand. The sending process then
takes ``SendMessages`` and reports ``ConnectionBroke`` where a connection ends too early; a receiving process reports
``MessageDone`` for every message that is complete. ``Count`` asks for ``Retransmitted`` or ``Delivered``, and a process
that cannot go on reports ``AgentFailed``. What travels over the network is in ``testbed.bulk.messages``. No I/O here:
bytes in, values out.
"""

import struct
from dataclasses import dataclass, fields
from typing import Any

from testbed.bulk.messages import MessageError
from testbed.errors import InputError


@dataclass(frozen=True, kw_only=True)
class SendMessages:
    """Send these messages now: (transfer, attempt) each; an attempt above 1 goes over a new connection."""

    messages: tuple[tuple[int, int], ...]


@dataclass(frozen=True, kw_only=True)
class Count:
    """Say how much TCP has sent again so far (a sending process), or how often each message has been delivered."""


@dataclass(frozen=True, kw_only=True)
class Ready:
    """Every receiver of this process accepts connections, or every connection of this sender stands."""


@dataclass(frozen=True, kw_only=True)
class MessageDone:
    """All bytes of a message have come, at ``at_s`` on the monotonic clock; ``intact``: its checksum is the right
    one."""

    transfer: int
    attempt: int
    intact: bool
    at_s: float


@dataclass(frozen=True, kw_only=True)
class ConnectionBroke:
    """The connection ended while this message was being sent."""

    transfer: int
    attempt: int


@dataclass(frozen=True, kw_only=True)
class Retransmitted:
    """(transfer, bytes, packets, time-outs): what TCP has sent again since the connection was made, and how often it
    had waited for nothing before; one entry a connection, under the first transfer that uses it."""

    counts: tuple[tuple[int, int, int, int], ...]


@dataclass(frozen=True, kw_only=True)
class Delivered:
    """(transfer, times that a whole and verified message of it was delivered)."""

    counts: tuple[tuple[int, int], ...]


@dataclass(frozen=True, kw_only=True)
class AgentFailed:
    """The process cannot go on."""

    reason: str


Order = SendMessages | Count
Report = Ready | MessageDone | ConnectionBroke | Retransmitted | Delivered | AgentFailed

_FIXED: dict[type[Order | Report], struct.Struct] = {
    Count: struct.Struct("!"),
    Ready: struct.Struct("!"),
    MessageDone: struct.Struct("!IB?d"),
    ConnectionBroke: struct.Struct("!IB"),
}
_ROWS: dict[type[Order | Report], struct.Struct] = {
    SendMessages: struct.Struct("!IB"),
    Retransmitted: struct.Struct("!IQQQ"),
    Delivered: struct.Struct("!II"),
}
"""Messages of one field that is a tuple of rows: what a row looks like."""
_KINDS = (*_FIXED, *_ROWS, AgentFailed)


def encode(message: Order | Report) -> bytes:
    """One byte that says which message this is, then its fields in network byte order.

    Raises InputError for a number that has no room in its field.
    """
    kind = type(message)
    tag = bytes([_KINDS.index(kind)])
    if isinstance(message, AgentFailed):
        return tag + message.reason.encode()
    values = [getattr(message, field.name) for field in fields(message)]
    try:
        if kind in _FIXED:
            return tag + _FIXED[kind].pack(*values)
        return tag + b"".join(_ROWS[kind].pack(*row) for row in values[0])
    except struct.error as error:
        raise InputError(f"{message}: {error}") from None


def decode(data: bytes) -> Order | Report:
    """The message that ``encode`` wrote; MessageError for any other bytes."""
    if not data or data[0] >= len(_KINDS):
        raise MessageError(f"{data[:8].hex() or 'nothing'}... is no order and no report")
    kind, body = _KINDS[data[0]], data[1:]
    try:
        if kind is AgentFailed:
            return AgentFailed(reason=body.decode())
        if kind in _ROWS:
            values: tuple[Any, ...] = (tuple(_ROWS[kind].iter_unpack(body)),)
        else:
            values = _FIXED[kind].unpack(body)
    except (struct.error, UnicodeDecodeError) as error:
        raise MessageError(f"{kind.__name__} of {len(body)} bytes: {error}") from None
    names = [field.name for field in fields(kind)]
    return kind(**dict(zip(names, values, strict=True)))
