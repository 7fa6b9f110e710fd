"""A pointer and a lock that the processes of a group share for one open file.

Both are counters of the group. The shared pointer is that of MPI 4.0, section 14.4.4. The lock is
needed for the atomic mode (section 14.6.1).
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import contextmanager

from sfio_emu.client.threads import Event
from sfio_emu.ports import ProcessGroup

# The pause before a process tries to take a lock again.
RETRY_S = 0.001

# What a writer adds to the counter of a lock. A reader adds 1.
WRITER = 1 << 32

# The number of counters that were created for each group.
_counted: weakref.WeakKeyDictionary[ProcessGroup, int] = weakref.WeakKeyDictionary()


def _new_counter(group: ProcessGroup, kind: str) -> str:
    """Return the name of a new counter.

    It is the same in all processes, because all of them create the counters in the same order.
    """
    number = _counted.get(group, 0)
    _counted[group] = number + 1
    return f"{kind}:{number}"


def numbers_of_all(group: ProcessGroup, number: int) -> list[int]:
    """Return the numbers of all processes in the order of their ranks. Collective."""
    return [int(item) for item in group.all_gather(b"%d" % number)]


class SharedPointer:
    """The shared pointer of a file, a counter of etypes. Creating one is collective.

    When a new view sets the pointer to 0, other processes may be adding to the counter already. For
    this reason the counter is not reset. Its value at that moment is noted and subtracted.
    """

    def __init__(self, group: ProcessGroup) -> None:
        self._group = group
        self._name = _new_counter(group, "shared pointer")
        self._base = 0

    @property
    def position(self) -> int:
        """The present position in etypes of the view."""
        return self._base + self._group.fetch_add(self._name, 0)

    def fetch_and_add(self, etypes: int) -> int:
        """Return the position in etypes, and advance it by `etypes`."""
        return self._base + self._group.fetch_add(self._name, etypes)

    def move(self, position: int) -> None:
        """Set the position. Collective, and a point of synchronisation."""
        # After the barrier, no process is still inside an earlier access.
        self._group.barrier()
        count = self._group.fetch_add(self._name, 0) if self._group.rank == 0 else 0
        self._base = position - numbers_of_all(self._group, count)[0]


class AccessLock:
    """A lock that many readers or one writer can hold. Creating one is collective.

    A reader adds 1 to the counter, a writer 2^32. A process subtracts its amount and tries again
    if there is a writer, or if it is itself a writer and there is anyone. If a process dies, the
    group fails, so that no process waits for ever.
    """

    def __init__(self, group: ProcessGroup) -> None:
        self._group = group
        self._name = _new_counter(group, "accesses")

    @contextmanager
    def acquired(self, *, writing: bool) -> Iterator[None]:
        """Hold the lock during one access."""
        amount = WRITER if writing else 1
        max_others = 0 if writing else WRITER - 1
        while self._group.fetch_add(self._name, amount) > max_others:
            self._group.fetch_add(self._name, -amount)
            Event().wait(RETRY_S)
        try:
            yield
        finally:
            self._group.fetch_add(self._name, -amount)
