"""Whether this machine can speak WireGuard: in its kernel, or by the program wireguard-go; and the tool that configures
both."""

from testbed.emulation.machine.provenance import find_program, refusal

TOOL, USER_SPACE = "wg", "wireguard-go"


def encryption_means() -> tuple[str, str | None]:
    """What speaks WireGuard here ("kernel", or the path of wireguard-go, or ""), and what is missing, or None."""
    if find_program(TOOL) is None:
        return "", f"{TOOL} is not installed; sudo apt-get install wireguard-tools"
    if refusal("ip link add wgtry$$ type wireguard && ip link delete wgtry$$") is None:  # a trial
        return "kernel", None
    path = find_program(USER_SPACE)
    if path is None:
        return "", (
            f"this kernel has no WireGuard and {USER_SPACE} is not installed; "
            f"sudo modprobe wireguard, or sudo apt-get install {USER_SPACE}"
        )
    return path, None
