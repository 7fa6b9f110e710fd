"""How far a listener overlaps disk and network: a write over a slow way to a slow disk, next to each of the two alone.

    python benchmarks/striping/bench_sfio_overlap.py [--megabytes 8] [--rate 16]

Both are slowed down by sleeping, each to the same rate: the way by a relay that passes bytes on at that rate, the disk
inside the listener's calls. `overlapped` is the share of the shorter part that cost no time: 0 one after the other, 1
all at once.
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
PIECE_BYTES = 1 << 14


class Pace:
    """Lets bytes pass at a rate, sleeping off what is ahead of it."""

    def __init__(self, bytes_per_s: float) -> None:
        self._rate, self._free_s = bytes_per_s, 0.0

    def pass_on(self, size: int) -> None:
        now_s = time.monotonic()
        self._free_s = max(self._free_s, now_s) + size / self._rate
        time.sleep(max(0.0, self._free_s - now_s))


def serve(pipe: Connection, root: Path, bytes_per_s: float | None) -> None:
    """A listener whose disk writes at that rate; it sends its port over the pipe."""
    pace = None if bytes_per_s is None else Pace(bytes_per_s)

    class SlowSubfiles(RootedSubfiles):
        def write(self, file: int, piece: memoryview, offset: int) -> int:
            if pace is not None:
                pace.pass_on(len(piece))
            return super().write(file, piece, offset)

    listener.RootedSubfiles = SlowSubfiles  # type: ignore[misc]
    listening = listener.open_listening_socket("127.0.0.1", 0)
    pipe.send(listening.getsockname()[1])
    listener.Listener([(listening, root)]).serve_forever()


def relay(pipe: Connection, port: int, bytes_per_s: float | None) -> None:
    """A way to the listener that passes bytes on at that rate; it sends its own port over the pipe."""
    listening = socket.create_server(("127.0.0.1", 0))
    pipe.send(listening.getsockname()[1])
    client, _ = listening.accept()
    server = socket.create_connection(("127.0.0.1", port))
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, PIECE_BYTES)
    for way in (client, server):
        way.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def back() -> None:
        while part := server.recv(1 << 16):
            client.sendall(part)

    threading.Thread(target=back, daemon=True).start()
    pace = None if bytes_per_s is None else Pace(bytes_per_s)
    while part := client.recv(PIECE_BYTES):
        if pace is not None:
            pace.pass_on(len(part))
        server.sendall(part)


@contextmanager
def process(act: Callable[..., None], *words: object) -> Iterator[int]:
    """A process of its own; the port it sends."""
    context = multiprocessing.get_context("fork")
    pipe, child = context.Pipe()
    started = context.Process(target=act, args=(child, *words), daemon=True)
    started.start()
    try:
        yield int(pipe.recv())
    finally:
        started.kill()
        started.join()


def write_seconds(
    size: int, network: float | None, disk: float | None, settings: Settings
) -> float:
    """Of one write of `size` bytes; rates in bytes a second, None for as fast as it goes."""
    with (
        tempfile.TemporaryDirectory() as root,
        process(serve, Path(root), disk) as port,
        process(relay, port, network) as way,
    ):
        session = Session(
            TcpConnections({"p1": ("127.0.0.1", way)}, timeout_s=30), settings=settings
        )
        file = StripedFile.open("p1/a", STRIPE_UNIT, session=session)
        data = bytes(size)
        file.pwrite(data[:1000], 0)
        start_s = time.perf_counter()
        file.pwrite(data, 0)
        seconds = time.perf_counter() - start_s
        session.close()
    return seconds


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--megabytes", type=float, default=8)
    parser.add_argument(
        "--rate", type=float, default=16, metavar="MB/S", help="of network and disk, each"
    )
    parser.add_argument("--repeat", type=int, default=3)
    asked = parser.parse_args()
    size, rate = int(asked.megabytes * 1e6), asked.rate * 1e6
    print(
        f"{size / 1e6:g} MB over one connection, network and disk {rate / 1e6:g} MB/s each, seconds (medians)"
    )
    print(f"{'':22}{'network':>9}{'disk':>9}{'both':>9}{'sum':>9}{'overlapped':>12}")
    for name, pipeline in (("pipelined, window 8", True), ("one after the other", False)):
        settings = Settings(message_bytes=MESSAGE_BYTES, pipeline=pipeline)

        def typical(
            network: float | None, disk: float | None, settings: Settings = settings
        ) -> float:
            return statistics.median(
                write_seconds(size, network, disk, settings) for _ in range(asked.repeat)
            )

        alone, still, both = typical(rate, None), typical(None, rate), typical(rate, rate)
        overlapped = (alone + still - both) / min(alone, still)
        print(f"{name:22}{alone:9.3f}{still:9.3f}{both:9.3f}{alone + still:9.3f}{overlapped:12.2f}")


if __name__ == "__main__":
    main()
