"""The sandbox: user, network, mount and process namespaces of one run.

The running command becomes the outer process of the sandbox and keeps its process id. So a signal
that kills the command kills everything inside.

Nothing remains, even after kill -9 of any part, and no clean-up code has to run:

- The first process inside is the init of a process namespace. The kernel sends it SIGKILL when the
  outer process dies for any reason.
- The kernel ends every process of a namespace together with its init.
- Interfaces, mounts and the private directory (a tmpfs) belong to namespaces that exist only as
  long as these processes.

``sandbox_entry`` creates the namespaces.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from testbed.emulation.sandbox.control_socket import VARIABLE, listen
from testbed.emulation.sandbox.process_lifetime import is_alone
from testbed.emulation.sandbox.sandbox_entry import enter
from testbed.errors import CapabilityError

_ENTRY = Path(__file__).with_name("sandbox_entry.py")

# Time limit of a trial.
_PROBE_S = 10.0

_MAKE_VETH = ("ip", "link", "add", "probe0", "type", "veth")

# The variable that contains the private directory. A second one, with the suffix _NETWORK,
# identifies the network namespace.
_MARK = "TESTBED_SANDBOX"


def in_sandbox() -> bool:
    """Return whether this process runs in the network namespace of a sandbox.

    The variables alone prove nothing, because a process outside may have inherited them. In this
    case they name another network namespace than the kernel does.
    """
    if _MARK not in os.environ:
        return False
    network = str(Path("/proc/self/ns/net").readlink())
    return os.environ.get(f"{_MARK}_NETWORK") == network


def require_sandbox() -> Path:
    """Return the private directory of the sandbox.

    Raises:
        CapabilityError: The process is not in a sandbox, so that it would change interfaces of the
            machine.
    """
    if not in_sandbox():
        raise CapabilityError(
            "an emulated network is built only inside the sandbox; "
            "start it with the testbed command"
        )
    return Path(os.environ[_MARK])


def enter_sandbox(argv: Sequence[str], *, name: str | None = None) -> None:
    """Continue inside a sandbox.

    The function returns in a new process inside, whose exit code this process passes on. Terminal,
    pipes and signals pass through. In a sandbox, the function does nothing.

    Other threads of this process would not continue inside. If there are any, this process executes
    ``testbed ARGV`` inside instead. It hands over the networks that Python files have described, so
    that these files are not run again. If the kernel refuses a sandbox, the exit code is 3 and
    stderr says why.

    Args:
        argv: The arguments of this command, from which it can be started again.
        name: Name of the control socket through which other processes reach the network inside;
            None for no socket.

    Raises:
        InputError: Another network has this name.
    """
    from topologies.adapters.python_files import hand_over

    if in_sandbox():
        return
    if name is not None:
        # A socket belongs to the network namespace in which it was created. Other processes can
        # connect to this one only if it is created outside.
        listener = listen(name)
        listener.set_inheritable(True)
        os.environ[VARIABLE] = str(listener.detach())
    # Otherwise each of the processes would write what is in the buffers.
    sys.stdout.flush()
    sys.stderr.flush()
    if is_alone():
        enter({"explain_kill": True})
        # Forget the directory of the machine, so that TMPDIR is read again.
        tempfile.tempdir = None
        return
    hand_over()
    command = sandbox_command([sys.executable, "-P", "-m", "testbed.cli", *argv], explain_kill=True)
    os.execv(command[0], command)


def sandbox_command(
    command: Sequence[str],
    *,
    die_with_parent: bool = False,
    clock_offset_s: float = 0.0,
    explain_kill: bool = False,
) -> list[str]:
    """Return the command line that runs ``command`` in a sandbox.

    Args:
        command: The command line.
        die_with_parent: The sandbox ends when the thread that started it does.
        clock_offset_s: Seconds by which the monotonic clock inside is ahead (a time namespace).
        explain_kill: If the command is killed from outside, print one line and end with exit
            code 4.

    >>> sandbox_command(["true"])[1:3]
    ['-I', '-S']
    """
    requested = {
        "die_with_parent": die_with_parent,
        "clock_offset_s": clock_offset_s,
        "explain_kill": explain_kill,
    }
    options = json.dumps(requested)
    return [sys.executable, "-I", "-S", str(_ENTRY), options, *command]


@cache
def probe_sandbox(*, clock_offset_s: float = 0.0) -> str | None:
    """Create a veth pair in a sandbox of its own, once per process.

    Args:
        clock_offset_s: Seconds by which the monotonic clock inside is ahead.

    Returns:
        None if it works, and otherwise which step was refused and how to allow it.
    """
    command = sandbox_command(_MAKE_VETH, die_with_parent=True, clock_offset_s=clock_offset_s)
    try:
        finished = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_PROBE_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"the sandbox does not start ({error})"
    if finished.returncode == 0:
        return None
    if "Unknown device type" in finished.stderr:
        return "the kernel has no veth interfaces; load or build the veth module"
    reason = finished.stderr.strip().removeprefix("testbed: ")
    return reason or f"the sandbox ended with exit code {finished.returncode}"
