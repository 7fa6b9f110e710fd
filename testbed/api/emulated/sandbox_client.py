"""Starts a process in a sandbox, sends it requests, and ends it at the latest with its owner.

The owner is the ordinary process that starts the sandbox. Nothing is left behind, however the owner
ends. A thread of the owner starts the sandbox and waits for its end. The kernel kills the sandbox
and everything inside when that thread dies (``die_with_parent``). In addition, a pair of sockets
connects the two processes, the lifeline. When the owner's end closes, the process inside takes its
network down.
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

# Time for the process inside to take its network down before it is killed.
_CLOSING_S = 15.0
# The last line of the process's output is searched in this number of bytes from the end.
_LAST_OUTPUT_BYTES = 4096


class SandboxProcess(AbstractContextManager["SandboxProcess"]):
    """A process in a sandbox, from its creation until ``close`` or the end of the with block.

    Attributes:
        name: The name of its control socket, by which other processes send requests.
        ready: The message in which the process inside reported that it is ready.
    """

    def __init__(
        self,
        task: JsonObject,
        name: str | None = None,
        report_progress: ReportProgress | None = None,
    ) -> None:
        """Start the process and wait until it is ready.

        Args:
            task: The task of the process (see ``sandbox_server``).
            name: The name of its control socket; None for an unused one.
            report_progress: Called in this thread with the state of the start.

        Raises:
            CapabilityError: This machine does not support emulation.
            InputError: Another network has the name.
            TestbedError: The process inside failed to build its network.
        """
        require_emulation()
        self.name = name or unused_name("session")
        self._owner = os.getpid()
        self._ended = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._failure: OSError | None = None
        # The output of the process. The file has no name, and is open as long as the process runs.
        self._messages: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        self._lifeline, inner_end = socket.socketpair()
        try:
            with inner_end, listen(self.name) as listener:
                self._start(listener, inner_end)
            send(self._lifeline, {"task": True}, pickle.dumps(task))
            self.ready = receive_reply(self._lifeline, report_progress).header
        except BaseException as error:
            self.close()
            if isinstance(error, SessionClosedError):
                raise SessionClosedError(f"{error}{self._last_words()}") from None
            raise

    def _start(self, listener: socket.socket, lifeline: socket.socket) -> None:
        """Start the sandbox from a thread that lives as long as the sandbox does."""
        started = threading.Event()
        listener_fd = listener.fileno()
        lifeline_fd = lifeline.fileno()
        argv = sandbox_command(
            [sys.executable, "-P", "-m", "testbed.api.emulated.sandbox_server", str(lifeline_fd)],
            die_with_parent=True,
        )
        environment = {
            **os.environ,
            VARIABLE: str(listener_fd),
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        }

        def run_sandbox() -> None:
            try:
                self._process = subprocess.Popen(
                    argv,
                    stdin=subprocess.DEVNULL,
                    stdout=self._messages,
                    stderr=self._messages,
                    pass_fds=(listener_fd, lifeline_fd),
                    env=environment,
                    # Ctrl-C at the terminal interrupts the owner only.
                    start_new_session=True,
                )
            except OSError as error:
                self._failure = error
            finally:
                started.set()
            if self._process is not None:
                self._process.wait()
            self._ended.set()

        threading.Thread(target=run_sandbox, name=f"sandbox {self.name}", daemon=True).start()
        started.wait()
        if self._failure is not None:
            raise CapabilityError(f"the sandbox does not start ({self._failure.strerror})")

    def ask(self, header: JsonObject, value: object = None) -> JsonObject:
        """Send a request to the process inside and return the header of its reply.

        Args:
            header: The request, with its name under "do".
            value: A value that is sent along as a pickle.

        Raises:
            TestbedError: The process inside raised this error.
            SessionClosedError: The process has ended.
        """
        return self._answer(header, value).header

    def measured(
        self, header: JsonObject, plan: object, report_progress: ReportProgress | None
    ) -> object:
        """Carry out a plan in the sandbox and return its measurements.

        Args:
            header: The request, with its name under "do".
            plan: The plan, which is sent along as a pickle.
            report_progress: Called in this thread with the state of the run.

        Raises:
            TestbedError: The process inside raised this error.
            SessionClosedError: The process has ended.
        """
        return pickle.loads(self._answer(header, plan, report_progress).body)

    def _answer(
        self, header: JsonObject, value: object, report_progress: ReportProgress | None = None
    ) -> Frame:
        self.check()
        body = b"" if value is None else pickle.dumps(value)
        try:
            return send_request(self.name, header, body, report_progress)
        except TestbedError:
            # If the process has ended, that is the cause, and its last words say why.
            self.check()
            raise

    def check(self) -> None:
        """Raise SessionClosedError if the process has ended."""
        if self._ended.is_set():
            raise SessionClosedError(
                f"the network {self.name!r} is not up any more{self._last_words()}"
            )

    @property
    def pid(self) -> int:
        """The process id of the sandbox's outer process."""
        assert self._process is not None
        return self._process.pid

    def close(self) -> None:
        """Take everything down; a second call does nothing.

        A forked child of the owner only closes its copy of the lifeline.
        """
        is_owner = os.getpid() == self._owner
        # The lifeline may be closed already.
        with suppress(OSError):
            if is_owner:
                self._lifeline.shutdown(socket.SHUT_RDWR)
        self._lifeline.close()
        if not is_owner or self._process is None:
            return
        if not self._ended.wait(_CLOSING_S):
            self._process.kill()
            self._ended.wait(_CLOSING_S)

    def _last_words(self) -> str:
        """Return the last line that the process wrote, as the end of an error message."""
        # An error without this line is better than another error.
        with suppress(OSError, ValueError):
            size = self._messages.seek(0, os.SEEK_END)
            self._messages.seek(max(0, size - _LAST_OUTPUT_BYTES))
            output = self._messages.read().decode(errors="replace")
            lines = output.strip().splitlines()
            if lines:
                return f": {lines[-1].removeprefix('testbed: ')}"
        return ""

    def __exit__(self, *_: object) -> None:
        self.close()
