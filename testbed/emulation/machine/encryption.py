"""Whether this machine can speak WireGuard: in its kernel, or by the program wireguard-go; and the tool that configures
both."""

import os
import subprocess

from testbed.emulation.machine.provenance import find_program
from testbed.emulation.sandbox.sandbox import in_sandbox

TOOL, USER_SPACE = "wg", "wireguard-go"
_TRIAL_S = 10.0


def kernel_has_wireguard() -> bool:
    """A trial: an interface is made and removed, in a network of its own unless this is a sandbox."""
    name = f"wgtry{os.getpid() % 10**7}"
    apart = [] if in_sandbox() else ["unshare", "-rn"]
    script = f"ip link add {name} type wireguard && ip link delete {name}"
    try:
        done = subprocess.run([*apart, "sh", "-c", script], capture_output=True, timeout=_TRIAL_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def encryption_obstacle() -> str | None:
    """None where ``--encrypt`` can work here, else what is missing and how to fix it, in one line."""
    return encryption_means()[1]


def encryption_means() -> tuple[str, str | None]:
    """What speaks WireGuard here ("kernel", or the path of wireguard-go, or ""), and what is missing, or None."""
    if find_program(TOOL) is None:
        return "", f"{TOOL} is not installed; sudo apt-get install wireguard-tools"
    if kernel_has_wireguard():
        return "kernel", None
    path = find_program(USER_SPACE)
    if path is None:
        return "", (
            f"this kernel has no WireGuard and {USER_SPACE} is not installed; "
            f"sudo modprobe wireguard, or sudo apt-get install {USER_SPACE}"
        )
    return path, None
