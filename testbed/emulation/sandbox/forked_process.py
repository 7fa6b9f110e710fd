"""Processes that a program with threads may start.

A helper program with one thread forks them (``fork_server``).
"""

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
from types import FunctionType
from typing import Any, BinaryIO

from testbed.emulation.sandbox import fork_server
from testbed.emulation.sandbox.fork_server import HEADER, LOAD, MAX_DESCRIPTORS, MORE, START, STATUS
from testbed.emulation.sandbox.process_lifetime import is_alone
from testbed.emulation.sandbox.shared_counters import SharedPages
from testbed.errors import InvalidRunError

_ROOT = Path(fork_server.__file__).parents[3]

# Time for a process to end after SIGKILL.
_END_LIMIT_S = 2


class OpenFile(int):
    """The descriptor of an open file.

    If it is an argument of a process, the process gets its own descriptor of the file.
    """


class ForkedProcess:
    """A process that calls ``function(pipe, *arguments)`` and ends.

    It ends with this process at the latest.

    Args:
        function: A function of a module, which the process has imported when it begins.
        arguments: Values that can be pickled. Sockets, shared numbers and open files among them
            stay open in this process.

    Attributes:
        pipe: This process's end of the pipe.
        pid: Id of the process.
    """

    def __init__(self, function: Callable[..., object], *arguments: object) -> None:
        self._server = _server()
        self.pipe, child_end = _pipe()
        try:
            with child_end:
                started = self._server.start(function, arguments, child_end.fileno())
                self.pid, self._pidfd = started
        except BaseException:
            self.pipe.close()
            raise
        self._exit_code: int | None = None

    def is_alive(self) -> bool:
        """Return whether the process still runs."""
        return not self.join(0)

    def join(self, limit_s: float) -> bool:
        """Wait for the end of the process, and return whether it has ended.

        Args:
            limit_s: Time limit in seconds.
        """
        if self._pidfd < 0:
            return True
        ended = select.poll()
        ended.register(self._pidfd, select.POLLIN)
        return bool(ended.poll(limit_s * 1000))

    @property
    def exit_code(self) -> int | None:
        """The exit code (-n for signal n); None while the process runs or if it is unknown."""
        if self._exit_code is None and self._pidfd >= 0 and self.join(0):
            # The helper may have been killed, and its processes with it.
            with suppress(InvalidRunError):
                self._exit_code = self._server.exit_code(self.pid)
        return self._exit_code

    def kill(self) -> None:
        """End the process at once, as a crash would."""
        if self._pidfd >= 0:
            # It may have ended already.
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    def close(self) -> None:
        """End the process, and close the pipe to it."""
        self.kill()
        self.join(_END_LIMIT_S)
        self.pipe.close()
        if self._pidfd >= 0:
            # Reading the exit code lets the kernel forget the process.
            self.exit_code  # noqa: B018
            os.close(self._pidfd)
            self._pidfd = -1


def prepare_processes(*modules: str) -> None:
    """Start the helper now if there is none.

    If this process has no other threads yet, the helper is forked, and has all imported modules.
    Otherwise the helper is a new program, which imports its modules while this process continues.

    Args:
        modules: Names of modules that processes will need.
    """
    _server(*modules).load(modules)


def _memory_file(content: bytes) -> BinaryIO:
    """Return a file in memory with this content, whose descriptor can be passed on."""
    file = os.fdopen(os.memfd_create("testbed"), "wb")
    file.write(content)
    file.flush()
    return file


def _pipe() -> tuple[Connection, Connection]:
    """Return both ends of a new pipe, which works in both directions."""
    ours, theirs = socket.socketpair()
    return Connection(ours.detach()), Connection(theirs.detach())


