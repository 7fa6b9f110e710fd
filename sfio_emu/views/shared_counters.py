"""What the processes of a group keep together of an open file, in counters of the group: the shared pointer (MPI 4.0,
section 14.4.4), and who may access it in the atomic mode (section 14.6.1)."""

import weakref
from collections.abc import Iterator
from contextlib import contextmanager

from sfio_emu.client.threads import Event
from sfio_emu.ports import ProcessGroup

RETRY_S = 0.001
WRITER = 1 << 32

_counted: weakref.WeakKeyDictionary[ProcessGroup, int] = weakref.WeakKeyDictionary()


def _new_counter(group: ProcessGroup, kind: str) -> str:
    """The name of a counter: the same in all processes, which make them in the same order."""
    number = _counted.get(group, 0)
    _counted[group] = number + 1
    return f"{kind}:{number}"


def numbers_of_all(group: ProcessGroup, number: int) -> list[int]:
    """The numbers of all processes, that of rank i at place i; collective."""
    return [int(item) for item in group.all_gather(b"%d" % number)]


class SharedPointer:
    """The shared pointer of one collectively opened file: a counter of the group, in etypes. Making one is
    collective, as opening is. A new view does not reset the counter, which somebody else may be adding to, but notes
    what it was when all had come."""

    def __init__(self, group: ProcessGroup) -> None:
        self._group, self._name = group, _new_counter(group, "shared pointer")
        self._base = 0

    @property
    def position(self) -> int:
        """Where it points now, in etypes of the view."""
        return self._base + self._group.fetch_add(self._name, 0)

    def fetch_and_add(self, etypes: int) -> int:
        """Where an access of so many etypes begins; the next one, of whatever process, begins behind it."""
        return self._base + self._group.fetch_add(self._name, etypes)

    def move(self, position: int) -> None:
        """Let it point to `position`: collective, a synchronisation point."""
        self._group.barrier()  # nobody's call from before is under way any more
        count = self._group.fetch_add(self._name, 0) if self._group.rank == 0 else 0
        self._base = position - numbers_of_all(self._group, count)[0]


class AccessLock:
    """Many processes read, or one writes: what the atomic mode needs, as a counter of the group. Making one is
    collective.

    A reader counts 1 and a writer 2^32; who finds a writer before it, or is a writer and finds anybody, takes its count
    back and tries again. Where a process dies meanwhile the group is over, and nobody waits.
    """

    def __init__(self, group: ProcessGroup) -> None:
        self._group, self._name = group, _new_counter(group, "accesses")

    @contextmanager
    def held(self, *, writing: bool) -> Iterator[None]:
        """Around one access."""
        amount, allowed = (WRITER, 0) if writing else (1, WRITER - 1)
        while self._group.fetch_add(self._name, amount) > allowed:
            self._group.fetch_add(self._name, -amount)
            Event().wait(RETRY_S)
        try:
            yield
        finally:
            self._group.fetch_add(self._name, -amount)
