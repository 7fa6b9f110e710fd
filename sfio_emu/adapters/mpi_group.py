"""The ranks of an MPI program as the process group of striped files.

The losses of ranks are handled by MPI: if a rank dies, the launcher ends the others.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from sfio_emu.errors import UsageError

if TYPE_CHECKING:
    from mpi4py import MPI

# The number of shared counters, for which rank 0 allocates memory.
MAX_COUNTERS = 4096


class MpiGroup:
    """A communicator of mpi4py as a process group; implements `sfio_emu.ports.ProcessGroup`.

    The communicator is duplicated, so that its messages are separate from those of the program.
    Creating a group is collective.
    """

    def __init__(self, communicator: "MPI.Intracomm") -> None:
        from mpi4py import MPI

        self._mpi = MPI
        self._communicator = communicator.Dup()
        self.rank = int(communicator.Get_rank())
        self.size = int(communicator.Get_size())
        window_bytes = 8 * MAX_COUNTERS if self.rank == 0 else 0
        self._window = MPI.Win.Allocate(window_bytes, 8, comm=self._communicator)
        if self.rank == 0:
            memory: Any = self._window.tomemory()
            np.frombuffer(memory, dtype=np.int64)[:] = 0
        # No rank uses a counter before rank 0 has set all of them to 0.
        self._communicator.Barrier()

    def barrier(self) -> None:
        """Return when every rank has called `barrier`."""
        self._communicator.Barrier()

    def all_gather(self, item: bytes) -> list[bytes]:
        """Return the items of all ranks in the order of the ranks. Collective."""
        gathered: list[bytes] = self._communicator.allgather(bytes(item))
        return gathered

    def fetch_add(self, counter: str, amount: int) -> int:
        """Add to a counter that all ranks share (MPI_Fetch_and_op).

        Args:
            counter: The name of the counter, "kind:number", with a number below `MAX_COUNTERS`.
                Only the number identifies it. A new counter is 0.
            amount: The number to add.

        Returns:
            The value before the addition.

        Raises:
            UsageError: The name is another.
        """
        number = counter.rpartition(":")[2]
        if not number.isdecimal() or int(number) >= MAX_COUNTERS:
            raise UsageError(
                f"the shared counter {counter!r}: "
                f"MPI ranks share those numbered 0 to {MAX_COUNTERS - 1}"
            )
        added = np.array([amount], dtype=np.int64)
        before = np.zeros(1, dtype=np.int64)
        self._window.Lock(0)
        self._window.Fetch_and_op(added, before, 0, int(number), self._mpi.SUM)
        self._window.Unlock(0)
        return int(before[0])

    def close(self) -> None:
        """Free the duplicated communicator. Collective; call it before MPI_Finalize."""
        self._window.Free()
        self._communicator.Free()
