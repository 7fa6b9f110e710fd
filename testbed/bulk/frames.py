"""Time frames of bulk transfers by method: rounds in which every sender sends one message, or a schedule without congestion."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from testbed.errors import InputError
from testbed.model.bulk_plan import BulkTransfer
from testbed.scheduling.baselines import Order, sending_rounds
from topologies.network import Network

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
    """Indices of ``transfers``, frame by frame. InputError for an unknown method, or where it found no schedule in time."""
    index = network.link_index
    paths = [[index[link] for link in t.path] for t in transfers]
    if method in ROUNDS:
        return sending_rounds(paths, method, seed=seed)
    raise InputError(f"method {method!r} is unknown")
