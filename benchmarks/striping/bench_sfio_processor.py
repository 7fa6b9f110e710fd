"""What striped calls cost in processor time of both sides, which other programs on the machine change little.

``python benchmarks/striping/bench_sfio_processor.py [--quick] [--part PART] [--folder DIR]``: one client and three
listeners in one process, on one core, over loopback, medians of rounds in which every way has its turn in random order.

- calls of 1000 bytes over three nodes, microseconds each: within the file, and beyond its end;
- a share of a file by stripes, and by a view whose blocks interleave with those of three other processes, nanoseconds a
  byte;
- long writes and reads with checksums, and without;
- a connection, and a call of 100 bytes, with the key of a run and without.

PYTHONPATH of another version compares the two.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[2]))

from benchmarks.striping.bench_sfio import HOSTS, start_listeners
from sfio_emu import Session, Settings, StripedFile
from sfio_emu.adapters.key_files import new_key, write_key
from sfio_emu.adapters.listener_clients import DEFAULT_MESSAGE_BYTES
from sfio_emu.adapters.sockets import TcpConnections
from sfio_emu.client.current_session import use
from sfio_emu.views.datatypes import BYTE, contiguous, resized
from sfio_emu.views.mpi_file import MpiFile

BLOCKS, UNITS = (75, 200, 1005), (75, 5000, 65536)
PARTS = ("calls", "views", "checksums", "keys")
RANKS, CALLS, CALL_BYTES = 4, 200, 1000
Way = Callable[[], object]
Found = dict[str, list[tuple[float, float]]]
"""Seconds of processor time of client and listeners, one pair a round, by way."""


def processor_s(process: int) -> float:
    """Processor time of another process, all its threads."""
    tasks = Path(f"/proc/{process}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


def measured(ways: Mapping[str, Way], server: int | Sequence[int], rounds: int) -> Found:
    """Every way `rounds` times in random order, after once without being counted; `server`: the process, or processes,
    of listeners."""
    servers = [server] if isinstance(server, int) else server
    draw, found = random.Random(1), Found()
    for number in range(rounds + 1):
        for name in draw.sample(list(ways), len(ways)):
            theirs_s, mine_s = sum(map(processor_s, servers)), process_time()
            ways[name]()
            spent = process_time() - mine_s, sum(map(processor_s, servers)) - theirs_s
            if number:
                found.setdefault(name, []).append(spent)
    return found


def ratio(found: Found, way: str, to: str) -> float:
    """The median of the ratios round by round."""
    return statistics.median(sum(a) / sum(b) for a, b in zip(found[way], found[to], strict=True))


def cost(found: Found, way: str, count: int) -> str:
    """Client and listeners, in nanoseconds (of one of `count` things)."""
    return " + ".join(
        f"{statistics.median(side) / count * 1e9:.2f}" for side in zip(*found[way], strict=True)
    )


def small_calls(session: Session, server: int, rounds: int) -> None:
    """Calls within a file, and beyond its end."""
    data = bytes(CALL_BYTES)
    file = StripedFile.open(";".join(f"{host}/small" for host in HOSTS), 75, session=session)

    def calls(first: int) -> None:
        for number in range(CALLS):
            file.pwrite(data, first + CALL_BYTES * number)

    def beyond() -> None:
        file.truncate(0)
        calls(0)

    found = measured({"beyond the end": beyond, "within": lambda: calls(0)}, server, rounds)
    for way in found:
        print(
            f"write {CALL_BYTES} bytes, units of 75, {way:14}: {cost(found, way, CALLS * 1000)} us"
        )
    print(f"beyond the end over within: {ratio(found, 'beyond the end', 'within'):.2f}")


def views(session: Session, server: int, rounds: int, total_bytes: int, stack: ExitStack) -> None:
    """By stripes and by views."""
    use(session)
    ways: dict[str, Way] = {}
    sizes: dict[int, int] = {}
    for block in BLOCKS:
        share = sizes[block] = total_bytes // RANKS // block * block
        mine = np.random.default_rng(1).integers(0, 256, share, dtype=np.uint8)
        name = ";".join(f"{host}/views-{block}" for host in HOSTS)
        file = stack.enter_context(MpiFile.open(name, block, session=session))
        file.set_view(0, BYTE, BYTE)
        for rank in range(RANKS):
            file.write_at(rank * share, mine)
        tiles = {
            "stripes": (share, BYTE),
            "views": (block, resized(contiguous(block, BYTE), 0, block * RANKS)),
        }
        for kind, (displacement, tile) in tiles.items():

            def act(
                writing: bool,
                file: Any = file,
                buffer: Any = mine,
                place: int = displacement,
                tile: Any = tile,
            ) -> None:
                file.set_view(place, BYTE, tile)
                (file.write_at if writing else file.read_at)(0, buffer)

            back = np.zeros_like(mine)
            act(True)
            act(False, buffer=back)
            if not np.array_equal(mine, back):
                raise SystemExit(f"{kind} of {block} bytes: what was read is not what was written")
            ways[f"write {kind} {block}"] = lambda act=act: act(True)
            ways[f"read {kind} {block}"] = lambda act=act, back=back: act(False, buffer=back)
    found = measured(ways, server, rounds)
    for block in BLOCKS:
        for name in ("write", "read"):
            by_stripes, by_views = f"{name} stripes {block}", f"{name} views {block}"
            print(
                f"{name:5} blocks of {block:4}: stripes {cost(found, by_stripes, sizes[block])} ns a byte, views"
                f" {cost(found, by_views, sizes[block])}: {ratio(found, by_stripes, by_views):.2f} of the speed of "
                f"stripes"
            )


def checksums(
    addresses: Mapping[str, tuple[str, int]], server: int, rounds: int, total_bytes: int
) -> None:
    """With and without."""
    data = np.random.default_rng(2).integers(0, 256, total_bytes, dtype=np.uint8)
    back = np.zeros_like(data)
    ways: dict[str, Way] = {}
    for unit in UNITS:
        for checked in (True, False):
            session = Session(
                TcpConnections(addresses),
                settings=Settings(check_data=checked, check_reads=checked),
            )
            file = StripedFile.open(
                ";".join(f"{host}/long-{unit}" for host in HOSTS), unit, session=session
            )
            ways[f"write {unit} {checked}"] = lambda file=file: file.pwrite(data, 0)
            ways[f"read {unit} {checked}"] = lambda file=file: file.pread(back, 0)
    first = sorted(ways, reverse=True)  # written before it is read
    found = measured(
        {name: ways[name] for name in first if name.startswith("write")}, server, rounds
    )
    found |= measured(
        {name: ways[name] for name in first if name.startswith("read")}, server, rounds
    )
    for unit in UNITS:
        shown = [
            f"{name} {ratio(found, f'{name} {unit} True', f'{name} {unit} False'):.2f}"
            for name in ("write", "read")
        ]
        plain = [
            f"{name} {cost(found, f'{name} {unit} False', total_bytes)}"
            for name in ("write", "read")
        ]
        print(
            f"checksums, units of {unit:5}: {', '.join(shown)} times what it costs without ({', '.join(plain)} ns a "
            f"byte)"
        )


def keys(root: Path, rounds: int) -> None:
    """With and without."""
    write_key(root / "key-file", key := new_key())
    with ExitStack() as stack:
        ways: dict[str, Way] = {}
        processes = []
        for name, given in (("key", key), ("none", None)):
            folder = root / name
            folder.mkdir()
            options = ("--key-file", str(root / "key-file")) if given else ()
            process, addresses = start_listeners(folder, DEFAULT_MESSAGE_BYTES, *options)
            stack.callback(_end, process)
            processes.append(process.pid)
            connections = TcpConnections(addresses, key=given)
            file = StripedFile.open("p1/small", 75, session=Session(connections))

            def connect(connections: TcpConnections = connections) -> None:
                for _ in range(CALLS):
                    session = Session(connections)
                    session.link(HOSTS[0])
                    session.close()

            def call(file: StripedFile = file, data: bytes = bytes(100)) -> None:
                for _ in range(CALLS):
                    file.pwrite(data, 0)

            ways |= {f"connection {name}": connect, f"call {name}": call}
        found = measured(ways, processes, rounds)
    for what in ("connection", "call"):
        with_key, without = (
            cost(found, f"{what} {name}", CALLS * 1000) for name in ("key", "none")
        )
        print(
            f"{what}: with a key {with_key} us, {ratio(found, f'{what} key', f'{what} none'):.2f} times that "
            f"without ({without} us)"
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """Print all."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--quick", action="store_true", help="three rounds of 8 MB instead of nine of 32 and 60"
    )
    parser.add_argument("--part", choices=PARTS, help="this part alone")
    parser.add_argument("--folder", help="where the subfiles lie (default: /dev/shm)")
    options = parser.parse_args(arguments)
    rounds = 3 if options.quick else 9
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    base = options.folder or ("/dev/shm" if Path("/dev/shm").is_dir() else None)
    wanted = (options.part,) if options.part else PARTS
    with tempfile.TemporaryDirectory(dir=base) as root, ExitStack() as stack:
        process, addresses = start_listeners(Path(root), DEFAULT_MESSAGE_BYTES)
        stack.callback(_end, process)
        session = Session(TcpConnections(addresses))
        if "calls" in wanted:
            small_calls(session, process.pid, rounds)
        if "views" in wanted:
            with ExitStack() as files:
                views(session, process.pid, rounds, (8 if options.quick else 32) << 20, files)
        if "checksums" in wanted:
            checksums(addresses, process.pid, rounds, 8_000_000 if options.quick else 60_000_000)
        if "keys" in wanted:
            keys(Path(root), rounds)
    return 0


def _end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()


if __name__ == "__main__":
    sys.exit(main())
