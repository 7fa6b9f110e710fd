"""Whether this machine has the memory and the open files for a network, asked before anything is built.

A network that does not fit would be ended by the kernel in the middle of its set-up, or take other programs with it.
"""

import resource
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import NamedTuple

from testbed.errors import CapabilityError
from testbed.model.wiring import WiredHost, Wiring

_HOST_BYTES, _CABLE_BYTES, _SWITCH_BYTES, _NEIGHBOUR_BYTES = 240_000, 235_000, 170_000, 522
_OTHER_BYTES = 150_000_000
"""Measured on a network of 1000 switches, 4048 cables and 1000 hosts: a namespace; a veth pair with what daemons and
databases hold for its ports; a bridge's own port and its controller's connection; a permanent neighbour; the command
itself."""
_FILES_A_HOST, _OTHER_FILES = 2, 256


class NetworkSize(NamedTuple):
    """What is built on this machine; ``pairs``: how many neighbours all hosts here know together."""

    hosts: int
    switches: int
    cables: int
    pairs: int

    @classmethod
    def of(cls, wiring: Wiring, here: Collection[str], talking: Sequence[WiredHost]) -> "NetworkSize":
        """Of the devices ``here`` of a wiring; a cable is counted with one end here too."""
        hosts, switches, speaking = (
            sum(one.name in here for one in listed) for listed in (wiring.hosts, wiring.switches, talking)
        )
        cables = sum(cable.a in here or cable.b in here for cable in wiring.cables)
        return cls(hosts, switches, cables, speaking * len(talking))

    def needed_bytes(self) -> int:
        """Of processes and kernel, without rules."""
        each = _HOST_BYTES, _SWITCH_BYTES, _CABLE_BYTES, _NEIGHBOUR_BYTES
        return _OTHER_BYTES + sum(count * size for count, size in zip(self, each, strict=True))


def require_resources(size: NetworkSize, *, available_bytes: int | None = None, most_files: int | None = None) -> None:
    """CapabilityError where the network needs more memory than the machine could give, or more open files than a
    process may have.

    ``available_bytes``, ``most_files``: None to ask the kernel (MemAvailable, RLIMIT_NOFILE).
    """
    available = _available_bytes() if available_bytes is None else available_bytes
    needed = size.needed_bytes()
    what = f"a network of {size.switches} switches, {size.hosts} hosts and {size.cables} cables"
    if available is not None and needed > available:
        raise CapabilityError(
            f"{what} needs about {needed / 1e9:.1f} GB of memory, {available / 1e9:.1f} GB available; "
            "take several machines (--machines), or a smaller network"
        )
    files = size.hosts * _FILES_A_HOST + _OTHER_FILES
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1] if most_files is None else most_files
    if most != resource.RLIM_INFINITY and files > most:
        raise CapabilityError(
            f"{what} needs {files} open files, and this process may have {most}; raise the limit (ulimit -Hn)"
        )


def _available_bytes() -> int | None:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return None
