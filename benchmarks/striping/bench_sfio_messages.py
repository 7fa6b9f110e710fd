"""One scattered block from memory to another process: SFIO's message over TCP beside MPI's own (Gabrielyan 2007,
sections 2.4 to 2.7, where listeners are MPI processes and a message is one MPI operation with a datatype made for it).

``mpiexec -n 2 python benchmarks/striping/bench_sfio_messages.py [--rounds 9]``, with the extra `mpi`: rank 0 sends
every second stripe unit of a megabyte of its memory. *MPI*: `Send` of a vector type that is made, committed and freed
for each message; rank 1 receives it contiguous and answers an empty message (``MPIR_CVAR_NOLOCAL=1 FI_PROVIDER=tcp``:
over TCP, otherwise over shared memory). *SFIO*: `pwrite_blocks` of the same units, checked and unchecked, to a listener
in a process of its own, which also writes them to a file in memory. Microseconds by the clock and, in brackets, of the
processor (both processes), medians of rounds in turns.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[2]))

from benchmarks.striping.bench_sfio import start_listeners
from sfio_emu import Session, Settings, StripedFile
from sfio_emu.adapters.listener_clients import DEFAULT_MESSAGE_BYTES
from sfio_emu.adapters.sockets import TcpConnections

BYTES, CALLS = 500_000, 40
UNITS = (75, 200, 1005, 65536)


def processor_s(processes: list[int]) -> float:
    """Seconds of these processes, and of this one."""
    ticks = 0
    for process in processes:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK") + time.process_time()


def main() -> None:
    """Print the table, from rank 0."""
    from mpi4py import MPI

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=9)
    rounds, world = parser.parse_args().rounds, MPI.COMM_WORLD
    pids = world.allgather(os.getpid())
    back, empty = np.empty(BYTES + 65536, dtype=np.uint8), np.empty(0, dtype=np.uint8)
    if world.rank == 1:
        while True:
            while not world.Iprobe(
                source=0
            ):  # a blocking receive would take a processor from SFIO's turns
                time.sleep(0.001)
            if not world.recv(source=0):
                return
            for _ in range(CALLS):
                world.Recv(back, source=0)
                world.Send(empty, 0)
    memory = np.random.default_rng(1).integers(0, 256, 2 * (BYTES + 65536), dtype=np.uint8)

    def mpi(unit: int) -> None:
        world.send(True, 1)
        for _ in range(CALLS):
            kind = MPI.BYTE.Create_vector(BYTES // unit, unit, 2 * unit).Commit()
            world.Send([memory, 1, kind], 1)
            kind.Free()
            world.Recv(empty, source=1)

    with tempfile.TemporaryDirectory(dir="/dev/shm") as root:
        process, addresses = start_listeners(Path(root), DEFAULT_MESSAGE_BYTES)
        try:
            acts: dict[str, tuple[Callable[[int], None], list[int]]] = {"MPI": (mpi, pids[1:])}
            for name, checked in (("SFIO", True), ("SFIO, unchecked", False)):
                session = Session(TcpConnections(addresses), settings=Settings(check_data=checked))
                files = {u: StripedFile.open(f"p1/{u};p2/{u}", u, session=session) for u in UNITS}

                def sfio(unit: int, files: dict[int, StripedFile] = files) -> None:
                    numbers = np.arange(
                        BYTES // unit
                    )  # one node's units of the stripes: one message to it
                    places, sizes = 2 * unit * numbers, np.full(len(numbers), unit)
                    for _ in range(CALLS):
                        files[unit].pwrite_blocks(memory, places, places, sizes)

                acts[name] = (sfio, [process.pid])
            table(acts, rounds)
        finally:
            process.kill()
            process.wait()
    world.send(False, 1)


def table(acts: dict[str, tuple[Callable[[int], None], list[int]]], rounds: int) -> None:
    """A row a way: microseconds by the clock (of the processor) for each unit."""
    print(
        f"{'us a message of ' + str(BYTES) + ' B':26}"
        + "".join(f"{f'{unit} B':>18}" for unit in UNITS)
    )
    found: dict[tuple[str, int], list[tuple[float, float]]] = {}
    for _ in range(rounds + 1):
        for unit in UNITS:
            for name, (act, others) in acts.items():
                clock_s, busy_s = time.perf_counter(), processor_s(others)
                act(unit)
                took = time.perf_counter() - clock_s, processor_s(others) - busy_s
                found.setdefault((name, unit), []).append(took)
    for name in acts:
        cells = []
        for unit in UNITS:
            both = [
                statistics.median(times) / CALLS * 1e6
                for times in zip(*found[name, unit][1:], strict=True)
            ]
            cells.append(f"{f'{both[0]:.0f} ({both[1]:.0f})':>18}")
        print(f"{name:26}" + "".join(cells))


if __name__ == "__main__":
    main()
