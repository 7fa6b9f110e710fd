"""The ranks of an MPI program as the process group of striped files, for programs that are MPI programs anyway.
Losses are MPI's affair here: where a rank dies the launcher ends the others."""

from typing import TYPE_CHECKING, Any

import numpy as np

from sfio_emu.errors import UsageError

if TYPE_CHECKING:
    from mpi4py import MPI
MAX_COUNTERS = 4096


class MpiGroup:
    """A communicator of mpi4py as the port sfio_emu.ports.ProcessGroup.

    The communicator is duplicated, so that nothing here meets the program's own messages. Making one is collective.
    """

    def __init__(self, communicator: "MPI.Intracomm") -> None:
        from mpi4py import MPI

        self._mpi = MPI
        self._communicator = communicator.Dup()
        self.rank = int(communicator.Get_rank())
        self.size = int(communicator.Get_size())
        in_use = 8 * MAX_COUNTERS if self.rank == 0 else 0  # rank 0 keeps the counters
        self._window = MPI.Win.Allocate(in_use, 8, comm=self._communicator)
        if self.rank == 0:
            memory: Any = self._window.tomemory()
            np.frombuffer(memory, dtype=np.int64)[:] = 0
        self._communicator.Barrier()

    def barrier(self) -> None:
        """Return when every rank has called barrier."""
        self._communicator.Barrier()

    def all_gather(self, item: bytes) -> list[bytes]:
        """The items of all ranks, that of rank i at place i."""
        gathered: list[bytes] = self._communicator.allgather(bytes(item))
        return gathered

    def fetch_add(self, counter: str, amount: int) -> int:
        """Add to a counter of all ranks and give what it was before (MPI_Fetch_and_op).

        `counter` is "kind:number", the number below 4096: the place of the counter. Raises UsageError for another.
        """
        place = counter.rpartition(":")[2]
        if not place.isdecimal() or int(place) >= MAX_COUNTERS:
            raise UsageError(
                f"the shared counter {counter!r}: MPI ranks share those numbered 0 to {MAX_COUNTERS - 1}"
            )
        added, before = np.array([amount], dtype=np.int64), np.zeros(1, dtype=np.int64)
        self._window.Lock(0)
        self._window.Fetch_and_op(added, before, 0, int(place), self._mpi.SUM)
        self._window.Unlock(0)
        return int(before[0])

    def close(self) -> None:
        """Give the duplicate back; every rank calls it, before MPI_Finalize."""
        self._window.Free()
        self._communicator.Free()
