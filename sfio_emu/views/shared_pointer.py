"""The pointer of a file that all processes of a group share (MPI 4.0, section 14.4.4): a counter of the group, in
etypes. A new view does not reset the counter, which somebody else may be adding to, but notes what it was when all had
come."""

import weakref

from sfio_emu.ports import ProcessGroup

_opened: weakref.WeakKeyDictionary[ProcessGroup, int] = weakref.WeakKeyDictionary()


class SharedPointer:
    """The shared pointer of one collectively opened file. Making one is collective, as opening is."""

    def __init__(self, group: ProcessGroup) -> None:
        number = _opened.get(group, 0)  # the same in all processes, which open files in the same order
        _opened[group] = number + 1
        self._group = group
        self._name = f"shared pointer:{number}"
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
        self._base = position - int(self._group.all_gather(str(count).encode())[0])
