"""Builds the coded sender and receiver at the ends of a tunnel, and classifies packets by flow.

This module opens no sockets and reads no clocks, so virtual time uses it as well as real hosts.
"""

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

# Both ends of a tunnel and its predictions ask for the same tables, which take long to compute.
_short_blocks = lru_cache(maxsize=16)(ShortBlocks)
# Beyond this number of pairs of cables, the tables would take seconds to compute.
_MAX_CABLE_PAIRS = 300
# IP protocol numbers whose headers begin with two port numbers: TCP and UDP.
_PROTOCOLS_WITH_PORTS = (6, 17)
# The bit "more fragments" and the fragment offset. Only the first fragment contains the ports, so
# the ports of fragments are ignored. Then all fragments of a packet belong to one flow.
_FRAGMENT_BITS = 0x3FFF


def short_blocks(plan: StreamPlan, *, pairs: bool) -> ShortBlocks:
    """Return the parity of blocks with fewer than M packets, for the failure of each cable.

    Args:
        plan: The direction of the tunnel that the blocks are sent in.
        pairs: The sender adapts: blocks also tolerate the failure of any two cables, unless
            there are too many pairs, and have less parity outside faults.
    """
    table = candidate_table(plan.forward)
    masks = []
    for candidate, mask in zip(table.candidates, table.masks, strict=True):
        if candidate.cables == 1:
            masks.append(mask)
    pair_count = len(masks) * (len(masks) - 1) // 2
    if pairs and pair_count <= _MAX_CABLE_PAIRS:
        masks += [first | second for first, second in itertools.combinations(masks, 2)]
    lost_labels = []
    for mask in dict.fromkeys(masks):
        # No code helps if the failure affects every label.
        if table.labels_in(mask) < LABELS:
            lost_labels.append(table.intervals_in(mask))
    base_size = 0
    if pairs:
        base_size = block_size_policy(plan).base
    stream = plan.stream
    return _short_blocks(tuple(lost_labels), stream.source_packets, stream.label_rule, base_size)


def build_sender(tunnel: TunnelPlan, key: bytes | None) -> EventSender:
    """Return the sender of the direction ``tunnel.there``; without a key packets are unsigned."""
    plan = tunnel.there
    stream = plan.stream
    adaptive = tunnel.mode == "adaptive"
    control: BlockSizeControl
    if tunnel.mode == "none":
        control = fixed_block_size(stream.source_packets)
        policy = EventPolicy(parity_of=_no_parity, flush_s=tunnel.flush_s)
    else:
        short = short_blocks(plan, pairs=adaptive)
        policy = EventPolicy(parity_of=short.parity, flush_s=tunnel.flush_s)
        if adaptive:
            control = block_size_control(plan, interleaved=False)
        else:
            control = fixed_block_size(short.whole)
    parameters = sender_parameters(plan, key, adaptive=adaptive)
    code = VariableLengthCode(stream.source_packets)
    return EventSender(
        parameters, code, label_sequence(plan), control, policy, path_of_label(plan.forward)
    )


def _no_parity(source_packets: int, block_size: int) -> int:
    return 0


def build_receiver(tunnel: TunnelPlan, key: bytes | None) -> EventReceiver:
    """Return the receiver of the direction ``tunnel.back``; without a key it accepts any sender."""
    code = VariableLengthCode(tunnel.back.stream.source_packets)
    return EventReceiver(receiver_parameters(tunnel.back, key), code, tunnel.order_s)


def is_ipv4(packet: bytes) -> bool:
    """Return whether this is an IPv4 packet, the only kind that a tunnel carries."""
    return len(packet) >= 20 and packet[0] >> 4 == 4


def flow_of_packet(packet: bytes) -> int:
    """Return the flow (0 to 255) of an IPv4 packet of 20 bytes or more.

    The flow is derived from the protocol, the addresses and, for TCP and UDP, the ports.

    >>> ping = bytes.fromhex("45000054000040004001f1a60a000001ac1e0102") + bytes(64)
    >>> other_protocol = ping[:9] + bytes([17]) + ping[10:]
    >>> flow_of_packet(ping) == flow_of_packet(ping[:40]) != flow_of_packet(other_protocol)
    True
    """
    protocol = packet[9]
    header_bytes = 4 * (packet[0] & 15)
    is_fragment = int.from_bytes(packet[6:8], "big") & _FRAGMENT_BITS != 0
    ports = b""
    if protocol in _PROTOCOLS_WITH_PORTS and not is_fragment:
        ports = packet[header_bytes : header_bytes + 4]
    return flow_of(bytes([protocol]), packet[12:20], ports)
