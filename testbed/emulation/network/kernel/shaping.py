"""What holds an interface to a rate, with a queue before it (rtnetlink messages)."""

import struct

from testbed.emulation.network.kernel.rtnetlink import (
    NLM_F_CREATE,
    NLM_F_REPLACE,
    ROOT,
    RTM_NEWQDISC,
    TOKEN_BUCKET,
    Message,
    attribute,
    tc_header,
    text,
    token_bucket,
)
from testbed.faults.impaired_link import queue_bytes

_BURST_S = 0.002
_MOST = 0x7FFFFFFF
_ETHERNET_BYTES = 14


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
        body = tc_header(index, 0, TOKEN_BUCKET | 1) + text(1, "pfifo") + attribute(2, struct.pack("=I", packets))
        made.append((RTM_NEWQDISC, NLM_F_CREATE | NLM_F_REPLACE, body))
    return made
