"""Checks that concurrent operations on one register are linearizable (Herlihy and Wing 1990).

The search is that of Wing and Gong (1993), and remembers visited states (Lowe 2017).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Operation:
    """A call on a register, between two moments of one clock: it wrote `value`, or read it."""

    begin: float
    end: float
    writes: bool
    value: bytes


def linearizable(history: Sequence[Operation], initial: bytes) -> bool:
    """Return whether some order of the calls explains all reads.

    Each call takes effect at a moment between its begin and its end. The search is exponential in
    the number of overlapping calls, and linear in all others.
    """
    calls = sorted(history, key=lambda call: call.begin)
    seen: set[tuple[int, int, bytes]] = set()
    stack = [
        (0, 0, initial)
    ]  # calls before `first` are all done, of those behind it the ones whose bit is set
    while stack:
        first, done, value = stack.pop()
        while done & 1:
            first, done = first + 1, done >> 1
        if first == len(calls):
            return True
        if (first, done, value) in seen:
            continue
        seen.add((first, done, value))
        earliest_end = float("inf")  # no call may come before one that had ended when it began
        for place, call in enumerate(calls[first:]):
            if call.begin > earliest_end:
                break
            if done >> place & 1:
                continue
            earliest_end = min(earliest_end, call.end)
            if call.writes or call.value == value:
                stack.append((first, done | 1 << place, call.value))
    return False


__all__ = ["Operation", "linearizable"]
