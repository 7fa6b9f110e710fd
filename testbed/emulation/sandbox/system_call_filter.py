"""Seccomp filters: system calls that the kernel refuses to programs that are not trusted.

A filter is a table of rules, translated to the classic BPF program that ``prctl`` takes.
The module imports the standard library alone, because stand-alone programs use it too.
"""

import ctypes
import errno
import os
import platform
import struct
from dataclasses import dataclass

# The instructions of classic BPF that the filters use (<linux/bpf_common.h>).
_LOAD_WORD = 0x20
_AND = 0x54
_JUMP_IF_EQUAL = 0x15
_JUMP_IF_AT_LEAST = 0x35
_RETURN = 0x06

_ALLOW = 0x7FFF0000
_REFUSE_WITH = 0x00050000
_ALL_BITS = 0xFFFFFFFF

# Positions in the kernel's ``struct seccomp_data``.
_NUMBER_AT = 0
_ARCHITECTURE_AT = 4
_ARGUMENTS_AT = 16

_PR_SET_SECCOMP = 22
_SECCOMP_MODE_FILTER = 2
_PR_SET_NO_NEW_PRIVS = 38
_JOIN_SESSION_KEYRING = 1

# Calls of the x32 ABI, which have other numbers, have this bit.
_X32_BIT = 0x40000000

# Machine -> its architecture in <linux/audit.h>, and its column in the table of numbers.
_ARCHITECTURES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}

# Call -> its numbers on x86-64 and aarch64.
_NUMBERS: dict[str, tuple[int, int]] = {
    "add_key": (248, 217),
    "bpf": (321, 280),
    "chroot": (161, 51),
    "clone": (56, 220),
    "clone3": (435, 435),
    "fanotify_init": (300, 262),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fsopen": (430, 430),
    "fspick": (433, 433),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "io_uring_setup": (425, 425),
    "ioctl": (16, 29),
    "kcmp": (312, 272),
    "keyctl": (250, 219),
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "mount": (165, 40),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "mq_open": (240, 180),
    "msgget": (68, 186),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "open_tree_attr": (467, 467),
    "perf_event_open": (298, 241),
    "pidfd_getfd": (438, 438),
    "pivot_root": (155, 41),
    "process_madvise": (440, 440),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "ptrace": (101, 117),
    "request_key": (249, 218),
    "semget": (64, 190),
    "setns": (308, 268),
    "setsockopt": (54, 208),
    "shmget": (29, 194),
    "socket": (41, 198),
    "socketpair": (53, 199),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "userfaultfd": (323, 282),
}
# Calls that x86-64 alone has.
_NUMBERS_OF_X86_64 = {"fork": 57, "vfork": 58}


class FilterError(Exception):
    """The kernel, or this machine, has no such filter; the text says which."""


@dataclass(frozen=True)
class Check:
    """A condition on the lower 32 bits of one argument, all that the kernel reads of these.

    Attributes:
        argument: The argument's index.
        values: What the masked argument is compared with.
        allowed: Whether these values are the only ones allowed, or the only ones refused.
        mask: The bits that are compared.
    """

    argument: int
    values: tuple[int, ...]
    allowed: bool
    mask: int = _ALL_BITS


@dataclass(frozen=True)
class Rule:
    """A system call that is refused unless every check holds; without checks it always is."""

    call: str
    checks: tuple[Check, ...] = ()
    error: int = errno.EPERM


