"""The filters decide alike on every processor; a small machine carries their instructions out."""

from __future__ import annotations

import errno
import struct
import subprocess
import sys

import pytest

from testbed.emulation.sandbox import system_call_filter
from testbed.emulation.sandbox.system_call_filter import FOR_HOSTS, FOR_NETWORK_FILES, Rule

ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
ALLOWED = 0


def verdict(rules: tuple[Rule, ...], machine: str, call: int, *arguments: int) -> int:
    """Return the error by which the filter refuses the call, or ALLOWED."""
    return run(
        system_call_filter.assembled(rules, machine), ARCHITECTURES[machine], call, *arguments
    )


def run(program: bytes, architecture: int, call: int, *arguments: int) -> int:
    padded = [*arguments, *[0] * (6 - len(arguments))]
    data = struct.pack("=iIQ6Q", call, architecture, 0, *padded)
    instructions = list(struct.iter_unpack("HBBI", program))
    accumulator = 0
    position = 0
    while True:
        code, if_true, if_false, value = instructions[position]
        position += 1
        if code == 0x20:
            (accumulator,) = struct.unpack_from("I", data, value)
        elif code == 0x54:
            accumulator &= value
        elif code == 0x15:
            position += if_true if accumulator == value else if_false
        elif code == 0x35:
            position += if_true if accumulator >= value else if_false
        else:
            assert code == 0x06
            return ALLOWED if value == 0x7FFF0000 else value & 0xFFFF


def number(name: str, machine: str) -> int:
    found = system_call_filter._number(name, machine)
    assert found is not None
    return found


@pytest.mark.parametrize("machine", ARCHITECTURES)
@pytest.mark.parametrize(
    ("rules", "call", "arguments", "expected"),
    [
        (FOR_HOSTS, "keyctl", (), errno.EPERM),
        (FOR_HOSTS, "add_key", (), errno.EPERM),
        (FOR_HOSTS, "io_uring_setup", (), errno.EPERM),
        (FOR_HOSTS, "ioctl", (0, 0x5412), errno.EPERM),
        (FOR_HOSTS, "ioctl", (0, 0xFFFF_0000_0000_5412), errno.EPERM),
        (FOR_HOSTS, "ioctl", (0, 0x541C), errno.EPERM),
        (FOR_HOSTS, "ioctl", (0, 0x5413), ALLOWED),
        (FOR_HOSTS, "socket", (40,), errno.EAFNOSUPPORT),
        (FOR_HOSTS, "socket", (17,), ALLOWED),
        (FOR_HOSTS, "setns", (), ALLOWED),
        (FOR_HOSTS, "clone", (0,), ALLOWED),
        (FOR_NETWORK_FILES, "setns", (), errno.EPERM),
        (FOR_NETWORK_FILES, "mount", (), errno.EPERM),
        (FOR_NETWORK_FILES, "memfd_create", (), errno.EPERM),
        (FOR_NETWORK_FILES, "clone3", (), errno.ENOSYS),
        (FOR_NETWORK_FILES, "clone", (0x11,), errno.EPERM),
        (FOR_NETWORK_FILES, "clone", (0x10000,), ALLOWED),
        (FOR_NETWORK_FILES, "clone", (0x10010000,), errno.EPERM),
        (FOR_NETWORK_FILES, "socket", (1, 1), errno.EAFNOSUPPORT),
        (FOR_NETWORK_FILES, "socket", (2, 1), ALLOWED),
        (FOR_NETWORK_FILES, "socket", (10, 2), ALLOWED),
        (FOR_NETWORK_FILES, "socket", (16, 3), ALLOWED),
        (FOR_NETWORK_FILES, "socket", (17, 3), errno.EAFNOSUPPORT),
        (FOR_NETWORK_FILES, "socketpair", (1, 0x80001), ALLOWED),
        (FOR_NETWORK_FILES, "socketpair", (1, 5), ALLOWED),
        (FOR_NETWORK_FILES, "socketpair", (1, 2), errno.EAFNOSUPPORT),
        (FOR_NETWORK_FILES, "socketpair", (1, 3), errno.EAFNOSUPPORT),
        (FOR_NETWORK_FILES, "setsockopt", (3, 1, 8), errno.EPERM),
        (FOR_NETWORK_FILES, "setsockopt", (3, 1, 2), ALLOWED),
    ],
)
def test_call_is_refused_or_allowed(
    machine: str, rules: tuple[Rule, ...], call: str, arguments: tuple[int, ...], expected: int
) -> None:
    assert verdict(rules, machine, number(call, machine), *arguments) == expected


@pytest.mark.parametrize("rules", [FOR_HOSTS, FOR_NETWORK_FILES])
def test_other_interfaces_of_the_kernel_are_refused(rules: tuple[Rule, ...]) -> None:
    """The 32-bit interface and x32 have other numbers, which no rule knows."""
    program = system_call_filter.assembled(rules, "x86_64")
    assert run(program, 0x40000003, 4) == errno.ENOSYS
    assert verdict(rules, "x86_64", 0x40000000 | 39) == errno.ENOSYS
    assert verdict(rules, "x86_64", 39) == ALLOWED
    assert verdict(FOR_NETWORK_FILES, "x86_64", 57) == errno.EPERM


def test_kernel_obeys_the_filter_in_children_too() -> None:
    program = (
        "import fcntl, os\n"
        "from testbed.emulation.sandbox import system_call_filter as f\n"
        "f.forbid_new_privileges()\n"
        "f.install(f.FOR_HOSTS)\n"
        "if os.fork() == 0:\n"
        "    try:\n"
        "        fcntl.ioctl(0, 0x5412, b'x')\n"
        "    except OSError as error:\n"
        "        print(error.errno)\n"
        "    os._exit(0)\n"
        "os.wait()\n"
    )
    command = [sys.executable, "-u", "-c", program]
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True
    )
    assert done.stdout == f"{errno.EPERM}\n"
