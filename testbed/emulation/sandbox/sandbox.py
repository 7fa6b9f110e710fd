"""The sandbox: a run's own user, network, mount and process namespaces, and the private Open vSwitch inside them.

The running command becomes the sandbox's outer process (same process id), so that whoever kills it kills everything
inside. Why nothing is left, even after kill -9 of any part: the first process inside is the init of a process
namespace, and the kernel sends it SIGKILL when the outer process dies, whatever the reason; with its init the kernel
ends every process of the namespace. Interfaces, mounts and the private directory (a tmpfs) belong to namespaces that
only those processes hold, so they go with the last of them. No clean-up code has to run for that. ``sandbox_entry``
makes the namespaces.
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
_PROBE_S = 10.0
_MAKE_VETH = ("ip", "link", "add", "probe0", "type", "veth")
_MARK = "TESTBED_SANDBOX"


def in_sandbox() -> bool:
    """Whether this process runs in a sandbox's own network: variables that strayed elsewhere name another than the
    kernel does."""
    return _MARK in os.environ and os.environ.get(f"{_MARK}_NETWORK") == str(
        Path("/proc/self/ns/net").readlink()
    )


def require_sandbox() -> Path:
    """The sandbox's private directory; CapabilityError outside one, because there real interfaces would be touched."""
    if not in_sandbox():
        raise CapabilityError(
            "an emulated network is built only inside the sandbox; start it with the testbed command"
        )
    return Path(os.environ[_MARK])


def enter_sandbox(argv: Sequence[str], *, name: str | None = None) -> None:
    """Go on inside a sandbox: returns there, in a process of its own, whose end is passed on by this one.

    Exit code, terminal, pipes and signals pass through. Where this process has other threads, which would not come
    along, ``testbed ARGV`` is started again inside, in place of it; programs that describe networks are not run again.
    Where the kernel refuses, the exit code is 3 and stderr says why. ``name``: of the door by which other processes
    reach the network there (None: no door). InputError where it is taken.
    """
    from topologies.adapters.python_files import hand_over

    if in_sandbox():
        return
    if name is not None:
        listener = listen(name)
        listener.set_inheritable(True)
        os.environ[VARIABLE] = str(listener.detach())
    sys.stdout.flush()
    sys.stderr.flush()
    if is_alone():
        enter({"explain_kill": True})
        tempfile.tempdir = None  # a directory of the machine's
        return
    hand_over()
    words = sandbox_command([sys.executable, "-P", "-m", "testbed.cli", *argv], explain_kill=True)
    os.execv(words[0], words)


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
        explain_kill: If somebody kills the command, that is one line and exit code 4.

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
    """Enter a throw-away sandbox and create a veth pair in it; None where that works, else what refused and the
    repair; tried once. ``clock_offset_s``: with a clock of its own, ahead by so much."""
    words = sandbox_command(_MAKE_VETH, die_with_parent=True, clock_offset_s=clock_offset_s)
    quiet = subprocess.DEVNULL
    try:
        done = subprocess.run(
            words, stdin=quiet, capture_output=True, text=True, timeout=_PROBE_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"the sandbox does not start ({error})"
    if done.returncode == 0:
        return None
    if "Unknown device type" in done.stderr:
        return "the kernel has no veth interfaces; load or build the veth module"
    return (
        done.stderr.strip().removeprefix("testbed: ")
        or f"the sandbox ended with exit code {done.returncode}"
    )
