"""The shell of a Mininet node: it starts with the first command, and survives what users do to it.

The output of a command is read until a mark, which the shell prints however the command ends. If
the shell itself has ended, the next command starts a new one, so that nothing waits permanently.
"""

import codecs
import os
import pty
import re
import secrets
import select
import shlex
import signal
import subprocess
import termios
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from mininet.node import Node

from testbed.emulation.network.mininet_network.requests import Requests
from testbed.emulation.sandbox.program_start import start_program
from testbed.errors import SessionClosedError

# After each command, the shell prints this, the number of the command, and DEL. Mininet's own mark
# is DEL alone, which programs print too.
_MARK = f"\x7f{secrets.token_hex(4)}."

# The shell prints the mark to descriptor 97, which is the terminal even if a command redirects the
# shell's output. Scripts use lower descriptors (9, 200) to lock files.
_PRINT_MARK = rf"printf '\177{_MARK[1:]}%d\177' $TESTBED_COMMAND >&97"
_FIRST_COMMAND = (
    f"PS1= PS2=; exec 97>&1; readonly PROMPT_COMMAND={shlex.quote(_PRINT_MARK)}; "
    "unset HISTFILE; set +m"
)

# The shell prints this line when it starts a program in the background.
_JOB = re.compile(r"\[\d+\] (\d+)\r?\n")

_LOOK_MS = 100

# The programs of a shell that has ended may still print something during this time.
_REMAINING_OUTPUT_S = 1.0

# Rows and columns of the terminal.
_TERMINAL_SIZE = (50, 200)

# Positions of the flags in the attributes of a terminal (termios).
_INPUT_FLAGS = 0
_OUTPUT_FLAGS = 1
_LOCAL_FLAGS = 3


