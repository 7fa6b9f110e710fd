"""Numbers that a process writes and another one reads while both run.

Both processes have the page of memory: there is no lock and no call.
"""

from __future__ import annotations

import mmap
import os


class SharedPages(mmap.mmap):
    """Memory that other processes map by its descriptor."""

    descriptor: int

    def __del__(self) -> None:
        os.close(self.descriptor)


def shared_numbers(count: int) -> memoryview[float]:
    """Return ``count`` floating-point numbers, all 0, which ``ForkedProcess`` shares with a process.

    >>> numbers = shared_numbers(2); numbers[1] = 3
    >>> list(numbers)
    [0.0, 3.0]
    """
    descriptor = os.memfd_create("numbers")
    os.ftruncate(descriptor, 8 * count)
    return map_numbers(descriptor)


def map_numbers(descriptor: int) -> memoryview[float]:
    """Return the numbers of an open file of shared memory, which is closed with them."""
    pages = SharedPages(descriptor, 0)
    pages.descriptor = descriptor
    return memoryview(pages).cast("d")
