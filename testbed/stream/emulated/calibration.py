"""Measures the packet rate at which this machine can run both ends of a stream with ease."""

import time

from fec import ReedSolomonCode
from fec.protocol.receiver import StreamReceiver
from fec.protocol.receiver_types import ReceiverParameters
from fec.protocol.sender import SenderParameters, StreamSender
from fec.redundancy.block_size_control import fixed_block_size
from fec.redundancy.labels import StratifiedLabels

# Maximum share of one processor for both ends together. The switches need many times as much for
# the path of a packet.
SHARE = 0.04

# The rates to choose from.
STEPS_PPS = (1000.0, 500.0, 250.0, 125.0)

# The stream that is timed: M, symbol size, number of blocks and rate.
_M = 20
_SYMBOL_BYTES = 256
_BLOCKS = 25
_RATE_PPS = 1000.0

# The fastest run counts, so that a moment in which the machine is busy does not.
_RUNS = 3


def affordable_rate_pps() -> float:
    """Return the largest of STEPS_PPS at which both ends take at most SHARE of a processor.

    The unit is source packets per second. The measurement takes a few hundredths of a second. If
    every rate is too high, the lowest one is returned.
    """
    cost_s = min(_seconds_per_source_packet() for _ in range(_RUNS))
    for rate_pps in STEPS_PPS:
        if rate_pps * cost_s <= SHARE:
            return rate_pps
    return STEPS_PPS[-1]


def _seconds_per_source_packet() -> float:
    """Return the processor time of both ends per source packet."""
    code = ReedSolomonCode(source_packets=_M)
    payload = bytes(_SYMBOL_BYTES - 2)

    def content(index: int) -> bytes:
        return payload

    sender = StreamSender(
        SenderParameters(source_packets=_M, symbol_bytes=_SYMBOL_BYTES, rate_pps=_RATE_PPS),
        code,
        StratifiedLabels(),
        fixed_block_size(_M + 8),
        content,
    )
    receiver = StreamReceiver(
        ReceiverParameters(source_packets=_M, symbol_bytes=_SYMBOL_BYTES), code
    )
    packets = _M * _BLOCKS
    began_s = time.perf_counter()
    now_s = 0.0
    while now_s < packets / _RATE_PPS:
        now_s = sender.next_due_s()
        for packet in sender.packets_due(now_s):
            if packet.symbol % 4:  # A quarter is lost, so that blocks are decoded.
                receiver.receive(packet.data, now_s)
        receiver.reports_due(now_s)
    return (time.perf_counter() - began_s) / packets
