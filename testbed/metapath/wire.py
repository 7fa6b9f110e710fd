"""The bytes of FT-DRB's packets and of the reports that acknowledge them. Big endian; what is not ours decodes to
None."""

import struct
from collections.abc import Sequence

from testbed.metapath.source import PacketAck

_FRONT = struct.Struct(">BBHIQ")
"""magic, path (of a report: entries), zero, its number, microseconds since the stream's start."""
_ENTRY = struct.Struct(">IIH")
"""packet number, latency in microseconds, dead link (0xFFFF: none)."""
_PACKET_MAGIC, _REPORT_MAGIC, _NO_LINK = 0xFD, 0xFE, 0xFFFF
PACKET_BYTES = _FRONT.size
MAX_ENTRIES = 120


def encode_packet(number: int, path: int, sent_s: float, size_bytes: int) -> bytes:
    """A packet of ``size_bytes`` (PACKET_BYTES at least)."""
    front = _FRONT.pack(_PACKET_MAGIC, path, 0, number, max(0, round(sent_s * 1e6)))
    return front + bytes(size_bytes - _FRONT.size)


def decode_packet(data: bytes) -> tuple[int, int, float] | None:
    """(number, path, when it was sent) or None."""
    if len(data) < _FRONT.size:
        return None
    magic, path, zero, number, sent_us = _FRONT.unpack_from(data)
    return (number, path, sent_us / 1e6) if magic == _PACKET_MAGIC and not zero else None


def encode_report(number: int, made_s: float, acknowledged: Sequence[PacketAck]) -> bytes:
    """A report of at most MAX_ENTRIES packets."""
    front = _FRONT.pack(_REPORT_MAGIC, len(acknowledged), 0, number, max(0, round(made_s * 1e6)))
    return front + b"".join(
        _ENTRY.pack(
            one.number,
            min(0xFFFFFFFF, max(0, round(one.latency_s * 1e6))),
            _NO_LINK if one.dead_link is None else one.dead_link,
        )
        for one in acknowledged
    )


def decode_report(data: bytes) -> tuple[float, list[PacketAck]] | None:
    """(when it was made, what it acknowledges) or None."""
    if len(data) < _FRONT.size:
        return None
    magic, count, zero, _, made_us = _FRONT.unpack_from(data)
    if magic != _REPORT_MAGIC or zero or len(data) != _FRONT.size + count * _ENTRY.size:
        return None
    entries = _ENTRY.iter_unpack(data[_FRONT.size :])
    return made_us / 1e6, [
        PacketAck(number=n, latency_s=us / 1e6, dead_link=None if link == _NO_LINK else link)
        for n, us, link in entries
    ]


class Acknowledger:
    """The receiver's side: what came, and the reports about it; each packet is listed in the next few reports.

    ``interval_s``: between reports; one is made also where nothing came, so that the source can tell silence from a cut
    return path. ``repeats``: in how many reports a packet is listed.
    """

    def __init__(self, *, interval_s: float = 0.01, repeats: int = 3) -> None:
        self._interval_s, self._repeats = interval_s, repeats
        self._listed: list[tuple[int, PacketAck]] = []
        self._number = 0
        self.next_s = 0.0

    def receive(self, number: int, sent_s: float, arrived_s: float, dead_link: int | None) -> None:
        """A packet has come."""
        latency_s = max(0.0, arrived_s - sent_s)
        self._listed.append(
            (self._repeats, PacketAck(number=number, latency_s=latency_s, dead_link=dead_link))
        )

    def report_due(self, now_s: float) -> bytes | None:
        """The report that is due, else None. Call after all that has arrived was taken."""
        if now_s < self.next_s:
            return None
        following_s = self.next_s + self._interval_s
        self.next_s = following_s if following_s > now_s else now_s + self._interval_s
        listed = self._listed[-MAX_ENTRIES:]
        data = encode_report(self._number, now_s, [one for _, one in listed])
        self._number += 1
        self._listed = [(left - 1, one) for left, one in listed if left > 1]
        return data
