"""What theory says of a trial: packets that do not come, before and after the code, and bytes on the wire."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fec.protocol.events.event_sender import FEW, FRAMING, PATIENCE
from fec.protocol.wire import HEADER_BYTES
from testbed.stream.prediction.active_faults import mean_share_lost, path_losses
from testbed.stream.prediction.block_size_policy import block_size_policy, largest_block
from testbed.tunnel.ends import short_blocks
from testbed.tunnel.plan import FRAME_HEADERS_BYTES
from testbed.tunnel.trial import TrialPlan

OVERHEAD_BYTES = FRAME_HEADERS_BYTES + HEADER_BYTES + FRAMING.size
"""Of each packet, beside itself."""


@dataclass(frozen=True, kw_only=True)
class RivalPrediction:
    """``original_loss``: the share of packets that the network loses, taken over time; ``most_loss``: the share that
    may be lost after the code, at most; 0 where every failure is stood. ``block_size``: N at that time: what the
    failure of whole cables asks for as long as it lasts; of partial ones, whose cables a sender cannot name, what the
    share that is lost asks for, held for ``hold_s`` longer."""

    original_loss: float
    most_loss: float
    block_size: Callable[[float], int]
    parity: Callable[[int, int], int]

    def wire_bytes(self, plan: TrialPlan, offered: Any) -> float:
        """Of the packets offered (records of ``PACKETS``), those of their parity and all headers; without late
        parity."""
        total, tunnel = 0.0, plan.tunnel
        times, sizes, m = offered["at_s"], offered["bytes"], tunnel.there.stream.source_packets
        at = 0
        while at < len(times):
            until = times[at] + tunnel.flush_s
            stop = max(int(np.searchsorted(times, until, "right")), at + 1)
            if stop - at < FEW:
                last = int(np.searchsorted(times, times[at] + PATIENCE * tunnel.flush_s, "right"))
                stop = max(stop, min(at + FEW, last))
            stop = min(stop, at + m)
            block = sizes[at:stop].astype(float) + OVERHEAD_BYTES
            total += (
                block.sum() + self.parity(stop - at, self.block_size(times[stop - 1])) * block.max()
            )
            at = stop
        return total


def predict_rival(plan: TrialPlan, rival: str) -> RivalPrediction:
    """Of ``direct`` only what is lost."""
    epochs, stream = plan.epochs(), plan.tunnel.there.stream
    m = stream.source_packets
    split = plan.direct if rival == "direct" else plan.tunnel.there.forward
    share = 0.0
    for epoch in epochs:
        share += mean_share_lost(split, epoch.broken) * epoch.lasts_s / plan.duration_s
    if rival in ("direct", "none"):
        return RivalPrediction(
            original_loss=share, most_loss=share, block_size=lambda _: m, parity=lambda k, n: 0
        )
    short = short_blocks(plan.tunnel.there, pairs=rival == "adaptive")
    largest = short.whole if rival == "static" else largest_block(plan.tunnel.there)
    policy = block_size_policy(plan.tunnel.there)
    base = short.whole if rival == "static" else policy.base
    partial = [
        one
        for one in epochs
        if any(0 < loss < 1 for loss in path_losses(plan.tunnel.there.forward, one.broken))
    ]
    shares = [(one.start_s, one.stop_s + stream.hold_s, policy(one.loss)) for one in partial]

    def block_size(at_s: float) -> int:
        now = next((epoch for epoch in epochs if epoch.start_s <= at_s < epoch.stop_s), epochs[-1])
        held = max(
            (size for start_s, stop_s, size in shares if start_s <= at_s < stop_s), default=m
        )
        return min(largest, max(base, held, m if now in partial else now.needed))

    def parity(k: int, size: int) -> int:
        return size - m if k == m else short.parity(k, size)

    beyond = (
        sum(epoch.loss * epoch.lasts_s for epoch in epochs if epoch.needed > largest)
        / plan.duration_s
    )
    return RivalPrediction(
        original_loss=share, most_loss=beyond, block_size=block_size, parity=parity
    )
