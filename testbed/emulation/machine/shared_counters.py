"""Numbers that a process writes and another one reads while both run: a page of memory that both have, no lock, no
call."""

from __future__ import annotations

import mmap


def shared_numbers(count: int) -> memoryview[float]:
    """``count`` floating-point numbers, all 0, shared with processes that are forked from here on; one is written at a
    time.

    >>> numbers = shared_numbers(2); numbers[1] = 3
    >>> list(numbers)
    [0.0, 3.0]
    """
    return memoryview(mmap.mmap(-1, 8 * count)).cast("d")
