"""Striped reads and writes over loopback next to a raw socket copy, one core for all, by stripe unit.

``python benchmarks/striping/bench_sfio.py [--quick]``: one client, three listeners in one process, medians of rounds in
which every way has its turn; MB/s. Raw: one TCP stream to a process that writes (reads) one file with pwrite (pread) in
256 KB pieces.
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
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

import numpy as np

from sfio_emu import Session, Settings, StripedFile
from sfio_emu.adapters.listener_clients import DEFAULT_MESSAGE_BYTES
from sfio_emu.adapters.sockets import TcpConnections

UNITS = (75, 200, 1005, 5000, 65536)
HOSTS = ("p1", "p2", "p3")
PIECE_BYTES = 256 << 10
FRAGMENTS_BYTES = 300_000


def start_listeners(
    root: Path, message_bytes: int, *options: str
) -> tuple[subprocess.Popen[str], dict[str, tuple[str, int]]]:
    """Three listeners in one process; their addresses by host."""
    command = [
        sys.executable,
        "-P",
        "-m",
        "sfio_emu.adapters.listener",
        "--root",
        str(root),
        "--message",
        str(message_bytes),
    ]
    command += options
    for host in HOSTS:
        command += ["--listen", f"{host}@127.0.0.1:0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    ports = [int(process.stdout.readline().rpartition(":")[2]) for _ in HOSTS]
    return process, {host: ("127.0.0.1", port) for host, port in zip(HOSTS, ports, strict=True)}


def serve_raw(listening: socket.socket, path: Path, total_bytes: int) -> None:
    """The raw peer: "w" takes a stream to disk and answers a byte, "r" sends the file, "n" takes a stream to
    nowhere."""
    buffer = memoryview(bytearray(PIECE_BYTES))
    with listening.accept()[0] as stream, path.open("w+b", buffering=0) as file:
        while command := stream.recv(1):
            place = 0
            while place < total_bytes:
                room = min(PIECE_BYTES, total_bytes - place)
                if command == b"r":
                    count = os.preadv(file.fileno(), [buffer[:room]], place)
                    stream.sendall(buffer[:count])
                else:
                    count = stream.recv_into(buffer[:room], room, socket.MSG_WAITALL)
                    if command == b"w":
                        os.pwrite(file.fileno(), buffer[:count], place)
                place += count
            if command != b"r":
                stream.sendall(b".")


def raw_copy(stream: socket.socket, memory: memoryview, command: bytes) -> None:
    """One raw transfer of all of `memory`."""
    stream.sendall(command)
    if command == b"r":
        place = 0
        while place < len(memory):
            place += stream.recv_into(memory[place : place + PIECE_BYTES])
        return
    stream.sendall(memory)
    stream.recv(1)


def timed(action: Callable[[], object], size_bytes: int) -> float:
    """MB/s."""
    start_s = perf_counter()
    action()
    return size_bytes / (perf_counter() - start_s) / 1e6


def peak_bytes(process_id: int) -> int:
    """The most memory a process has had resident."""
    for line in Path(f"/proc/{process_id}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


def measure(
    files: dict[int, StripedFile], raw: socket.socket, memory: np.ndarray, rounds: int
) -> dict[str, list[float]]:
    """MB/s by way ("write 75", "raw write", ...), one figure a round; the first round warms up and is not counted."""
    results: dict[str, list[float]] = {}
    back = np.empty_like(memory)
    for number in range(rounds + 1):
        speeds = {
            f"raw {name}": timed(
                lambda c=command: raw_copy(raw, memoryview(back if c == b"r" else memory), c),
                len(memory),
            )
            for name, command in (("socket", b"n"), ("write", b"w"), ("read", b"r"))
        }
        for unit, file in files.items():
            speeds[f"write {unit}"] = timed(lambda f=file: f.pwrite(memory, 0), len(memory))
            back[:] = 0
            speeds[f"read {unit}"] = timed(lambda f=file: f.pread(back, 0), len(memory))
            if not np.array_equal(back, memory):
                raise SystemExit(f"unit {unit}: what was read is not what was written")
            some = memory[: min(FRAGMENTS_BYTES * max(1, unit // 200), len(memory))]
            speeds[f"mwrite {unit}"] = timed(
                lambda f=file, s=some: f.write_fragments(s, 0), len(some)
            )
            speeds[f"mread {unit}"] = timed(
                lambda f=file, s=some: f.read_fragments(back[: len(s)], 0), len(some)
            )
        if number:
            for way, speed in speeds.items():
                results.setdefault(way, []).append(speed)
    return results


def show(results: dict[str, list[float]]) -> None:
    """The table: medians, and the median of the ratios round by round."""

    def ratio(way: str, to: str) -> float:
        return statistics.median(a / b for a, b in zip(results[way], results[to], strict=True))

    for name in ("raw socket", "raw write", "raw read"):
        print(f"{name:12} {statistics.median(results[name]):8.0f} MB/s")
    print(
        f"{'unit':>6} {'write':>8} {'of raw':>7} {'x mwrite':>9} {'read':>8} {'of raw':>7} {'x mread':>8}"
    )
    for unit in UNITS:
        line = [f"{unit:6}"]
        for name, width in (("write", 9), ("read", 8)):
            line.append(f"{statistics.median(results[f'{name} {unit}']):8.0f}")
            line.append(f"{ratio(f'{name} {unit}', f'raw {name}'):7.2f}")
            line.append(f"{ratio(f'{name} {unit}', f'm{name} {unit}'):{width}.1f}")
        print(" ".join(line))
    for name in ("write", "read"):
        for unit in UNITS:
            bar = 0.6 if unit < 200 else 0.8
            of_raw = ratio(f"{name} {unit}", f"raw {name}")
            print(
                f"{name} {unit}: {of_raw:.2f} of raw, at least {bar}: {'met' if of_raw >= bar else 'missed'}"
            )
    times = ratio("write 75", "mwrite 75")
    print(
        f"write 75: {times:.0f} times mwrite, at least 150: {'met' if times >= 150 else 'missed'}"
    )


def main() -> int:
    """Run all on one core and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="60 MB and three rounds instead of 300 MB and five"
    )
    parser.add_argument(
        "--no-check", action="store_true", help="without checksums of what is written and read"
    )
    parser.add_argument(
        "--root", type=Path, help="where the files lie (default: memory, where there is /dev/shm)"
    )
    parser.add_argument(
        "--message", type=int, default=DEFAULT_MESSAGE_BYTES, help="largest message (%(default)s)"
    )
    options = parser.parse_args()
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    total_bytes, rounds = (60_000_000, 3) if options.quick else (300_000_000, 5)
    base = options.root or (Path("/dev/shm") if Path("/dev/shm").is_dir() else None)
    memory = np.random.default_rng(1).integers(0, 256, total_bytes, dtype=np.uint8)
    with tempfile.TemporaryDirectory(dir=base) as root:
        listeners, addresses = start_listeners(Path(root), options.message)
        listening = socket.create_server(("127.0.0.1", 0))
        peer = multiprocessing.get_context("fork").Process(
            target=serve_raw, args=(listening, Path(root) / "raw", total_bytes), daemon=True
        )
        peer.start()
        try:
            with socket.create_connection(listening.getsockname()) as raw:
                raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                session = Session(
                    TcpConnections(addresses),
                    settings=Settings(
                        check_data=not options.no_check,
                        check_reads=not options.no_check,
                        message_bytes=options.message,
                    ),
                )
                before = peak_bytes(listeners.pid)
                names = {unit: ";".join(f"{host}/bench-{unit}" for host in HOSTS) for unit in UNITS}
                files = {
                    unit: StripedFile.open(name, unit, session=session)
                    for unit, name in names.items()
                }
                results = measure(files, raw, memory, rounds)
                for file in files.values():
                    file.close()
            show(results)
            after = peak_bytes(listeners.pid)
            print(
                f"listeners: {after / 1e6:.0f} MB at most, {(after - before) / 1e6:.1f} MB of them for "
                f"{total_bytes / 1e6:.0f} MB of data"
            )
        finally:
            for process in (listeners, peer):
                process.kill()
            listeners.wait()
            peer.join()
    return 0


if __name__ == "__main__":
    sys.exit(main())
