"""The namespaces of emulated hosts (network and host name), and sockets opened inside them by a process that stays
outside.

A socket belongs for life to the namespace it was opened in: one process can own sockets in every host.
"""

import ctypes
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from testbed.emulation.network.kernel.file_descriptors import move_above_select_limit, raise_open_file_limit
from testbed.errors import CapabilityError

_CLONE_NEWNET = 0x40000000
_HOLDER = Path(__file__).with_name("namespace_holder.py")
_libc = ctypes.CDLL(None, use_errno=True)


class HostNamespaces:
    """One network namespace a name, each held by a sleeping thread of one process, until ``close``; ``pids``: the
    threads' ids."""

    def __init__(self, names: Sequence[str]) -> None:
        """Begin to make them all; ``wait`` before use. gethostname() says the name in each (``as_hostname``)."""
        self._names = tuple(names)
        self._holder: subprocess.Popen[str] | None = None
        self._descriptors: dict[str, int] = {}
        self.pids: dict[str, int] = {}
        if not names:
            return
        self._holder = subprocess.Popen(
            [sys.executable, "-I", "-S", str(_HOLDER), *map(as_hostname, names)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def wait(self) -> None:
        """Return when all are made. Raises CapabilityError where the kernel refuses (too many, or no rights)."""
        if self._holder is None:
            return
        assert self._holder.stdout is not None
        raise_open_file_limit()
        for name in self._names:
            line = self._holder.stdout.readline()
            if not line.strip().isdigit():
                self.close()
                raise CapabilityError(_refusal(line, len(self._names)))
            self.pids[name] = int(line)
            namespace = os.open(f"/proc/{int(line)}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
            self._descriptors[name] = move_above_select_limit(namespace)

    def descriptor(self, name: str) -> int:
        """An open file that stands for the namespace."""
        return self._descriptors[name]

    @contextmanager
    def inside(self, name: str) -> Iterator[None]:
        """This thread acts in the namespace for the time of the block."""
        with inside_namespace(self._descriptors[name]):
            yield

    def open_socket(self, name: str, family: int, kind: int, protocol: int = 0) -> socket.socket:
        """A socket in the host's network."""
        with self.inside(name):
            return socket.socket(family, kind, protocol)

    def close(self) -> None:
        """Let go: the kernel removes the namespaces, with every interface in them, in its own time."""
        for descriptor in self._descriptors.values():
            os.close(descriptor)
        self._descriptors.clear()
        if self._holder is not None:
            self._holder.kill()
            self._holder.communicate()
            self._holder = None


def as_hostname(name: str) -> bytes:
    """The name as a kernel takes it for a host: the whole characters of its first 64 bytes, a dash for each that does
    not print.

    >>> as_hostname("t0"), as_hostname("São Paulo").decode(), as_hostname("a\\n"), len(as_hostname(63 * "x" + "ü"))
    (b't0', 'São Paulo', b'a-', 63)
    """
    printed = "".join(letter if letter.isprintable() else "-" for letter in name)
    return printed.encode()[:64].decode(errors="ignore").encode() or b"host"


def words_called(name: str, argv: Sequence[str]) -> list[str]:
    """The command line that runs a program where the host is called so; next to a switch, which has no namespaces of
    its own."""
    start = "import os, socket, sys; socket.sethostname(sys.argv[1]); os.execvp(sys.argv[2], sys.argv[2:])"
    return ["unshare", "--uts", sys.executable, "-ISc", start, os.fsdecode(as_hostname(name)), *argv]


def argv_inside(pid: int, argv: Sequence[str]) -> list[str]:
    """The command line that runs a program in the namespaces that the process holds: network, mounts and host name."""
    return ["nsenter", f"--uts=/proc/{pid}/ns/uts", "mnexec", "-a", str(pid), *argv]


@contextmanager
def inside_namespace(descriptor: int) -> Iterator[None]:
    """This thread acts in the network namespace that the open file stands for; other threads stay where they are."""
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        _enter(descriptor)
        try:
            yield
        finally:
            _enter(home)
    finally:
        os.close(home)


def _enter(descriptor: int) -> None:
    if _libc.setns(descriptor, _CLONE_NEWNET) != 0:
        code = ctypes.get_errno()
        raise CapabilityError(f"cannot enter a host's network namespace ({os.strerror(code)}); run inside the sandbox")


def _refusal(line: str, count: int) -> str:
    words = line.split()
    why = os.strerror(int(words[1])) if len(words) == 2 and words[1].isdigit() else "the holder process died"
    return (
        f"the kernel refuses network namespaces for {count} hosts ({why}); "
        "raise the limits: sysctl user.max_net_namespaces, ulimit -u"
    )
