"""The stream's packets as Scapy layers: to design, dissect and print them, and to build the headers that the data path
patches.

Same bytes as ``fec.protocol.wire``; importing this module binds both layers to the stream's UDP port.
"""

import struct
import zlib
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

from scapy.fields import (
    BitEnumField,
    BitField,
    ByteField,
    FieldLenField,
    FlagsField,
    IntField,
    PacketListField,
    ShortField,
    ThreeBytesField,
    XIntField,
    XStrFixedLenField,
)
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Packet, bind_layers, bind_top_down

from fec.errors import FecError
from fec.protocol.framing import VERSION, PacketType
from fec.protocol.wire import CRC_OFFSET, STREAM_UDP_PORT

_KINDS = {int(kind): kind.name.lower() for kind in PacketType}
_KIND_MASK = 0x0F
_LENGTH_OFFSET = 18


class StreamPacket(Packet):  # type: ignore[misc,unused-ignore]
    """Coded packet; the symbol is its payload. ``kind``, ``symbol_length`` and ``crc`` are filled in when left None.

    >>> packet = StreamPacket(stream_id=7, encoding_symbol_id=21, source_packets=20, block_size=24) / b"symbol"
    >>> StreamPacket(bytes(packet)).kind
    2
    """

    name = "StreamPacket"
    fields_desc = (
        BitField("version", VERSION, 4),
        BitEnumField("kind", None, 4, _KINDS),
        FlagsField("flags", 0, 8, ["unused", "keyed", "short"]),
        ShortField("stream_id", 0),
        ThreeBytesField("source_block_number", 0),
        ByteField("encoding_symbol_id", 0),
        IntField("session", 0),
        ShortField("source_packets", 1),
        ByteField("block_size", 1),
        ByteField("path", 0),
        ShortField("path_sequence", 0),
        ShortField("symbol_length", None),
        IntField("timestamp_us", 0),
        XIntField("crc", None),
    )

    def post_build(self, pkt: bytes, pay: bytes) -> bytes:
        """Fill in what was left open, the CRC last."""
        header = bytearray(pkt)
        if self.kind is None:
            data = self.encoding_symbol_id < self.source_packets
            header[0] |= PacketType.DATA if data else PacketType.PARITY
        if self.symbol_length is None:
            header[_LENGTH_OFFSET : _LENGTH_OFFSET + 2] = len(pay).to_bytes(2, "big")
        if self.crc is None:
            header[CRC_OFFSET : CRC_OFFSET + 4] = zlib.crc32(pay, zlib.crc32(header)).to_bytes(4, "big")
        return bytes(header) + pay

    def extract_padding(self, s: bytes) -> tuple[bytes, bytes]:
        """The symbol, and what follows it (Ethernet padding)."""
        length = self.symbol_length if self.symbol_length is not None else len(s)
        return s[:length], s[length:]

    @classmethod
    def dispatch_hook(cls, _pkt: bytes | None = None, *_: Any, **__: Any) -> type[Packet]:
        """Loss reports come to the same port; the type in the first byte tells them apart."""
        if _pkt and _pkt[0] & _KIND_MASK == PacketType.REPORT:
            return StreamReport
        return cls


def _bitmap_bytes(block: Packet) -> int:
    """As its report says; of one that belongs to none yet, as it is."""
    return block.parent.bitmap_bytes if block.parent is not None else len(block.received)


class ReportedBlock(Packet):  # type: ignore[misc,unused-ignore]
    """One block of a loss report: bit e of ``received`` (big endian) is set where symbol e arrived."""

    name = "ReportedBlock"
    fields_desc = (
        IntField("block", 0),
        XStrFixedLenField("received", bytes(32), length_from=_bitmap_bytes),
    )

    def extract_padding(self, s: bytes) -> tuple[bytes, bytes]:
        """Nothing of the next block belongs to this one."""
        return b"", s


class ReportedPath(Packet):  # type: ignore[misc,unused-ignore]
    """One path of a loss report: how many of its packets are missing below the highest that came, and how many came."""

    name = "ReportedPath"
    fields_desc = (ByteField("path", 1), ThreeBytesField("lost", 0), IntField("came", 0))

    def extract_padding(self, s: bytes) -> tuple[bytes, bytes]:
        """Nothing of the next path belongs to this one."""
        return b"", s


