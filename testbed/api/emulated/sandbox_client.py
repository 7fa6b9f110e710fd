"""A process of ours in a sandbox, from the side of the ordinary process that owns it and with which it ends.

Why nothing is left, whatever ends the owner: a thread of the owner starts the sandbox and lives as long as it does; the
kernel kills the sandbox when that thread dies (``die_with_parent``), and everything inside with it. Beside that, the
two are joined by a lifeline, a pair of sockets: when the owner's end closes, the process inside takes its network down
by itself.
"""

import os
import pickle
import socket
import subprocess
import sys
import tempfile
import threading
from contextlib import AbstractContextManager, suppress
from typing import IO

from testbed.emulation.attach.client import receive_reply, send_request
from testbed.emulation.attach.protocol import Frame, send
from testbed.emulation.machine.capabilities import require_emulation
from testbed.emulation.sandbox.control_socket import VARIABLE, listen, unused_name
from testbed.emulation.sandbox.sandbox import sandbox_command
from testbed.errors import CapabilityError, SessionClosedError, TestbedError
from testbed.model.progress import ReportProgress
from topologies.text.json_types import JsonObject

_CLOSING_S = 15.0


class SandboxProcess(AbstractContextManager["SandboxProcess"]):
    """Started when it is made; a context manager. ``name``: of its door; ``task``: what it is to hold (see ``holder``).

    Raises CapabilityError where this machine has no emulation, InputError where the name is taken, and what the process
    inside met while it built its network.
    """

    def __init__(
        self,
        task: JsonObject,
        name: str | None = None,
        report_progress: ReportProgress | None = None,
    ) -> None:
        require_emulation()
        self.name = name or unused_name("session")
        self._owner = os.getpid()
        self._ended = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._failure: OSError | None = None
        self._messages: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the process; it has no name
        self._lifeline, theirs = socket.socketpair()
        try:
            with theirs, listen(self.name) as listener:
                self._start(listener, theirs)
            send(self._lifeline, {"task": True}, pickle.dumps(task))
            self.ready = receive_reply(self._lifeline, report_progress).header
        except BaseException as error:
            self.close()
            if isinstance(error, SessionClosedError):
                raise SessionClosedError(f"{error}{self._last_words()}") from None
            raise

    def _start(self, listener: socket.socket, lifeline: socket.socket) -> None:
        """Start the sandbox from a thread that lives as long as it does."""
        started = threading.Event()
        numbers = (listener.fileno(), lifeline.fileno())
        words = sandbox_command(
            [sys.executable, "-P", "-m", "testbed.api.emulated.sandbox_server", str(numbers[1])],
            die_with_parent=True,
        )
        environment = {
            **os.environ,
            VARIABLE: str(numbers[0]),
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        }

        def live() -> None:
            try:
                self._process = subprocess.Popen(
                    words,
                    stdin=subprocess.DEVNULL,
                    stdout=self._messages,
                    stderr=self._messages,
                    pass_fds=numbers,
                    env=environment,
                    start_new_session=True,  # Ctrl-C at the terminal is the owner's
                )
            except OSError as error:
                self._failure = error
            finally:
                started.set()
            if self._process is not None:
                self._process.wait()
            self._ended.set()

        threading.Thread(target=live, name=f"sandbox {self.name}", daemon=True).start()
        started.wait()
        if self._failure is not None:
            raise CapabilityError(f"the sandbox does not start ({self._failure.strerror})")

    def ask(self, header: JsonObject, value: object = None) -> JsonObject:
        """What the process inside answers; raises what it raised, SessionClosedError where it has ended."""
        return self._answer(header, value).header

    def measured(
        self, header: JsonObject, plan: object, report_progress: ReportProgress | None
    ) -> object:
        """What a run of the plan inside measured; raises as ``ask``."""
        return pickle.loads(self._answer(header, plan, report_progress).body)

    def _answer(
        self, header: JsonObject, value: object, report_progress: ReportProgress | None = None
    ) -> Frame:
        self.check()
        try:
            return send_request(
                self.name, header, b"" if value is None else pickle.dumps(value), report_progress
            )
        except TestbedError:
            self.check()
            raise

    def check(self) -> None:
        """Raise SessionClosedError where the process has ended."""
        if self._ended.is_set():
            raise SessionClosedError(
                f"the network {self.name!r} is not up any more{self._last_words()}"
            )

    @property
    def pid(self) -> int:
        """The sandbox's outer process."""
        assert self._process is not None
        return self._process.pid

    def close(self) -> None:
        """Take everything down; may be called twice. In a forked child: only lets go of it."""
        with suppress(OSError):
            if os.getpid() == self._owner:
                self._lifeline.shutdown(socket.SHUT_RDWR)
        self._lifeline.close()
        if os.getpid() != self._owner or self._process is None:
            return
        if not self._ended.wait(_CLOSING_S):
            self._process.kill()
            self._ended.wait(_CLOSING_S)

    def _last_words(self) -> str:
        """The last line that the process wrote, for an error."""
        with suppress(OSError, ValueError):
            size = self._messages.seek(0, os.SEEK_END)
            self._messages.seek(max(0, size - 4096))
            lines = self._messages.read().decode(errors="replace").strip().splitlines()
            if lines:
                return f": {lines[-1].removeprefix('testbed: ')}"
        return ""

    def __exit__(self, *_: object) -> None:
        self.close()