class _Server:
    """The helper program of this process. Thread-safe.

    Args:
        modules: Names of modules that it imports at once.

    Attributes:
        owner: Id of the process that uses the helper.
    """

    def __init__(self, modules: Sequence[str]) -> None:
        self.owner = os.getpid()
        self._loaded = set(modules)
        self._lock = threading.Lock()
        self._requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            start = _fork_helper if is_alone() else _run_helper
            self._ended = os.pidfd_open(start(theirs.fileno(), modules))

    @property
    def usable(self) -> bool:
        """True if the helper runs and belongs to this process."""
        if self.owner != os.getpid():
            return False
        ended = select.poll()
        ended.register(self._ended, select.POLLIN)
        return not ended.poll(0)

    def start(
        self, function: Callable[..., object], arguments: Sequence[object], pipe: int
    ) -> tuple[int, int]:
        """Have a process started.

        Args:
            function: The function that it calls.
            arguments: The arguments of the function, after the pipe.
            pipe: Descriptor of the process's end of the pipe.

        Returns:
            The process id and a pidfd.

        Raises:
            InvalidRunError: The helper has ended.
        """
        payload, passed = _pickled(function, arguments)
        with _memory_file(payload) as call:
            descriptors = [call.fileno(), pipe, *passed]
            with self._lock:
                while len(descriptors) > MAX_DESCRIPTORS:
                    self._send(MORE, 0, descriptors[:MAX_DESCRIPTORS])
                    del descriptors[:MAX_DESCRIPTORS]
                self._send(START, 0, descriptors)
                pid, received = self._receive()
        return pid, received[0]

    def load(self, modules: Sequence[str]) -> None:
        """Have the helper import modules that processes will need."""
        new = [module for module in modules if module not in self._loaded]
        if new:
            self._loaded.update(new)
            with _memory_file(" ".join(new).encode()) as names, self._lock:
                self._send(LOAD, 0, [names.fileno()])

    def exit_code(self, pid: int) -> int:
        """Return the exit code of a process that has ended.

        Raises:
            InvalidRunError: The helper has ended.
        """
        with self._lock:
            self._send(STATUS, pid, [])
            code, _ = self._receive()
        return code

    def _send(self, kind: bytes, number: int, descriptors: Sequence[int]) -> None:
        # If the helper has ended, ``_receive`` reports it.
        with suppress(OSError):
            socket.send_fds(self._requests, [HEADER.pack(kind, number)], descriptors)

    def _receive(self) -> tuple[int, list[int]]:
        """Return the number and the descriptors of an answer."""
        with suppress(OSError):
            message, descriptors, _, _ = socket.recv_fds(self._requests, HEADER.size, 1)
            if message:
                _, number = HEADER.unpack(message)
                return number, descriptors
        raise InvalidRunError("the program that starts the run's processes has ended")


def _fork_helper(descriptor: int, modules: Sequence[str]) -> int:
    """Fork the helper with all imported modules, and return its process id.

    Args:
        descriptor: The socket through which it receives requests.
        modules: Names of modules that it imports at once.
    """
    # Otherwise the helper would have what is in the buffers too.
    sys.stdout.flush()
    sys.stderr.flush()
    process = os.fork()
    if process == 0:
        # No error may return into the program that was forked.
        with suppress(BaseException):
            # Signals to the group of the requester, and its files, are not the helper's.
            os.setsid()
            nothing = os.open(os.devnull, os.O_RDWR)
            os.dup2(nothing, 0)
            os.dup2(nothing, 1)
            os.closerange(3, descriptor)
            os.closerange(descriptor + 1, os.sysconf("SC_OPEN_MAX"))
            fork_server.main(descriptor, list(modules))
        os._exit(1)
    return process


def _run_helper(descriptor: int, modules: Sequence[str]) -> int:
    """Start the helper as a new program, and return its process id.

    The arguments are those of ``_fork_helper``.
    """
    paths = [str(_ROOT), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", fork_server.__name__, str(descriptor), *modules],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        pass_fds=(descriptor,),
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
        start_new_session=True,
    )
    _started.append(process)
    return process.pid


# Programs that are never waited for. They are referenced here, because Python warns when such a
# program's object is deleted.
_started: list[subprocess.Popen[bytes]] = []

# The helper of this process, and the lock that protects it.
_current: _Server | None = None
_starting = threading.Lock()


def _server(*modules: str) -> _Server:
    """Return the helper program, which is started if this process has none.

    There is one for the whole process, so it is a global variable.

    Args:
        modules: Names of modules that a new helper imports at once.
    """
    global _current
    with _starting:
        if _current is None or not _current.usable:
            _current = _Server(modules)
        return _current


class _Pickler(pickle.Pickler):
    """Pickles a call, and collects the descriptors that are passed with it.

    Args:
        file: The file for the pickled call.
        first: Position of the first collected descriptor in the message.

    Attributes:
        descriptors: The collected descriptors.
        modules: Names of the modules of functions and classes in the call.
    """

    def __init__(self, file: io.BytesIO, first: int) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self.descriptors: list[int] = []
        self.modules: dict[str, None] = {}
        self._first = first

    def persistent_id(self, value: Any) -> object:
        """Return a reference for a socket, shared numbers or an open file, or None for others."""
        if isinstance(value, FunctionType | type):
            self.modules[value.__module__] = None
        if isinstance(value, socket.socket):
            return self._reference("socket", value.fileno(), value.gettimeout())
        if isinstance(value, memoryview) and isinstance(value.obj, SharedPages):
            return self._reference("numbers", value.obj.descriptor, None)
        if isinstance(value, OpenFile):
            return self._reference("file", value, None)
        return None

    def _reference(self, kind: str, descriptor: int, timeout_s: float | None) -> object:
        self.descriptors.append(descriptor)
        return kind, self._first + len(self.descriptors) - 1, timeout_s


def _pickled(
    function: Callable[..., object], arguments: Sequence[object]
) -> tuple[bytes, list[int]]:
    """Return the names of a call's modules with the pickled call, and the descriptors in it."""
    file = io.BytesIO()
    # In the message, the call and the pipe come before the descriptors of the arguments.
    pickler = _Pickler(file, first=2)
    pickler.dump((function, tuple(arguments)))
    modules = " ".join(pickler.modules).encode()
    return modules + b"\0" + file.getvalue(), pickler.descriptors
