"""Compares SFIO's views with MPICH's ROMIO: four processes and one file in interleaved blocks.

The pattern of accesses is the same, and so is the run. The output is MB/s of writes and reads: the
medians of several repetitions. Contents are verified.

- ROMIO: process r sees blocks r, r + 4, r + 8 and so on of one local file. Blocks have 75, 200 or
  1005 bytes. It uses collective buffering, data sieving, or neither. MPICH comes with the extra
  ``mpi``.
- SFIO: three listeners on loopback, a stripe unit as large as the block, and collective calls. "By
  stripes", each process has a quarter of the file, which striping scatters in blocks. "By views",
  each process sees the same blocks as with ROMIO, so that both views and striping scatter.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

Bytes = np.ndarray[Any, np.dtype[np.uint8]]

RANKS = 4
LISTENERS = 3
BLOCKS_BYTES = (75, 200, 1005)
HINTS = {
    "collective": {"romio_cb_write": "enable", "romio_cb_read": "enable"},
    "data sieving": {
        "romio_cb_write": "disable",
        "romio_cb_read": "disable",
        "romio_ds_write": "enable",
        "romio_ds_read": "enable",
    },
    "neither": {
        "romio_cb_write": "disable",
        "romio_cb_read": "disable",
        "romio_ds_write": "disable",
        "romio_ds_read": "disable",
    },
}
# With neither, ROMIO is so slow that its file is smaller by this factor.
NEITHER_DIVISOR = 8


@dataclass
class Access:
    """The accesses of a process to the file.

    Attributes:
        write: Writes from a buffer.
        read: Reads into a buffer.
        barrier: Waits for all processes.
    """

    write: Callable[[Bytes], object]
    read: Callable[[Bytes], object]
    barrier: Callable[[], object]

    def timed(self, act: Callable[[Bytes], object], buffer: Bytes) -> float:
        """Return the seconds from the common start until all processes have ended."""
        self.barrier()
        start_s = time.perf_counter()
        act(buffer)
        self.barrier()
        return time.perf_counter() - start_s


def share_bytes(total_bytes: int, block: int) -> int:
    """Return the bytes of each process: complete blocks."""
    return total_bytes // RANKS // block * block


def measure(name: str, block: int, total_bytes: int, rank: int, access: Access) -> None:
    """Write and read the share of a process; rank 0 prints the row.

    Args:
        name: Name of the row.
        block: Size of a block in bytes.
        total_bytes: Size of the file.
        rank: Rank of this process.
        access: How the file is accessed.
    """
    rng = np.random.default_rng(rank)
    data = rng.integers(0, 256, share_bytes(total_bytes, block), dtype=np.uint8)
    buffer = np.zeros_like(data)
    write_s = access.timed(access.write, data)
    read_s = access.timed(access.read, buffer)
    assert np.array_equal(data, buffer), f"{name}: rank {rank} read what it did not write"
    if rank == 0:
        row = {
            "name": name,
            "block": block,
            "bytes": len(data) * RANKS,
            "write_s": write_s,
            "read_s": read_s,
        }
        print(json.dumps(row), flush=True)


def run_sfio_rank(rank: int, arguments: argparse.Namespace) -> None:
    """Run a process of SFIO; its group and the listeners are in the environment."""
    from sfio_emu.adapters.environment import session_from_environment
    from sfio_emu.views.datatypes import BYTE, contiguous, resized
    from sfio_emu.views.mpi_file import MpiFile

    session = session_from_environment()
    total_bytes = arguments.megabytes << 20
    for block in BLOCKS_BYTES:
        interleaved = resized(contiguous(block, BYTE), 0, block * RANKS)
        views = {
            "SFIO by stripes": (rank * share_bytes(total_bytes, block), BYTE),
            "SFIO by views": (rank * block, interleaved),
        }
        subfiles = "".join(f"p{number}/{block};" for number in range(1, LISTENERS + 1))
        for name, (displacement, tile) in views.items():
            # The first repetition compiles, and is not counted.
            for _ in range(arguments.repeat + 1):
                with MpiFile.open(subfiles, block, session=session) as file:
                    file.set_size(0)
                    file.set_view(displacement, BYTE, tile)
                    access = Access(
                        write=partial(file.write_at_all, 0),
                        read=partial(file.read_at_all, 0),
                        barrier=session.group.barrier,
                    )
                    measure(name, block, total_bytes, rank, access)


def run_romio_rank(arguments: argparse.Namespace) -> None:
    """Run a rank of MPICH."""
    from mpi4py import MPI

    for block in BLOCKS_BYTES:
        tile = MPI.BYTE.Create_contiguous(block).Create_resized(0, block * RANKS).Commit()
        for name in HINTS:
            # The first repetition is not counted.
            for _ in range(arguments.repeat + 1):
                measure_romio(name, block, tile, arguments)


def measure_romio(name: str, block: int, tile: Any, arguments: argparse.Namespace) -> None:
    """Measure ROMIO once.

    Args:
        name: Name of the hints.
        block: Size of a block in bytes.
        tile: File type of the view.
        arguments: Arguments of the command.
    """
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    info = MPI.Info.Create(HINTS[name])
    total_bytes = arguments.megabytes << 20
    if name == "neither":
        total_bytes //= NEITHER_DIVISOR
    file = MPI.File.Open(world, arguments.file, MPI.MODE_CREATE | MPI.MODE_RDWR, info)
    file.Set_size(0)
    file.Set_view(world.rank * block, MPI.BYTE, tile, "native", info)
    collective = name == "collective"
    access = Access(
        write=partial(file.Write_at_all if collective else file.Write_at, 0),
        read=partial(file.Read_at_all if collective else file.Read_at, 0),
        barrier=world.Barrier,
    )
    measure(f"ROMIO {name}", block, total_bytes, world.rank, access)
    file.Close()


@contextmanager
def listener_processes(root: Path) -> Iterator[str]:
    """Start listeners, and yield their addresses, as SFIO_LISTENERS has them."""
    with ExitStack() as stack:
        addresses = []
        for number in range(1, LISTENERS + 1):
            (root / f"p{number}").mkdir()
            argv = [sys.executable, "-P", "-m", "sfio_emu.adapters.listener"]
            argv += ["--root", str(root), "--listen", f"p{number}@127.0.0.1:0"]
            process = stack.enter_context(subprocess.Popen(argv, stdout=subprocess.PIPE, text=True))
            stack.callback(process.kill)
            assert process.stdout is not None
            address = process.stdout.readline().split()[-1]
            addresses.append(address.replace("@", "="))
        yield ",".join(addresses)


def rank_arguments(kind: str, arguments: argparse.Namespace) -> list[str]:
    """Return the command of a process that is measured."""
    return [
        sys.executable,
        __file__,
        "--rank-of",
        kind,
        "--megabytes",
        str(arguments.megabytes),
        "--repeat",
        str(arguments.repeat),
    ]


def run_sfio(root: Path, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Run the processes of SFIO, and return their rows."""
    from sfio_emu.adapters.peers.group_server import GroupServer

    with listener_processes(root) as addresses, GroupServer(f"unix:{root}/group", RANKS) as server:
        environment = {
            **os.environ,
            "SFIO_SIZE": str(RANKS),
            "SFIO_GROUP": server.address,
            "SFIO_LISTENERS": addresses,
            "SFIO_TIMEOUT_S": "30",
        }
        processes = []
        for rank in range(RANKS):
            process = subprocess.Popen(
                rank_arguments("sfio", arguments),
                env={**environment, "SFIO_RANK": str(rank)},
                stdout=subprocess.PIPE,
                text=True,
            )
            processes.append(process)
        outputs = []
        for process in processes:
            output, _ = process.communicate()
            outputs.append(output)
        if any(process.returncode for process in processes):
            raise SystemExit("a process of SFIO failed")
    return [json.loads(line) for line in outputs[0].splitlines()]


