"""How many packets a second this machine can stream at its ease: measured on the sender and receiver themselves."""

import time

from fec import ReedSolomonCode
from fec.protocol.receiver import StreamReceiver
from fec.protocol.receiver_types import ReceiverParameters
from fec.protocol.sender import SenderParameters, StreamSender
from fec.redundancy.block_size_control import fixed_block_size
from fec.redundancy.labels import StratifiedLabels

SHARE = 0.04
"""Of one processor, for both ends together: the switches need many times as much for the packet's way."""
_M, _SYMBOL_BYTES, _BLOCKS = 20, 256, 25
STEPS_PPS = (1000.0, 500.0, 250.0, 125.0)


def affordable_rate_pps() -> float:
    """Source packets a second: the largest of STEPS_PPS at which both ends take no more than SHARE of a processor.

    Takes a few hundredths of a second; the best of three runs counts, so that a busy moment does not.
    """
    cost_s = min(_seconds_per_source_packet() for _ in range(3))
    return next((rate for rate in STEPS_PPS if rate * cost_s <= SHARE), STEPS_PPS[-1])


def _seconds_per_source_packet() -> float:
    code = ReedSolomonCode(source_packets=_M)
    payload = bytes(_SYMBOL_BYTES - 2)
    sender = StreamSender(
        SenderParameters(source_packets=_M, symbol_bytes=_SYMBOL_BYTES, rate_pps=1000.0),
        code,
        StratifiedLabels(),
        fixed_block_size(_M + 8),
        lambda index: payload,
    )
    receiver = StreamReceiver(
        ReceiverParameters(source_packets=_M, symbol_bytes=_SYMBOL_BYTES), code
    )
    began, now, packets = time.perf_counter(), 0.0, _M * _BLOCKS
    while now < packets / 1000:
        now = sender.next_due_s()
        for packet in sender.packets_due(now):
            if packet.symbol % 4:  # a quarter is lost, so that blocks are decoded
                receiver.receive(packet.data, now)
        receiver.reports_due(now)
    return (time.perf_counter() - began) / packets
