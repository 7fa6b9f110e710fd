"""A program in a host sees little of the machine, and types into no terminal of its user's."""

from __future__ import annotations

import contextlib
import os
import pty
import select
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

import testbed
from testbed.emulation.network.kernel.host_view import DEVICES
from tests.helpers.ordinary_user import open_folder, ordinary
from tests.helpers.warm import TESTBED

pytestmark = [pytest.mark.emulation, pytest.mark.unclocked]
ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="/run is root's")
NODES = ("h0", "s0")

#: Programs that print what they could do.
ATTEMPTS = {
    "key": "called(248, b'user', b'testbed_host_key', b'x', 1, -4)",
    "session_key": "called(248, b'user', b'testbed_host_key', b'x', 1, -3)",
    "keyctl": "called(250, 0, -4, 0)",
    "io_uring": "called(425, 1, ctypes.create_string_buffer(200))",
    "pushed_keys": "fcntl.ioctl(terminal(), termios.TIOCSTI, b'x')",
    "vsock": "socket.socket(40, socket.SOCK_STREAM)",
    "loop_device": "os.open('/dev/loop-control', os.O_RDWR)",
    "kvm": "os.open('/dev/kvm', os.O_RDWR)",
    "latency": "os.open('/dev/cpu_dma_latency', os.O_RDWR)",
}
PROGRAM = """
import ctypes, fcntl, os, pty, socket, termios
libc = ctypes.CDLL(None, use_errno=True)


def called(*arguments):
    if libc.syscall(*arguments) < 0:
        raise OSError(ctypes.get_errno(), "refused")


def terminal():
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSCTTY, 0)
    return theirs


for name, code in {attempts!r}.items():
    try:
        eval(code)
        print(name)
    except OSError:
        pass
print("end")
"""

# A shell begins its command after it has printed what it is.
_BEFORE_SLEEP_S = 0.5
LIST_DEVICES = """for path in /dev/* /dev/net/* /dev/pts/*; do
    test -L $path && continue
    if test -c $path || test -b $path; then echo $path; fi
done"""


@pytest.fixture(scope="module")
def session() -> Iterator[testbed.Session]:
    with testbed.session("ring:3") as held:
        yield held


@pytest.fixture
def open_path() -> Iterator[Path]:
    with open_folder() as path:
        yield path


def output(session: testbed.Session, node: str, argv: Sequence[str]) -> str:
    done = session.exec(node, argv, end_point=False, timeout_s=30)
    assert done.returncode == 0, done.stdout + done.stderr
    return str(done.stdout)


@pytest.mark.parametrize("node", NODES)
def test_program_has_no_keys_and_no_foreign_devices(session: testbed.Session, node: str) -> None:
    program = PROGRAM.format(attempts=ATTEMPTS)
    assert output(session, node, [sys.executable, "-c", program]) == "end\n"


@pytest.mark.parametrize("node", NODES)
def test_program_sees_a_handful_of_devices(session: testbed.Session, node: str) -> None:
    listed = output(session, node, ["sh", "-c", LIST_DEVICES]).split()
    terminals = {path for path in listed if path.startswith("/dev/pts/")}
    assert set(listed) - terminals <= {f"/dev/{name}" for name in DEVICES}
    assert {"/dev/null", "/dev/urandom", "/dev/tty"} < set(listed)
    command = [
        "sh",
        "-c",
        "echo x > /dev/null; echo read > /dev/stdout; head -c 3 /dev/zero | wc -c",
    ]
    assert output(session, node, command).split() == ["read", "3"]


@ROOT_ONLY
@pytest.mark.parametrize("node", NODES)
def test_program_reaches_no_socket_in_run(session: testbed.Session, node: str) -> None:
    path = Path(f"/run/testbed-test-{os.getpid()}.sock")
    with socket.socket(socket.AF_UNIX) as listening, contextlib.ExitStack() as stack:
        listening.bind(str(path))
        stack.callback(path.unlink)
        listening.listen()
        with socket.socket(socket.AF_UNIX) as reached:
            reached.connect(str(path))
        assert output(session, node, ["find", "/run", "-type", "s,p,f"]) == ""


