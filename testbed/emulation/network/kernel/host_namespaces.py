"""The namespaces of emulated hosts, and sockets that a process outside opens inside them.

A socket stays in the network namespace in which it was opened. So one process, which itself stays
outside, can have sockets in every host. Their descriptors are moved above 1023, because programs
that wait with select(2) need the lower numbers.

A user-space switch reads its interfaces through packet sockets. If it waits for a processor,
packets are lost there. No interface and no queue counts them, but the kernel's socket diagnosis
does.
"""

import contextlib
import ctypes
import fcntl
import os
import resource
import socket
import struct
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from testbed.emulation.network.kernel.rtnetlink import Message, Netlink, attributes_of
from testbed.errors import CapabilityError
from topologies import lists_by_key

# The first descriptor that select(2) cannot wait for.
_SELECT_LIMIT = 1024

# The kernel accepts a host name of 64 bytes.
_MAX_HOSTNAME_BYTES = 64


def raise_open_file_limit() -> None:
    """Raise the soft limit on open files to the hard limit.

    Each host needs two descriptors, and the usual soft limit is 1024.
    """
    _, hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard_limit, hard_limit))


def move_above_select_limit(descriptor: int) -> int:
    """Move an open file to a descriptor above 1023, and return the new descriptor.

    If the limit on open files allows no such descriptor, the file stays where it is.
    """
    try:
        moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _SELECT_LIMIT)
    except OSError:
        return descriptor
    os.close(descriptor)
    return moved


_CLONE_NEWNET = 0x40000000
_HOLDER = Path(__file__).with_name("namespace_holder.py")
_VIEW = Path(__file__).with_name("host_view.py")
_libc = ctypes.CDLL(None, use_errno=True)

# Mounts $2, or an empty file system if $2 is empty, at $1.
_MOUNT = """mkdir -p -- "$1" ${2:+"$2"} || exit
if [ "$2" ]; then mount --bind -- "$2" "$1"; else mount -t tmpfs tmpfs "$1"; fi"""


