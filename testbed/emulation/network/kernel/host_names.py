"""The names by which emulated hosts find each other: the sandbox's /etc/hosts and /etc/resolv.conf.

In the mount namespace of the sandbox, which hosts inherit, both files are bind-mounted over the
machine's, which stay unchanged. The file of names is rewritten in place, so that running hosts see
the change. The resolver's file names no server: no name server can be reached from the sandbox, and
a query would wait for its timeout.
"""

import ctypes
import os
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from testbed.emulation.sandbox.sandbox import require_sandbox

_MS_BIND = 4096

# The comment that ends a line of ours, so that a later update finds it.
_MARK = "# testbed"

_UNUSABLE = re.compile(r"[\s#]")
_libc = ctypes.CDLL(None, use_errno=True)


class HostNames:
    """The names of the hosts of one network.

    The object must be created before the namespaces of the hosts, which copy its mounts.
    """

    def __init__(self) -> None:
        self._path = require_sandbox() / "etc/hosts"
        self._written: list[str] = []
        if not self._path.exists():
            hosts_of_machine = ""
            # A machine without the file has no names to keep.
            with suppress(OSError):
                hosts_of_machine = Path("/etc/hosts").read_text(errors="replace")
            _bind(self._path, hosts_of_machine)
            _bind(self._path.with_name("resolv.conf"), "# nothing leads out of the network\n")

    def write(self, names: Mapping[str, Iterable[str]]) -> None:
        """Replace the lines of this network in /etc/hosts; lines that a script added remain.

        Args:
            names: Address -> the names of the host that has it.
        """
        lines = [hosts_line(ip, names_of_host) for ip, names_of_host in names.items()]
        if lines == self._written:
            return
        self._written = lines
        old_lines = self._path.read_text(errors="replace").splitlines()
        foreign_lines = [line for line in old_lines if not line.endswith(_MARK)]
        self._path.write_text("\n".join([*lines, *foreign_lines, ""]))


def hosts_line(ip: str, names: Iterable[str]) -> str:
    r"""Return a line of /etc/hosts; spaces and # in names become dashes.

    >>> hosts_line("10.0.0.1", ["h1", "h1"]), hosts_line("10.0.0.2", ["New York"])
    ('10.0.0.1\th1\t# testbed', '10.0.0.2\tNew-York\t# testbed')
    """
    usable_names = dict.fromkeys(_UNUSABLE.sub("-", name) for name in names)
    return "\t".join([ip, *usable_names, _MARK])


def _bind(path: Path, text: str) -> None:
    """Write a file, and mount it over the file of the same name in /etc."""
    path.write_text(text)
    target = os.path.realpath(Path("/etc", path.name))
    # If the machine lacks the file, the mount fails, and hosts have no names.
    _libc.mount(str(path).encode(), target.encode(), None, ctypes.c_ulong(_MS_BIND), None)
