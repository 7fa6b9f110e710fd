"""One process of `sfio_ior_patterns`: writes its blocks of a file and reads them back, by SFIO or by MPI-I/O (ROMIO).

Blocks are dealt to processes as IOR deals them. Rank 0 prints one JSON line: seconds, and seconds of processor time of
all processes.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from testbed.model.studies.study import Results

Offsets = npt.NDArray[np.int64]


def block_offsets(task: Results, rank: int, processes: int) -> Offsets:
    """Where the blocks of a process lie in the file, in the order of its memory, in the task's `pattern`; `blocks` of
    each process.

    Segmented: one behind the other. Strided: in turn with the other processes. Random: any blocks, in any order. File
    per process: from the beginning of its own file.
    """
    pattern, blocks, size = task["pattern"], int(task["blocks"]), int(task["block_bytes"])
    each = np.arange(blocks, dtype=np.int64)
    if pattern == "segmented":
        number = rank * blocks + each
    elif pattern == "strided":
        number = each * processes + rank
    elif pattern == "random":
        number = np.random.default_rng(blocks).permutation(processes * blocks)[rank * blocks : (rank + 1) * blocks]
    elif pattern == "file per process":
        number = each
    else:
        raise ValueError(f"no pattern {pattern!r}")
    return number * size


def processor_s(processes: Sequence[int]) -> float:
    """Processor time of other processes, all their threads."""
    tasks = (task for process in processes for task in Path(f"/proc/{process}/task").iterdir())
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


def measured(act: Callable[[], object], barrier: Callable[[], object], gather: Callable[[float], Sequence[float]],
             servers: Sequence[int]) -> tuple[float, float]:  # fmt: skip
    """Seconds from when all processes begin until all have ended, and processor time of all of them and of
    `servers`."""
    barrier()
    start_s, mine_s, theirs_s = time.perf_counter(), time.process_time(), processor_s(servers)
    act()
    used_s = time.process_time() - mine_s
    barrier()
    wall_s = time.perf_counter() - start_s
    theirs_s = processor_s(servers) - theirs_s
    return wall_s, sum(gather(used_s)) + theirs_s


def content(rank: int, size: int) -> npt.NDArray[np.uint8]:
    return np.random.default_rng(rank).integers(0, 256, size, dtype=np.uint8)


def by_sfio(task: Results) -> Results | None:
    """What rank 0 found; None elsewhere."""
    import struct

    from sfio_emu import StripedFile
    from sfio_emu.adapters.environment import session_from_environment

    session = session_from_environment()
    group, size = session.group, task["block_bytes"]
    mine = content(group.rank, task["blocks"] * size)
    back = np.zeros_like(mine)
    offsets = block_offsets(task, group.rank, group.size)
    alone = task["pattern"] == "file per process"
    names = [f"p1/f{rank};p2/f{rank};p3/f{rank}" for rank in range(group.size if alone else 1)]
    files = [StripedFile.open(name, size, session=session) for name in names]
    file = files[group.rank if alone else 0]
    places, sizes = np.arange(task["blocks"], dtype=np.int64) * size, np.full(task["blocks"], size, dtype=np.int64)

    def carry(blocks: Callable[..., object], fragments: Callable[..., object], memory: memoryview) -> None:
        if task["way"] == "SFIO":
            blocks(memory, offsets, places, sizes)
        else:
            for offset, place in zip(offsets.tolist(), places.tolist(), strict=True):
                fragments(memory[place : place + size], offset)

    write = partial(carry, file.pwrite_blocks, file.write_fragments, mine.data)
    read = partial(carry, file.pread_blocks, file.read_fragments, back.data)

    def gather(value: float) -> list[float]:
        return [struct.unpack("d", item)[0] for item in group.all_gather(struct.pack("d", value))]

    servers = [int(word) for word in os.environ["IOR_SERVERS"].split()] if group.rank == 0 else []
    found = [measured(act, group.barrier, gather, servers) for act in (write, write, read)][1:]
    wrong = sum(gather(float(not np.array_equal(mine, back))))
    messages = sum(gather(float(file.counters.messages)))
    for each in files:
        each.close()
    return None if group.rank else document(found, wrong, messages=messages / 3)


def by_romio(task: Results) -> Results | None:
    """The same through MPI on one local file: nothing crosses a network."""
    from mpi4py import MPI

    world, size = MPI.COMM_WORLD, task["block_bytes"]
    collective = task["way"] == "ROMIO, collective buffering"
    switch = "enable" if collective else "disable"
    hints = {"romio_cb_write": switch, "romio_cb_read": switch, "romio_ds_write": "enable", "romio_ds_read": "enable"}
    offsets = block_offsets(task, world.rank, world.size)
    order = np.argsort(offsets)  # a view is monotonic: the order of memory is a datatype of its own
    mine = content(world.rank, task["blocks"] * size)
    back = np.zeros_like(mine)
    alone = task["pattern"] == "file per process"
    users, name = (MPI.COMM_SELF, f"{task['file']}{world.rank}") if alone else (world, task["file"])
    file = MPI.File.Open(users, name, MPI.MODE_CREATE | MPI.MODE_RDWR, MPI.Info.Create(hints))
    filetype = MPI.BYTE.Create_hindexed_block(size, offsets[order].tolist()).Commit()
    memory = MPI.BYTE.Create_hindexed_block(size, (order * size).tolist()).Commit()
    file.Set_view(0, MPI.BYTE, filetype, "native", MPI.Info.Create(hints))
    together = collective and not alone

    write = partial(file.Write_at_all if together else file.Write_at, 0, [mine, 1, memory])
    read = partial(file.Read_at_all if together else file.Read_at, 0, [back, 1, memory])

    found = [measured(act, world.Barrier, world.allgather, []) for act in (write, write, read)][1:]
    wrong = sum(world.allgather(float(not np.array_equal(mine, back))))
    file.Close()
    return None if world.rank else document(found, wrong)


def document(found: Sequence[tuple[float, float]], wrong: float, **more: float) -> Results:
    (write_s, write_cpu_s), (read_s, read_cpu_s) = found
    seconds = {"write_s": write_s, "read_s": read_s, "write_cpu_s": write_cpu_s, "read_cpu_s": read_cpu_s}
    return {**seconds, "verified": not wrong, **more}


def main() -> None:
    task = json.loads(sys.argv[1])
    found = by_romio(task) if task["way"].startswith("ROMIO") else by_sfio(task)
    if found is not None:
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
