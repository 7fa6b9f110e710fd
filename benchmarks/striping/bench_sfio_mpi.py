"""Four processes write and read one file in interleaved blocks: SFIO's views beside MPICH's ROMIO, the same pattern,
the same run.

ROMIO: process r sees blocks r, r + 4, r + 8, ... of 75, 200 or 1005 bytes of one local file; collective buffering, data
sieving, neither; MPICH comes with the extra `mpi`. SFIO: three listeners on loopback, the stripe unit is the block,
collective calls; `by stripes` each process has a quarter of the file, which the striping scatters in blocks; `by views`
each sees the blocks that ROMIO's does, so that both scatter. MB/s, write/read, median of the repetitions; contents are
verified.
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
from pathlib import Path
from typing import Any

import numpy as np

RANKS, LISTENERS = 4, 3
BLOCKS_BYTES = (75, 200, 1005)
HINTS = {
    "collective": {"romio_cb_write": "enable", "romio_cb_read": "enable"},
    "data sieving": {
        "romio_cb_write": "disable", "romio_cb_read": "disable", "romio_ds_write": "enable", "romio_ds_read": "enable",
    },
    "neither": {
        "romio_cb_write": "disable", "romio_cb_read": "disable", "romio_ds_write": "disable",
        "romio_ds_read": "disable",
    },
}  # fmt: skip


def timed(barrier: Callable[[], object], act: Callable[[], object]) -> float:
    """Seconds from when all processes begin until all have ended."""
    barrier()
    start = time.perf_counter()
    act()
    barrier()
    return time.perf_counter() - start


def content(rank: int, size: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    return np.random.default_rng(rank).integers(0, 256, size, dtype=np.uint8)


def measure(
    name: str,
    block: int,
    total: int,
    act: Callable[[np.ndarray, np.ndarray], tuple[float, float]],
    rank: int,
) -> None:  # type: ignore[type-arg]
    """One row from rank 0: what `act` (write the first array, read into the second) took."""
    mine = content(rank, total // RANKS // block * block)
    back = np.zeros_like(mine)
    write_s, read_s = act(mine, back)
    assert np.array_equal(mine, back), f"{name}: rank {rank} read what it did not write"
    if rank == 0:
        row = {
            "name": name,
            "block": block,
            "bytes": len(mine) * RANKS,
            "write_s": write_s,
            "read_s": read_s,
        }
        print(json.dumps(row), flush=True)


def sfio_rank(rank: int, args: argparse.Namespace) -> None:
    """A process of SFIO: group and listeners from the environment."""
    from sfio_emu.adapters.environment import session_from_environment
    from sfio_emu.views.datatypes import BYTE, contiguous, resized
    from sfio_emu.views.mpi_file import MpiFile

    session = session_from_environment()
    barrier = session.group.barrier
    for block in BLOCKS_BYTES:
        share = (args.megabytes << 20) // RANKS // block * block
        views = {
            "SFIO by stripes": (rank * share, BYTE),
            "SFIO by views": (rank * block, resized(contiguous(block, BYTE), 0, block * RANKS)),
        }
        for name, (displacement, tile) in views.items():
            for _ in range(args.repeat + 1):  # the first compiles and warms up
                subfiles = "".join(f"p{number}/{block};" for number in range(1, LISTENERS + 1))
                with MpiFile.open(subfiles, block, session=session) as file:
                    file.set_size(0)
                    file.set_view(displacement, BYTE, tile)

                    def act(mine: Any, back: Any, file: MpiFile = file) -> tuple[float, float]:
                        return (
                            timed(barrier, lambda: file.write_at_all(0, mine)),
                            timed(barrier, lambda: file.read_at_all(0, back)),
                        )

                    measure(name, block, args.megabytes << 20, act, rank)


def romio_rank(args: argparse.Namespace) -> None:
    """A rank of MPICH."""
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    for block in BLOCKS_BYTES:
        tile = MPI.BYTE.Create_contiguous(block).Create_resized(0, block * RANKS).Commit()
        for name, hints in HINTS.items():
            info = MPI.Info.Create(hints)
            total = (args.megabytes << 20) // (8 if name == "neither" else 1)
            for _ in range(args.repeat + 1):
                file = MPI.File.Open(world, args.file, MPI.MODE_CREATE | MPI.MODE_RDWR, info)
                file.Set_size(0)
                file.Set_view(world.rank * block, MPI.BYTE, tile, "native", info)

                def act(
                    mine: Any, back: Any, file: Any = file, collective: bool = name == "collective"
                ) -> tuple[float, float]:
                    write = file.Write_at_all if collective else file.Write_at
                    read = file.Read_at_all if collective else file.Read_at
                    return timed(world.Barrier, lambda: write(0, mine)), timed(
                        world.Barrier, lambda: read(0, back)
                    )

                measure(f"ROMIO {name}", block, total, act, world.rank)
                file.Close()


@contextmanager
def listener_processes(root: Path) -> Iterator[str]:
    """Listener processes: their addresses as SFIO_LISTENERS has them."""
    with ExitStack() as stack:
        addresses = []
        for number in range(1, LISTENERS + 1):
            (root / f"p{number}").mkdir()
            listener = [sys.executable, "-P", "-m", "sfio_emu.adapters.listener"]
            words = [*listener, "--root", str(root), "--listen", f"p{number}@127.0.0.1:0"]
            process = stack.enter_context(
                subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
            )
            stack.callback(process.kill)
            assert process.stdout is not None
            addresses.append(process.stdout.readline().split()[-1].replace("@", "="))
        yield ",".join(addresses)


def run_sfio(root: Path, args: argparse.Namespace) -> list[dict[str, Any]]:
    from sfio_emu.adapters.peers.group_server import GroupServer

    with listener_processes(root) as addresses, GroupServer(f"unix:{root}/group", RANKS) as server:
        common = {
            "SFIO_SIZE": str(RANKS),
            "SFIO_GROUP": server.address,
            "SFIO_LISTENERS": addresses,
            "SFIO_TIMEOUT_S": "30",
        }
        words = [
            sys.executable,
            __file__,
            "--rank-of",
            "sfio",
            "--megabytes",
            str(args.megabytes),
            "--repeat",
            str(args.repeat),
        ]
        ranks = [
            subprocess.Popen(
                words,
                env={**os.environ, **common, "SFIO_RANK": str(rank)},
                stdout=subprocess.PIPE,
                text=True,
            )
            for rank in range(RANKS)
        ]
        outputs = [rank.communicate()[0] for rank in ranks]
        if any(rank.returncode for rank in ranks):
            raise SystemExit("a process of SFIO failed")
    return [json.loads(line) for line in outputs[0].splitlines()]


def run_romio(root: Path, args: argparse.Namespace) -> list[dict[str, Any]]:
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
    words = [
        str(mpiexec),
        "-n",
        str(RANKS),
        sys.executable,
        __file__,
        "--rank-of",
        "romio",
        "--file",
        str(root / "romio"),
    ]
    words += ["--megabytes", str(args.megabytes), "--repeat", str(args.repeat)]
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def table(rows: list[dict[str, Any]]) -> None:
    names = list(dict.fromkeys(row["name"] for row in rows))
    print(f"{'MB/s write/read':24}" + "".join(f"{f'{block} B':>16}" for block in BLOCKS_BYTES))
    for name in names:
        cells = []
        for block in BLOCKS_BYTES:
            found = [row for row in rows if (row["name"], row["block"]) == (name, block)][1:]
            rates = [
                statistics.median(row["bytes"] / row[key] for row in found) / 1e6
                for key in ("write_s", "read_s")
            ]
            cells.append(f"{f'{rates[0]:.0f}/{rates[1]:.0f}':>16}")
        print(f"{name:24}" + "".join(cells))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--megabytes",
        type=int,
        default=64,
        help="of the whole file (an eighth for ROMIO with neither)",
    )
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--without-romio", action="store_true")
    parser.add_argument("--rank-of", choices=("sfio", "romio"), help=argparse.SUPPRESS)
    parser.add_argument("--file", help=argparse.SUPPRESS)
    args, _ = parser.parse_known_args()
    if args.rank_of == "sfio":
        sfio_rank(int(os.environ["SFIO_RANK"]), args)
    elif args.rank_of == "romio":
        romio_rank(args)
    else:
        with tempfile.TemporaryDirectory() as root:
            table(
                run_sfio(Path(root), args)
                + ([] if args.without_romio else run_romio(Path(root), args))
            )


if __name__ == "__main__":
    main()
