"""How a stream fared, from the logs of both ends: what experiments compare streams by."""

import numpy as np

from testbed.stream.measurements import StreamMeasurements
from testbed.stream.plan import StreamPlan
from topologies import JsonObject


def stream_outcome(plan: StreamPlan, run: StreamMeasurements) -> JsonObject:
    """How one stream fared, from the logs of both ends. Fractions are of the source packets but for ``undecodable`` (of
    the blocks).

    ``overhead``: packets sent beyond the source packets; ``wasted``: parity that came and was not needed; ``late``:
    source packets that neither came nor were recovered in time. ``first_decode_s``: for each failure, how long after it
    the first block begun since was decoded (None: none was before the repair).
    """
    m, blocks = plan.stream.source_packets, run.blocks
    source = int((run.sent.symbol < m).sum())
    late = int(blocks.late_source_packets.sum())
    return {
        "overhead": len(run.sent.symbol) / source - 1,
        "wasted": float(run.counters.get("unused_parity", 0)) / source,
        "late": late / source,
        "undecodable": float(run.never_complete.mean()),
        "blocks": len(blocks.block),
        "first_decode_s": [
            _first_decode_s(run, times.start_s, times.stop_s) for times in run.faults
        ],
    }


def _first_decode_s(run: StreamMeasurements, start_s: float, stop_s: float) -> float | None:
    blocks = run.blocks
    done = blocks.complete_s[(blocks.started_s >= start_s) & (blocks.started_s < stop_s)]
    done = done[~np.isnan(done)]
    first = float(done.min()) if len(done) else float("inf")
    return first - start_s if first < stop_s else None
