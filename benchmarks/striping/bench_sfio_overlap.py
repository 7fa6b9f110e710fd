"""Measures how far a listener overlaps disk and network during a write.

    python benchmarks/striping/bench_sfio_overlap.py [--megabytes 8] [--rate 16]

A write over a slow network to a slow disk is compared with a slow network alone and a slow disk
alone. Both are slowed down to the same rate by sleeping: the network by a relay, and the disk
within the calls of the listener. ``overlapped`` is the share of the shorter part that takes no
additional time. It is 0 if one follows the other, and 1 if they overlap completely.
"""

from __future__ import annotations

import argparse
import multiprocessing
import socket
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path

from sfio_emu import Session, Settings, StripedFile
from sfio_emu.adapters import listener
from sfio_emu.adapters.listener_disk import RootedSubfiles
from sfio_emu.adapters.sockets import TcpConnections

STRIPE_UNIT = 75
MESSAGE_BYTES = 1 << 17
# The relay forwards pieces of this size, and does not buffer more.
PIECE_BYTES = 1 << 14


class Pace:
    """Limits a rate by sleeping."""

    def __init__(self, bytes_per_s: float) -> None:
        self._bytes_per_s = bytes_per_s
        self._free_s = 0.0

    def wait_for(self, size: int) -> None:
        """Wait until a number of bytes may pass."""
        now_s = time.monotonic()
        self._free_s = max(self._free_s, now_s) + size / self._bytes_per_s
        time.sleep(max(0.0, self._free_s - now_s))


def serve(pipe: Connection, root: Path, bytes_per_s: float | None) -> None:
    """Run a listener with a slow disk.

    Args:
        pipe: The pipe to which its port is sent.
        root: Folder for the subfiles.
        bytes_per_s: Rate of the disk. None: as fast as possible.
    """
    pace = None if bytes_per_s is None else Pace(bytes_per_s)

    class SlowSubfiles(RootedSubfiles):
        def write(self, file: int, piece: memoryview, offset: int) -> int:
            if pace is not None:
                pace.wait_for(len(piece))
            return super().write(file, piece, offset)

    listener.RootedSubfiles = SlowSubfiles  # type: ignore[misc]
    listening = listener.open_listening_socket("127.0.0.1", 0)
    pipe.send(listening.getsockname()[1])
    listener.Listener([(listening, root)]).serve_forever()


def relay(pipe: Connection, port: int, bytes_per_s: float | None) -> None:
    """Run a slow relay to a listener.

    Args:
        pipe: The pipe to which its port is sent.
        port: Port of the listener.
        bytes_per_s: Rate from the client to the listener. None: as fast as possible.
    """
    listening = socket.create_server(("127.0.0.1", 0))
    pipe.send(listening.getsockname()[1])
    client, _ = listening.accept()
    server = socket.create_connection(("127.0.0.1", port))
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, PIECE_BYTES)
    for connection in (client, server):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def relay_answers() -> None:
        while part := server.recv(1 << 16):
            client.sendall(part)

    threading.Thread(target=relay_answers, daemon=True).start()
    pace = None if bytes_per_s is None else Pace(bytes_per_s)
    while part := client.recv(PIECE_BYTES):
        if pace is not None:
            pace.wait_for(len(part))
        server.sendall(part)


@contextmanager
def process(target: Callable[..., None], *arguments: object) -> Iterator[int]:
    """Run a function in a process, which is killed at the end, and yield the port that it sends."""
    context = multiprocessing.get_context("fork")
    pipe, child_pipe = context.Pipe()
    child = context.Process(target=target, args=(child_pipe, *arguments), daemon=True)
    child.start()
    try:
        yield int(pipe.recv())
    finally:
        child.kill()
        child.join()


def write_seconds(
    size: int, network: float | None, disk: float | None, settings: Settings
) -> float:
    """Return the duration of a write.

    Args:
        size: Number of bytes.
        network: Rate of the network in bytes per second. None: as fast as possible.
        disk: Rate of the disk in bytes per second. None: as fast as possible.
        settings: Settings of the client.
    """
    with (
        tempfile.TemporaryDirectory() as root,
        process(serve, Path(root), disk) as listener_port,
        process(relay, listener_port, network) as relay_port,
    ):
        connections = TcpConnections({"p1": ("127.0.0.1", relay_port)}, timeout_s=30)
        session = Session(connections, settings=settings)
        file = StripedFile.open("p1/a", STRIPE_UNIT, session=session)
        data = bytes(size)
        # The first write connects.
        file.pwrite(data[:1000], 0)
        start_s = time.perf_counter()
        file.pwrite(data, 0)
        duration_s = time.perf_counter() - start_s
        session.close()
    return duration_s


def median_seconds(
    size: int, network: float | None, disk: float | None, settings: Settings, repeat: int
) -> float:
    """Return the median duration of several writes; see ``write_seconds``."""
    durations_s = [write_seconds(size, network, disk, settings) for _ in range(repeat)]
    return statistics.median(durations_s)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--megabytes", type=float, default=8, help="size of a write (default 8)")
    parser.add_argument(
        "--rate", type=float, default=16, metavar="MB/S", help="of network and disk, each"
    )
    parser.add_argument("--repeat", type=int, default=3, help="number of writes (default 3)")
    arguments = parser.parse_args()
    size = int(arguments.megabytes * 1e6)
    rate = arguments.rate * 1e6
    repeat = arguments.repeat
    print(
        f"{size / 1e6:g} MB over one connection, network and disk {rate / 1e6:g} MB/s each, "
        "seconds (medians)"
    )
    print(f"{'':22}{'network':>9}{'disk':>9}{'both':>9}{'sum':>9}{'overlapped':>12}")
    for name, pipeline in (("pipelined, window 8", True), ("one after the other", False)):
        settings = Settings(message_bytes=MESSAGE_BYTES, pipeline=pipeline)
        network_s = median_seconds(size, rate, None, settings, repeat)
        disk_s = median_seconds(size, None, rate, settings, repeat)
        both_s = median_seconds(size, rate, rate, settings, repeat)
        sum_s = network_s + disk_s
        overlapped = (sum_s - both_s) / min(network_s, disk_s)
        print(f"{name:22}{network_s:9.3f}{disk_s:9.3f}{both_s:9.3f}{sum_s:9.3f}{overlapped:12.2f}")


if __name__ == "__main__":
    main()
