"""Generates the headers of a stream's frames with Scapy."""

import struct
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from fec.errors import FecError
from fec.protocol.wire import STREAM_UDP_PORT

MAX_UDP_PAYLOAD = 65507

_ETHERNET_BYTES = 14
_IP_BYTES = 20
_UDP_BYTES = 8

# Offsets of fields in the frame.
_IP_LENGTH = _ETHERNET_BYTES + 2
_IP_CHECKSUM = _ETHERNET_BYTES + 10
_UDP_LENGTH = _ETHERNET_BYTES + _IP_BYTES + 4


@dataclass(frozen=True, kw_only=True)
class FrameTemplate:
    """The frames of a stream from one host to another.

    A frame has Ethernet, IPv4 and UDP headers. The UDP source port is the label of the packet.

    ``FrameSender`` calls ``headers_for`` once for each size, and then writes the label of each
    packet (2 bytes, big endian) at ``label_offset``. The UDP checksum is 0, which IPv4 permits, so
    that a new label or payload requires no sum over the packet. Scapy generates the headers once;
    the size only affects two lengths and the checksum of the IP header (RFC 1071).

    Attributes:
        src_mac: MAC address of the source.
        dst_mac: MAC address of the next IP node.
        src_ip: IPv4 address of the source.
        dst_ip: IPv4 address of the sink.
        udp_port: UDP destination port.
        label_offset: Position of the label in a frame.
        header_bytes: Length of all headers.

    >>> template = FrameTemplate(
    ...     src_mac="02:00:00:00:00:01",
    ...     dst_mac="02:00:00:00:00:02",
    ...     src_ip="10.0.0.1",
    ...     dst_ip="10.0.0.2",
    ... )
    >>> frame = Ether(template.frame(40503, b"payload"))
    >>> frame[UDP].sport, frame[UDP].len, frame[IP].len
    (40503, 15, 35)
    """

    src_mac: str
    dst_mac: str
    src_ip: str
    dst_ip: str
    udp_port: int = STREAM_UDP_PORT
    label_offset: ClassVar[int] = _ETHERNET_BYTES + _IP_BYTES
    header_bytes: ClassVar[int] = _ETHERNET_BYTES + _IP_BYTES + _UDP_BYTES

    def headers_for(self, payload_bytes: int) -> bytes:
        """Return the 42 bytes of headers for a payload of this size, with label 0.

        Raises:
            FecError: The payload is too long for a datagram.
        """
        if not 0 <= payload_bytes <= MAX_UDP_PAYLOAD:
            raise FecError(
                f"payload of {payload_bytes} bytes: a UDP datagram holds 0..{MAX_UDP_PAYLOAD}"
            )
        headers = bytearray(_empty_frame(self))
        struct.pack_into(">H", headers, _IP_LENGTH, _IP_BYTES + _UDP_BYTES + payload_bytes)
        struct.pack_into(">H", headers, _UDP_LENGTH, _UDP_BYTES + payload_bytes)
        # The checksum covers the IP header with a checksum of 0.
        struct.pack_into(">H", headers, _IP_CHECKSUM, 0)
        total = sum(struct.unpack_from(">10H", headers, _ETHERNET_BYTES))
        while total >> 16:
            total = (total & 0xFFFF) + (total >> 16)
        struct.pack_into(">H", headers, _IP_CHECKSUM, ~total & 0xFFFF)
        return bytes(headers)

    def frame(self, label: int, payload: bytes) -> bytes:
        """Return one complete frame.

        Args:
            label: The label, from 0 to 65535.
            payload: The payload of the datagram.

        Raises:
            FecError: The label or the length of the payload is out of range.
        """
        if not 0 <= label <= 0xFFFF:
            raise FecError(f"label {label} does not fit into a UDP port: give 0..65535")
        frame = bytearray(self.headers_for(len(payload)))
        struct.pack_into(">H", frame, self.label_offset, label)
        return bytes(frame) + payload


@lru_cache
def _empty_frame(template: FrameTemplate) -> bytes:
    """Return a frame without a payload."""
    ip = IP(src=template.src_ip, dst=template.dst_ip, flags="DF", id=0, ttl=64, len=28)
    udp = UDP(sport=0, dport=template.udp_port, len=8, chksum=0)
    return bytes(Ether(src=template.src_mac, dst=template.dst_mac) / ip / udp)
