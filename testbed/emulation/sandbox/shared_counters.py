"""Numbers that one process writes and another reads while both run.

Both processes map the same page of memory, so that neither locks nor system calls are needed.
"""

from __future__ import annotations

import mmap
import os


class SharedPages(mmap.mmap):
    """Shared memory.

    Attributes:
        descriptor: Its open file, by which other processes can map it too.
    """

    descriptor: int

    def __del__(self) -> None:
        os.close(self.descriptor)


def shared_numbers(count: int) -> memoryview[float]:
    """Return floating-point numbers that ``ForkedProcess`` shares with a process, all 0 at first.

    >>> numbers = shared_numbers(2); numbers[1] = 3
    >>> list(numbers)
    [0.0, 3.0]
    """
    descriptor = os.memfd_create("numbers")
    os.ftruncate(descriptor, 8 * count)
    return map_numbers(descriptor)


def map_numbers(descriptor: int) -> memoryview[float]:
    """Return the numbers in an open file of shared memory.

    The descriptor is closed when the numbers are deleted.
    """
    pages = SharedPages(descriptor, 0)
    pages.descriptor = descriptor
    return memoryview(pages).cast("d")
