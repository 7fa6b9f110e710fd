"""Holds the namespaces of emulated hosts, of network and host name: a stand-alone program, one sleeping process a host.

``host_namespaces`` runs it with ``python -I -S``; it prints the process ids, one a line, and lives until its input closes.

    namespace_holder.py HOSTNAME ...
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import sys

CLONE_NEWUTS, CLONE_NEWNET = 0x04000000, 0x40000000
PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


def main(names: list[str]) -> int:
    """One holder a host, which has that name. Fork the holders, print their process ids, wait; the kernel ends them with this process."""
    sys.stdout.flush()
    ready, report = os.pipe()
    holders = []
    for name in names:
        pid = os.fork()
        if pid == 0:
            os.close(ready)
            _hold(report, name)
        holders.append(pid)
    os.close(report)
    answers = b""
    while part := os.read(ready, 4096):
        answers += part
    if answers != b"+" * len(names):
        print(f"refused {max(answers.replace(b'+', b''), default=0)}", flush=True)
        return 3
    print("\n".join(map(str, holders)), flush=True)
    sys.stdin.read()
    return 0


def _hold(report: int, name: str) -> None:
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if _libc.unshare(CLONE_NEWNET | CLONE_NEWUTS) != 0:
        os.write(report, bytes([ctypes.get_errno()]))
        os._exit(3)
    socket.sethostname(name)
    for scope in ("default", "all"):
        try:
            with open(f"/proc/sys/net/ipv6/conf/{scope}/disable_ipv6", "w") as file:
                file.write("1")
        except OSError:
            break  # a kernel without IPv6 has nothing to switch off
    os.write(report, b"+")
    os.close(report)
    for descriptor in (0, 1):
        os.close(descriptor)
    while True:
        signal.pause()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
