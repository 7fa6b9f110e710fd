"""A program with one thread that forks processes on request.

    python -P -m testbed.emulation.sandbox.fork_server DESCRIPTOR [MODULE...]

A process with several threads must not fork: the child inherits locks that other threads hold, and
descriptors of programs that other threads are starting. This program has one thread, and has imported
the modules that its children need. It ends when its requester ends, and the kernel ends its children
with it. ``forked_process`` has the requests, and starts this program or forks it before there are
threads.
"""

import gc
import importlib
import io
import os
import pickle
import resource
import signal
import socket
import struct
import sys
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

from testbed.emulation.sandbox.shared_counters import map_numbers

MAX_DESCRIPTORS = 250
"""The kernel passes 253 descriptors with a message at most."""
START, STATUS, MORE, LOAD = b"start", b"status", b"more", b"load"
HEADER = struct.Struct("=6sq")
"""A request's kind and a process id; the answer has the process id or the exit code."""


def main(descriptor: int, modules: list[str]) -> None:
    """Serve requests until the requester has ended."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)
    _, limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    _load(modules)
    requests = socket.socket(fileno=descriptor)
    received: list[int] = []
    while True:
        message, descriptors, _, _ = socket.recv_fds(requests, HEADER.size, MAX_DESCRIPTORS)
        if not message:
            os._exit(0)
        padded_kind, number = HEADER.unpack(message)
        kind = padded_kind.rstrip(b"\0")
        received += descriptors
        if kind == START:
            _answer_start(requests, received)
            received = []
        elif kind == LOAD:
            _load(_read_all(received[0]).decode().split())
            os.close(received.pop())
        elif kind == STATUS:
            _, status = os.waitpid(number, 0)
            requests.send(HEADER.pack(STATUS, os.waitstatus_to_exitcode(status)))


def _load(modules: Sequence[str]) -> None:
    """Import modules, which children then share."""
    for module in modules:
        if module not in sys.modules:
            with suppress(ImportError):  # The child that needs it reports it.
                importlib.import_module(module)
    gc.freeze()


def _answer_start(requests: socket.socket, descriptors: list[int]) -> None:
    """Fork a process that calls the function of the request, and send its id and pidfd."""
    server = os.getpid()
    payload = _read_all(descriptors[0])
    modules, _, _ = payload.partition(b"\0")
    _load(modules.decode().split())
    child = os.fork()
    if child == 0:
        requests.close()
        _run(payload, descriptors, server)
    for descriptor in descriptors:
        os.close(descriptor)
    pidfd = os.pidfd_open(child)
    socket.send_fds(requests, [HEADER.pack(START, child)], [pidfd])
    os.close(pidfd)


def _read_all(descriptor: int) -> bytes:
    size = os.fstat(descriptor).st_size
    return os.pread(descriptor, size, 0)


def _run(payload: bytes, descriptors: list[int], server: int) -> None:
    """Call the function with its end of the pipe, and end this process."""
    from testbed.emulation.sandbox.process_lifetime import die_with_parent

    code = 1
    try:
        die_with_parent()
        if os.getppid() != server:
            os._exit(1)
        pipe = Connection(descriptors[1])
        function, arguments = _Unpickler(payload, descriptors).load()
        os.close(descriptors[0])
        function(pipe, *arguments)
        code = 0
    except BaseException:  # noqa: BLE001 - the process ends with it
        sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
    finally:
        with suppress(OSError):
            sys.stderr.flush()
        os._exit(code)


class _Unpickler(pickle.Unpickler):
    """Restores a call whose sockets and files were passed as descriptors."""

    def __init__(self, payload: bytes, descriptors: list[int]) -> None:
        _, _, pickled = payload.partition(b"\0")
        super().__init__(io.BytesIO(pickled))
        self._descriptors = descriptors

    def persistent_load(self, reference: Any) -> object:
        """Return the socket, the shared numbers, or the number of the open file."""
        kind, position, timeout_s = reference
        descriptor = self._descriptors[position]
        if kind == "file":
            return descriptor
        if kind == "numbers":
            return map_numbers(os.dup(descriptor))
        sock = socket.socket(fileno=descriptor)
        sock.settimeout(timeout_s)
        return sock


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
