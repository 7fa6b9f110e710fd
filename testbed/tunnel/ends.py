"""The two ends of a tunnel's direction, configured from its plan, and what of a packet names its flow; pure."""

import itertools
from functools import lru_cache

from fec.code.variable_lengths import VariableLengthCode
from fec.protocol.events.event_receiver import EventReceiver
from fec.protocol.events.event_sender import EventPolicy, EventSender, flow_of
from fec.redundancy.block_size_control import BlockSizeControl, fixed_block_size
from fec.redundancy.labels import LABELS
from fec.redundancy.short_blocks import ShortBlocks
from testbed.stream.endpoints import (
    block_size_control,
    label_sequence,
    receiver_parameters,
    sender_parameters,
)
from testbed.stream.plan import StreamPlan
from testbed.stream.prediction.active_faults import candidate_table
from testbed.stream.prediction.block_size_policy import block_size_policy
from testbed.stream.prediction.loss_by_path import path_of_label
from testbed.tunnel.plan import TunnelPlan

_short_blocks = lru_cache(maxsize=16)(ShortBlocks)
_MOST_PAIRS = 300
_WITH_PORTS = (6, 17)
_FRAGMENT = 0x3FFF
"""More fragments, or an offset: only the first fragment has ports."""


def short_blocks(plan: StreamPlan, *, pairs: bool) -> ShortBlocks:
    """For the failure of each cable; with ``pairs`` (of a sender that adapts) of any two as well, unless they are too
    many, and at rest less."""
    table = candidate_table(plan.forward)
    masks = [
        mask for one, mask in zip(table.candidates, table.masks, strict=True) if one.cables == 1
    ]
    if pairs and len(masks) * (len(masks) - 1) // 2 <= _MOST_PAIRS:
        masks += [a | b for a, b in itertools.combinations(masks, 2)]
    sets = [
        table.intervals_in(mask) for mask in dict.fromkeys(masks) if table.labels_in(mask) < LABELS
    ]
    rest = block_size_policy(plan).base if pairs else 0
    return _short_blocks(tuple(sets), plan.stream.source_packets, plan.stream.label_rule, rest)


def build_sender(tunnel: TunnelPlan, key: bytes | None) -> EventSender:
    """Return the sender of the direction ``tunnel.there``; without a key it seals nothing."""
    plan, stream, adaptive = tunnel.there, tunnel.there.stream, tunnel.mode == "adaptive"
    control: BlockSizeControl = fixed_block_size(stream.source_packets)
    policy = EventPolicy(parity_of=lambda k, size: 0, flush_s=tunnel.flush_s)
    if tunnel.mode != "none":
        short = short_blocks(plan, pairs=adaptive)
        policy = EventPolicy(parity_of=short.parity, flush_s=tunnel.flush_s)
        control = (
            block_size_control(plan, interleaved=False)
            if adaptive
            else fixed_block_size(short.whole)
        )
    parameters = sender_parameters(plan, key, adaptive=adaptive)
    code = VariableLengthCode(stream.source_packets)
    return EventSender(
        parameters, code, label_sequence(plan), control, policy, path_of_label(plan.forward)
    )


def build_receiver(tunnel: TunnelPlan, key: bytes | None) -> EventReceiver:
    """Return the receiver of the direction ``tunnel.back``; without a key it checks no seal."""
    code = VariableLengthCode(tunnel.back.stream.source_packets)
    return EventReceiver(receiver_parameters(tunnel.back, key), code, tunnel.order_s)


def is_ipv4(packet: bytes) -> bool:
    """Whether it is a packet that a tunnel carries."""
    return len(packet) >= 20 and packet[0] >> 4 == 4


def flow_of_packet(packet: bytes) -> int:
    """0 to 255, from protocol, addresses and, where it has them, ports of an IPv4 packet (20 bytes or more).

    >>> ping = bytes.fromhex("45000054000040004001f1a60a000001ac1e0102") + bytes(64)
    >>> flow_of_packet(ping) == flow_of_packet(ping[:40]) != flow_of_packet(ping[:9] + bytes([17]) + ping[10:])
    True
    """
    protocol, header_bytes = packet[9], 4 * (packet[0] & 15)
    whole = not int.from_bytes(packet[6:8], "big") & _FRAGMENT
    ports = packet[header_bytes : header_bytes + 4] if protocol in _WITH_PORTS and whole else b""
    return flow_of(bytes([protocol]), packet[12:20], ports)
