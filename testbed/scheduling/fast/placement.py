"""First fit: transfers are put into time frames one after another, in several orders."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from testbed.jit import compiled_entry
from testbed.model.schedule import Schedule
from testbed.model.traffic import Traffic
from testbed.scheduling.fast.steps import Ints, LinkSets, first_fit

FIRST_FIT = compiled_entry(first_fit)

Frames = npt.NDArray[np.int32]


def link_sets(traffic: Traffic) -> LinkSets:
    """Return the links of each transfer."""
    return LinkSets(traffic.offsets, traffic.indices, len(traffic.links))


def placement_orders(traffic: Traffic) -> Iterator[Ints]:
    """Yield orders in which transfers are placed.

    If the ends are known, the first order is by cyclic shifts. The last order begins with the
    transfers over the most loaded links.
    """
    if len(traffic.ends):
        shift = _cyclic_shifts(traffic)
        yield np.argsort(shift, kind="stable").astype(np.int64)
    loads = traffic.loads[traffic.indices].astype(np.float64)
    starts = traffic.offsets[:-1]
    greatest_load = np.maximum.reduceat(loads, starts)
    total_load = np.add.reduceat(loads, starts)
    yield np.lexsort((-total_load, -greatest_load)).astype(np.int64)


def _cyclic_shifts(traffic: Traffic) -> Ints:
    """Return the cyclic distance from source to sink; nodes are numbered as they first appear."""
    source_names, sink_names = zip(*traffic.ends, strict=True)
    sources = dict.fromkeys(source_names)
    sinks = dict.fromkeys(sink_names)
    if sources.keys() & sinks.keys():
        # The same nodes send and receive, so they have the same numbers on both sides.
        sources = sources | sinks
        sinks = sources
    first = _positions(source_names, sources)
    last = _positions(sink_names, sinks)
    shift: Ints = (last - first) % max(len(sources), len(sinks))
    return shift


def _positions(names: Sequence[str], numbered: Iterable[str]) -> Ints:
    """Return the position of each name in ``numbered``."""
    position = {name: number for number, name in enumerate(numbered)}
    return np.fromiter(map(position.__getitem__, names), dtype=np.int64, count=len(names))


def fit_first(traffic: Traffic, order: Ints, frames: int) -> Frames:
    """Put each transfer into the first frame in which all its links are free.

    Args:
        traffic: The traffic.
        order: The transfers in the order in which they are placed.
        frames: Number of frames.

    Returns:
        The frame of each transfer, or -1 if none of the frames is free.
    """
    frame_of = np.full(len(traffic), -1, dtype=np.int32)
    FIRST_FIT(link_sets(traffic), order, frames, frame_of)
    return frame_of


def shortest_first_fit(traffic: Traffic, orders: Iterable[Ints]) -> Schedule:
    """Return the shortest schedule by first fit in these orders, with as many frames as it needs.

    Args:
        traffic: The traffic.
        orders: Orders of the transfers, at least one.
    """
    bound = traffic.bottleneck_load
    longest_path = int(np.diff(traffic.offsets).max())
    # Each link of a transfer is in use in at most bound - 1 other frames.
    max_frames = int(min(len(traffic), (bound - 1) * longest_path + 1))
    schedules = []
    for order in orders:
        frame_of = fit_first(traffic, order, max_frames)
        schedules.append(Schedule.of(frame_of, bound, method="liquid", detail="first fit"))
    return min(schedules, key=lambda schedule: schedule.length)
