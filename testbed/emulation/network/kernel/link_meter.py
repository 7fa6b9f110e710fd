"""Reads the byte counters and carriers of links from the kernel, to display a running network."""

import fcntl
import socket
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from testbed.model.progress import CounterReading
from topologies.network import LinkId

_SIOCGIFFLAGS = 0x8913
_IFF_RUNNING = 0x40

# struct ifreq with flags: name, flags, padding.
_IFREQ = "16sH14x"

# Columns of /proc/net/dev after the interface's name, which is column 0.
_RECEIVED_BYTES = 1
_SENT_BYTES = 9


@dataclass(frozen=True, kw_only=True)
class LinkMeter:
    """Reads how many bytes each link has carried.

    It needs one read of one file of the kernel's, and uses no socket, lock or command of the run.
    Any thread that starts in the namespace of the switches may use it.

    Attributes:
        sent: Link -> the interface next to the switches that sends onto the link.
        received: Link -> the interface at which the link arrives, for links that a host or another
            machine sends.
    """

    sent: Mapping[LinkId, str]
    received: Mapping[LinkId, str]

    def carried_bytes(self) -> dict[LinkId, int]:
        """Return the number of bytes that each link has carried since its interfaces exist."""
        table = Path("/proc/thread-self/net/dev").read_text()
        columns: dict[str, list[str]] = {}
        for line in table.replace(":", " ").splitlines()[2:]:
            row = line.split()
            columns[row[0]] = row
        carried = {link: int(columns[name][_SENT_BYTES]) for link, name in self.sent.items()}
        for link, name in self.received.items():
            carried[link] = int(columns[name][_RECEIVED_BYTES])
        return carried

    def without_carrier(self) -> tuple[LinkId, ...]:
        """Return the links whose interface next to the switches is down or has no carrier."""
        dead: set[str] = set()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            for name in {*self.sent.values(), *self.received.values()}:
                request = struct.pack(_IFREQ, name.encode(), 0)
                answer = fcntl.ioctl(sock, _SIOCGIFFLAGS, request)
                _, flags = struct.unpack(_IFREQ, answer)
                if not flags & _IFF_RUNNING:
                    dead.add(name)
        links = (*self.sent.items(), *self.received.items())
        return tuple(link for link, name in links if name in dead)


def read_counters(meter: LinkMeter) -> CounterReading:
    """Return the counters of the links, for a display that does not know the workload."""
    return CounterReading(link_bytes=meter.carried_bytes(), down=meter.without_carrier())
