"""What links have carried and which have no carrier, read from files of the kernel's, for whoever watches a network."""

import fcntl
import socket
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from testbed.model.progress import CounterReading
from topologies.network import LinkId

_SIOCGIFFLAGS, _IFF_RUNNING = 0x8913, 0x40


@dataclass(frozen=True, kw_only=True)
class LinkMeter:
    """Reads how many bytes each link has carried, from one file of the kernel's, with no socket, lock or command of the
    run's.

    ``sent``: link -> the interface next to the switches that sends it; ``came``: where a host or another machine sends
    it, the one at which it arrives. May be used in any thread that begins next to the switches.
    """

    sent: Mapping[LinkId, str]
    received: Mapping[LinkId, str]

    def carried_bytes(self) -> dict[LinkId, int]:
        """Link -> bytes since its interfaces were made."""
        rows = [
            line.split()
            for line in Path("/proc/thread-self/net/dev")
            .read_text()
            .replace(":", " ")
            .splitlines()[2:]
        ]
        counted = {row[0]: (int(row[1]), int(row[9])) for row in rows}
        found = {link: counted[name][1] for link, name in self.sent.items()}
        return found | {link: counted[name][0] for link, name in self.received.items()}

    def without_carrier(self) -> tuple[LinkId, ...]:
        """Links whose interface next to the switches is down, or has no carrier."""
        dead: set[str] = set()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            for name in {*self.sent.values(), *self.received.values()}:
                answer = fcntl.ioctl(sock, _SIOCGIFFLAGS, struct.pack("16sH14x", name.encode(), 0))
                if not struct.unpack("16sH14x", answer)[1] & _IFF_RUNNING:
                    dead.add(name)
        return tuple(
            link for link, name in (*self.sent.items(), *self.received.items()) if name in dead
        )


def read_counters(meter: LinkMeter) -> CounterReading:
    """What the links' counters say now, for whoever watches a network and knows nothing of what runs on it."""
    return CounterReading(link_bytes=meter.carried_bytes(), down=meter.without_carrier())
