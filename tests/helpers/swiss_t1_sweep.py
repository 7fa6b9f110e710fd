"""All allocations of Swiss-T1 at one go: each one's all-to-all traffic is built, scheduled by classes and checked,
compiled.

390,624 allocations are too many for a Python object each; the check counts uses of every (frame, link) anew from the
traffic.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from testbed.jit import compiled_entry
from testbed.scheduling.fast.steps import Ints, LinkSets
from testbed.scheduling.fast.twin_links import search_twins

SWITCHES = 8
LIQUID, NOT_FOUND, WRONG = 1, 0, -1
_STEPS, _ATTEMPTS = 3_000, 12


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """``outcome``: per allocation 1 (liquid, checked), 0 (not found) or -1 (the check failed); ``duration``: bottleneck
    load."""

    allocations: npt.NDArray[np.int64]
    outcome: npt.NDArray[np.int64]
    duration: npt.NDArray[np.int64]


def sweep(first: int, last: int, via: npt.NDArray[np.int64]) -> Sweep:
    """Allocations number first .. last - 1 (base 5, switch 1 the highest digit; number 0 is empty and left out by the
    caller).

    ``via``: shape (8, 8), the switch between two others, -1 where the link is direct.
    """
    numbers = np.arange(first, last)
    counts = numbers[:, None] // 5 ** np.arange(SWITCHES - 1, -1, -1) % 5
    outcome, duration = np.zeros(len(counts), dtype=np.int64), np.zeros(len(counts), dtype=np.int64)
    _compiled()(counts, via, outcome, duration)
    return Sweep(allocations=counts, outcome=outcome, duration=duration)


@cache
def _compiled() -> Callable[[Ints, Ints, Ints, Ints], None]:
    return compiled_entry(sweep_counts)


def build(counts: Ints, via: Ints) -> LinkSets:
    """The n * n transfers of one allocation; links: n of senders, n of receivers, 64 between switches."""
    n = counts.sum()
    home = np.zeros(n, dtype=np.int32)
    node = 0
    for switch in range(SWITCHES):
        for _ in range(counts[switch]):
            home[node] = switch
            node += 1
    offsets = np.zeros(n * n + 1, dtype=np.int64)
    indices = np.zeros(4 * n * n, dtype=np.int32)
    at, t = 0, 0
    for s in range(n):
        for r in range(n):
            a, b = home[s], home[r]
            indices[at] = s
            at += 1
            if a != b:
                middle = via[a, b]
                if middle < 0:
                    indices[at] = 2 * n + a * SWITCHES + b
                    at += 1
                else:
                    indices[at] = 2 * n + a * SWITCHES + middle
                    indices[at + 1] = 2 * n + middle * SWITCHES + b
                    at += 2
            indices[at] = n + r
            at += 1
            t += 1
            offsets[t] = at
    return LinkSets(offsets, indices[:at].copy(), 2 * n + SWITCHES * SWITCHES)


def least_frames(sets: LinkSets) -> int:
    """The load of the most loaded link."""
    load = np.zeros(sets.links, dtype=np.int64)
    for link in sets.indices:
        load[link] += 1
    return load.max()  # type: ignore[no-any-return]


def holds(sets: LinkSets, frames: int, frame_of: npt.NDArray[np.int32]) -> bool:
    """Return whether each transfer has a frame below ``frames`` and no frame uses a link twice."""
    offsets, indices, links = sets
    used = np.zeros(links * frames, dtype=np.uint8)
    for t in range(len(offsets) - 1):
        if frame_of[t] < 0 or frame_of[t] >= frames:
            return False
        for k in range(offsets[t], offsets[t + 1]):
            place = indices[k] * frames + frame_of[t]
            if used[place]:
                return False
            used[place] = 1
    return True


def sweep_counts(allocations: Ints, via: Ints, outcome: Ints, duration: Ints) -> None:
    """Schedule and check each row of counts."""
    for i in range(len(allocations)):
        sets = build(allocations[i], via)
        frames = least_frames(sets)
        duration[i] = frames
        outcome[i] = NOT_FOUND
        for attempt in range(_ATTEMPTS):
            frame_of = np.zeros(len(sets.offsets) - 1, dtype=np.int32)
            state = search_twins(sets, frames, _STEPS, attempt + 1, frame_of)
            if state == 1:
                outcome[i] = LIQUID if holds(sets, frames, frame_of) else WRONG
                break
