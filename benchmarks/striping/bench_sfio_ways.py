"""Measures striped accesses beside the kernel's own work, and the gain of each shortcut.

    python benchmarks/striping/bench_sfio_ways.py [--part yardstick|ways] [--rounds 9]
    [--bytes 32000000] [--cores 1|2]

The figures are processor time of client and listeners: medians of rounds in which all cases take
turns in random order, over loopback, with subfiles in /dev/shm.

- yardstick: a plain program sends the same bytes with ``sendmsg`` to a peer, which receives them
  with ``recvmsg_into`` and writes them with ``pwrite``. It reads them back with ``preadv``,
  ``sendmsg`` and ``recvmsg_into``. It moves 256 KiB at a time, without checksums. The output has
  user and system time, and the cost of striped accesses with checksums over the plain one.
- ways: the same access with and without a shortcut. The shortcuts are the message of a small block,
  long messages for long calls, and one description for blocks that are alike.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import resource
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[2]))

from benchmarks.striping.bench_sfio import READ, WRITE, start_listeners
from benchmarks.striping.bench_sfio_processor import (
    Case,
    cost_text,
    file_name,
    measure,
    median_ratio,
)
from sfio_emu import Session, StripedFile
from sfio_emu.adapters.listener_clients import DEFAULT_MESSAGE_BYTES
from sfio_emu.adapters.sockets import TcpConnections
from sfio_emu.client import access
from sfio_emu.layout import piece as layout_piece

PIECE_BYTES = 256 << 10
# Number of small calls that are measured together.
CALLS = 200
# Largest accepted cost of a striped access over the plain one.
GOALS = {"write 75": 1.15, "write 65536": 1.05, "read 75": 1.20, "read 65536": 1.10}
# Every RANKS-th block is accessed, as if as many processes shared the file.
RANKS = 4


def serve_plain(listening: socket.socket, path: Path, total_bytes: int) -> None:
    """Run the plain peer until the client disconnects; it answers a write with a byte."""
    buffer = memoryview(bytearray(PIECE_BYTES))
    stream, _ = listening.accept()
    with stream, path.open("w+b", buffering=0) as file:
        while command := stream.recv(1):
            position = 0
            while position < total_bytes:
                piece = buffer[: min(PIECE_BYTES, total_bytes - position)]
                if command == READ:
                    count = os.preadv(file.fileno(), [piece], position)
                    send_all(stream, piece[:count])
                else:
                    count = stream.recvmsg_into([piece], 0, socket.MSG_WAITALL)[0]
                    os.pwrite(file.fileno(), piece[:count], position)
                position += count
            if command == WRITE:
                stream.sendall(b".")


def send_all(stream: socket.socket, data: memoryview) -> None:
    while len(data):
        sent = stream.sendmsg([data])
        data = data[sent:]


def plain_copy(stream: socket.socket, memory: memoryview, command: bytes) -> None:
    """Transfer the memory to or from the plain peer."""
    stream.sendall(command)
    for start in range(0, len(memory), PIECE_BYTES):
        piece = memory[start : start + PIECE_BYTES]
        if command == WRITE:
            send_all(stream, piece)
        else:
            stream.recvmsg_into([piece], 0, socket.MSG_WAITALL)
    if command == WRITE:
        stream.recv(1)


class ProcessorTime(NamedTuple):
    """User and system time in seconds."""

    user_s: float
    system_s: float


def processor_time(processes: Sequence[int]) -> ProcessorTime:
    """Return the time of other processes and of this one."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    user_s = usage.ru_utime
    system_s = usage.ru_stime
    ticks_per_s = os.sysconf("SC_CLK_TCK")
    for process in processes:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        user_s += int(fields[11]) / ticks_per_s
        system_s += int(fields[12]) / ticks_per_s
    return ProcessorTime(user_s, system_s)


@dataclass
class TimedCase:
    """A case whose user and system times are added up."""

    act: Case
    processes: Sequence[int]
    user_s: float = 0.0
    system_s: float = 0.0

    def __call__(self) -> None:
        before = processor_time(self.processes)
        self.act()
        after = processor_time(self.processes)
        self.user_s += after.user_s - before.user_s
        self.system_s += after.system_s - before.system_s


@contextmanager
def plain_peer(path: Path, total_bytes: int) -> Iterator[tuple[socket.socket, int]]:
    """Start the plain peer, and yield a connection to it and the id of its process."""
    listening = socket.create_server(("127.0.0.1", 0))
    context = multiprocessing.get_context("fork")
    peer = context.Process(target=serve_plain, args=(listening, path, total_bytes), daemon=True)
    peer.start()
    assert peer.pid is not None
    try:
        with socket.create_connection(listening.getsockname()) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            yield connection, peer.pid
    finally:
        peer.kill()


def measure_yardstick(
    session: Session, listeners: int, rounds: int, total_bytes: int, folder: Path
) -> None:
    """Measure striped accesses with checksums beside the plain program."""
    data = np.random.default_rng(1).integers(0, 256, total_bytes, dtype=np.uint8)
    buffer = np.empty_like(data)
    with plain_peer(folder / "plain", total_bytes) as (stream, peer):
        acts: dict[str, Case] = {
            "plain write": partial(plain_copy, stream, data.data, WRITE),
            "plain read": partial(plain_copy, stream, buffer.data, READ),
        }
        for unit in (75, 65536):
            file = StripedFile.open(file_name(f"y{unit}"), unit, session=session)
            acts[f"write {unit}"] = partial(file.pwrite, data, 0)
            acts[f"read {unit}"] = partial(file.pread, buffer, 0)
            file.pwrite(data, 0)
        plain_copy(stream, data.data, WRITE)
        processes = [listeners, peer]
        cases = {name: TimedCase(act, processes) for name, act in acts.items()}
        costs = measure(cases, processes, rounds)
    for name, case in cases.items():
        # The first round, which is not counted, is in these times too.
        user_ns = case.user_s / (rounds + 1) / total_bytes * 1e9
        system_ns = case.system_s / (rounds + 1) / total_bytes * 1e9
        line = (
            f"{name:12} {cost_text(costs, name, total_bytes)} ns a byte "
            f"(user {user_ns:.2f}, system {system_ns:.2f})"
        )
        if name in GOALS:
            ratio = median_ratio(costs, name, f"plain {name.split()[0]}")
            outcome = "met" if ratio <= GOALS[name] else "missed"
            line += f": {ratio:.2f} of plain, goal {GOALS[name]:.2f}: {outcome}"
        print(line)


class Patch(NamedTuple):
    """An attribute that is replaced to turn a shortcut off."""

    owner: Any
    name: str
    value: object


@dataclass
class ShortcutCases:
    """Accesses with a shortcut, and the same without it.

    Attributes:
        cases: The cases; those without the shortcut have the suffix ", off".
        sizes: Bytes of each access.
    """

    cases: dict[str, Case] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)

    def add(self, name: str, size: int, act: Case, patches: Sequence[Patch]) -> None:
        """Add an access.

        Args:
            name: Its name.
            size: Number of bytes.
            act: Carries out the access.
            patches: What turns the shortcut off.
        """
        self.sizes[name] = size
        self.cases[name] = act
        self.cases[f"{name}, off"] = partial(run_patched, act, patches)


def run_patched(act: Case, patches: Sequence[Patch]) -> None:
    with ExitStack() as stack:
        for patch in patches:
            stack.enter_context(mock.patch.object(*patch))
        act()


def call_often(act: Callable[[Any, int], object], block: Any) -> None:
    for _ in range(CALLS):
        act(block, 0)


def never(*_: object) -> bool:
    return False


def nothing(*_: object) -> None:
    return None


