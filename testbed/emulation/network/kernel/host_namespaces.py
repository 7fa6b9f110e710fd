"""The namespaces of emulated hosts (network and host name), and sockets opened inside them by a process that stays
outside.

A socket belongs for life to the namespace it was opened in: one process can own sockets in every host. Descriptors of
many hosts are kept out of the way of programs that wait with select, which knows numbers below 1024 only. A user-space
switch reads its interfaces through packet sockets: one that waits for a processor loses packets there, which no
interface and no queue counts, but the kernel's socket diagnosis tells.
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

_FIRST = 1024
"""What select cannot wait for may as well lie here."""


def raise_open_file_limit() -> None:
    """Let this process open as many files as it is ever allowed to: two a host are held, and the usual limit is
    1024."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def move_above_select_limit(descriptor: int) -> int:
    """The same open file under a number that leaves those below 1024 to others; the given one where there is no such
    number."""
    try:
        moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _FIRST)
    except OSError:
        return descriptor
    os.close(descriptor)
    return moved


_CLONE_NEWNET = 0x40000000
_HOLDER = Path(__file__).with_name("namespace_holder.py")
_VIEW = Path(__file__).with_name("host_view.py")
_libc = ctypes.CDLL(None, use_errno=True)
_MOUNT = """mkdir -p -- "$1" ${2:+"$2"} || exit
if [ "$2" ]; then mount --bind -- "$2" "$1"; else mount -t tmpfs tmpfs "$1"; fi"""


