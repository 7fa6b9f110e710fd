"""Ethernet, IPv4 and UDP in front of a stream's packets as patchable bytes: designed once, then only label and lengths change.

The UDP checksum is 0 (allowed in IPv4), so that a new label or payload needs no sum over the packet.
"""

from __future__ import annotations

from dataclasses import dataclass

from fec.errors import FecError

MAX_UDP_PAYLOAD = 65507


@dataclass(frozen=True, kw_only=True)
class FrameTemplate:
    """``headers``: the bytes in front of the payload, with the lengths of the payload it was built for (default: empty); offsets count from its start.

    The label is the UDP source port at ``label_offset`` (2 bytes, big endian); ``ip_offset`` is where the IPv4 header of
    20 bytes begins. ``fec.adapters.scapy_layer.frame_template`` builds it.
    """

    headers: bytes
    label_offset: int
    ip_offset: int
    ip_length_offset: int
    ip_checksum_offset: int
    udp_length_offset: int

    def headers_for(self, payload_bytes: int) -> bytes:
        """The headers with the lengths and the IPv4 checksum for a payload of that size; the label is 0.

        A sender of packets of one size asks once, keeps a bytearray and writes each label into it. FecError for a
        payload that no UDP datagram holds.
        """
        if not 0 <= payload_bytes <= MAX_UDP_PAYLOAD:
            raise FecError(f"payload of {payload_bytes} bytes: a UDP datagram holds 0..{MAX_UDP_PAYLOAD}")
        patched = bytearray(self.headers)
        self._write(patched, self.ip_length_offset, len(patched) - self.ip_offset + payload_bytes)
        self._write(patched, self.udp_length_offset, len(patched) - self.label_offset + payload_bytes)
        self._write(patched, self.ip_checksum_offset, 0)
        self._write(patched, self.ip_checksum_offset, _checksum(patched[self.ip_offset : self.ip_offset + 20]))
        return bytes(patched)

    def frame(self, label: int, payload: bytes | bytearray | memoryview) -> bytes:
        """One whole frame with this label (0..65535)."""
        if not 0 <= label <= 0xFFFF:
            raise FecError(f"label {label} does not fit into a UDP port: give 0..65535")
        headers = self.headers_for(len(payload))
        at = self.label_offset
        return b"".join((headers[:at], label.to_bytes(2, "big"), headers[at + 2 :], payload))

    @staticmethod
    def _write(headers: bytearray, offset: int, value: int) -> None:
        headers[offset : offset + 2] = value.to_bytes(2, "big")


def _checksum(header: bytes | bytearray) -> int:
    """Internet checksum (RFC 1071) of a header of even length."""
    total = sum(int.from_bytes(header[at : at + 2], "big") for at in range(0, len(header), 2))
    total = (total & 0xFFFF) + (total >> 16)
    total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF
