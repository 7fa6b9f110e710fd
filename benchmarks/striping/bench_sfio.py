"""Measures striped reads and writes over loopback beside a raw socket copy, by stripe unit.

    python benchmarks/striping/bench_sfio.py [--quick]

One client writes to three listeners in one process. Everything runs on one core. The figures are
medians in MB/s, of rounds in which all kinds of accesses take turns. The raw copy is one TCP stream
to a process that writes (reads) one file with pwrite (pread) in pieces of 256 KB.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import socket
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from time import perf_counter

import numpy as np

from sfio_emu import Session, Settings, StripedFile
from sfio_emu.adapters.listener_clients import DEFAULT_MESSAGE_BYTES
from sfio_emu.adapters.sockets import TcpConnections

UNITS = (75, 200, 1005, 5000, 65536)
HOSTS = ("p1", "p2", "p3")
PIECE_BYTES = 256 << 10
# Bytes that are written fragment by fragment, for small stripe units. Each takes a round trip.
FRAGMENTS_BYTES = 300_000

# Commands of the raw peer: read the file, write it, or only receive.
READ = b"r"
WRITE = b"w"
RECEIVE = b"n"
RAW_COMMANDS = {"raw socket": RECEIVE, "raw write": WRITE, "raw read": READ}

# Smallest accepted share of the raw copy, for stripe units below and from 200 bytes, and smallest
# accepted gain over fragments.
MIN_OF_RAW_SMALL = 0.6
MIN_OF_RAW = 0.8
MIN_GAIN = 150

# Speeds in MB/s by the name of an access, such as "write 75", one per round.
Speeds = dict[str, list[float]]


def start_listeners(
    root: Path, message_bytes: int, *options: str
) -> tuple[subprocess.Popen[str], dict[str, tuple[str, int]]]:
    """Start three listeners in one process.

    Args:
        root: Folder for the subfiles.
        message_bytes: Largest message.
        *options: Further options of the listener.

    Returns:
        The process, and the address of each host.
    """
    argv = [sys.executable, "-P", "-m", "sfio_emu.adapters.listener"]
    argv += ["--root", str(root), "--message", str(message_bytes), *options]
    for host in HOSTS:
        argv += ["--listen", f"{host}@127.0.0.1:0"]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    addresses = {}
    for host in HOSTS:
        port = int(process.stdout.readline().rpartition(":")[2])
        addresses[host] = ("127.0.0.1", port)
    return process, addresses


def serve_raw(listening: socket.socket, path: Path, total_bytes: int) -> None:
    """Run the raw peer until the client disconnects.

    After a command that writes or receives, it answers with a byte.

    Args:
        listening: The listening socket.
        path: The file.
        total_bytes: Size of each transfer.
    """
    buffer = memoryview(bytearray(PIECE_BYTES))
    stream, _ = listening.accept()
    with stream, path.open("w+b", buffering=0) as file:
        while command := stream.recv(1):
            position = 0
            while position < total_bytes:
                size = min(PIECE_BYTES, total_bytes - position)
                if command == READ:
                    count = os.preadv(file.fileno(), [buffer[:size]], position)
                    stream.sendall(buffer[:count])
                else:
                    count = stream.recv_into(buffer[:size], size, socket.MSG_WAITALL)
                    if command == WRITE:
                        os.pwrite(file.fileno(), buffer[:count], position)
                position += count
            if command != READ:
                stream.sendall(b".")


def raw_copy(stream: socket.socket, memory: memoryview, command: bytes) -> None:
    """Transfer the memory to or from the raw peer."""
    stream.sendall(command)
    if command == READ:
        position = 0
        while position < len(memory):
            position += stream.recv_into(memory[position : position + PIECE_BYTES])
        return
    stream.sendall(memory)
    stream.recv(1)


def speed_of(action: Callable[[], object], size_bytes: int) -> float:
    """Return the speed of an action in MB/s."""
    start_s = perf_counter()
    action()
    return size_bytes / (perf_counter() - start_s) / 1e6


def peak_bytes(process_id: int) -> int:
    """Return the largest resident memory of a process."""
    for line in Path(f"/proc/{process_id}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


def measure(
    files: Mapping[int, StripedFile], raw: socket.socket, memory: np.ndarray, rounds: int
) -> Speeds:
    """Measure all accesses in turn, and return their speeds; the first round is not counted.

    Args:
        files: The file of each stripe unit.
        raw: The connection to the raw peer.
        memory: The data.
        rounds: Number of rounds.
    """
    speeds: Speeds = {}
    buffer = np.empty_like(memory)
    for number in range(rounds + 1):
        round_speeds = {}
        for name, command in RAW_COMMANDS.items():
            data = memoryview(buffer if command == READ else memory)
            round_speeds[name] = speed_of(partial(raw_copy, raw, data, command), len(memory))
        for unit, file in files.items():
            round_speeds |= measure_file(unit, file, memory, buffer)
        if number > 0:
            for name, speed in round_speeds.items():
                speeds.setdefault(name, []).append(speed)
    return speeds


def measure_file(
    unit: int, file: StripedFile, memory: np.ndarray, buffer: np.ndarray
) -> dict[str, float]:
    """Write and read a file, completely and fragment by fragment, and return the speeds in MB/s.

    Args:
        unit: The stripe unit.
        file: The file.
        memory: The data.
        buffer: Memory of the same size for what is read.
    """
    size = len(memory)
    speeds = {f"write {unit}": speed_of(partial(file.pwrite, memory, 0), size)}
    buffer[:] = 0
    speeds[f"read {unit}"] = speed_of(partial(file.pread, buffer, 0), size)
    if not np.array_equal(buffer, memory):
        raise SystemExit(f"unit {unit}: what was read is not what was written")
    part_size = min(FRAGMENTS_BYTES * max(1, unit // 200), size)
    write = partial(file.write_fragments, memory[:part_size], 0)
    read = partial(file.read_fragments, buffer[:part_size], 0)
    speeds[f"mwrite {unit}"] = speed_of(write, part_size)
    speeds[f"mread {unit}"] = speed_of(read, part_size)
    return speeds


def median_ratio(speeds: Speeds, over: str, under: str) -> float:
    """Return the median of the ratios of two accesses, round by round."""
    ratios = [a / b for a, b in zip(speeds[over], speeds[under], strict=True)]
    return statistics.median(ratios)


def show(speeds: Speeds) -> None:
    """Print the table of medians, and whether the requirements are met."""
    for name in RAW_COMMANDS:
        print(f"{name:12} {statistics.median(speeds[name]):8.0f} MB/s")
    print(
        f"{'unit':>6} {'write':>8} {'of raw':>7} {'x mwrite':>9} {'read':>8} {'of raw':>7} "
        f"{'x mread':>8}"
    )
    for unit in UNITS:
        line = [f"{unit:6}"]
        for name, width in (("write", 9), ("read", 8)):
            access = f"{name} {unit}"
            line.append(f"{statistics.median(speeds[access]):8.0f}")
            line.append(f"{median_ratio(speeds, access, f'raw {name}'):7.2f}")
            line.append(f"{median_ratio(speeds, access, f'm{access}'):{width}.1f}")
        print(" ".join(line))
    for name in ("write", "read"):
        for unit in UNITS:
            minimum = MIN_OF_RAW_SMALL if unit < 200 else MIN_OF_RAW
            of_raw = median_ratio(speeds, f"{name} {unit}", f"raw {name}")
            outcome = "met" if of_raw >= minimum else "missed"
            print(f"{name} {unit}: {of_raw:.2f} of raw, at least {minimum}: {outcome}")
    gain = median_ratio(speeds, "write 75", "mwrite 75")
    outcome = "met" if gain >= MIN_GAIN else "missed"
    print(f"write 75: {gain:.0f} times mwrite, at least {MIN_GAIN}: {outcome}")


@contextmanager
def raw_peer(path: Path, total_bytes: int) -> Iterator[socket.socket]:
    """Start the raw peer in a process, and yield a connection to it."""
    listening = socket.create_server(("127.0.0.1", 0))
    context = multiprocessing.get_context("fork")
    peer = context.Process(target=serve_raw, args=(listening, path, total_bytes), daemon=True)
    peer.start()
    try:
        with socket.create_connection(listening.getsockname()) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            yield connection
    finally:
        peer.kill()
        peer.join()


def open_files(session: Session) -> dict[int, StripedFile]:
    """Create a file for each stripe unit."""
    files = {}
    for unit in UNITS:
        name = ";".join(f"{host}/bench-{unit}" for host in HOSTS)
        files[unit] = StripedFile.open(name, unit, session=session)
    return files


def memory_folder() -> Path | None:
    """Return a folder in memory, or None if there is none."""
    folder = Path("/dev/shm")
    return folder if folder.is_dir() else None


def main() -> int:
    """Run everything on one core, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="60 MB and three rounds instead of 300 MB and five"
    )
    parser.add_argument(
        "--no-check", action="store_true", help="without checksums of what is written and read"
    )
    parser.add_argument(
        "--root", type=Path, help="folder for the files (default: /dev/shm, if there is one)"
    )
    parser.add_argument(
        "--message", type=int, default=DEFAULT_MESSAGE_BYTES, help="largest message (%(default)s)"
    )
    arguments = parser.parse_args()
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    total_bytes = 60_000_000 if arguments.quick else 300_000_000
    rounds = 3 if arguments.quick else 5
    memory = np.random.default_rng(1).integers(0, 256, total_bytes, dtype=np.uint8)
    settings = Settings(
        check_data=not arguments.no_check,
        check_reads=not arguments.no_check,
        message_bytes=arguments.message,
    )
    with tempfile.TemporaryDirectory(dir=arguments.root or memory_folder()) as root:
        listeners, addresses = start_listeners(Path(root), arguments.message)
        try:
            with raw_peer(Path(root) / "raw", total_bytes) as raw:
                session = Session(TcpConnections(addresses), settings=settings)
                peak_before = peak_bytes(listeners.pid)
                files = open_files(session)
                speeds = measure(files, raw, memory, rounds)
                for file in files.values():
                    file.close()
            show(speeds)
            peak = peak_bytes(listeners.pid)
            print(
                f"listeners: {peak / 1e6:.0f} MB at most, {(peak - peak_before) / 1e6:.1f} MB of "
                f"them for {total_bytes / 1e6:.0f} MB of data"
            )
        finally:
            listeners.kill()
            listeners.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
