"""An interface towards the others for a machine whose sandbox has none: pasta carries it, without rights, by the ports that a run uses.

pasta copies the address of the machine's own network into the sandbox and passes datagrams and connections on by sockets outside.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

from testbed.errors import CapabilityError

_WAIT_S = 10.0


def uplink_words(pasta: str, pid: int, port: int) -> list[str]:
    """The command that attaches pasta to a process's network: UDP ``port`` for tunnels, the next one for clocks, TCP ``port`` for streams.

    >>> " ".join(uplink_words("pasta", 7, 20006))
    'setpriv --pdeathsig KILL pasta --config-net --mtu 65520 --no-map-gw --quiet --foreground -t 20006 -u 20006,20007 -T none -U none 7'
    """
    ports = ["-t", str(port), "-u", f"{port},{port + 1}", "-T", "none", "-U", "none"]
    words = [pasta, "--config-net", "--mtu", "65520", "--no-map-gw", "--quiet", "--foreground", *ports, str(pid)]
    return ["setpriv", "--pdeathsig", "KILL", *words]


def start_uplink(pid: int, port: int) -> subprocess.Popen[bytes] | None:
    """Give the sandbox of that process an interface; None where this machine has no pasta, or we are root, whom pasta does not serve."""
    pasta = shutil.which("pasta")
    if pasta is None or os.geteuid() == 0:
        return None
    _await_namespace(pid)
    program = subprocess.Popen(uplink_words(pasta, pid, port), stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until = time.monotonic() + _WAIT_S
    while time.monotonic() < until and program.poll() is None:
        if _has_interface(pid):
            return program
        time.sleep(0.02)
    program.kill()
    program.wait()
    raise CapabilityError("pasta gave this machine's sandbox no interface; see testbed doctor")


def _await_namespace(pid: int) -> None:
    ours, theirs = Path("/proc/self/ns/net").readlink(), Path(f"/proc/{pid}/ns/net")
    until = time.monotonic() + _WAIT_S
    while time.monotonic() < until:
        try:
            if theirs.readlink() != ours:
                return
        except OSError:
            pass
        time.sleep(0.005)
    raise CapabilityError("the sandbox of this machine did not come up")


def _has_interface(pid: int) -> bool:
    """Whether its network has a way out."""
    return len(Path(f"/proc/{pid}/net/route").read_text().splitlines()) > 1
