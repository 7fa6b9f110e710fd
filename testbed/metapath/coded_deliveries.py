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
    sent_s, key = run.sent.time_s[source], run.sent.block[source] * 256 + run.sent.symbol[source]
    got = run.received.block * 256 + run.received.symbol
    order = np.argsort(run.received.time_s, kind="stable")
    unique, first = np.unique(got[order], return_index=True)
    at = np.searchsorted(unique, key)
    there = (
        (at < len(unique)) & (unique[np.minimum(at, len(unique) - 1)] == key)
        if len(unique)
        else np.zeros(len(key), bool)
    )
    arrived = np.full(len(key), np.nan)
    arrived[there] = run.received.time_s[order][first[at[there]]]
    complete = dict(zip(run.blocks.block.tolist(), run.blocks.complete_s.tolist(), strict=True))
    decoded = np.array([complete.get(block, np.nan) for block in run.sent.block[source].tolist()])
    playable = np.fmin(arrived, np.maximum(decoded, sent_s))
    playable[playable > sent_s + plan.stream.playback_s] = np.nan
    nothing = np.zeros(len(key), dtype=np.int64)
    return MessageDeliveries(sent_s=sent_s, arrived_s=playable, path=nothing, escaped=nothing.astype(bool))
