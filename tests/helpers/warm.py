"""``subprocess`` for Python programs that need not import: where neither Python's start nor the words that ps shows are
what is tested, it saves one to three seconds of processor time a program."""

from __future__ import annotations

import contextlib
import functools
import io
import json
import os
import pty
import select
import socket
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from testbed.emulation.sandbox.sandbox import sandbox_command
from tests.helpers.outlines import are_outlined
from tests.helpers.paths import ROOT

TESTBED = (sys.executable, "-P", "-m", "testbed.cli")


@functools.cache
def _server(_process: int) -> socket.socket:
    """The way to the server of forks (``tests.helpers.warm_server``), which ends with the last that ask it: ours, or,
    among the workers of one test run, that of all."""
    doors: list[socket.socket] = []
    if "PYTEST_XDIST_TESTRUNUID" in os.environ:
        door = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        name = f"\0testbed-tests-{os.environ['PYTEST_XDIST_TESTRUNUID']}"
        try:
            door.bind(name)
            door.listen()
            doors.append(door)
        except OSError:  # another worker's server is there
            door.connect(name)
            return _widened(door)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    doors.insert(0, theirs)
    numbers = [one.fileno() for one in doors]
    subprocess.Popen(
        [sys.executable, "-P", "-m", "tests.helpers.warm_server", *map(str, numbers)],
        stdin=subprocess.DEVNULL,
        pass_fds=numbers,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    for one in doors:
        one.close()
    return _widened(ours)


def _widened(asking: socket.socket) -> socket.socket:
    """Enlarge the send buffer of the socket for long requests, and return the socket."""
    asking.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
    return asking


class WarmProcess(subprocess.Popen[Any]):
    """A ``subprocess.Popen`` of ``[sys.executable, "-P", "-m", MODULE, ...]`` (or ``-c``, or a file; without ``-P`` the
    folder is imported from), or of that in a ``sandbox_command``, but a child of the server's. It heeds SIGINT, SIGTERM
    and SIGHUP, and draws figures in full where we do."""

    def _execute_child(self, args: Any, executable: Any, preexec_fn: Any, close_fds: Any, pass_fds: Any, cwd: Any,
                       env: Any, startupinfo: Any, creationflags: Any, shell: Any, *files: Any) -> None:  # fmt: skip
        p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite, _, _, _, _, _, session, _ = files
        assert preexec_fn is None and not shell
        folder = os.fspath(cwd or Path.cwd())
        environment = dict(os.environ if env is None else env)
        numbers = {0: p2cread, 1: c2pwrite, 2: errwrite, **{number: number for number in pass_fds}}
        status, theirs = os.pipe()
        descriptors = [given if given != -1 else number for number, given in numbers.items()]
        words, sandbox = list(args), None
        if words[1:4] == sandbox_command([])[1:4]:
            words, sandbox = words[5:], json.loads(words[4])
        request = {
            "program": _program(words, folder, environment),
            "numbers": list(numbers),
            "folder": folder,
        }
        request |= {
            "environment": environment,
            "session": session,
            "sandbox": sandbox,
            "outlined": are_outlined(),
        }
        try:
            socket.send_fds(
                _server(os.getpid()), [json.dumps(request).encode()], [*descriptors, theirs]
            )
        finally:
            os.close(theirs)
            self._close_pipe_fds(p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite)  # type: ignore[attr-defined]
        self._status = open(status, "rb", buffering=0)  # noqa: SIM115 - as long as the process
        self.pid = int(self._status.readline())
        self._child_created = True

    def _try_wait(self, flags: int) -> tuple[int, int]:
        if flags & os.WNOHANG and not select.select([self._status], [], [], 0)[0]:
            return 0, 0
        with self._status:
            return self.pid, int(self._status.read())

    def _internal_poll(self, *_: Any, **__: Any) -> int | None:
        with self._waitpid_lock:  # type: ignore[attr-defined]
            if (
                self.returncode is None
                and hasattr(self, "_status")
                and (ended := self._try_wait(os.WNOHANG))[0]
            ):
                self._handle_exitstatus(ended[1])  # type: ignore[attr-defined]
        return self.returncode


FOR_SESSIONS = SimpleNamespace(Popen=WarmProcess, DEVNULL=subprocess.DEVNULL)
"""In place of ``subprocess`` where the library starts what is in the sandbox of a session or a run."""


def _program(words: list[str], folder: str, environment: dict[str, str]) -> dict[str, Any]:
    """Return the request for a Python program with these arguments."""
    assert words.pop(0) == sys.executable
    path = [] if words[0] == "-P" else [folder]
    words = words[words[0] == "-P" :]
    kind, what = words[:2] if words[0] in ("-m", "-c") else ("", words[0])
    if kind == "":
        assert what.endswith(".py")
        path = [os.path.join(folder, os.path.dirname(what))]  # noqa: PTH118, PTH120 - where the folder may be missing
    path += [one for one in environment.get("PYTHONPATH", "").split(os.pathsep) if one]
    return {
        "argv": [kind or what, *words[2 if kind else 1 :]],
        "path": path,
        "kind": kind,
        "what": what,
    }


def run(
    words: Sequence[str], *, input: Any = None, timeout: float | None = None, capture_output: bool = False,
    check: bool = False, **options: Any,
) -> subprocess.CompletedProcess[Any]:  # fmt: skip
    """``subprocess.run``."""
    if input is not None:
        options["stdin"] = subprocess.PIPE
    if capture_output:
        options |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with WarmProcess(words, **options) as process:
        try:
            out, err = process.communicate(input, timeout)
        except BaseException:
            process.kill()
            raise
    done = subprocess.CompletedProcess(words, process.returncode, out, err)
    if check:
        done.check_returncode()
    return done


def run_on_a_terminal(words: Sequence[str], **options: Any) -> tuple[int, bytes]:
    """Exit code with a terminal for stdin, stdout and stderr, and everything that reaches it."""
    ours, theirs = pty.openpty()
    with ThreadPoolExecutor(1) as beside, open(ours, "rb", buffering=0) as terminal:
        reading = beside.submit(_until_closed, terminal)
        with WarmProcess(words, stdin=theirs, stdout=theirs, stderr=theirs, **options) as process:
            os.close(theirs)
        return process.returncode, reading.result()


def _until_closed(terminal: io.FileIO) -> bytes:
    found = b""
    with contextlib.suppress(OSError):  # the terminal's other end is gone
        while part := terminal.read(65536):
            found += part
    return found