_KEYRINGS = ("add_key", "request_key", "keyctl")
_IO_URING = ("io_uring_setup", "io_uring_enter", "io_uring_register")
_MOUNTS = (
    "chroot",
    "fsconfig",
    "fsmount",
    "fsopen",
    "fspick",
    "mount",
    "mount_setattr",
    "move_mount",
    "open_tree",
    "open_tree_attr",
    "pivot_root",
    "umount2",
)
_NAMESPACES = ("setns", "unshare")
_OTHER_PROCESSES = (
    "kcmp",
    "pidfd_getfd",
    "process_madvise",
    "process_vm_readv",
    "process_vm_writev",
    "ptrace",
)
_FILES_BY_HANDLE = ("name_to_handle_at", "open_by_handle_at", "fanotify_init")
_KERNEL_PROGRAMS = ("bpf", "perf_event_open", "userfaultfd")
# Memory that belongs to no process, so that no limit of a process counts it.
_SHARED_MEMORY = ("memfd_create", "memfd_secret", "mq_open", "msgget", "semget", "shmget")

_TIOCSTI = 0x5412
_TIOCLINUX = 0x541C
_TERMINAL_INPUT = Rule("ioctl", (Check(argument=1, values=(_TIOCSTI, _TIOCLINUX), allowed=False),))

_AF_UNIX = 1
_AF_INET = 2
_AF_INET6 = 10
_AF_NETLINK = 16
_AF_VSOCK = 40
_SOCK_STREAM = 1
_SOCK_SEQPACKET = 5
_SOCKET_TYPE_MASK = 0xF
_BUFFER_SIZES = (7, 8, 32, 33)  # SO_SNDBUF, SO_RCVBUF, and the same with FORCE
_CLONE_THREAD = 0x00010000
# CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET
_CLONE_NEW_NAMESPACES = 0x7E020000

#: Programs in hosts: they enter namespaces before they begin, so that these calls stay allowed.
#: Their missing capabilities refuse them what changes the machine.
FOR_HOSTS = (
    *(Rule(call) for call in (*_KEYRINGS, *_IO_URING)),
    _TERMINAL_INPUT,
    # The one family of sockets that leads out of a network namespace.
    Rule(
        "socket",
        (Check(argument=0, values=(_AF_VSOCK,), allowed=False),),
        error=errno.EAFNOSUPPORT,
    ),
)

#: Programs that describe a network: one process with threads, whose sockets reach nothing but
#: its own empty network.
FOR_NETWORK_FILES = (
    *(
        Rule(call)
        for call in (
            *_KEYRINGS,
            *_IO_URING,
            *_MOUNTS,
            *_NAMESPACES,
            *_OTHER_PROCESSES,
            *_FILES_BY_HANDLE,
            *_KERNEL_PROGRAMS,
            *_SHARED_MEMORY,
            "fork",
            "vfork",
        )
    ),
    # ENOSYS makes the C library use ``clone``, whose flags a filter can read.
    Rule("clone3", error=errno.ENOSYS),
    Rule(
        "clone",
        (
            Check(
                argument=0,
                values=(_CLONE_THREAD,),
                allowed=True,
                mask=_CLONE_THREAD | _CLONE_NEW_NAMESPACES,
            ),
        ),
    ),
    _TERMINAL_INPUT,
    Rule(
        "socket",
        (Check(argument=0, values=(_AF_INET, _AF_INET6, _AF_NETLINK), allowed=True),),
        error=errno.EAFNOSUPPORT,
    ),
    # A datagram socket of a pair could still be connected to another address.
    Rule(
        "socketpair",
        (
            Check(argument=0, values=(_AF_UNIX,), allowed=True),
            Check(
                argument=1,
                values=(_SOCK_STREAM, _SOCK_SEQPACKET),
                allowed=True,
                mask=_SOCKET_TYPE_MASK,
            ),
        ),
        error=errno.EAFNOSUPPORT,
    ),
    # Buffers of sockets are memory of the kernel's.
    Rule("setsockopt", (Check(argument=2, values=_BUFFER_SIZES, allowed=False),)),
)


def is_supported() -> bool:
    """Return whether there are numbers of system calls for this processor."""
    return platform.machine() in _ARCHITECTURES


