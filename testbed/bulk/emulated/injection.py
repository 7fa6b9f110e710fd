"""Packets injected for a transfer that has no circuit: raw frames that look like the transfer's own data."""

from __future__ import annotations

import socket
import struct

from testbed.bulk.circuit_rules import BULK_PORT, PROTOCOL_TCP, Pair
from testbed.emulation.network.emulated_network import EmulatedNetwork
from testbed.model.wiring import WiredHost, Wiring
from testbed.openflow.rules import ETH_IPV4

_SOURCE_PORT = 40000
_PAYLOAD = b"no circuit"


def inject(net: EmulatedNetwork, wiring: Wiring, pair: Pair, count: int) -> int:
    """Send ``count`` TCP packets to the receiver's bulk port from the sender's host; how many the interface took."""
    source, sink = wiring.host_at(pair[0]), wiring.host_at(pair[1])
    frame = data_frame(source, sink)
    with net.open_socket(source.name, socket.AF_PACKET, socket.SOCK_RAW, 0) as sock:
        sock.bind((net.interface_of(source.name), 0))
        return sum(sock.send(frame) == len(frame) for _ in range(count))


def data_frame(source: WiredHost, sink: WiredHost) -> bytes:
    """An Ethernet frame with a TCP packet to the bulk port; its checksums are right."""
    payload = _PAYLOAD
    addresses = socket.inet_aton(source.ip) + socket.inet_aton(sink.ip)
    tcp = struct.pack("!HHIIBBHHH", _SOURCE_PORT, BULK_PORT, 1, 1, 5 << 4, 0x18, 1024, 0, 0) + payload
    pseudo = addresses + struct.pack("!BBH", 0, PROTOCOL_TCP, len(tcp))
    tcp = tcp[:16] + struct.pack("!H", _checksum(pseudo + tcp)) + tcp[18:]
    ip = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(tcp), 0, 0x4000, 64, PROTOCOL_TCP, 0) + addresses
    ip = ip[:10] + struct.pack("!H", _checksum(ip)) + ip[12:]
    ethernet = bytes.fromhex((sink.mac + source.mac).replace(":", "")) + struct.pack("!H", ETH_IPV4)
    return ethernet + ip + tcp


def _checksum(data: bytes) -> int:
    padded = data + bytes(len(data) % 2)
    total: int = sum(struct.unpack(f"!{len(padded) // 2}H", padded))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF
