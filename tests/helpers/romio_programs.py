"""Ports of ROMIO's test programs, for MPI.File and for examples/mpi4py_file.py.

The programs are split_coll, atomicity, coll_test, noncontig_coll, ordered_fp and external32.

``mpiexec -n 4 python -m tests.helpers.romio_programs romio|sfio FOLDER``: rank 0 prints one line
of JSON with the results of all ranks for each program.
"""

import json
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from mpi4py import MPI

from tests.helpers.mpi4py_suite import shim

COMM = MPI.COMM_WORLD
RANK, SIZE = COMM.rank, COMM.size
Program = Callable[[Any], object]


def split_coll(file: Any) -> object:
    mine, back = np.full(1000, RANK, np.int32), np.zeros(1000, np.int32)
    file.Set_view(4000 * RANK, MPI.INT, MPI.INT)
    file.Write_all_begin(mine)
    file.Write_all_end(mine)
    file.Seek(0)
    file.Read_all_begin(back)
    file.Read_all_end(back)
    return bool((back == mine).all()), file.Get_size()


def atomicity(file: Any) -> object:
    """Rank 0 writes over what is there while the others read, contiguous and by a view: all of it old, or all new."""
    seen = []
    for stride in (1, 2):
        file.Set_view(0, MPI.INT, MPI.INT.Create_resized(0, 4 * stride).Commit())
        file.Set_atomicity(False)
        data = np.full(20_000, 7 * stride, np.int32)
        if RANK == 0:
            file.Write_at(0, data)
        file.Sync()
        file.Set_atomicity(True)
        COMM.Barrier()
        for turn in range(5):
            if RANK == 0:
                file.Write_at(0, np.full(20_000, 100 * stride + turn, np.int32))
            else:
                file.Read_at(0, data)
                seen.append(len(set(data.tolist())) == 1)
        COMM.Barrier()
    return all(seen)


def coll_test(file: Any) -> object:
    grid = MPI.Compute_dims(SIZE, 3)
    mine = MPI.INT.Create_darray(
        SIZE, RANK, [16] * 3, [MPI.DISTRIBUTE_BLOCK] * 3, [MPI.DISTRIBUTE_DFLT_DARG] * 3, grid
    )
    file.Set_view(0, MPI.INT, mine.Commit())
    data = np.arange(mine.Get_size() // 4, dtype=np.int32) + 10**6 * RANK
    file.Write_all(data)
    file.Set_view(0, MPI.INT, MPI.INT)
    whole = np.zeros(16**3, np.int32)
    file.Read_at_all(0, whole)
    return int((whole.astype(np.int64) * np.arange(16**3)).sum()), file.Get_size()


def noncontig_coll(file: Any) -> object:
    file.Set_view(4 * RANK, MPI.INT, MPI.INT.Create_resized(0, 4 * SIZE).Commit())
    memory, data, back = (
        MPI.INT.Create_vector(250, 1, 2).Commit(),
        np.arange(500, dtype=np.int32),
        np.full(500, -1, np.int32),
    )
    file.Write_at_all(0, [data + 1000 * RANK, 1, memory])
    file.Read_at_all(0, [back, 1, memory])
    return (
        back[::2].tolist() == (data[::2] + 1000 * RANK).tolist(),
        sorted(set(back[1::2].tolist())),
        file.Get_size(),
    )


def ordered_fp(file: Any) -> object:
    data = np.full(200 + 10 * RANK, RANK, np.int32)
    file.Write_ordered(data)
    file.Seek_shared(0)
    back = np.zeros_like(data)
    file.Read_ordered(back)
    return back.tolist() == data.tolist(), file.Get_position_shared()


def external32(file: Any) -> object:
    file.Set_view(0, MPI.INT, MPI.INT, "external32")
    file.Write_at_all(3 * RANK, np.arange(3, dtype=np.int32) + 256 * RANK)
    file.Set_view(0, MPI.BYTE, MPI.BYTE)
    raw = np.zeros(12 * SIZE, np.uint8)
    file.Read_at_all(0, raw)
    return raw.tolist()


def main(which: str, folder: str) -> None:
    kind = MPI.File if which == "romio" else shim().File
    found = {}
    for program in (split_coll, atomicity, coll_test, noncontig_coll, ordered_fp, external32):
        mode = MPI.MODE_RDWR | MPI.MODE_CREATE | MPI.MODE_DELETE_ON_CLOSE
        file = kind.Open(COMM, f"{folder}/{program.__name__}", mode)
        found[program.__name__] = COMM.gather(program(file))
        file.Close()
    if RANK == 0:
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
