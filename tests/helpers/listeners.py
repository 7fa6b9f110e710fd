"""Listeners of striped files as processes, sessions on them, and ways to them that alter or cut what passes."""

from __future__ import annotations

import resource
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from sfio_emu import Session, Settings, StripedFile
from sfio_emu.adapters.listener import Listener, open_listening_socket
from sfio_emu.adapters.sockets import TcpConnections
from tests.helpers.warm import WarmProcess

Addresses = dict[str, tuple[str, int]]


@contextmanager
def listener(
    root: Path,
    host: str,
    *options: str,
    port: int = 0,
    limit_bytes: int | None = None,
    before: tuple[str, ...] = (),
) -> Iterator[tuple[subprocess.Popen[str], Addresses]]:
    """One listener in a process (at any free port unless told otherwise), its files no longer than `limit_bytes`."""
    module = [sys.executable, "-P", "-m", "sfio_emu.adapters.listener"]
    command = [
        *before,
        *module,
        "--root",
        str(root),
        "--listen",
        f"{host}@127.0.0.1:{port}",
        *options,
    ]
    start = subprocess.Popen if before else WarmProcess
    with start(command, stdout=subprocess.PIPE, text=True) as process:
        if limit_bytes is not None:
            resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (limit_bytes, limit_bytes))
        assert process.stdout is not None
        try:
            port = int(process.stdout.readline().rpartition(":")[2])
            yield process, {host: ("127.0.0.1", port)}
        finally:
            process.kill()


@contextmanager
def listening(root: Path, **settings: Any) -> Iterator[Addresses]:
    """A listener of p1 in a thread; `settings` as `Listener` takes them."""
    door = open_listening_socket("127.0.0.1", 0)
    served = Listener([(door, root)], **settings)
    thread = threading.Thread(target=served.serve_forever)
    thread.start()
    try:
        yield {"p1": door.getsockname()}
    finally:
        served.close()
        thread.join()


def session_of(
    *addresses: Addresses,
    settings: Settings | None = None,
    timeout_s: float = 2.0,
    stall_s: float | None = None,
) -> Session:
    merged = {host: place for some in addresses for host, place in some.items()}
    return Session(TcpConnections(merged, timeout_s=timeout_s, stall_s=stall_s), settings=settings)


@dataclass
class Attacked:
    """A listener in a process of its own, its address, and what it logs."""

    process: subprocess.Popen[str]
    addresses: Addresses
    log: Path
    streams: list[socket.socket] = field(default_factory=list)

    def knock(self) -> socket.socket:
        stream = socket.create_connection(self.addresses["p1"], timeout=20)
        self.streams.append(stream)
        return stream

    def memory(self, key: str = "VmHWM") -> int:
        """Bytes resident at most so far."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(key + ":"))

    def worst_s(self, calls: int = 20, size: int = 300_000) -> float:
        """The longest of some writes and reads of a new client."""
        worst = 0.0
        session = session_of(self.addresses, timeout_s=20)
        for number in range(calls):
            start_s = time.monotonic()
            file = StripedFile.open("p1/mine", 75, session=session)
            assert file.pwrite(bytes([number]) * size, 0) == size
            assert file.pread(size, 0) == bytes([number]) * size
            worst = max(worst, time.monotonic() - start_s)
        session.close()
        print(f"the longest open, write and read of {size} bytes: {worst:.3f} s")
        return worst


@contextmanager
def attacked(root: Path, *options: str, descriptors: int | None = None) -> Iterator[Attacked]:
    def limit() -> None:
        if descriptors is not None:
            resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))

    log = root / "log"
    command = [
        sys.executable,
        "-m",
        "sfio_emu.adapters.listener",
        "--root",
        str(root / "files"),
        "--listen",
    ]
    with log.open("w") as to, ExitStack() as stack:
        process = stack.enter_context(
            subprocess.Popen(
                [*command, "p1@127.0.0.1:0", *options],
                stdout=subprocess.PIPE,
                stderr=to,
                text=True,
                preexec_fn=limit,
            )
        )
        stack.callback(process.kill)
        assert process.stdout is not None
        port = int(process.stdout.readline().rpartition(":")[2])
        it = Attacked(process, {"p1": ("127.0.0.1", port)}, log)
        stack.callback(lambda: [stream.close() for stream in it.streams])
        yield it
        assert process.poll() is None, "it lives"


@contextmanager
def proxy(
    target: tuple[str, int], change: Callable[[bytes, int], bytes]
) -> Iterator[tuple[str, int]]:
    """A way to a listener on which `change(bytes, place in the stream)` alters what the client sends; b"" cuts it."""
    listening = socket.create_server(("127.0.0.1", 0))

    def forward(source: socket.socket, sink: socket.socket, alter: bool) -> None:
        place = 0
        try:
            while part := source.recv(65536):
                altered = change(part, place) if alter else part
                place += len(part)
                sink.sendall(altered)
                if len(altered) < len(part):
                    break
        except OSError:
            pass
        for end in (source, sink):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def serve() -> None:
        try:
            client, _ = listening.accept()
        except OSError:
            return
        with client, socket.create_connection(target) as server:
            back = threading.Thread(target=forward, args=(server, client, False))
            back.start()
            forward(client, server, True)
            back.join()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield listening.getsockname()
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join()


def small_disk(place: Path) -> tuple[str, ...]:
    """Words before a command that give it a file system of 256 kB at that folder; skips the test where that is
    refused."""
    words = (
        "unshare",
        "--mount",
        "sh",
        "-c",
        'mount -t tmpfs -o size=256k none "$0" && exec "$@"',
        str(place),
    )
    if subprocess.run([*words, "true"], check=False, capture_output=True).returncode:
        pytest.skip("a small file system cannot be mounted here")
    return words
