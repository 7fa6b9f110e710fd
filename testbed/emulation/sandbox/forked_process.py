"""Processes that a program with threads may start: forked by a helper program that has one thread."""

import io
import os
import pickle
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from testbed.emulation.sandbox import fork_server
from testbed.emulation.sandbox.fork_server import HEADER, MAX_DESCRIPTORS, MORE, START, STATUS
from testbed.errors import InvalidRunError

_ROOT = Path(fork_server.__file__).parents[3]


class OpenFile:
    """An open file among the arguments of a process, which gets the number of its descriptor."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor


class ForkedProcess:
    """A process that calls ``function(pipe, *arguments)`` and ends, at the latest with this process.

    Args:
        function: A function of a module; the process begins with this module imported.
        arguments: Values that can be pickled. Sockets in them stay open here too.
    """

    def __init__(self, function: Callable[..., object], *arguments: object) -> None:
        self._server = _server()
        self.pipe, child_end = _pipe()
        try:
            with child_end:
                call = function, arguments
                self.pid, self._pidfd = self._server.start(*call, child_end.fileno())
        except BaseException:
            self.pipe.close()
            raise
        self._exit_code: int | None = None

    def is_alive(self) -> bool:
        """Return whether the process still runs."""
        return not self.join(0)

    def join(self, limit_s: float) -> bool:
        """Wait for the end of the process, and return whether it has ended."""
        if self._pidfd < 0:
            return True
        ended = select.poll()
        ended.register(self._pidfd, select.POLLIN)
        return bool(ended.poll(limit_s * 1000))

    @property
    def exit_code(self) -> int | None:
        """The exit code (-n for signal n), None while the process runs or if it is unknown."""
        if self._exit_code is None and self._pidfd >= 0 and self.join(0):
            with suppress(InvalidRunError):  # The helper was killed, and its processes with it.
                self._exit_code = self._server.exit_code(self.pid)
        return self._exit_code

    def kill(self) -> None:
        """End the process at once, as a crash would."""
        if self._pidfd >= 0:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    def close(self) -> None:
        """End the process, and close the pipe to it."""
        self.kill()
        self.join(2)
        self.pipe.close()
        if self._pidfd >= 0:
            self.exit_code  # noqa: B018 - lets the kernel forget the process
            os.close(self._pidfd)
            self._pidfd = -1


def prepare_processes(*modules: str) -> None:
    """Start the helper program now, so that it imports these modules meanwhile."""
    _server(*modules)


def _pipe() -> tuple[Connection, Connection]:
    ours, theirs = socket.socketpair()
    return Connection(ours.detach()), Connection(theirs.detach())


class _Server:
    """The helper program of this process; thread-safe."""

    def __init__(self, modules: Sequence[str]) -> None:
        self.owner = os.getpid()
        self._lock = threading.Lock()
        self._requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            paths = [str(_ROOT), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
            module, descriptor = fork_server.__name__, str(theirs.fileno())
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", module, descriptor, *modules],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
                start_new_session=True,
            )

    @property
    def usable(self) -> bool:
        """Whether it is this process's, and runs."""
        return self.owner == os.getpid() and self._process.poll() is None

    def start(
        self, function: Callable[..., object], arguments: Sequence[object], pipe: int
    ) -> tuple[int, int]:
        """Have a process started; return its id and a pidfd."""
        payload, passed = _pickled(function, arguments)
        with os.fdopen(os.memfd_create("call"), "wb") as call:
            call.write(payload)
            call.flush()
            descriptors = [call.fileno(), pipe, *passed]
            with self._lock:
                while len(descriptors) > MAX_DESCRIPTORS:
                    self._send(MORE, 0, descriptors[:MAX_DESCRIPTORS])
                    del descriptors[:MAX_DESCRIPTORS]
                self._send(START, 0, descriptors)
                pid, received = self._receive()
        return pid, received[0]

    def exit_code(self, pid: int) -> int:
        """Return the exit code of a process that has ended."""
        with self._lock:
            self._send(STATUS, pid, [])
            return self._receive()[0]

    def _send(self, kind: bytes, number: int, descriptors: Sequence[int]) -> None:
        with suppress(OSError):  # The answer is missing then.
            socket.send_fds(self._requests, [HEADER.pack(kind, number)], descriptors)

    def _receive(self) -> tuple[int, list[int]]:
        with suppress(OSError):
            message, descriptors, _, _ = socket.recv_fds(self._requests, HEADER.size, 1)
            if message:
                return HEADER.unpack(message)[1], descriptors
        raise InvalidRunError("the program that starts the run's processes has ended")


_current: _Server | None = None
_starting = threading.Lock()


def _server(*modules: str) -> _Server:
    """Return the helper program, started if there is none."""
    global _current
    with _starting:
        if _current is None or not _current.usable:
            _current = _Server(modules)
        return _current


class _Pickler(pickle.Pickler):
    """Pickles a call, and collects the descriptors that go with it."""

    def __init__(self, file: io.BytesIO, first: int) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self.descriptors: list[int] = []
        self._first = first

    def persistent_id(self, value: Any) -> object:
        """Return the reference of a socket or an open file."""
        if isinstance(value, socket.socket):
            return self._reference("socket", value.fileno(), value.gettimeout())
        if isinstance(value, OpenFile):
            return self._reference("file", value.descriptor, None)
        return None

    def _reference(self, kind: str, descriptor: int, timeout_s: float | None) -> object:
        self.descriptors.append(descriptor)
        return kind, self._first + len(self.descriptors) - 1, timeout_s


def _pickled(
    function: Callable[..., object], arguments: Sequence[object]
) -> tuple[bytes, list[int]]:
    """Return the call with the name of its module before it, and the descriptors in it."""
    file = io.BytesIO()
    pickler = _Pickler(file, first=2)
    pickler.dump((function, tuple(arguments)))
    module = function.__module__.encode()
    return module + b"\0" + file.getvalue(), pickler.descriptors
