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

# A program that makes its input the controlling terminal of its session, and becomes another
# program. Job control needs that. A terminal that another session controls, such as a user's
# shell, stays there.
_TAKE_TERMINAL = """import fcntl, os, sys, termios
try:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
except OSError:
    pass
os.execvp(sys.argv[1], sys.argv[1:])
"""


def run_program(net: EmulatedNetwork, sock: socket.socket, request: Frame) -> None:
    """Run the program that a request names, and answer its exit code.

    Frames with ``signal`` are passed on to the program. When the connection is closed, the program
    and the processes that it started are killed.

    Args:
        net: The network.
        sock: The connection to the client.
        request: Its three descriptors are input, output and error of the program. Its fields are
            ``host``, ``argv``, ``cwd`` and ``env`` (added to the sandbox's). ``host`` is a name of
            the wiring; a switch stands for the switches' own namespace or, with ``end_point``, for
            the host outside the model that is attached to it.

    Raises:
        InputError: The program cannot be started.
    """
    if len(request.descriptors) != 3:
        raise InputError("a program needs standard input, output and error; give three descriptors")
    try:
        program = ChildProgram(_start(net, request))
    finally:
        # This process must not have the program's pipes: the client reads until all their writers
        # have closed them.
        request.close()
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
    """Return the command line that runs a program in a node, without machine privileges.

    Args:
        net: The network.
        name: The node (see ``EmulatedNetwork.words_at``).
        argv: The program and its arguments.
        end_point: For a switch: run the program in the host that represents the switch, and not
            next to the switch.

    Raises:
        InputError: There is no such node, or no program.
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
    """Start the program of a request.

    Raises:
        InputError: It cannot be started.
    """
    fields: JsonObject = request.header
    argv = list(fields.get("argv", ()))
    end_point = bool(fields.get("end_point"))
    command = argv_in_host(net, str(fields.get("host")), argv, end_point=end_point)
    stdin, stdout, stderr = request.descriptors
    environment = {**os.environ, **fields.get("env", {})}
    program = argv[0]
    try:
        if "/" not in program and shutil.which(program, path=environment.get("PATH")) is None:
            raise InputError(f"{program}: No such file or directory")
        if os.isatty(stdin):
            command = [sys.executable, "-I", "-S", "-c", _TAKE_TERMINAL, *command]
        return start_program(
            command,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            cwd=fields.get("cwd"),
            env=environment,
            start_new_session=True,
        )
    except OSError as error:
        raise InputError(f"{program}: {error.strerror}") from None
    except InputError:
        raise
    except (TypeError, ValueError) as error:
        # The environment or the directory is not valid.
        raise InputError(f"{program}: {error}") from None
