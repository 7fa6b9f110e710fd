"""Runs a Mininet file to see what network it builds, in a sandbox that it cannot leave.

    python -m testbed.api.emulated.topology_program FILE NAME

``topologies.adapters.python_files`` starts this program, which becomes
``testbed.emulation.network.mininet_network.recorded_network`` in a sandbox. The file sees its own
folder and Python there, and no terminal. It has no capability and is one process. The kernel
refuses it the system calls of ``system_call_filter.FOR_NETWORK_FILES``. Its memory, its files, its
output and its processor time are bounded.
"""

import ctypes
import os
import resource
import struct
import sys
from pathlib import Path

from testbed.emulation.sandbox import system_call_filter
from testbed.emulation.sandbox.bare_root import change_root, python_paths
from testbed.emulation.sandbox.sandbox_entry import EXIT_REFUSED, RefusedError, enter

# Largest size of the output, and of any other file, in bytes. The program that reads the answer has
# the same limit.
MAX_OUTPUT_BYTES = 16 << 20
# Resource limits of the program: memory, processor time, and files.
_LIMITS = {
    resource.RLIMIT_AS: 2 << 30,
    resource.RLIMIT_CPU: 60,
    resource.RLIMIT_FSIZE: MAX_OUTPUT_BYTES,
    # Each socket may have buffers, which count as the kernel's memory.
    resource.RLIMIT_NOFILE: 64,
    resource.RLIMIT_CORE: 0,
}
# Constants of Linux (linux/prctl.h, linux/capability.h).
_PR_CAPBSET_DROP = 24
_PR_CAP_AMBIENT = 47
_PR_CAP_AMBIENT_CLEAR_ALL = 4
_CAPABILITIES = 64
_CAPABILITY_VERSION_3 = 0x20080522


def main(arguments: list[str]) -> None:
    """Enter the sandbox, drop all privileges, and execute the program that reads the file."""
    paths = python_paths()
    program = os.path.realpath(sys.executable)
    enter({"die_with_parent": True})
    try:
        confine(str(Path(arguments[0]).parent), paths)
    except (RefusedError, system_call_filter.FilterError) as refused:
        print(f"testbed: {refused}", file=sys.stderr, flush=True)
        sys.exit(EXIT_REFUSED)
    _set_limits()
    os.environ |= {
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        "HOME": "/tmp",
        "TMPDIR": "/tmp",
        # numpy reserves memory for each thread.
        "OPENBLAS_NUM_THREADS": "1",
    }
    command = [
        sys.executable,
        "-P",
        "-m",
        "testbed.emulation.network.mininet_network.recorded_network",
        *arguments,
    ]
    os.execv(program, command)


def _set_limits() -> None:
    """Set the resource limits, unless a lower one is set already."""
    for limit, value in _LIMITS.items():
        _, maximum = resource.getrlimit(limit)
        if maximum == resource.RLIM_INFINITY or maximum > value:
            resource.setrlimit(limit, (value, value))


def confine(folder: str, readable: set[str]) -> None:
    """Drop all privileges that the author of a file in the folder could misuse.

    The process must be in a sandbox already. It loses access to other files, all capabilities, and
    most system calls.

    Args:
        folder: The absolute path of the file's folder.
        readable: Absolute paths that the program needs too.

    Raises:
        RefusedError: The kernel refused the file system.
        FilterError: The kernel refused the filter of system calls.
    """
    os.setsid()
    change_root(folder, readable)
    system_call_filter.join_new_session_keyring()
    _drop_capabilities()
    system_call_filter.forbid_new_privileges()
    system_call_filter.install(system_call_filter.FOR_NETWORK_FILES)


def _drop_capabilities() -> None:
    """Drop every capability of this thread, and let no program regain one."""
    libc = ctypes.CDLL(None)
    libc.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    for capability in range(_CAPABILITIES):
        # The kernel refuses numbers that it does not have.
        libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
    header = struct.pack("Ii", _CAPABILITY_VERSION_3, 0)
    libc.capset(header, bytes(24))


if __name__ == "__main__":
    main(sys.argv[1:])
