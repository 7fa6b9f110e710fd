"""The names by which emulated hosts find each other: the sandbox's own /etc/hosts and /etc/resolv.conf.

Both files are bound over the machine's in the sandbox's mounts, which hosts inherit; the machine's files
stay as they are. The file of names is written again in place, so that hosts that run see the change. No
name server is named: nothing leads out of the sandbox, and a query would wait in vain.
"""

import ctypes
import os
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from testbed.emulation.sandbox.sandbox import require_sandbox

_MS_BIND = 4096
_MARK = "# testbed"
_UNUSABLE = re.compile(r"[\s#]")
_libc = ctypes.CDLL(None, use_errno=True)


class HostNames:
    """The names of one network's hosts; made before the hosts' namespaces."""

    def __init__(self) -> None:
        self._path = require_sandbox() / "etc/hosts"
        self._written: list[str] = []
        if not self._path.exists():
            machines_hosts = ""
            with suppress(OSError):
                machines_hosts = Path("/etc/hosts").read_text(errors="replace")
            _bind(self._path, machines_hosts)
            _bind(self._path.with_name("resolv.conf"), "# nothing leads out of the network\n")

    def write(self, names: Mapping[str, Iterable[str]]) -> None:
        """Replace the network's lines by these (address -> names); a script's own lines stay."""
        lines = [hosts_line(ip, of_host) for ip, of_host in names.items()]
        if lines == self._written:
            return
        self._written = lines
        before = self._path.read_text(errors="replace").splitlines()
        others = [line for line in before if not line.endswith(_MARK)]
        self._path.write_text("\n".join([*lines, *others, ""]))


def hosts_line(ip: str, names: Iterable[str]) -> str:
    """Return a line of /etc/hosts; spaces and # in names become dashes.

    >>> hosts_line("10.0.0.1", ["h1", "h1"]), hosts_line("10.0.0.2", ["New York"])
    ('10.0.0.1\\th1\\t# testbed', '10.0.0.2\\tNew-York\\t# testbed')
    """
    usable = dict.fromkeys(_UNUSABLE.sub("-", name) for name in names)
    return "\t".join([ip, *usable, _MARK])


def _bind(path: Path, text: str) -> None:
    """Show this file in the sandbox in place of the machine's file of its name in /etc."""
    path.write_text(text)
    target = os.path.realpath(Path("/etc", path.name))
    # A machine without the file has nothing to replace: the mount fails, and hosts have no names.
    _libc.mount(str(path).encode(), target.encode(), None, ctypes.c_ulong(_MS_BIND), None)
