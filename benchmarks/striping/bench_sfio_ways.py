"""What striped reads and writes cost beside the kernel's own work for the same bytes, and what each special way gains.

``python benchmarks/striping/bench_sfio_ways.py [--part yardstick|ways] [--rounds 9] [--bytes 32000000] [--cores 1|2]``:
processor time of client and listeners, medians of rounds in which every way has its turn in random order, subfiles in
/dev/shm, loopback.

- *yardstick*: a plain program sends the same bytes with ``sendmsg`` to a peer that takes them with ``recvmsg_into`` and
  writes them with ``pwrite``; back with ``preadv``, ``sendmsg`` and ``recvmsg_into``; 256 KiB at a time, no checksums.
  User and system time, and the cost of checked striped accesses over the plain one.
- *ways*: the same access with and without a special way: the message of a small block, long messages for long calls,
  blocks that are alike told as one.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import resource
import socket
import statistics
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[2]))

from benchmarks.striping.bench_sfio import HOSTS, start_listeners
from benchmarks.striping.bench_sfio_processor import Found, cost, measured, ratio
from sfio_emu import Session, StripedFile
from sfio_emu.adapters.listener_clients import DEFAULT_MESSAGE_BYTES
from sfio_emu.adapters.sockets import TcpConnections
from sfio_emu.client import access
from sfio_emu.layout import piece as layout_piece

PIECE_BYTES = 256 << 10
CALLS = 200
GOALS = {"write 75": 1.15, "write 65536": 1.05, "read 75": 1.20, "read 65536": 1.10}
Split = dict[str, list[float]]
"""User and system seconds of both sides, by way."""


def peer(listening: socket.socket, path: Path, total_bytes: int) -> None:
    """The plain peer: "w" takes a stream to disk and answers a byte, "r" sends the file."""
    buffer = memoryview(bytearray(PIECE_BYTES))
    with listening.accept()[0] as stream, path.open("w+b", buffering=0) as file:
        while command := stream.recv(1):
            place = 0
            while place < total_bytes:
                room = buffer[: min(PIECE_BYTES, total_bytes - place)]
                if command == b"r":
                    count = os.preadv(file.fileno(), [room], place)
                    send_all(stream, room[:count])
                else:
                    count = stream.recvmsg_into([room], 0, socket.MSG_WAITALL)[0]
                    os.pwrite(file.fileno(), room[:count], place)
                place += count
            if command == b"w":
                stream.sendall(b".")


def send_all(stream: socket.socket, data: memoryview) -> None:
    while len(data):
        data = data[stream.sendmsg([data]) :]


def plain(stream: socket.socket, memory: memoryview, command: bytes) -> None:
    """One plain transfer of all of `memory`."""
    stream.sendall(command)
    for start in range(0, len(memory), PIECE_BYTES):
        piece = memory[start : start + PIECE_BYTES]
        if command == b"w":
            send_all(stream, piece)
        else:
            stream.recvmsg_into([piece], 0, socket.MSG_WAITALL)
    if command == b"w":
        stream.recv(1)


def ticks(processes: Sequence[int]) -> tuple[float, float]:
    """User and system seconds of other processes and of this one."""
    mine = resource.getrusage(resource.RUSAGE_SELF)
    sums, tick = [mine.ru_utime, mine.ru_stime], os.sysconf("SC_CLK_TCK")
    for process in processes:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        sums[0] += int(fields[11]) / tick
        sums[1] += int(fields[12]) / tick
    return sums[0], sums[1]


def split(way: str, act: Callable[[], object], servers: Sequence[int], into: Split) -> None:
    before = ticks(servers)
    act()
    sums = into.setdefault(way, [0.0, 0.0])
    for side, (now, was) in enumerate(zip(ticks(servers), before, strict=True)):
        sums[side] += now - was


def yardstick(
    session: Session, server: int, rounds: int, total_bytes: int, folder: Path, stack: ExitStack
) -> None:
    """Checked striped accesses beside the plain program."""
    data = np.random.default_rng(1).integers(0, 256, total_bytes, dtype=np.uint8)
    back = np.empty_like(data)
    listening = socket.create_server(("127.0.0.1", 0))
    context = multiprocessing.get_context("fork")
    process = context.Process(
        target=peer, args=(listening, folder / "plain", total_bytes), daemon=True
    )
    process.start()
    stack.callback(process.kill)
    stream = stack.enter_context(socket.create_connection(listening.getsockname()))
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    assert process.pid is not None
    servers, into = [server, process.pid], Split()
    acts: dict[str, Callable[[], object]] = {
        "plain write": partial(plain, stream, data.data, b"w"), "plain read": partial(plain, stream, back.data, b"r")
    }  # fmt: skip
    for unit in (75, 65536):
        file = StripedFile.open(
            ";".join(f"{host}/y{unit}" for host in HOSTS), unit, session=session
        )
        acts |= {
            f"write {unit}": partial(file.pwrite, data, 0),
            f"read {unit}": partial(file.pread, back, 0),
        }
        file.pwrite(data, 0)
    plain(stream, data.data, b"w")
    found = measured(
        {way: partial(split, way, act, servers, into) for way, act in acts.items()}, servers, rounds
    )
    for way in acts:
        sums = [side / (rounds + 1) / total_bytes * 1e9 for side in into[way]]
        text = f"{way:12} {cost(found, way, total_bytes)} ns a byte (user {sums[0]:.2f}, system {sums[1]:.2f})"
        if way in GOALS:
            times = ratio(found, way, f"plain {way.split()[0]}")
            text += f": {times:.2f} of plain, goal {GOALS[way]:.2f}: {'met' if times <= GOALS[way] else 'missed'}"
        print(text)


def ways(session: Session, server: int, rounds: int, total_bytes: int) -> None:
    """Every special way, on and off."""
    data = np.random.default_rng(2).integers(0, 256, total_bytes, dtype=np.uint8)
    back = np.empty_like(data)
    acts: dict[str, Callable[[], object]] = {}
    sizes: dict[str, int] = {}

    def add(name: str, size: int, act: Callable[[], object], *off: tuple[Any, str, object]) -> None:
        def without() -> None:
            with ExitStack() as stack:
                for where, what, value in off:
                    stack.enter_context(mock.patch.object(where, what, value))
                act()

        acts[name], acts[f"{name}, off"], sizes[name] = act, without, size

    def repeated(act: Callable[[Any, int], object], block: Any) -> None:
        for _ in range(CALLS):
            act(block, 0)

    files = {
        u: StripedFile.open(";".join(f"{h}/w{u}" for h in HOSTS), u, session=session)
        for u in (75, 200, 1005, 65536)
    }
    for file in files.values():
        file.pwrite(data, 0)
    for size in (100, 8192):
        off = (access.Access, "is_small", lambda *_: False)
        add(
            f"small message, write {size}",
            size * CALLS,
            partial(repeated, files[75].pwrite, bytes(size)),
            off,
        )
        add(
            f"small message, read {size}",
            size * CALLS,
            partial(repeated, files[75].pread, bytearray(size)),
            off,
        )
    for unit in (75, 65536):
        off = (access.Access, "_limit_bytes", lambda *_: access.PIPELINED_BYTES)
        add(
            f"long messages, write, unit {unit}",
            total_bytes,
            partial(files[unit].pwrite, data, 0),
            off,
        )
        add(
            f"long messages, read, unit {unit}",
            total_bytes,
            partial(files[unit].pread, back, 0),
            off,
        )
    for block in (75, 200, 1005):
        none = ((where, "regular_pieces", lambda *_: None) for where in (access, layout_piece))
        first, second = none
        numbers = np.arange(total_bytes // 4 // block)
        blocks = block + numbers * 4 * block, numbers * block, np.full(len(numbers), block)
        size = len(numbers) * block
        add(
            f"alike, write {block}",
            size,
            partial(files[block].pwrite_blocks, data, *blocks),
            first,
            second,
        )
        add(
            f"alike, read {block}",
            size,
            partial(files[block].pread_blocks, back, *blocks),
            first,
            second,
        )
    show(measured(acts, server, rounds), sizes)


def show(found: Found, sizes: dict[str, int]) -> None:
    for name, size in sizes.items():
        gain = statistics.median(
            sum(a) / sum(b) for a, b in zip(found[f"{name}, off"], found[name], strict=True)
        )
        on, off = cost(found, name, size), cost(found, f"{name}, off", size)
        print(f"{name:28} {on:>16}, off {off:>16} ns a byte: {gain:.2f}")


def main() -> int:
    """Print all."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--part", choices=("yardstick", "ways"), help="this part alone")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--bytes", type=int, default=32_000_000)
    parser.add_argument(
        "--cores", type=int, choices=(1, 2), default=1, help="processors for client and listeners"
    )
    options = parser.parse_args()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-options.cores :])
    base = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(dir=base) as root, ExitStack() as stack:
        process, addresses = start_listeners(Path(root), DEFAULT_MESSAGE_BYTES)
        stack.callback(process.wait)
        stack.callback(process.kill)
        session = Session(TcpConnections(addresses))
        if options.part in (None, "yardstick"):
            yardstick(session, process.pid, options.rounds, options.bytes, Path(root), stack)
        if options.part in (None, "ways"):
            ways(session, process.pid, options.rounds, options.bytes)
    return 0


if __name__ == "__main__":
    sys.exit(main())
