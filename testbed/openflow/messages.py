"""OpenFlow 1.3 as bytes, as little of it as circuits need: rules that come and go, barriers, what a switch reports.

No I/O: what is written here goes out over a bridge's own management socket, without a controller in between.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import Literal

from testbed.openflow.rules import DROP, FlowRule, Match

VERSION = 4
HELLO, ERROR, ECHO_REQUEST, ECHO_REPLY = 0, 1, 2, 3
PORT_STATUS, FLOW_MOD = 12, 14
BARRIER_REQUEST, BARRIER_REPLY, SET_ASYNC = 20, 21, 28
_HEADER = struct.Struct("!BBHI")
_FLOW_MOD = struct.Struct("!QQBBHHHIIIHxx")
_ADD, _DELETE_STRICT = 0, 4
_NO_BUFFER = _ANY = 0xFFFFFFFF
_PORT_DOWN_CONFIG, _LINK_DOWN_STATE = 1, 1
_FIELDS: dict[str, tuple[int, int]] = {
    "eth_type": (5, 2),
    "ip_proto": (10, 1),
    "ipv4_src": (11, 4),
    "ipv4_dst": (12, 4),
    "tcp_src": (13, 2),
    "tcp_dst": (14, 2),
    "udp_src": (15, 2),
    "udp_dst": (16, 2),
}
"""Field -> (its number in the basic class, bytes)."""


@dataclass(frozen=True, kw_only=True)
class BarrierReply:
    xid: int


@dataclass(frozen=True, kw_only=True)
class ErrorMessage:
    """The switch did not do what message ``xid`` asked: OpenFlow's error type and code."""

    xid: int
    type: int
    code: int


@dataclass(frozen=True, kw_only=True)
class PortStatus:
    port: int
    up: bool


@dataclass(frozen=True, kw_only=True)
class EchoRequest:
    """The switch asks whether anybody is there; ``reply`` is the answer to send."""

    reply: bytes


SwitchMessage = BarrierReply | ErrorMessage | PortStatus | EchoRequest


def message(kind: int, xid: int, body: bytes = b"") -> bytes:
    """One message with its header."""
    return _HEADER.pack(VERSION, kind, _HEADER.size + len(body), xid) + body


def hello(xid: int) -> bytes:
    """What opens a connection: hello, and the request to be notified of ports that go down or come back, and of nothing
    else."""
    ports = 0b111  # added, deleted, modified
    masks = struct.pack("!6I", 0, 0, ports, ports, 0, 0)
    return message(HELLO, xid) + message(SET_ASYNC, xid, masks)


def barrier(xid: int) -> bytes:
    """The switch answers when everything before it has been done."""
    return message(BARRIER_REQUEST, xid)


def change_rule(rule: FlowRule, action: Literal["add", "remove"], *, xid: int, cookie: int) -> bytes:
    """Add the rule, or remove the one of exactly that match and priority. ValueError for a rule that does more than
    send."""
    if rule.set_fields or rule.group or rule.dec_ttl:
        raise ValueError(f"{rule} sets fields, counts hops or asks a group; this writer knows outputs only")
    command = _ADD if action == "add" else _DELETE_STRICT
    body = _FLOW_MOD.pack(cookie, 0, 0, command, 0, 0, rule.priority, _NO_BUFFER, _ANY, _ANY, 0)
    body += _match(rule.match)
    if action == "add" and rule.out_port != DROP:
        output = struct.pack("!HHIHxxxxxx", 0, 16, rule.out_port, 0xFFFF)
        body += struct.pack("!HHxxxx", 4, 8 + len(output)) + output
    return message(FLOW_MOD, xid, body)


def _match(match: Match) -> bytes:
    fields = b""
    for name, value in match:
        number, width = _FIELDS[name]
        if isinstance(value, tuple):
            packed = value[0].to_bytes(width) + value[1].to_bytes(width)
        else:
            packed = (int(IPv4Address(value)) if isinstance(value, str) else value).to_bytes(width)
        fields += struct.pack("!HBB", 0x8000, number << 1 | isinstance(value, tuple), len(packed)) + packed
    length = 4 + len(fields)
    return struct.pack("!HH", 1, length) + fields + bytes(-length % 8)


class SwitchReader:
    """Bytes of one switch in, its messages out; messages that nobody requested are passed over."""

    def __init__(self) -> None:
        self._buffer = b""

    def receive(self, data: bytes) -> Iterator[SwitchMessage]:
        """Everything that is complete with these bytes, in order."""
        self._buffer += data
        while len(self._buffer) >= _HEADER.size:
            _, kind, length, xid = _HEADER.unpack_from(self._buffer)
            if len(self._buffer) < length:
                return
            body, self._buffer = self._buffer[_HEADER.size : length], self._buffer[length:]
            message = _message(kind, xid, body)
            if message is not None:
                yield message


def _message(kind: int, xid: int, body: bytes) -> SwitchMessage | None:
    if kind == BARRIER_REPLY:
        return BarrierReply(xid=xid)
    if kind == ERROR:
        what, code = struct.unpack_from("!HH", body)
        return ErrorMessage(xid=xid, type=what, code=code)
    if kind == ECHO_REQUEST:
        return EchoRequest(reply=message(ECHO_REPLY, xid, body))
    if kind == PORT_STATUS:
        (port,) = struct.unpack_from("!I", body, 8)
        config, state = struct.unpack_from("!II", body, 8 + 32)
        return PortStatus(port=port, up=not (config & _PORT_DOWN_CONFIG or state & _LINK_DOWN_STATE))
    return None
