"""Time frames of bulk transfers by method: rounds in which every sender sends one message, or a schedule without congestion."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from testbed.bulk.plan import BulkTransfer
from testbed.model.traffic import Traffic
from testbed.scheduling.baselines import Order, sending_rounds
from testbed.scheduling.methods import schedule_by_name
from topologies.network import LinkId, Network

Frames = tuple[tuple[int, ...], ...]
ROUNDS: tuple[Order, ...] = ("round-robin", "random", "identical")
"""Orders of the senders alone: their rounds may congest, which is what circuits then wait for."""


def time_frames(
    network: Network,
    transfers: Sequence[BulkTransfer],
    method: str,
    *,
    seed: int,
    time_limit_s: float,
    now: Callable[[], float] | None,
) -> Frames:
    """Indices of ``transfers``, frame by frame. ``now``: a clock for methods that search against the time limit.

    InputError for an unknown method, or a network of which a path has no link.
    """
    if method in ROUNDS:
        index = network.link_index
        return sending_rounds([[index[link] for link in t.path] for t in transfers], method, seed=seed)
    schedule = schedule_by_name(traffic_of(transfers), method, seed=seed, time_limit_s=time_limit_s, now=now)
    return tuple(tuple(frame) for frame in schedule.frames)


def traffic_of(transfers: Sequence[BulkTransfer]) -> Traffic:
    """The same transfers as the schedulers know them."""
    paths = {(t.source, t.sink): t.path for t in transfers}
    return Traffic.from_paths([(t.source, t.sink) for t in transfers], lambda a, b: paths[a, b], _label)


def _label(link: LinkId) -> str:
    return f"{link[0]}->{link[1]}" + (f"#{link[2]}" if link[2] else "")