def run_romio(root: Path, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Run the ranks of MPICH, and return their rows; none if MPICH is not installed."""
    from testbed.errors import CapabilityError
    from testbed.striping.emulated.mpi_launcher import find_mpiexec

    try:
        mpiexec = find_mpiexec()
    except CapabilityError as obstacle:
        print(f"ROMIO not measured: {obstacle}")
        return []
    if importlib.util.find_spec("mpi4py") is None:
        print("ROMIO not measured: install the extra `mpi` (mpi4py and mpich)")
        return []
    argv = [str(mpiexec), "-n", str(RANKS), *rank_arguments("romio", arguments)]
    argv += ["--file", str(root / "romio")]
    process = subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=True)
    return [json.loads(line) for line in process.stdout.splitlines()]


def print_table(rows: list[dict[str, Any]]) -> None:
    """Print the medians in MB/s."""
    header = [f"{'MB/s write/read':24}"]
    for block in BLOCKS_BYTES:
        heading = f"{block} B"
        header.append(f"{heading:>16}")
    print("".join(header))
    for name in dict.fromkeys(row["name"] for row in rows):
        line = [f"{name:24}"]
        for block in BLOCKS_BYTES:
            repetitions = [row for row in rows if (row["name"], row["block"]) == (name, block)]
            # The first repetition is not counted.
            write_mbps = median_mbps(repetitions[1:], "write_s")
            read_mbps = median_mbps(repetitions[1:], "read_s")
            cell = f"{write_mbps:.0f}/{read_mbps:.0f}"
            line.append(f"{cell:>16}")
        print("".join(line))


def median_mbps(rows: list[dict[str, Any]], field: str) -> float:
    """Return the median speed in MB/s, from the field with the seconds."""
    return statistics.median(row["bytes"] / row[field] for row in rows) / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--megabytes",
        type=int,
        default=64,
        help="size of the file (default 64; an eighth for ROMIO with neither)",
    )
    parser.add_argument("--repeat", type=int, default=3, help="number of repetitions (default 3)")
    parser.add_argument("--without-romio", action="store_true", help="measure only SFIO")
    parser.add_argument("--rank-of", choices=("sfio", "romio"), help=argparse.SUPPRESS)
    parser.add_argument("--file", help=argparse.SUPPRESS)
    arguments, _ = parser.parse_known_args()
    if arguments.rank_of == "sfio":
        run_sfio_rank(int(os.environ["SFIO_RANK"]), arguments)
    elif arguments.rank_of == "romio":
        run_romio_rank(arguments)
    else:
        with tempfile.TemporaryDirectory() as root:
            rows = run_sfio(Path(root), arguments)
            if not arguments.without_romio:
                rows += run_romio(Path(root), arguments)
        print_table(rows)


if __name__ == "__main__":
    main()