def short_limit(*_: object) -> int:
    return access.PIPELINED_BYTES


def measure_shortcuts(session: Session, listeners: int, rounds: int, total_bytes: int) -> None:
    """Measure accesses with each shortcut and without."""
    data = np.random.default_rng(2).integers(0, 256, total_bytes, dtype=np.uint8)
    buffer = np.empty_like(data)
    files = {}
    for unit in (75, 200, 1005, 65536):
        files[unit] = StripedFile.open(file_name(f"w{unit}"), unit, session=session)
        files[unit].pwrite(data, 0)
    shortcuts = ShortcutCases()
    no_small_messages = [Patch(access.Access, "is_small", never)]
    for size in (100, 8192):
        write = partial(call_often, files[75].pwrite, bytes(size))
        read = partial(call_often, files[75].pread, bytearray(size))
        shortcuts.add(f"small message, write {size}", size * CALLS, write, no_small_messages)
        shortcuts.add(f"small message, read {size}", size * CALLS, read, no_small_messages)
    no_long_messages = [Patch(access.Access, "_limit_bytes", short_limit)]
    for unit in (75, 65536):
        write = partial(files[unit].pwrite, data, 0)
        read = partial(files[unit].pread, buffer, 0)
        shortcuts.add(f"long messages, write, unit {unit}", total_bytes, write, no_long_messages)
        shortcuts.add(f"long messages, read, unit {unit}", total_bytes, read, no_long_messages)
    no_alike_blocks = [
        Patch(access, "regular_pieces", nothing),
        Patch(layout_piece, "regular_pieces", nothing),
    ]
    for block in (75, 200, 1005):
        numbers = np.arange(total_bytes // RANKS // block)
        file_positions = block + numbers * RANKS * block
        memory_positions = numbers * block
        sizes = np.full(len(numbers), block)
        positions = (file_positions, memory_positions, sizes)
        write = partial(files[block].pwrite_blocks, data, *positions)
        read = partial(files[block].pread_blocks, buffer, *positions)
        size = len(numbers) * block
        shortcuts.add(f"alike, write {block}", size, write, no_alike_blocks)
        shortcuts.add(f"alike, read {block}", size, read, no_alike_blocks)
    print_shortcuts(shortcuts, listeners, rounds)


def print_shortcuts(shortcuts: ShortcutCases, listeners: int, rounds: int) -> None:
    """Measure the cases, and print the cost with and without each shortcut, and the gain."""
    costs = measure(shortcuts.cases, [listeners], rounds)
    for name, size in shortcuts.sizes.items():
        gain = median_ratio(costs, f"{name}, off", name)
        on = cost_text(costs, name, size)
        off = cost_text(costs, f"{name}, off", size)
        print(f"{name:28} {on:>16}, off {off:>16} ns a byte: {gain:.2f}")


def main() -> int:
    """Print all parts, or one."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--part", choices=("yardstick", "ways"), help="only this part")
    parser.add_argument("--rounds", type=int, default=9, help="number of rounds (default 9)")
    parser.add_argument(
        "--bytes", type=int, default=32_000_000, help="size of a long access (default 32000000)"
    )
    parser.add_argument(
        "--cores", type=int, choices=(1, 2), default=1, help="processors for client and listeners"
    )
    options = parser.parse_args()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-options.cores :])
    folder = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(dir=folder) as root, ExitStack() as stack:
        process, addresses = start_listeners(Path(root), DEFAULT_MESSAGE_BYTES)
        stack.callback(process.wait)
        stack.callback(process.kill)
        session = Session(TcpConnections(addresses))
        if options.part in (None, "yardstick"):
            measure_yardstick(session, process.pid, options.rounds, options.bytes, Path(root))
        if options.part in (None, "ways"):
            measure_shortcuts(session, process.pid, options.rounds, options.bytes)
    return 0


if __name__ == "__main__":
    sys.exit(main())
