"""Blocks that a sender chose wrongly, because it took delayed packets for lost.

The sender began such a block with a wrong N, or sent late parity for it.
"""

import numpy as np

from testbed.stream.measurements import (
    BoolArray,
    FloatArray,
    StreamMeasurements,
)
from testbed.stream.options import StreamParameters


def spurious_loss_intervals(run: StreamMeasurements, stream: StreamParameters) -> FloatArray:
    """Return the times in which the sender treated packets as lost that arrived later.

    A span ends with the second report after the arrival: the first corrects the loss, and after the
    second the sender has diagnosed the labels again. If no report corrects the loss, the span lasts
    for the time of the playback buffer.

    Returns:
        Begin and end of each span in seconds, shape (spans, 2). Spans are sorted by their begin,
        and their ends do not decrease.
    """
    news = run.news
    arrived = np.isin(news.block * 256 + news.symbol, run.received.key)
    began_s = news.lost_s[arrived]
    corrected_s = news.came_s[arrived]
    reported_s = np.where(np.isfinite(corrected_s), corrected_s, began_s + stream.playback_s)
    next_report = np.searchsorted(news.told_s, reported_s, side="right")
    later_s = np.append(news.told_s, np.inf)[next_report]
    ended_s = np.where(np.isfinite(later_s), later_s, reported_s + stream.report_interval_s)
    order = np.argsort(began_s)
    return np.stack([began_s[order], np.maximum.accumulate(ended_s[order])], axis=1)


def spurious_loss_blocks(run: StreamMeasurements, stream: StreamParameters) -> BoolArray:
    """Return which blocks a misinformed sender began or sent late parity for, shape (blocks,).

    Late parity counts until one playback time after the end of a span, because late parity is sent
    for up to that time after the sender decides on it.
    """
    spans = spurious_loss_intervals(run, stream)
    block = run.block_index
    late = run.sent.symbol >= run.initial_block_size[block]
    late &= _within(run.sent.time_s, spans, stream.playback_s)
    affected = _within(run.blocks.started_s, spans, 0.0)
    affected[block[late]] = True
    return affected


def _within(times_s: FloatArray, spans: FloatArray, longer_s: float) -> BoolArray:
    if not len(spans):
        return np.zeros(len(times_s), dtype=np.bool_)
    span = np.searchsorted(spans[:, 0], times_s, side="right") - 1
    return np.asarray((span >= 0) & (times_s <= spans[span, 1] + longer_s))
