"""Predicts a trial: packets lost before and after the code, and bytes on the wire."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fec.protocol.events.event_sender import FEW, FRAMING, PATIENCE
from fec.protocol.wire import HEADER_BYTES
from testbed.stream.prediction.active_faults import Epoch, mean_share_lost, path_losses
from testbed.stream.prediction.block_size_policy import block_size_policy, largest_block
from testbed.tunnel.ends import short_blocks
from testbed.tunnel.plan import FRAME_HEADERS_BYTES
from testbed.tunnel.trial import TrialPlan

# Bytes that are sent with each packet in addition to the packet itself.
OVERHEAD_BYTES = FRAME_HEADERS_BYTES + HEADER_BYTES + FRAMING.size


@dataclass(frozen=True, kw_only=True)
class RivalPrediction:
    """The prediction for one rival.

    Attributes:
        original_loss: Share of packets that the network loses, as a mean over the run.
        most_loss: Maximum share of packets lost after the code; 0 if every failure is tolerated.
        block_size: Returns N at a time (s). While a complete cable is down, N is the size that this
            failure requires. The sender cannot identify a cable that fails partially: N is then
            the size that the share of lost packets requires, until ``hold_s`` after the repair.
        parity: Returns the number of parity packets of a block of k source packets, for k and N.
    """

    original_loss: float
    most_loss: float
    block_size: Callable[[float], int]
    parity: Callable[[int, int], int]

    def wire_bytes(self, plan: TrialPlan, offered: Any) -> float:
        """Return the bytes on the wire for the offered packets, without late parity.

        Headers and parity are included.

        Args:
            plan: The trial.
            offered: The packets offered at one end, as records of ``PACKETS``.
        """
        flush_s = plan.tunnel.flush_s
        times_s = offered["at_s"]
        sizes = offered["bytes"]
        total_bytes = 0.0
        start = 0
        while start < len(times_s):
            flush_at_s = times_s[start] + flush_s
            stop = max(int(np.searchsorted(times_s, flush_at_s, "right")), start + 1)
            if stop - start < FEW:
                # A block of few packets waits longer, until it has FEW packets.
                last_s = times_s[start] + PATIENCE * flush_s
                last = int(np.searchsorted(times_s, last_s, "right"))
                stop = max(stop, min(start + FEW, last))
            stop = min(stop, start + plan.tunnel.there.stream.source_packets)
            packet_bytes = sizes[start:stop].astype(float) + OVERHEAD_BYTES
            parity = self.parity(stop - start, self.block_size(times_s[stop - 1]))
            # A parity packet is as long as the longest packet of its block.
            total_bytes += packet_bytes.sum() + parity * packet_bytes.max()
            start = stop
        return total_bytes


def predict_rival(plan: TrialPlan, rival: str) -> RivalPrediction:
    """Return the prediction for a rival; for ``direct`` only its losses are meaningful."""
    epochs = plan.epochs()
    m = plan.tunnel.there.stream.source_packets
    split = plan.tunnel.there.forward
    if rival == "direct":
        split = plan.direct
    original_loss = 0.0
    for epoch in epochs:
        loss = mean_share_lost(split, epoch.broken)
        original_loss += loss * epoch.lasts_s / plan.duration_s
    if rival in ("direct", "none"):
        return RivalPrediction(
            original_loss=original_loss,
            most_loss=original_loss,
            block_size=lambda _: m,
            parity=lambda k, n: 0,
        )
    short = short_blocks(plan.tunnel.there, pairs=rival == "adaptive")
    if rival == "static":
        largest = short.whole
        base = short.whole
    else:
        largest = largest_block(plan.tunnel.there)
        base = block_size_policy(plan.tunnel.there).base

    def parity(k: int, size: int) -> int:
        if k == m:
            return size - m
        return short.parity(k, size)

    excess_loss = 0.0
    for epoch in epochs:
        if epoch.needed > largest:
            excess_loss += epoch.loss * epoch.lasts_s
    return RivalPrediction(
        original_loss=original_loss,
        most_loss=excess_loss / plan.duration_s,
        block_size=_block_size_over_time(plan, epochs, base, largest),
        parity=parity,
    )


def _block_size_over_time(
    plan: TrialPlan, epochs: tuple[Epoch, ...], base: int, largest: int
) -> Callable[[float], int]:
    """Return the function ``RivalPrediction.block_size`` of a coded rival.

    Args:
        plan: The trial.
        epochs: The intervals between changes of the active faults.
        base: N outside faults.
        largest: Maximum N.
    """
    stream = plan.tunnel.there.stream
    m = stream.source_packets
    policy = block_size_policy(plan.tunnel.there)
    partial_epochs = []
    # Start and stop (s), and N, of each partial failure.
    partial_sizes: list[tuple[float, float, int]] = []
    for epoch in epochs:
        losses = path_losses(plan.tunnel.there.forward, epoch.broken)
        if any(0 < loss < 1 for loss in losses):
            partial_epochs.append(epoch)
            stop_s = epoch.stop_s + stream.hold_s
            partial_sizes.append((epoch.start_s, stop_s, policy(epoch.loss)))

    def block_size(at_s: float) -> int:
        current = epochs[-1]
        for epoch in epochs:
            if epoch.start_s <= at_s < epoch.stop_s:
                current = epoch
                break
        partial_size = m
        for start_s, stop_s, size in partial_sizes:
            if start_s <= at_s < stop_s:
                partial_size = max(partial_size, size)
        required = m
        if current not in partial_epochs:
            required = current.needed
        return min(largest, max(base, partial_size, required))

    return block_size