@pytest.mark.parametrize("node", NODES)
def test_folders_of_run_are_there_and_empty(session: testbed.Session, node: str) -> None:
    """The daemons of scripts need theirs, as sshd does."""
    names = {entry.name for entry in Path("/run").iterdir() if entry.is_dir()}
    assert names <= set(output(session, node, ["ls", "/run"]).split())
    assert output(session, node, ["sh", "-c", "touch /run/lock/mine && ls /run/lock"]) == "mine\n"


def test_open_vswitch_is_hidden_from_hosts_alone(session: testbed.Session) -> None:
    find = ["sh", "-c", 'find "$TESTBED_SANDBOX" -mindepth 1 -maxdepth 1']
    assert [Path(line).name for line in output(session, "h0", find).split()] == ["tmp"]
    assert session.exec("h0", ["ovs-vsctl", "--timeout=1", "list-br"]).returncode != 0
    assert output(session, "s0", ["ovs-vsctl", "list-br"]).split() == ["s0", "s1", "s2"]
    flows = output(session, "s0", ["ovs-ofctl", "-O", "OpenFlow13", "dump-flows", "s0"])
    assert "priority" in flows


class Terminal:
    """A terminal with a command whose output is awaited word by word."""

    def __init__(self, command: Sequence[str]) -> None:
        self._shown = b""
        self._pid, self._terminal = pty.fork()
        if self._pid == 0:
            os.execvp(command[0], list(command))

    def type(self, keys: str, expected: str) -> str:
        """Type the keys, and return what is shown until the expected text is."""
        os.write(self._terminal, keys.encode())
        return self.read(expected)

    def read(self, expected: str) -> str:
        until = time.monotonic() + 40
        while expected.encode() not in self._shown:
            assert time.monotonic() < until, self._shown.decode(errors="replace")
            if select.select([self._terminal], [], [], 0.2)[0]:
                self._shown += os.read(self._terminal, 65536)
        before, _, self._shown = self._shown.partition(expected.encode())
        return before.decode(errors="replace")

    def close(self) -> None:
        os.close(self._terminal)
        os.waitpid(self._pid, 0)


TYPING = """
import fcntl, os, termios
try:
    for key in b"echo typed-by-host\\n":
        fcntl.ioctl(os.open("/dev/tty", os.O_RDWR), termios.TIOCSTI, bytes([key]))
    print("it typed")
except OSError as error:
    print("refused:", error.errno)
"""


@pytest.mark.parametrize(
    "who",
    [
        pytest.param("this_user", marks=pytest.mark.long),
        pytest.param("ordinary_user", marks=ROOT_ONLY),
    ],
)
def test_interactive_programs_at_the_prompt(open_path: Path, who: str) -> None:
    """Shells have jobs, Ctrl-C ends the command in the foreground, and nothing is pushed."""
    (open_path / "typing.py").write_text(TYPING)
    command = [*TESTBED, "up", "ring:3"]
    if who == "ordinary_user":
        command = ordinary(command, open_path / "compiled")
    terminal = Terminal(command)
    terminal.read("mininet> ")
    # The line that the terminal shows does not contain what its program prints.
    shown = terminal.type(f"h0 {sys.executable} {open_path}/typing.py\n", "refused: 1")
    assert "it typed" not in shown
    terminal.read("mininet> ")
    terminal.type("h0 ping h1\n", "icmp_seq=2")
    terminal.type("\x03", "packets transmitted")
    terminal.read("mininet> ")
    shell = terminal.type("h0 PS1='in-$((40+2))> ' bash --norc -i\n", "in-42> ")
    assert "no job control" not in shell
    for _ in range(2):
        terminal.type("echo begun-$((3*5)); sleep 100\n", "begun-15")
        time.sleep(_BEFORE_SLEEP_S)
        terminal.type("\x03", "in-42> ")
    terminal.type("sleep 101 &\n", "in-42> ")
    terminal.type("jobs\n", "Running")
    terminal.read("in-42> ")
    terminal.type("echo begun-$((3*6)); fg\n", "begun-18")
    time.sleep(_BEFORE_SLEEP_S)
    terminal.type("\x03", "in-42> ")
    terminal.type("echo still-$((3*7))\n", "still-21")
    terminal.read("in-42> ")
    terminal.type("exit\n", "mininet> ")
    terminal.type("h0 top -b -n 1 | head -1\n", "load average")
    terminal.read("mininet> ")
    terminal.type("quit\n", "quit")
    terminal.close()