class HostNamespaces:
    """Namespaces of network, host name and mounts for each name, held by a sleeping thread of a process until
    ``close``; ``pids``: the threads' ids. Those that are added together have one process."""

    def __init__(self, names: Sequence[str] = ()) -> None:
        """Begin to make them all; ``wait`` before use. gethostname() says the name in each (``as_hostname``)."""
        self._begun: list[tuple[subprocess.Popen[str], Sequence[str]]] = []
        self._holders: list[subprocess.Popen[str]] = []
        self._descriptors: dict[str, int] = {}
        self._netlinks: dict[str | None, Netlink] = {}
        self._mount_points: list[Path] = []
        self.pids: dict[str, int] = {}
        self.add(names)

    def add(self, names: Sequence[str]) -> None:
        """Begin to make these as well."""
        if not names:
            return
        holder = subprocess.Popen(
            [sys.executable, "-I", "-S", str(_HOLDER), *map(as_hostname, names)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._holders.append(holder)
        self._begun.append((holder, tuple(names)))

    def wait(self) -> None:
        """Return when all are made. Raises CapabilityError where the kernel refuses (too many, or no rights)."""
        begun, self._begun = self._begun, []
        for holder, names in begun:
            assert holder.stdout is not None
            raise_open_file_limit()
            for name in names:
                line = holder.stdout.readline()
                if not line.strip().isdigit():
                    self.close()
                    raise CapabilityError(_refusal(line, len(names)))
                self.pids[name] = int(line)
                namespace = os.open(f"/proc/{int(line)}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
                self._descriptors[name] = move_above_select_limit(namespace)

    def descriptor(self, name: str) -> int:
        """An open file that stands for the namespace."""
        return self._descriptors[name]

    def netlink_of(self, name: str | None) -> Netlink:
        """The netlink socket of a namespace (None: the caller's own)."""
        found = self._netlinks.get(name)
        if found is None:
            opened = self.open_socket(name, socket.AF_NETLINK, socket.SOCK_RAW)
            sock = socket.socket(fileno=move_above_select_limit(opened.detach()))
            found = self._netlinks[name] = Netlink(sock)
        return found

    def apply(self, messages: Iterable[tuple[str | None, Message]]) -> None:
        """Carry out (namespace, None for the caller's own; message), in one batch a namespace."""
        for name, batch in lists_by_key(messages).items():
            self.netlink_of(name).apply(batch)

    def set_sysctls(self, name: str, values: Mapping[str, object]) -> None:
        """Settings of the host's network: paths below /proc/sys/net -> values."""
        with self.inside(name):
            for path, value in values.items():
                Path("/proc/sys/net", path).write_text(str(value))

    def mount_directory(self, name: str, seen: str, source: str) -> str:
        """Let the host alone see ``source``, or an empty directory that goes with it, at ``seen``; both are made where
        they are missing, and a ``seen`` that was made goes with the network. Why it cannot be, "" where it can."""
        self._mount_points += [
            place for place in (Path(seen), *Path(seen).parents) if not place.exists()
        ]
        enter = [
            "nsenter",
            f"--mount=/proc/{self.pids[name]}/ns/mnt",
            "sh",
            "-c",
            _MOUNT,
            "sh",
            seen,
            source,
        ]
        done = subprocess.run(enter, capture_output=True, text=True, errors="replace", check=False)
        return "" if done.returncode == 0 else done.stderr.strip().partition("\n")[0]

    def inside(self, name: str) -> AbstractContextManager[None]:
        """This thread acts in the namespace for the time of the block."""
        return inside_namespace(self._descriptors[name])

    def open_socket(
        self, name: str | None, family: int, kind: int, protocol: int = 0
    ) -> socket.socket:
        """A socket in the host's network (None: the caller's own)."""
        with contextlib.nullcontext() if name is None else self.inside(name):
            return socket.socket(family, kind, protocol)

    def close(self) -> None:
        """Let go: the kernel removes the namespaces, with every interface in them, in its own time."""
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
        for place in sorted(self._mount_points, reverse=True):  # a folder after what it contains
            with contextlib.suppress(OSError):  # it was not made, or somebody has put a file there
                place.rmdir()


def as_hostname(name: str) -> bytes:
    """The name as a kernel takes it for a host: the whole characters of its first 64 bytes, a dash for each that does
    not print.

    >>> as_hostname("t0"), as_hostname("São Paulo").decode(), as_hostname("a\\n"), len(as_hostname(63 * "x" + "ü"))
    (b't0', 'São Paulo', b'a-', 63)
    """
    printed = "".join(letter if letter.isprintable() else "-" for letter in name)
    return printed.encode()[:64].decode(errors="ignore").encode() or b"host"


def words_called(name: str, argv: Sequence[str]) -> list[str]:
    """Return the command line that runs a program next to a switch, where the host is called so.

    A switch has no namespaces of its own; the program sees as little of the machine as in a host.
    """
    return [sys.executable, "-I", "-S", str(_VIEW), os.fsdecode(as_hostname(name)), *argv]


def argv_inside(pid: int, argv: Sequence[str]) -> list[str]:
    """The command line that runs a program in the namespaces that the process holds: network, mounts and host name."""
    return ["nsenter", f"--uts=/proc/{pid}/ns/uts", "mnexec", "-a", str(pid), *argv]


@contextmanager
def inside_namespace(descriptor: int) -> Iterator[None]:
    """This thread acts in the network namespace that the open file stands for; other threads stay where they are."""
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
    """Let this thread act in the network namespace that the open file stands for, from now on."""
    if _libc.setns(descriptor, _CLONE_NEWNET) != 0:
        code = ctypes.get_errno()
        raise CapabilityError(
            f"cannot enter a host's network namespace ({os.strerror(code)}); run inside the sandbox"
        )


def _refusal(line: str, count: int) -> str:
    words = line.split()
    why = (
        os.strerror(int(words[1]))
        if len(words) == 2 and words[1].isdigit()
        else "the holder process died"
    )
    return (
        f"the kernel refuses network namespaces for {count} hosts ({why}); "
        "raise the limits: sysctl user.max_net_namespaces user.max_mnt_namespaces, ulimit -u -v"
    )


_SOCK_DIAG, _BY_FAMILY = 4, 20
_SHOW_MEMORY, _MEMORY, _DROPS_AT = 0x10, 6, 32
_HEADER_BYTES = 16


def packet_socket_drops() -> int:
    """Frames that all packet sockets of this process' network namespace have dropped since they were opened; 0 where
    the kernel does not tell."""
    request = struct.pack(
        "=BBHIIII", socket.AF_PACKET, 0, 0, 0, _SHOW_MEMORY, 0xFFFFFFFF, 0xFFFFFFFF
    )
    total = 0
    with (
        contextlib.suppress(OSError),
        socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as sock,
    ):
        for _, body in Netlink(sock).dump(_BY_FAMILY, request):
            memory = attributes_of(body[_HEADER_BYTES:]).get(_MEMORY, b"")
            if len(memory) >= _DROPS_AT + 4:
                total += struct.unpack_from("=I", memory, _DROPS_AT)[0]
    return total
