"""Measures the transfer of a scattered block to another process: SFIO over TCP beside MPI.

    mpiexec -n 2 python benchmarks/striping/bench_sfio_messages.py [--rounds 9]

It needs the extra ``mpi``. In the document, listeners are MPI processes, and a message is one MPI
operation with a datatype that is made for it (Gabrielyan 2007, sections 2.4 to 2.7). Rank 0 sends
every second stripe unit of a megabyte of its memory.

- MPI: ``Send`` of a vector type that is created, committed and freed for each message. Rank 1
  receives it contiguously, and answers with an empty message. With ``MPIR_CVAR_NOLOCAL=1
  FI_PROVIDER=tcp`` it uses TCP, and otherwise shared memory.
- SFIO: ``pwrite_blocks`` of the same units, with and without checksums, to a listener in another
  process, which also writes them to a file in memory.

The figures are microseconds by the clock and, in brackets, of the processors of both processes.
They are medians of rounds in which all take turns.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[2]))

from benchmarks.striping.bench_sfio import start_listeners
from sfio_emu import Session, Settings, StripedFile
from sfio_emu.adapters.listener_clients import DEFAULT_MESSAGE_BYTES
from sfio_emu.adapters.sockets import TcpConnections

# Size of a message, and number of messages that are timed together.
MESSAGE_BYTES = 500_000
CALLS = 40
UNITS = (75, 200, 1005, 65536)
# Room for a message of complete units.
MEMORY_BYTES = MESSAGE_BYTES + max(UNITS)


class Sender(NamedTuple):
    """A way to send messages.

    Attributes:
        send: Sends ``CALLS`` messages of a stripe unit.
        peers: Ids of the processes that receive them.
    """

    send: Callable[[int], None]
    peers: Sequence[int]


class Duration(NamedTuple):
    """A duration by the clock, and processor time, in seconds."""

    clock_s: float
    processor_s: float


def processor_s(processes: Sequence[int]) -> float:
    """Return the processor time of these processes and of this one, in seconds."""
    ticks = 0
    for process in processes:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        user_ticks = int(fields[11])
        system_ticks = int(fields[12])
        ticks += user_ticks + system_ticks
    return ticks / os.sysconf("SC_CLK_TCK") + time.process_time()


def receive(world: Any) -> None:
    """Receive messages as rank 1, until rank 0 sends False."""
    buffer = np.empty(MEMORY_BYTES, dtype=np.uint8)
    empty = np.empty(0, dtype=np.uint8)
    while True:
        # A blocking receive would use a processor while SFIO is measured.
        while not world.Iprobe(source=0):
            time.sleep(0.001)
        if not world.recv(source=0):
            return
        for _ in range(CALLS):
            world.Recv(buffer, source=0)
            world.Send(empty, 0)


def send_by_mpi(world: Any, memory: np.ndarray, unit: int) -> None:
    """Send messages from rank 0 to rank 1."""
    from mpi4py import MPI

    empty = np.empty(0, dtype=np.uint8)
    world.send(True, 1)
    for _ in range(CALLS):
        datatype = MPI.BYTE.Create_vector(MESSAGE_BYTES // unit, unit, 2 * unit).Commit()
        world.Send([memory, 1, datatype], 1)
        datatype.Free()
        world.Recv(empty, source=1)


def send_by_sfio(files: Mapping[int, StripedFile], memory: np.ndarray, unit: int) -> None:
    """Write blocks. All units belong to one I/O node, so that they are one message."""
    count = MESSAGE_BYTES // unit
    positions = 2 * unit * np.arange(count)
    sizes = np.full(count, unit)
    for _ in range(CALLS):
        files[unit].pwrite_blocks(memory, positions, positions, sizes)


def open_files(
    addresses: Mapping[str, tuple[str, int]], *, check_data: bool
) -> dict[int, StripedFile]:
    """Create a file over two I/O nodes for each stripe unit."""
    session = Session(TcpConnections(addresses), settings=Settings(check_data=check_data))
    files = {}
    for unit in UNITS:
        files[unit] = StripedFile.open(f"p1/{unit};p2/{unit}", unit, session=session)
    return files


def main() -> None:
    """Print the table from rank 0."""
    from mpi4py import MPI

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=9, help="number of rounds (default 9)")
    rounds = parser.parse_args().rounds
    world = MPI.COMM_WORLD
    process_ids = world.allgather(os.getpid())
    if world.rank == 1:
        receive(world)
        return
    memory = np.random.default_rng(1).integers(0, 256, 2 * MEMORY_BYTES, dtype=np.uint8)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as root:
        listeners, addresses = start_listeners(Path(root), DEFAULT_MESSAGE_BYTES)
        try:
            checked = open_files(addresses, check_data=True)
            unchecked = open_files(addresses, check_data=False)
            peers = [listeners.pid]
            senders = {
                "MPI": Sender(partial(send_by_mpi, world, memory), process_ids[1:]),
                "SFIO": Sender(partial(send_by_sfio, checked, memory), peers),
                "SFIO, unchecked": Sender(partial(send_by_sfio, unchecked, memory), peers),
            }
            print_table(senders, rounds)
        finally:
            listeners.kill()
            listeners.wait()
    world.send(False, 1)


def print_table(senders: Mapping[str, Sender], rounds: int) -> None:
    """Measure all senders, and print one row for each; the first round is not counted."""
    durations: dict[tuple[str, int], list[Duration]] = {}
    for number in range(rounds + 1):
        for unit in UNITS:
            for name, sender in senders.items():
                duration = measure(sender, unit)
                if number > 0:
                    durations.setdefault((name, unit), []).append(duration)
    title = f"us a message of {MESSAGE_BYTES} B"
    header = [f"{title:26}"]
    for unit in UNITS:
        heading = f"{unit} B"
        header.append(f"{heading:>18}")
    print("".join(header))
    for name in senders:
        row = [f"{name:26}"]
        for unit in UNITS:
            cell = median_us(durations[name, unit])
            row.append(f"{cell:>18}")
        print("".join(row))


def measure(sender: Sender, unit: int) -> Duration:
    """Send messages of a stripe unit, and return the duration."""
    start_clock_s = time.perf_counter()
    start_processor_s = processor_s(sender.peers)
    sender.send(unit)
    clock_s = time.perf_counter() - start_clock_s
    return Duration(clock_s, processor_s(sender.peers) - start_processor_s)


def median_us(durations: Sequence[Duration]) -> str:
    """Return the median duration of a message in microseconds, by clock and processors."""
    clock_s = statistics.median(duration.clock_s for duration in durations)
    busy_s = statistics.median(duration.processor_s for duration in durations)
    return f"{clock_s / CALLS * 1e6:.0f} ({busy_s / CALLS * 1e6:.0f})"


if __name__ == "__main__":
    main()
