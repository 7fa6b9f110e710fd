"""What holds an interface to a rate, with a queue before it (rtnetlink messages)."""

import struct

from testbed.emulation.network.kernel.rtnetlink import (
    ROOT,
    Message,
    attribute,
    new_queue,
    number,
    rate_spec,
    tick_ns,
)
from testbed.faults.impaired_link import queue_bytes

_BURST_S = 0.002
_MOST = 0x7FFFFFFF
_ETHERNET_BYTES = 14


TOKEN_BUCKET = 0x100000
"""Handle of every such queue."""


def token_bucket(index: int, *, rate_bps: float, burst_bytes: int, queue_bytes: int, parent: int = ROOT) -> Message:
    """Shape what the interface sends to ``rate_bps`` (tbf), with a queue of ``queue_bytes`` before packets are
    dropped."""
    rate = max(1, round(rate_bps / 8))
    ticks = min(0xFFFFFFFF, round(burst_bytes / rate * 1e9 / tick_ns()))
    parameters = rate_spec(rate) + bytes(12) + struct.pack("=III", queue_bytes, ticks, 0)
    options = attribute(1, parameters) + number(6, burst_bytes)
    if rate > 0xFFFFFFFF:
        options += attribute(4, struct.pack("=Q", rate))
    return new_queue(index, "tbf", options, handle=TOKEN_BUCKET, parent=parent)


def burst_bytes(rate_bps: float, mtu: int) -> int:
    """What may be sent at once: 2 ms of the rate, and two packets at least."""
    return min(_MOST, max(2 * (mtu + _ETHERNET_BYTES), round(rate_bps / 8 * _BURST_S)))


def packets_waiting(rate_bps: float, mtu: int, packets: int | None) -> int:
    """What waits at most, in packets of ``mtu`` bytes; ``packets``: what the link says, if anything."""
    return packets or min(_MOST, queue_bytes(rate_bps, mtu)) // (mtu + _ETHERNET_BYTES)


def rate_queue(
    index: int, *, rate_bps: float, mtu: int, packets: int | None = None, parent: int = ROOT
) -> list[Message]:
    """Shape what the interface sends to ``rate_bps``. ``packets``: so many wait at most, whatever their size; None:
    50 ms of the rate, and 20 packets of ``mtu`` bytes at least."""
    waiting = min(_MOST, queue_bytes(rate_bps, mtu))
    burst = burst_bytes(rate_bps, mtu)
    made = [token_bucket(index, rate_bps=rate_bps, burst_bytes=burst, queue_bytes=waiting, parent=parent)]
    if packets is not None:
        made.append(new_queue(index, "pfifo", struct.pack("=I", packets), parent=TOKEN_BUCKET | 1))
    return made
