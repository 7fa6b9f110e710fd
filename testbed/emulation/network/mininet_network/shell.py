"""The shell of a Mininet node that starts with its first command, and whose user may do with it what he likes.

What a command prints is read until its mark, which the shell prints however the command ends. Where the shell itself
has ended, the next command begins a new one: nobody waits permanently.
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

_MARK = f"\x7f{secrets.token_hex(4)}."
"""Begins what the shell prints after each command: this, the command's number, and DEL (Mininet's own sentinel, which
programs print too)."""
_PRINT_MARK = rf"printf '\177{_MARK[1:]}%d\177' $TESTBED_COMMAND >&97"
# Descriptor 97 is the terminal whatever commands do with the shell's own output; scripts lock files by 9, or 200.
_FIRST_COMMAND = f"PS1= PS2=; exec 97>&1; readonly PROMPT_COMMAND={shlex.quote(_PRINT_MARK)}; unset HISTFILE; set +m"
_JOB = re.compile(r"\[\d+\] (\d+)\r?\n")
_LOOK_MS = 100
_REST_S = 1.0
"""What a shell that has ended left behind may still print for so long."""


class LateShell:
    """Mixed into Mininet's nodes. ``typed``: whoever types commands types what they read, too; without it they read
    nothing. ``returns``: lines of commands end as on a terminal, as Mininet's do, by which scripts split them."""

    isSetup = True  # noqa: N815 - Mininet's name: nothing is to be checked
    name: str
    requests: Requests
    typed = returns = False
    _started: subprocess.Popen[bytes] | None = None
    _interrupts = _number = 0
    _ended_s: float | None = None
    readbuf: str
    lastCmd: str | None  # noqa: N815
    lastPid: int | None  # noqa: N815

    @property
    def shell(self) -> subprocess.Popen[bytes] | None:
        """The node's shell process, started now if it does not run."""
        if (self._started is None or self._started.poll() is not None) and not self.requests.closed:
            self._end_shell()
            self._open_shell()
        return self._started

    @shell.setter
    def shell(self, value: object) -> None:
        """Mininet sets None while it makes the node."""

    @property
    def stdout(self) -> object:
        """What the shell prints; some scripts poll it before the first command."""
        if self._started is None and not self.requests.closed:
            self._open_shell()
        return self._stdout

    @stdout.setter
    def stdout(self, value: object) -> None:
        """Mininet sets None while it makes the node."""
        self._stdout = value

    def popen(self, *args: object, **kwargs: object) -> object:
        """As Mininet's: a program next to the shell."""
        return super().popen(*args, **{"mncmd": [], **kwargs})  # type: ignore[misc]

    def _popen(self, cmd: Sequence[str], **params: Any) -> subprocess.Popen[bytes]:
        if self.requests.closed:
            raise SessionClosedError(f"{self.name}: the network has gone")
        words = self.requests.words_at(self, cmd)
        return start_program(words, start_new_session=True, **params)

    def terminate(self) -> None:
        """End the shell and what it started, if there is one; the node is the network's."""
        self._end_shell()

    def _end_shell(self) -> None:
        if self._started is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._started.pid, signal.SIGKILL)
            self._started.wait()
            self.stdin.close()
            Node.inToNode.pop(self._terminal, None)
            self._started, self._ended_s, self.waiting = None, None, False

    def sendCmd(self, *args: object, **_: object) -> None:  # noqa: N802 - Mininet's name
        """Begin a command; what it prints is read until it has ended."""
        assert self.shell is not None and not self.waiting
        words = args[0] if len(args) == 1 and isinstance(args[0], list) else args
        text = " ".join(map(str, words))
        self.lastCmd, self.lastPid = text, None
        self._interrupts = 0
        # eval: a command that is no whole one is an error and not a beginning.
        self._send(f"eval {shlex.quote(text)}{'' if self.typed else ' </dev/null'}")

    def _send(self, line: str) -> None:
        self._number += 1
        self.waiting = True
        self.write(f"TESTBED_COMMAND={self._number}; {line}\n")  # type: ignore[attr-defined]

    def monitor(self, timeoutms: int | None = None, findPid: bool = True) -> str:  # noqa: N803 - Mininet's name
        """What the command has printed meanwhile; ``waiting`` is false once it, or the shell, has ended."""
        said = ""
        try:
            if self.pollOut.poll(_LOOK_MS if timeoutms is None else timeoutms):
                said = self._printed(self.decoder.decode(os.read(self._terminal, 4096)))
        except OSError:  # the terminal of a shell that has ended, or has let go of it
            time.sleep(_LOOK_MS / 1000)
        if self._started is None or self._started.poll() is None:
            return said
        self._ended_s = self._ended_s or time.monotonic()
        if not said or time.monotonic() > self._ended_s + _REST_S:
            self._end_shell()
        return said

    def _printed(self, text: str) -> str:
        """What of the text, and of what came before it, is the command's; the beginning of a mark waits for its end."""
        whole = self.readbuf + text
        said, mark, self.readbuf = whole.partition(f"{_MARK}{self._number}\x7f")
        if mark:
            self.waiting = False
        else:
            begun = said.rfind("\x7f", -len(_MARK) - 8)
            said, self.readbuf = (said, "") if begun < 0 else (said[:begun], said[begun:])
        said = re.sub(re.escape(_MARK) + r"\d+\x7f", "", said)
        job = (
            _JOB.search(said)
            if self.lastCmd and self.lastCmd.endswith("&") and self.lastPid is None
            else None
        )
        if job:
            self.lastPid = int(job[1])
            said = said.replace(job[0], "", 1)
        return said

    def sendInt(self, intr: str = "\x03") -> None:  # noqa: N802 - Mininet's name
        """Interrupt the command; one that does not listen ends with the shell the second time.

        A shell that was started in the node has jobs of its own, which its terminal interrupts.
        """
        self._interrupts += 1
        if self._started is None:
            return
        if self._interrupts == 1 and self.typed and os.tcgetpgrp(self._terminal) > 0:
            os.write(self._terminal, intr.encode())
            return
        sent = signal.SIGINT if self._interrupts == 1 else signal.SIGKILL
        with suppress(ProcessLookupError):
            os.killpg(self._started.pid, sent)

    def type_keys(self, keys: bytes) -> None:
        """Pass what the user types to the command, which has listened since its last interrupt."""
        os.write(self._terminal, keys)
        self._interrupts = 0

    def _open_shell(self) -> None:
        self._terminal, inside = pty.openpty()
        attributes = termios.tcgetattr(inside)
        attributes[3] &= (
            ~termios.ECHO if self.typed else ~(termios.ECHO | termios.ICANON | termios.ISIG)
        )
        attributes[0] &= ~(0 if self.typed else termios.IXON)
        attributes[1] &= ~(0 if self.returns and not self.typed else termios.OPOST)
        termios.tcsetattr(inside, termios.TCSANOW, attributes)
        termios.tcsetwinsize(inside, (50, 200))
        begin = 'exec bash --norc --noediting -is -- "$0" 2>&1'
        # Scripts search for words in what ip prints, which paints it on a terminal (Debian 13).
        plain = [] if self.typed else ["env", "NO_COLOR=1"]
        words = [*plain, "bash", "--norc", "-c", begin, self.name]
        self._started = self._popen(words, stdin=inside, stdout=inside, stderr=inside)
        os.close(inside)
        self.stdin = self._stdout = os.fdopen(self._terminal, "r")
        self.decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
        self.pollOut = select.poll()
        self.pollOut.register(self._stdout, select.POLLIN)
        Node.outToNode[self._terminal] = Node.inToNode[self._terminal] = self
        self.execed, self.lastCmd, self.lastPid, self.readbuf = False, None, None, ""
        self._send(_FIRST_COMMAND)
        self.waitOutput()  # type: ignore[attr-defined]