class LateShell:
    """The shell of late nodes; a mix-in for Mininet's nodes.

    Attributes:
        typed: A user types the commands, and also the input of programs. If false, programs have
            no input.
        returns: Lines of output end as on a terminal (CR LF), as Mininet's do. Scripts split the
            output there.
    """

    # Mininet need not check for required programs.
    isSetup = True  # noqa: N815 - Mininet's name
    name: str
    requests: Requests
    typed = False
    returns = False
    _started: subprocess.Popen[bytes] | None = None
    _interrupts = 0
    _number = 0
    _ended_s: float | None = None
    readbuf: str
    lastCmd: str | None  # noqa: N815
    lastPid: int | None  # noqa: N815

    @property
    def shell(self) -> subprocess.Popen[bytes] | None:
        """The node's shell process, which is started now if it does not run."""
        running = self._started is not None and self._started.poll() is None
        if not running and not self.requests.closed:
            self._end_shell()
            self._open_shell()
        return self._started

    @shell.setter
    def shell(self, value: object) -> None:
        """Ignore the None that Mininet sets when it creates the node."""

    @property
    def stdout(self) -> object:
        """The output of the shell; some scripts poll it before the first command."""
        if self._started is None and not self.requests.closed:
            self._open_shell()
        return self._stdout

    @stdout.setter
    def stdout(self, value: object) -> None:
        """Accept the None that Mininet sets when it creates the node."""
        self._stdout = value

    def popen(self, *args: object, **kwargs: object) -> object:
        """Start a program next to the shell, as Mininet does."""
        # ``_popen`` adds the command that enters the namespaces, so Mininet's must be empty.
        return super().popen(*args, **{"mncmd": [], **kwargs})  # type: ignore[misc]

    def _popen(self, cmd: Sequence[str], **params: Any) -> subprocess.Popen[bytes]:
        """Start a program in the node; Mininet calls this for all programs.

        Raises:
            SessionClosedError: The network has been taken down.
        """
        if self.requests.closed:
            raise SessionClosedError(f"{self.name}: the network has gone")
        argv = self.requests.words_at(self, cmd)
        return start_program(argv, start_new_session=True, **params)

    def terminate(self) -> None:
        """End the shell and its programs; the network removes the node."""
        self._end_shell()

    def _end_shell(self) -> None:
        if self._started is not None:
            # All its programs may have ended.
            with suppress(ProcessLookupError):
                os.killpg(self._started.pid, signal.SIGKILL)
            self._started.wait()
            self.stdin.close()
            Node.inToNode.pop(self._terminal, None)
            self._started = None
            self._ended_s = None
            self.waiting = False

    def sendCmd(self, *args: object, **_: object) -> None:  # noqa: N802 - Mininet's name
        """Start a command in the shell; its output must be read until it has ended."""
        assert self.shell is not None and not self.waiting
        parts = args[0] if len(args) == 1 and isinstance(args[0], list) else args
        text = " ".join(map(str, parts))
        self.lastCmd = text
        self.lastPid = None
        self._interrupts = 0
        # With eval, an incomplete command is an error. Without it, the shell would wait for more.
        redirection = "" if self.typed else " </dev/null"
        self._send(f"eval {shlex.quote(text)}{redirection}")

    def _send(self, line: str) -> None:
        self._number += 1
        self.waiting = True
        self.write(f"TESTBED_COMMAND={self._number}; {line}\n")  # type: ignore[attr-defined]

    def monitor(
        self,
        timeoutms: int | None = None,
        findPid: bool = True,  # noqa: N803 - Mininet's name
    ) -> str:
        """Return the output of the command since the last call.

        ``waiting`` is false when the command, or the shell, has ended.

        Args:
            timeoutms: Time to wait for output in ms; None for 100 ms.
            findPid: Ignored; Mininet has this parameter.
        """
        output = ""
        limit_ms = _LOOK_MS if timeoutms is None else timeoutms
        try:
            if self.pollOut.poll(limit_ms):
                received = self.decoder.decode(os.read(self._terminal, 4096))
                output = self._output_of_command(received)
        except OSError:
            # The shell has ended or has closed its terminal.
            time.sleep(_LOOK_MS / 1000)
        if self._started is None or self._started.poll() is None:
            return output
        self._ended_s = self._ended_s or time.monotonic()
        if not output or time.monotonic() > self._ended_s + _REMAINING_OUTPUT_S:
            self._end_shell()
        return output

    def _output_of_command(self, text: str) -> str:
        """Return the command's part of the text and of what was read before.

        The beginning of a mark is retained until its end has arrived.
        """
        received = self.readbuf + text
        output, mark, self.readbuf = received.partition(f"{_MARK}{self._number}\x7f")
        if mark:
            self.waiting = False
        else:
            mark_start = output.rfind("\x7f", -len(_MARK) - 8)
            if mark_start >= 0:
                self.readbuf = output[mark_start:]
                output = output[:mark_start]
        # Marks of earlier commands, which were interrupted.
        output = re.sub(re.escape(_MARK) + r"\d+\x7f", "", output)
        in_background = self.lastCmd is not None and self.lastCmd.endswith("&")
        if in_background and self.lastPid is None:
            job = _JOB.search(output)
            if job:
                self.lastPid = int(job[1])
                output = output.replace(job[0], "", 1)
        return output

    def sendInt(self, intr: str = "\x03") -> None:  # noqa: N802 - Mininet's name
        """Interrupt the command; the second time, kill the command and the shell.

        A shell that the user has started in the node has jobs of its own, which its terminal
        interrupts.

        Args:
            intr: The character that interrupts.
        """
        self._interrupts += 1
        if self._started is None:
            return
        if self._interrupts == 1 and self.typed and os.tcgetpgrp(self._terminal) > 0:
            os.write(self._terminal, intr.encode())
            return
        number = signal.SIGINT if self._interrupts == 1 else signal.SIGKILL
        # The shell may have ended just now.
        with suppress(ProcessLookupError):
            os.killpg(self._started.pid, number)

    def type_keys(self, keys: bytes) -> None:
        """Pass the user's keys to the command, which has accepted the last interrupt if any."""
        os.write(self._terminal, keys)
        self._interrupts = 0

    def _open_shell(self) -> None:
        """Start the shell on a terminal of its own."""
        self._terminal, inside = pty.openpty()
        self._configure_terminal(inside)
        begin = 'exec bash --norc --noediting -is -- "$0" 2>&1'
        argv = ["bash", "--norc", "-c", begin, self.name]
        if not self.typed:
            # Scripts search the output of ip, which is coloured on a terminal (Debian 13).
            argv = ["env", "NO_COLOR=1", *argv]
        self._started = self._popen(argv, stdin=inside, stdout=inside, stderr=inside)
        os.close(inside)
        terminal = os.fdopen(self._terminal, "r")
        self.stdin = terminal
        self._stdout = terminal
        self.decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
        self.pollOut = select.poll()
        self.pollOut.register(self._stdout, select.POLLIN)
        Node.outToNode[self._terminal] = self
        Node.inToNode[self._terminal] = self
        self.execed = False
        self.lastCmd = None
        self.lastPid = None
        self.readbuf = ""
        self._send(_FIRST_COMMAND)
        self.waitOutput()  # type: ignore[attr-defined]

    def _configure_terminal(self, descriptor: int) -> None:
        """Switch off what a terminal would change in the input and output of programs.

        Nothing is echoed. A user who types keeps line editing, interrupts and flow control.
        """
        attributes = termios.tcgetattr(descriptor)
        attributes[_LOCAL_FLAGS] &= ~termios.ECHO
        if not self.typed:
            attributes[_LOCAL_FLAGS] &= ~(termios.ICANON | termios.ISIG)
            attributes[_INPUT_FLAGS] &= ~termios.IXON
        if self.typed or not self.returns:
            attributes[_OUTPUT_FLAGS] &= ~termios.OPOST
        termios.tcsetattr(descriptor, termios.TCSANOW, attributes)
        termios.tcsetwinsize(descriptor, _TERMINAL_SIZE)
