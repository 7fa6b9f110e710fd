"""Finds out whether this machine has WireGuard, in its kernel or as the program wireguard-go."""

from testbed.emulation.machine.provenance import find_program, refusal

#: The program that configures both kinds of WireGuard.
TOOL = "wg"

#: WireGuard in user space.
USER_SPACE = "wireguard-go"

_CREATE_AND_DELETE = "ip link add wgtry$$ type wireguard && ip link delete wgtry$$"


def encryption_means() -> tuple[str, str | None]:
    """Return which WireGuard this machine has, and what is missing.

    Returns:
        ``"kernel"``, the path of wireguard-go, or an empty string; and what is missing and how to
        install it, or None.
    """
    if find_program(TOOL) is None:
        return "", f"{TOOL} is not installed; sudo apt-get install wireguard-tools"
    if refusal(_CREATE_AND_DELETE) is None:
        return "kernel", None
    path = find_program(USER_SPACE)
    if path is None:
        return "", (
            f"this kernel has no WireGuard and {USER_SPACE} is not installed; "
            f"sudo modprobe wireguard, or sudo apt-get install {USER_SPACE}"
        )
    return path, None
