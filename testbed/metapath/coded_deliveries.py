"""Describes a coded stream by its source packets, to compare it with uncoded streams."""

import numpy as np

from testbed.metapath.analysis import MessageDeliveries
from testbed.stream.measurements import StreamMeasurements
from testbed.stream.plan import StreamPlan


def coded_deliveries(plan: StreamPlan, run: StreamMeasurements) -> MessageDeliveries:
    """Return the fate of every source packet.

    A packet arrives when it was received, or when its block was decoded, whichever is earlier. It
    is lost if neither happens within the playback time.
    """
    source = run.sent.symbol < plan.stream.source_packets
    sent_s = run.sent.time_s[source]
    arrived_s = run.deliveries.arrived_s[source]
    decoded_s = run.blocks.complete_s[run.block_index[source]]
    playable_s = np.fmin(arrived_s, np.maximum(decoded_s, sent_s))
    playable_s[playable_s > sent_s + plan.stream.playback_s] = np.nan
    # A coded stream has no numbered paths and no escapes.
    return MessageDeliveries(
        sent_s=sent_s,
        arrived_s=playable_s,
        path=np.zeros(len(sent_s), dtype=np.int64),
        escaped=np.zeros(len(sent_s), dtype=np.bool_),
    )
