"""Seccomp filters: system calls that the kernel refuses to programs that are not trusted.

A filter is a table of rules, which is translated to a classic BPF program for prctl(2). The module
imports only the standard library, because stand-alone programs use it too.
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

# Return values of a filter (seccomp(2)); the error number is added to the second one.
_ALLOW = 0x7FFF0000
_REFUSE_WITH = 0x00050000

_ALL_BITS = 0xFFFFFFFF

# Offsets of fields in the kernel's ``struct seccomp_data``, and the size of one argument.
_NUMBER_AT = 0
_ARCHITECTURE_AT = 4
_ARGUMENTS_AT = 16
_ARGUMENT_BYTES = 8

_PR_SET_SECCOMP = 22
_SECCOMP_MODE_FILTER = 2
_PR_SET_NO_NEW_PRIVS = 38
_KEYCTL_JOIN_SESSION_KEYRING = 1

# The numbers of calls of the x32 ABI have this bit. They would pass a filter that only knows the
# numbers of x86-64.
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
    """The kernel or the processor supports no such filter; the text says which."""


@dataclass(frozen=True)
class Check:
    """A condition on one argument of a system call.

    It is about the lower 32 bits. The kernel reads no more of the arguments that are checked here.

    Attributes:
        argument: Index of the argument.
        values: The values with which the masked argument is compared.
        allowed: If true, only these values are allowed; if false, only these are refused.
        mask: The bits that are compared.
    """

    argument: int
    values: tuple[int, ...]
    allowed: bool
    mask: int = _ALL_BITS


@dataclass(frozen=True)
class Rule:
    """A system call that is refused unless every check holds; without checks it is always refused.

    Attributes:
        call: Name of the call.
        checks: The checks.
        error: The errno with which it is refused.
    """

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

# Memory that belongs to no process, and so is not subject to a limit of a process.
_SHARED_MEMORY = ("memfd_create", "memfd_secret", "mq_open", "msgget", "semget", "shmget")

# Requests of ioctl(2) by which a program could type commands into its terminal.
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
# SO_SNDBUF, SO_RCVBUF, SO_SNDBUFFORCE and SO_RCVBUFFORCE.
_BUFFER_SIZES = (7, 8, 32, 33)
_CLONE_THREAD = 0x00010000
# CLONE_NEWNS, CLONE_NEWCGROUP, CLONE_NEWUTS, CLONE_NEWIPC, CLONE_NEWUSER, CLONE_NEWPID and
# CLONE_NEWNET.
_CLONE_NEW_NAMESPACES = 0x7E020000

#: The rules for programs in hosts. Calls for mounts and namespaces stay allowed, because the
#: programs that enter a host need them after the filter is installed. Programs in hosts lack the
#: capabilities to change the machine (``process_lifetime.confined``).
FOR_HOSTS = (
    *map(Rule, _KEYRINGS),
    *map(Rule, _IO_URING),
    _TERMINAL_INPUT,
    # The only family of sockets that leads out of a network namespace.
    Rule(
        "socket",
        (Check(argument=0, values=(_AF_VSOCK,), allowed=False),),
        error=errno.EAFNOSUPPORT,
    ),
)

#: The rules for programs that describe a network: one process with threads, whose sockets reach
#: only its own empty network.
FOR_NETWORK_FILES = (
    *map(Rule, _KEYRINGS),
    *map(Rule, _IO_URING),
    *map(Rule, _MOUNTS),
    *map(Rule, _NAMESPACES),
    *map(Rule, _OTHER_PROCESSES),
    *map(Rule, _FILES_BY_HANDLE),
    *map(Rule, _KERNEL_PROGRAMS),
    *map(Rule, _SHARED_MEMORY),
    Rule("fork"),
    Rule("vfork"),
    # The flags of ``clone3`` are in memory, which a filter cannot read. ENOSYS makes the C library
    # use ``clone``.
    Rule("clone3", error=errno.ENOSYS),
    # Threads are allowed, unless they enter new namespaces.
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
    # Buffers of sockets are memory of the kernel, which no limit of the process counts.
    Rule("setsockopt", (Check(argument=2, values=_BUFFER_SIZES, allowed=False),)),
)


def is_supported() -> bool:
    """Return whether the table of system calls has a column for this processor."""
    return platform.machine() in _ARCHITECTURES


def install(rules: tuple[Rule, ...]) -> None:
    """Let the kernel refuse system calls to this thread and to everything that it starts.

    A filter cannot be removed. The thread must have CAP_SYS_ADMIN in its user namespace, or the
    attribute ``no_new_privs`` (``forbid_new_privileges``).

    Args:
        rules: The rules, each about another call.

    Raises:
        FilterError: The kernel or the processor supports no such filter.
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
    """Let no program that this thread starts gain privileges, for example by set-user-ID files."""
    ctypes.CDLL(None).prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def join_new_session_keyring() -> None:
    """Give this thread, and everything that it starts, a session keyring of its own.

    An error is ignored: a kernel without keyrings has nothing to separate.
    """
    number = _number("keyctl", platform.machine())
    if number is not None:
        ctypes.CDLL(None).syscall(number, _KEYCTL_JOIN_SESSION_KEYRING, None)


def assembled(rules: tuple[Rule, ...], machine: str) -> bytes:
    """Return the BPF program of the rules.

    Calls of another architecture, or of the x32 ABI, are refused first, because their numbers have
    other meanings. They could pass the rules.

    Args:
        rules: The rules.
        machine: Name of the processor (``platform.machine``).
    """
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
            # The processor does not have the call.
            continue
        block: list[bytes] = []
        for check in rule.checks:
            block += _check_instructions(check, rule.error)
        if rule.checks:
            block.append(_instruction(_RETURN, _ALLOW))
        else:
            block.append(_refusal(rule.error))
        program.append(_instruction(_JUMP_IF_EQUAL, number, if_false=len(block)))
        program += block
    program.append(_instruction(_RETURN, _ALLOW))
    return b"".join(program)


def _check_instructions(check: Check, error: int) -> list[bytes]:
    """Return the instructions for one check.

    If the check holds, the program continues after them; if not, it refuses the call.

    Args:
        check: The check.
        error: The errno with which the call is refused.
    """
    instructions = [
        _instruction(_LOAD_WORD, _ARGUMENTS_AT + _ARGUMENT_BYTES * check.argument),
        _instruction(_AND, check.mask),
    ]
    for index, value in enumerate(check.values):
        if check.allowed:
            # Jump over the comparisons with the remaining values, and over the refusal.
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
    """Return one instruction (``struct sock_filter``).

    Args:
        code: The operation.
        value: The operand.
        if_true: Number of instructions to skip if a jump's condition holds.
        if_false: Number of instructions to skip if it does not hold.
    """
    return struct.pack("HBBI", code, if_true, if_false, value)


def _number(call: str, machine: str) -> int | None:
    """Return the number of a system call, or None if the machine does not have it."""
    if machine not in _ARCHITECTURES:
        return None
    if call in _NUMBERS_OF_X86_64:
        return _NUMBERS_OF_X86_64[call] if machine == "x86_64" else None
    _, column = _ARCHITECTURES[machine]
    return _NUMBERS[call][column]