class StreamReport(Packet):  # type: ignore[misc,unused-ignore]
    """Loss report; ``listed``, ``named`` and ``crc`` are filled in when left None."""

    name = "StreamReport"
    fields_desc = (
        BitField("version", VERSION, 4),
        BitEnumField("kind", int(PacketType.REPORT), 4, _KINDS),
        ByteField("flags", 0),
        ShortField("stream_id", 0),
        IntField("number", 0),
        IntField("newest_us", 0),
        IntField("newest_age_us", 0),
        IntField("highest_block", 0),
        IntField("received", 0),
        IntField("decoded_blocks", 0),
        IntField("undecodable_blocks", 0),
        IntField("unused_parity", 0),
        IntField("session", 0),
        FieldLenField("listed", None, count_of="blocks", fmt="B"),
        FieldLenField("named", None, count_of="paths", fmt="B"),
        ShortField("bitmap_bytes", 32),
        XIntField("crc", None),
        PacketListField("blocks", [], ReportedBlock, count_from=lambda report: report.listed),
        PacketListField("paths", [], ReportedPath, count_from=lambda report: report.named),
    )
    _CRC_AT = 44

    def post_build(self, pkt: bytes, pay: bytes) -> bytes:
        """Fill in the CRC over everything, itself taken as zero."""
        if self.crc is not None:
            return pkt + pay
        at = self._CRC_AT
        return pkt[:at] + zlib.crc32(pkt).to_bytes(4, "big") + pkt[at + 4 :] + pay


bind_layers(UDP, StreamPacket, dport=STREAM_UDP_PORT)
bind_top_down(UDP, StreamReport, dport=STREAM_UDP_PORT)


MAX_UDP_PAYLOAD = 65507
_IP_LENGTH, _IP_SUM, _UDP_LENGTH = 14 + 2, 14 + 10, 14 + 20 + 4


@dataclass(frozen=True, kw_only=True)
class FrameTemplate:
    """The frames of a stream from one host to another: Ethernet, IPv4 and UDP, with the packet's label as UDP source
    port.

    The data path asks once a size for ``headers_for``, and writes each label (2 bytes, big endian) at ``label_offset``.
    The UDP checksum is 0 (allowed in IPv4), so that a new label or payload needs no sum over the packet. Scapy designs
    the headers once; a size changes two lengths and the sum of the IP header (RFC 1071).

    >>> template = FrameTemplate(src_mac="02:00:00:00:00:01", dst_mac="02:00:00:00:00:02", src_ip="10.0.0.1",
    ...                          dst_ip="10.0.0.2")
    >>> frame = Ether(template.frame(40503, b"payload"))
    >>> frame[UDP].sport, frame[UDP].len, frame[IP].len
    (40503, 15, 35)
    """

    src_mac: str
    dst_mac: str
    src_ip: str
    dst_ip: str
    udp_port: int = STREAM_UDP_PORT
    label_offset: ClassVar[int] = 14 + 20
    header_bytes: ClassVar[int] = 14 + 20 + 8

    def headers_for(self, payload_bytes: int) -> bytes:
        """The 42 bytes in front of a payload of that size; the label is 0. FecError for a payload that no datagram
        holds."""
        if not 0 <= payload_bytes <= MAX_UDP_PAYLOAD:
            raise FecError(f"payload of {payload_bytes} bytes: a UDP datagram holds 0..{MAX_UDP_PAYLOAD}")
        found = bytearray(_empty_frame(self))
        struct.pack_into(">H", found, _IP_LENGTH, 28 + payload_bytes)
        struct.pack_into(">H", found, _UDP_LENGTH, 8 + payload_bytes)
        total = sum(struct.unpack_from(">10H", found, 14)) - int.from_bytes(found[_IP_SUM : _IP_SUM + 2], "big")
        while total >> 16:
            total = (total & 0xFFFF) + (total >> 16)
        struct.pack_into(">H", found, _IP_SUM, ~total & 0xFFFF)
        return bytes(found)

    def frame(self, label: int, payload: bytes) -> bytes:
        """One whole frame with this label (0..65535), as the data path puts it together."""
        if not 0 <= label <= 0xFFFF:
            raise FecError(f"label {label} does not fit into a UDP port: give 0..65535")
        headers, at = self.headers_for(len(payload)), self.label_offset
        return b"".join((headers[:at], label.to_bytes(2, "big"), headers[at + 2 :], payload))


@lru_cache
def _empty_frame(template: FrameTemplate) -> bytes:
    """A frame of that template without a payload."""
    ip = IP(src=template.src_ip, dst=template.dst_ip, flags="DF", id=0, ttl=64, len=28)
    udp = UDP(sport=0, dport=template.udp_port, len=8, chksum=0)
    return bytes(Ether(src=template.src_mac, dst=template.dst_mac) / ip / udp)
