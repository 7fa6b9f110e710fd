"""A coded stream seen as its messages: when each source packet could be played, arrived or decoded; to hold it beside
plain ones."""

import numpy as np

from testbed.metapath.analysis import MessageDeliveries
from testbed.stream.measurements import StreamMeasurements
from testbed.stream.plan import StreamPlan


def coded_deliveries(plan: StreamPlan, run: StreamMeasurements) -> MessageDeliveries:
    """Shape (source packets,): ``arrived_s`` is when it or, sooner, its block's decoding came; nan where neither did
    within the playback buffer. O((n + m) log m)."""
    source = run.sent.symbol < plan.stream.source_packets
    sent_s, arrived_s = run.sent.time_s[source], run.deliveries.arrived_s[source]
    decoded_s = run.blocks.complete_s[run.place_of_block[source]]
    playable_s = np.fmin(arrived_s, np.maximum(decoded_s, sent_s))
    playable_s[playable_s > sent_s + plan.stream.playback_s] = np.nan
    nothing = np.zeros(len(sent_s), dtype=np.int64)
    return MessageDeliveries(
        sent_s=sent_s, arrived_s=playable_s, path=nothing, escaped=nothing.astype(bool)
    )
