"""A source of constant rate and its sink, in one process with sockets of two hosts: G.711-like voice.

Packets and clock are this process's alone, so that times one way are of one clock.
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
_LINGER_S = 1.0
"""For packets under way at the end."""


_PORT = 5006
_PACKET_BYTES = 12 + 160
"""Of G.711 at 20 ms, with the RTP header (RFC 3550)."""


def voice_process(
    net: EmulatedNetwork,
    stack: ExitStack,
    hosts: tuple[WiredHost, WiredHost],
    address: str,
    duration_s: float,
) -> EndpointProcess:
    """Sends from the first host to that address of the second for so long; its result has sent_s and delay_s (inf:
    never), lists in the order of sending, and lag_s."""
    sending = stack.enter_context(
        net.open_socket(hosts[0].name, socket.AF_INET, socket.SOCK_DGRAM, 0)
    )
    taking = stack.enter_context(
        net.open_socket(hosts[1].name, socket.AF_INET, socket.SOCK_DGRAM, 0)
    )
    taking.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
    taking.bind(("0.0.0.0", _PORT))
    taking.setblocking(False)
    # The process makes the call itself, once it has the sockets.
    prepare = partial(partial, _run, sending, taking, address, duration_s)
    return EndpointProcess("voip", prepare, shared_numbers(1))


def _run(
    sending: socket.socket, taking: socket.socket, address: str, duration_s: float, start_s: float
) -> JsonObject:
    count = int(duration_s / EVERY_S)
    sent, came, worst_lag_s, n = [0.0] * count, [math.inf] * count, 0.0, 0
    while (now := time.monotonic() - start_s) < duration_s + _LINGER_S:
        due_s = n * EVERY_S
        if n < count and now >= due_s:
            worst_lag_s, sent[n] = max(worst_lag_s, now - due_s), now
            header = _RTP.pack(0x80, 0, n & 0xFFFF, n * 160 & 0xFFFFFFFF, n)
            with suppress(
                OSError
            ):  # what the host refuses (no route, a full queue) is lost like any other
                sending.sendto(header.ljust(_PACKET_BYTES, b"\x55"), (address, _PORT))
            n += 1
            continue
        until_s = due_s if n < count else duration_s + _LINGER_S
        if select.select((taking,), (), (), max(0.0, until_s - now))[0]:
            number = _RTP.unpack_from(taking.recv(2048))[4]
            if number < count and math.isinf(came[number]):
                came[number] = time.monotonic() - start_s - sent[number]
    return {"sent_s": sent, "delay_s": came, "lag_s": worst_lag_s}
