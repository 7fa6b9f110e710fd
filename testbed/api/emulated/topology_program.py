"""Runs a Mininet file to see what network it builds: in a sandbox in which nothing can be written, reached or kept.

    python -m testbed.api.emulated.topology_program FILE NAME

is started by ``topologies.adapters.python_files`` and becomes
``testbed.emulation.network.mininet_network.recorded_network`` inside. There the file has no network but its own, every
file system is read-only but a private one in memory, it has no capability, its processes end with it, and memory and
time are bounded.
"""

import ctypes
import os
import resource
import sys

from testbed.emulation.sandbox.sandbox_entry import enter

_MEMORY_BYTES, _PROCESSOR_S = 4 << 30, 60
_PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS, _CAPABILITIES = 24, 38, 64


def main(words: list[str]) -> None:
    """Enter the sandbox, and give every right away there."""
    enter({"die_with_parent": True, "read_only": True})
    libc = ctypes.CDLL(None)
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    for capability in range(
        _CAPABILITIES
    ):  # those of its root end with the next program; unknown ones are refused
        libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (_PROCESSOR_S, _PROCESSOR_S))
    os.environ |= {
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        "HOME": os.environ.get("TMPDIR", "/"),
    }
    command = [
        sys.executable,
        "-P",
        "-m",
        "testbed.emulation.network.mininet_network.recorded_network",
        *words,
    ]
    os.execv(command[0], command)


if __name__ == "__main__":
    main(sys.argv[1:])
