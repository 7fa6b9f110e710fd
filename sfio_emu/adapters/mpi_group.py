"""The ranks of an MPI program as the process group of striped files, for programs that are MPI programs anyway.
Losses are MPI's affair here: where a rank dies the launcher ends the others."""

from __future__ import annotations

from typing import Any


class MpiGroup:
    """A communicator of mpi4py as the port sfio_emu.ports.ProcessGroup.

    The communicator is duplicated, so that nothing here meets the program's own messages.
    """

    def __init__(self, communicator: Any) -> None:
        self._communicator = communicator.Dup()
        self.rank = int(communicator.Get_rank())
        self.size = int(communicator.Get_size())

    def barrier(self) -> None:
        """Return when every rank has called barrier."""
        self._communicator.Barrier()

    def all_gather(self, item: bytes) -> list[bytes]:
        """The items of all ranks, that of rank i at place i."""
        gathered: list[bytes] = self._communicator.allgather(bytes(item))
        return gathered

    def close(self) -> None:
        """Give the duplicate back; every rank calls it, before MPI_Finalize."""
        self._communicator.Free()


__all__ = ["MpiGroup"]
