"""Programs in hosts that end when their client disconnects."""

import os
import shutil
import signal
import socket
import subprocess
import sys

from testbed.emulation.attach.program_group import ChildProgram, attend
from testbed.emulation.attach.protocol import Frame, send
from testbed.emulation.network.emulated_network import EmulatedNetwork
from testbed.emulation.sandbox.program_start import start_program
from testbed.errors import InputError
from topologies.text.json_types import JsonObject

# Job control needs a terminal of the program's own session; a user's shell keeps its terminal.
_TAKE_TERMINAL = """import fcntl, os, sys, termios
try:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
except OSError:
    pass
os.execvp(sys.argv[1], sys.argv[1:])
"""


def run_program(net: EmulatedNetwork, sock: socket.socket, request: Frame) -> None:
    """Start the program that the request names on its three descriptors; the exit code is the answer.

    The request: ``host`` (a name of the wiring's; a switch stands for the switches' own namespace, or with
    ``end_point`` for the host outside the model that is attached to it), ``argv``, ``cwd``, ``env`` (added to the
    sandbox's). Frames with ``signal`` are passed on; when the connection closes, the program and what it started are
    killed. Raises InputError where it cannot be started.
    """
    if len(request.descriptors) != 3:
        raise InputError("a program needs standard input, output and error; give three descriptors")
    try:
        program = ChildProgram(_start(net, request))
    finally:
        request.close()  # also of a refused one: the client reads until nobody has its pipes
    try:
        send(sock, {"pid": program.child.pid})
        send(sock, {"code": attend(program, sock)})
    finally:
        if program.poll() is None:
            program.signal(signal.SIGKILL)
            program.child.wait()


def argv_in_host(
    net: EmulatedNetwork, name: str, argv: list[str], *, end_point: bool = False
) -> list[str]:
    """The words that run a program there, without rights over the machine (``EmulatedNetwork.words_at``).
    ``end_point``: in the host that stands for a switch, not next to the switch.

    InputError where there is no such host or switch, or no program.
    """
    if not argv or not all(isinstance(word, str) and "\0" not in word for word in argv):
        raise InputError("give a program and its arguments, each a text")
    if end_point and name in net.switch_names:
        try:
            name = net.wiring.host_at(name).name
        except KeyError:
            raise InputError(f"no host represents the switch {name!r} in this network") from None
    return net.words_at(name, argv)


def _start(net: EmulatedNetwork, request: Frame) -> subprocess.Popen[bytes]:
    requested: JsonObject = request.header
    argv = list(requested.get("argv", ()))
    words = argv_in_host(
        net, str(requested.get("host")), argv, end_point=bool(requested.get("end_point"))
    )
    stdin, stdout, stderr = request.descriptors
    environment = {**os.environ, **requested.get("env", {})}
    program = argv[0]
    try:
        if "/" not in program and shutil.which(program, path=environment.get("PATH")) is None:
            raise InputError(f"{program}: No such file or directory")
        if os.isatty(stdin):
            words = [sys.executable, "-I", "-S", "-c", _TAKE_TERMINAL, *words]
        return start_program(
            words,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            cwd=requested.get("cwd"),
            env=environment,
            start_new_session=True,
        )
    except OSError as error:
        raise InputError(f"{program}: {error.strerror}") from None
    except (TypeError, ValueError) as error:  # of the environment
        raise (
            error if isinstance(error, InputError) else InputError(f"{program}: {error}")
        ) from None
