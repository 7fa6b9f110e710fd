"""Figures with which experiments compare streams, computed from the logs of both ends."""

import numpy as np

from testbed.stream.measurements import StreamMeasurements
from testbed.stream.plan import StreamPlan
from topologies import JsonObject


def stream_outcome(plan: StreamPlan, run: StreamMeasurements) -> JsonObject:
    """Return overhead, losses and delays of one stream, from the logs of both ends.

    Returns:
        Fractions of the number of source packets:

        - ``overhead``: packets sent in addition to the source packets.
        - ``wasted``: parity packets that arrived and were not needed.
        - ``late``: source packets that neither arrived nor were recovered in time.

        Other figures:

        - ``undecodable``: fraction of the blocks that were not decoded in time.
        - ``blocks``: number of blocks.
        - ``first_decode_s``: for each failure, the time from its beginning until the first block
          was decoded that began during the failure; None if none was decoded before the repair.
    """
    source = int((run.sent.symbol < plan.stream.source_packets).sum())
    late = int(run.blocks.late_source_packets.sum())
    first_decode_s = []
    for times in run.faults:
        first_decode_s.append(_first_decode_s(run, times.start_s, times.stop_s))
    return {
        "overhead": len(run.sent.symbol) / source - 1,
        "wasted": float(run.counters.get("unused_parity", 0)) / source,
        "late": late / source,
        "undecodable": float(run.never_complete.mean()),
        "blocks": len(run.blocks.block),
        "first_decode_s": first_decode_s,
    }


def _first_decode_s(run: StreamMeasurements, start_s: float, stop_s: float) -> float | None:
    blocks = run.blocks
    during = (blocks.started_s >= start_s) & (blocks.started_s < stop_s)
    decoded_s = blocks.complete_s[during & ~run.never_complete]
    first_s = float(np.min(decoded_s, initial=np.inf))
    if first_s >= stop_s:
        return None
    return first_s - start_s
