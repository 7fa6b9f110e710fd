"""Sends and receives G.711-like voice at a constant rate, in one process with sockets of two hosts.

One process has both sockets, so that one clock measures the one-way delays.
"""

import math
import select
import socket
import struct
import time
from contextlib import ExitStack, suppress
from functools import partial

from testbed.emulation.network.emulated_network import EmulatedNetwork
from testbed.emulation.sandbox.shared_counters import shared_numbers
from testbed.model.wiring import WiredHost
from testbed.stream.emulated.endpoints import EndpointProcess
from testbed.tunnel.trial import EVERY_S
from topologies import JsonObject

_RTP = struct.Struct(">BBHII")
# How long the receiver waits for packets in transit after the last one was sent.
_LINGER_S = 1.0
_PORT = 5006
# An RTP header (RFC 3550) and 20 ms of G.711.
_PACKET_BYTES = 12 + 160


def voice_process(
    net: EmulatedNetwork,
    stack: ExitStack,
    hosts: tuple[WiredHost, WiredHost],
    address: str,
    duration_s: float,
) -> EndpointProcess:
    """Create the process that sends and receives the voice packets.

    Its result has ``sent_s`` and ``delay_s`` (infinite if lost), lists in the order of sending, and
    ``lag_s``, the maximum delay of a packet by the process.

    Args:
        net: The network.
        stack: Closes the sockets.
        hosts: The sending host and the receiving host.
        address: The address of the receiving host that the packets are sent to.
        duration_s: How long packets are sent.
    """
    sender, receiver = hosts
    sending = stack.enter_context(
        net.open_socket(sender.name, socket.AF_INET, socket.SOCK_DGRAM, 0)
    )
    receiving = stack.enter_context(
        net.open_socket(receiver.name, socket.AF_INET, socket.SOCK_DGRAM, 0)
    )
    receiving.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
    receiving.bind(("0.0.0.0", _PORT))
    receiving.setblocking(False)
    # EndpointProcess calls this in its process; the result is called with the start time.
    prepare = partial(partial, _run, sending, receiving, address, duration_s)
    return EndpointProcess("voip", prepare, shared_numbers(1))


def _run(
    sending: socket.socket,
    receiving: socket.socket,
    address: str,
    duration_s: float,
    start_s: float,
) -> JsonObject:
    count = int(duration_s / EVERY_S)
    sent_s = [0.0] * count
    delay_s = [math.inf] * count
    worst_lag_s = 0.0
    next_number = 0
    while (now_s := time.monotonic() - start_s) < duration_s + _LINGER_S:
        due_s = next_number * EVERY_S
        if next_number < count and now_s >= due_s:
            worst_lag_s = max(worst_lag_s, now_s - due_s)
            sent_s[next_number] = now_s
            _send_packet(sending, address, next_number)
            next_number += 1
            continue
        until_s = duration_s + _LINGER_S
        if next_number < count:
            until_s = due_s
        readable, _, _ = select.select((receiving,), (), (), max(0.0, until_s - now_s))
        if readable:
            number = _RTP.unpack_from(receiving.recv(2048))[4]
            if number < count and math.isinf(delay_s[number]):
                delay_s[number] = time.monotonic() - start_s - sent_s[number]
    return {"sent_s": sent_s, "delay_s": delay_s, "lag_s": worst_lag_s}


def _send_packet(sending: socket.socket, address: str, number: int) -> None:
    """Send a voice packet; its number takes the place of the RTP source identifier."""
    header = _RTP.pack(0x80, 0, number & 0xFFFF, number * 160 & 0xFFFFFFFF, number)
    # A packet that the host refuses (no route, a full queue) counts as lost.
    with suppress(OSError):
        sending.sendto(header.ljust(_PACKET_BYTES, b"\x55"), (address, _PORT))
