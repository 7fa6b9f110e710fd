"""A program with one thread that forks processes on request.

    python -P -m testbed.emulation.sandbox.fork_server DESCRIPTOR [MODULE...]

A process with several threads must not fork, because the child would inherit locks that other
threads have, and descriptors of programs that other threads are starting. This program has one
thread, and has imported the modules that its children need.

It ends when its requester ends, and the kernel ends its children with it. ``forked_process`` makes
the requests. It starts this program, or forks it before there are threads.
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

# The kernel passes at most 253 descriptors with a message.
MAX_DESCRIPTORS = 250

# Kinds of requests: start a process, get the exit code of a process that has ended, more
# descriptors for the next request, import modules.
START = b"start"
STATUS = b"status"
MORE = b"more"
LOAD = b"load"

# A request: its kind and a process id. In the answer, a process id or an exit code takes the place
# of the latter.
HEADER = struct.Struct("=6sq")


def main(descriptor: int, modules: list[str]) -> None:
    """Serve requests until the requester has ended.

    Args:
        descriptor: The socket through which requests arrive.
        modules: Names of modules to import at once.
    """
    # A forked helper inherits the signal handlers of its requester, which are not meant for it.
    # Ctrl-C is left to the requester.
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_DFL)
    # A request may bring more descriptors than the usual limit of 1024.
    _, limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    _load(modules)
    requests = socket.socket(fileno=descriptor)
    received: list[int] = []
    while True:
        message, descriptors, _, _ = socket.recv_fds(requests, HEADER.size, MAX_DESCRIPTORS)
        if not message:
            # The requester has ended.
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
    """Import modules, whose memory children then share."""
    for module in modules:
        if module not in sys.modules:
            # The child that needs a missing module reports it.
            with suppress(ImportError):
                importlib.import_module(module)
    # The garbage collector of a child would write to every object, and so copy its memory.
    gc.freeze()


def _answer_start(requests: socket.socket, descriptors: list[int]) -> None:
    """Fork a process that calls the function of the request, and send its id and pidfd.

    Args:
        requests: The socket to the requester.
        descriptors: The call (see ``forked_process``), the child's end of its pipe, and the files
            and sockets among its arguments.
    """
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
    """Call the function with its end of the pipe, and end this process.

    Args:
        payload: The call.
        descriptors: As for ``_answer_start``.
        server: Process id of the helper.
    """
    from testbed.emulation.sandbox.process_lifetime import die_with_parent

    code = 1
    try:
        die_with_parent()
        # The helper may have ended before the line above, which then has no effect.
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
        # The reader of stderr may have ended.
        with suppress(OSError):
            sys.stderr.flush()
        # The process ends without the exit functions of the program that forked the helper.
        os._exit(code)


class _Unpickler(pickle.Unpickler):
    """Restores a call whose sockets and files were passed as descriptors."""

    def __init__(self, payload: bytes, descriptors: list[int]) -> None:
        _, _, pickled = payload.partition(b"\0")
        super().__init__(io.BytesIO(pickled))
        self._descriptors = descriptors

    def persistent_load(self, reference: Any) -> object:
        """Return a socket, shared numbers, or the descriptor of an open file."""
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