class HostNamespaces:
    """The namespaces (network, host name and mounts) of hosts.

    Each host has a sleeping thread that keeps its namespaces alive until ``close``. The threads of
    hosts that are added together belong to one process. gethostname() in a host returns the host's
    name (``as_hostname``).

    Args:
        names: Hosts whose namespaces are created at once, as by ``add``.

    Attributes:
        pids: Host -> id of its thread.
    """

    def __init__(self, names: Sequence[str] = ()) -> None:
        self._starting: list[tuple[subprocess.Popen[str], Sequence[str]]] = []
        self._holders: list[subprocess.Popen[str]] = []
        self._descriptors: dict[str, int] = {}
        self._netlinks: dict[str | None, Netlink] = {}
        self._mount_points: list[Path] = []
        self.pids: dict[str, int] = {}
        self.add(names)

    def add(self, names: Sequence[str]) -> None:
        """Start to create the namespaces of these hosts; call ``wait`` before you use them."""
        if not names:
            return
        hostnames = [as_hostname(name) for name in names]
        holder = subprocess.Popen(
            [sys.executable, "-I", "-S", str(_HOLDER), *hostnames],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._holders.append(holder)
        self._starting.append((holder, tuple(names)))

    def wait(self) -> None:
        """Wait until all namespaces exist.

        Raises:
            CapabilityError: The kernel refuses, because there are too many hosts or permissions are
                missing.
        """
        starting = self._starting
        self._starting = []
        for holder, names in starting:
            assert holder.stdout is not None
            raise_open_file_limit()
            for name in names:
                line = holder.stdout.readline()
                if not line.strip().isdigit():
                    self.close()
                    raise CapabilityError(_refusal(line, len(names)))
                thread_id = int(line)
                self.pids[name] = thread_id
                namespace = os.open(f"/proc/{thread_id}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
                self._descriptors[name] = move_above_select_limit(namespace)

    def descriptor(self, name: str) -> int:
        """Return a descriptor of the host's network namespace."""
        return self._descriptors[name]

    def netlink_of(self, name: str | None) -> Netlink:
        """Return the netlink socket in a host's namespace, or in the caller's for None."""
        netlink = self._netlinks.get(name)
        if netlink is None:
            opened = self.open_socket(name, socket.AF_NETLINK, socket.SOCK_RAW)
            netlink = Netlink(socket.socket(fileno=move_above_select_limit(opened.detach())))
            self._netlinks[name] = netlink
        return netlink

    def apply(self, messages: Iterable[tuple[str | None, Message]]) -> None:
        """Carry out rtnetlink messages, in one batch per namespace.

        Args:
            messages: Pairs of a host (None for the caller's namespace) and a message.
        """
        for name, batch in lists_by_key(messages).items():
            self.netlink_of(name).apply(batch)

    def set_sysctls(self, name: str, values: Mapping[str, object]) -> None:
        """Write network settings of a host.

        Args:
            name: The host.
            values: Path below /proc/sys/net -> value.
        """
        with self.inside(name):
            for path, value in values.items():
                Path("/proc/sys/net", path).write_text(str(value))

    def mount_directory(self, name: str, mount_point: str, source: str) -> str:
        """Mount a directory that only one host sees there.

        Missing directories are created. A created mount point is deleted with the network.

        Args:
            name: The host.
            mount_point: Path at which the host sees the directory.
            source: The directory to mount; if empty, an empty one that disappears with the host.

        Returns:
            The reason why it cannot be mounted, or an empty string.
        """
        for path in (Path(mount_point), *Path(mount_point).parents):
            if not path.exists():
                self._mount_points.append(path)
        mount_namespace = f"--mount=/proc/{self.pids[name]}/ns/mnt"
        enter = ["nsenter", mount_namespace, "sh", "-c", _MOUNT, "sh", mount_point, source]
        done = subprocess.run(enter, capture_output=True, text=True, errors="replace", check=False)
        if done.returncode == 0:
            return ""
        return done.stderr.strip().partition("\n")[0]

    def inside(self, name: str) -> AbstractContextManager[None]:
        """Return a context in which this thread acts in the host's network namespace."""
        return inside_namespace(self._descriptors[name])

    def open_socket(
        self, name: str | None, family: int, kind: int, protocol: int = 0
    ) -> socket.socket:
        """Open a socket in a host's network namespace.

        Args:
            name: The host; None for the caller's namespace.
            family: Address family of the socket.
            kind: Type of the socket.
            protocol: Its protocol.
        """
        if name is None:
            return socket.socket(family, kind, protocol)
        with self.inside(name):
            return socket.socket(family, kind, protocol)

    def close(self) -> None:
        """Release the namespaces.

        The kernel deletes them later, with every interface in them.
        """
        for netlink in self._netlinks.values():
            netlink.close()
        self._netlinks.clear()
        for descriptor in self._descriptors.values():
            os.close(descriptor)
        self._descriptors.clear()
        for holder in self._holders:
            holder.kill()
            holder.communicate()
        self._holders.clear()
        # In reverse order, a directory follows the directories that it contains.
        for path in sorted(self._mount_points, reverse=True):
            # The directory was not created, or a program has put a file there.
            with contextlib.suppress(OSError):
                path.rmdir()


def as_hostname(name: str) -> bytes:
    r"""Return the name in the form in which the kernel accepts it as a host name.

    These are the complete characters of the first 64 bytes. A dash replaces each character that is
    not printable.

    >>> as_hostname("t0"), as_hostname("São Paulo").decode(), as_hostname("a\n")
    (b't0', 'São Paulo', b'a-')
    >>> len(as_hostname(63 * "x" + "ü"))
    63
    """
    printable = "".join(letter if letter.isprintable() else "-" for letter in name)
    shortened = printable.encode()[:_MAX_HOSTNAME_BYTES]
    # The first bytes may end within a character, which is ignored.
    return shortened.decode(errors="ignore").encode() or b"host"


def argv_at_switch(name: str, argv: Sequence[str]) -> list[str]:
    """Return the command line that runs a program next to a switch, under this host name.

    A switch has no namespaces of its own; the program sees as little of the machine as in a host.
    """
    hostname = os.fsdecode(as_hostname(name))
    return [sys.executable, "-I", "-S", str(_VIEW), hostname, *argv]


def argv_inside(pid: int, argv: Sequence[str]) -> list[str]:
    """Return the command line that runs a program in a host.

    Args:
        pid: Process or thread with the host's namespaces (network, mounts and host name).
        argv: The program and its arguments.
    """
    return ["nsenter", f"--uts=/proc/{pid}/ns/uts", "mnexec", "-a", str(pid), *argv]


@contextmanager
def inside_namespace(descriptor: int) -> Iterator[None]:
    """Let this thread act in a network namespace during the block; other threads are unaffected.

    Args:
        descriptor: Open file of the namespace.

    Raises:
        CapabilityError: The kernel refuses.
    """
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        enter_namespace(descriptor)
        try:
            yield
        finally:
            enter_namespace(home)
    finally:
        os.close(home)


def enter_namespace(descriptor: int) -> None:
    """Let this thread act in a network namespace from now on.

    Args:
        descriptor: Open file of the namespace.

    Raises:
        CapabilityError: The kernel refuses.
    """
    if _libc.setns(descriptor, _CLONE_NEWNET) != 0:
        code = ctypes.get_errno()
        raise CapabilityError(
            f"cannot enter a host's network namespace ({os.strerror(code)}); run inside the sandbox"
        )


def _refusal(line: str, count: int) -> str:
    """Return the message for the line that the holder process printed instead of a thread id."""
    parts = line.split()
    if len(parts) == 2 and parts[1].isdigit():
        reason = os.strerror(int(parts[1]))
    else:
        reason = "the holder process died"
    return (
        f"the kernel refuses network namespaces for {count} hosts ({reason}); "
        "raise the limits: sysctl user.max_net_namespaces user.max_mnt_namespaces, ulimit -u -v"
    )


# Socket diagnosis (sock_diag(7), packet_diag.h).
_NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY = 20
_PACKET_SHOW_MEMINFO = 0x10
_PACKET_DIAG_MEMINFO = 6
_MESSAGE_BYTES = 16

# Position of the drops (SK_MEMINFO_DROPS) in the list of 32-bit numbers about a socket's memory.
_DROPS_OFFSET = 32


def packet_socket_drops() -> int:
    """Return the number of frames that packet sockets of this network namespace have dropped.

    They are counted since each socket was opened. The number is 0 if the kernel has no socket
    diagnosis.
    """
    # struct packet_diag_req with a cookie that matches every socket.
    fields = (socket.AF_PACKET, 0, 0, 0, _PACKET_SHOW_MEMINFO, 0xFFFFFFFF, 0xFFFFFFFF)
    request = struct.pack("=BBHIIII", *fields)
    total = 0
    with (
        contextlib.suppress(OSError),
        socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG) as sock,
    ):
        for _, body in Netlink(sock).dump(_SOCK_DIAG_BY_FAMILY, request):
            memory = attributes_of(body[_MESSAGE_BYTES:]).get(_PACKET_DIAG_MEMINFO, b"")
            if len(memory) >= _DROPS_OFFSET + 4:
                total += struct.unpack_from("=I", memory, _DROPS_OFFSET)[0]
    return total
