"""Encodes and decodes FT-DRB's packets and the reports that acknowledge them, in big endian.

Data of other protocols decodes to None.
"""

import struct
from collections.abc import Sequence

from testbed.metapath.source import PacketAck

# Magic, path (in a report: number of entries), zero, number, microseconds since the stream's start.
_HEADER = struct.Struct(">BBHIQ")
# Packet number, latency in microseconds, dead link.
_ENTRY = struct.Struct(">IIH")
_PACKET_MAGIC = 0xFD
_REPORT_MAGIC = 0xFE
_NO_LINK = 0xFFFF
_MAX_LATENCY_US = 0xFFFFFFFF
# Minimum size of a packet.
PACKET_BYTES = _HEADER.size
# Limit on the entries of a report, so that it fits into one frame.
MAX_ENTRIES = 120


def encode_packet(number: int, path: int, sent_s: float, size_bytes: int) -> bytes:
    """Encode a packet.

    Args:
        number: The number of the packet.
        path: The number of its path.
        sent_s: When it is sent, since the stream's start.
        size_bytes: Its size, at least PACKET_BYTES.
    """
    header = _HEADER.pack(_PACKET_MAGIC, path, 0, number, max(0, round(sent_s * 1e6)))
    return header + bytes(size_bytes - _HEADER.size)


def decode_packet(data: bytes) -> tuple[int, int, float] | None:
    """Decode a packet.

    Returns:
        Its number, its path, and when it was sent (s); None if the data is not a packet.
    """
    if len(data) < _HEADER.size:
        return None
    magic, path, zero, number, sent_us = _HEADER.unpack_from(data)
    if magic != _PACKET_MAGIC or zero:
        return None
    return number, path, sent_us / 1e6


def encode_report(number: int, made_s: float, acknowledged: Sequence[PacketAck]) -> bytes:
    """Encode a report.

    Args:
        number: The number of the report.
        made_s: When it was made, since the stream's start.
        acknowledged: The packets that it lists, at most MAX_ENTRIES.
    """
    made_us = max(0, round(made_s * 1e6))
    parts = [_HEADER.pack(_REPORT_MAGIC, len(acknowledged), 0, number, made_us)]
    for ack in acknowledged:
        latency_us = min(_MAX_LATENCY_US, max(0, round(ack.latency_s * 1e6)))
        dead_link = _NO_LINK
        if ack.dead_link is not None:
            dead_link = ack.dead_link
        parts.append(_ENTRY.pack(ack.number, latency_us, dead_link))
    return b"".join(parts)


def decode_report(data: bytes) -> tuple[float, list[PacketAck]] | None:
    """Decode a report.

    Returns:
        When it was made (s) and the packets that it lists; None if the data is not a report.
    """
    if len(data) < _HEADER.size:
        return None
    magic, count, zero, _, made_us = _HEADER.unpack_from(data)
    if magic != _REPORT_MAGIC or zero or len(data) != _HEADER.size + count * _ENTRY.size:
        return None
    acknowledged = []
    for number, latency_us, link in _ENTRY.iter_unpack(data[_HEADER.size :]):
        dead_link = None
        if link != _NO_LINK:
            dead_link = link
        ack = PacketAck(number=number, latency_s=latency_us / 1e6, dead_link=dead_link)
        acknowledged.append(ack)
    return made_us / 1e6, acknowledged


class Acknowledger:
    """The receiver of FT-DRB: collects packets, and makes the reports about them.

    A report is due at every interval, even if no packet arrived, so that the source can distinguish
    missing packets from a failed return path.
    """

    def __init__(self, *, interval_s: float = 0.01, repeats: int = 3) -> None:
        """Begin without packets.

        Args:
            interval_s: Time between two reports.
            repeats: Number of reports that list a packet.
        """
        self._interval_s = interval_s
        self._repeats = repeats
        # The packets to list, each with the number of reports that still list it.
        self._listed: list[tuple[int, PacketAck]] = []
        self._number = 0
        self.next_s = 0.0

    def receive(self, number: int, sent_s: float, arrived_s: float, dead_link: int | None) -> None:
        """Process the arrival of a packet.

        Args:
            number: The number of the packet.
            sent_s: When it was sent.
            arrived_s: When it arrived.
            dead_link: The link (index) that it escaped from last; None if it did not escape.
        """
        latency_s = max(0.0, arrived_s - sent_s)
        ack = PacketAck(number=number, latency_s=latency_s, dead_link=dead_link)
        self._listed.append((self._repeats, ack))

    def report_due(self, now_s: float) -> bytes | None:
        """Return the report that is due, or None.

        All packets that have arrived must be passed to ``receive`` before.
        """
        if now_s < self.next_s:
            return None
        self.next_s += self._interval_s
        if self.next_s <= now_s:
            # The process was late: leave out the reports that are overdue.
            self.next_s = now_s + self._interval_s
        listed = self._listed[-MAX_ENTRIES:]
        data = encode_report(self._number, now_s, [ack for _, ack in listed])
        self._number += 1
        self._listed = [(repeats - 1, ack) for repeats, ack in listed if repeats > 1]
        return data