def install(rules: tuple[Rule, ...]) -> None:
    """Let the kernel refuse these calls to the calling thread and to what it starts, permanently.

    The thread must have CAP_SYS_ADMIN in its user namespace, or ``no_new_privs``.

    Raises:
        FilterError: The machine or its kernel has no such filter.
    """
    if not is_supported():
        raise FilterError(
            f"no filter of system calls for processor {platform.machine()!r}; "
            "use a machine with x86-64 or aarch64"
        )
    instructions = assembled(rules, platform.machine())
    buffer = ctypes.create_string_buffer(instructions, len(instructions))
    # struct sock_fprog: the number of instructions, and their address.
    program = struct.pack("HL", len(instructions) // 8, ctypes.addressof(buffer))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, program, 0, 0) != 0:
        reason = os.strerror(ctypes.get_errno())
        raise FilterError(
            f"the kernel refuses a filter of system calls ({reason}); "
            "use a kernel with CONFIG_SECCOMP_FILTER"
        )


def forbid_new_privileges() -> None:
    """Let no program that this thread starts gain rights, by set-user-id files for example."""
    ctypes.CDLL(None).prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def join_new_session_keyring() -> None:
    """Give the calling thread, and what it starts, a session keyring of its own.

    Kernels without keyrings have nothing to separate.
    """
    number = _number("keyctl", platform.machine())
    if number is not None:
        ctypes.CDLL(None).syscall(number, _JOIN_SESSION_KEYRING, None)


def assembled(rules: tuple[Rule, ...], machine: str) -> bytes:
    """Return the BPF program of the rules for a processor (``platform.machine``)."""
    architecture, _ = _ARCHITECTURES[machine]
    program = [
        _instruction(_LOAD_WORD, _ARCHITECTURE_AT),
        _instruction(_JUMP_IF_EQUAL, architecture, if_true=1),
        _refusal(errno.ENOSYS),
        _instruction(_LOAD_WORD, _NUMBER_AT),
        _instruction(_JUMP_IF_AT_LEAST, _X32_BIT, if_false=1),
        _refusal(errno.ENOSYS),
    ]
    for rule in rules:
        number = _number(rule.call, machine)
        if number is None:
            continue
        block: list[bytes] = []
        for check in rule.checks:
            block += _check_instructions(check, rule.error)
        block.append(_instruction(_RETURN, _ALLOW) if rule.checks else _refusal(rule.error))
        program.append(_instruction(_JUMP_IF_EQUAL, number, if_false=len(block)))
        program += block
    program.append(_instruction(_RETURN, _ALLOW))
    return b"".join(program)


def _check_instructions(check: Check, error: int) -> list[bytes]:
    """Return the instructions that go on behind themselves if the check holds, or refuse."""
    instructions = [
        _instruction(_LOAD_WORD, _ARGUMENTS_AT + 8 * check.argument),
        _instruction(_AND, check.mask),
    ]
    for index, value in enumerate(check.values):
        if check.allowed:
            remaining = len(check.values) - index
            instructions.append(_instruction(_JUMP_IF_EQUAL, value, if_true=remaining))
        else:
            instructions.append(_instruction(_JUMP_IF_EQUAL, value, if_false=1))
            instructions.append(_refusal(error))
    if check.allowed:
        instructions.append(_refusal(error))
    return instructions


def _refusal(error: int) -> bytes:
    return _instruction(_RETURN, _REFUSE_WITH | error)


def _instruction(code: int, value: int, *, if_true: int = 0, if_false: int = 0) -> bytes:
    """Return one ``struct sock_filter``; jumps count instructions from the next one on."""
    return struct.pack("HBBI", code, if_true, if_false, value)


def _number(call: str, machine: str) -> int | None:
    """Return the number of a system call, or None if the machine does not have it."""
    if machine not in _ARCHITECTURES:
        return None
    if call in _NUMBERS_OF_X86_64:
        return _NUMBERS_OF_X86_64[call] if machine == "x86_64" else None
    return _NUMBERS[call][_ARCHITECTURES[machine][1]]
