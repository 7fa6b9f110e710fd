"""The headers of the stream's frames, designed by Scapy once for each size; the data path patches them."""

import struct
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from fec.errors import FecError
from fec.protocol.wire import STREAM_UDP_PORT

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
            raise FecError(
                f"payload of {payload_bytes} bytes: a UDP datagram holds 0..{MAX_UDP_PAYLOAD}"
            )
        found = bytearray(_empty_frame(self))
        struct.pack_into(">H", found, _IP_LENGTH, 28 + payload_bytes)
        struct.pack_into(">H", found, _UDP_LENGTH, 8 + payload_bytes)
        total = sum(struct.unpack_from(">10H", found, 14)) - int.from_bytes(
            found[_IP_SUM : _IP_SUM + 2], "big"
        )
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
