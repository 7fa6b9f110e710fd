"""What the packet sockets of a network namespace dropped because nobody read them in time, as the kernel's socket
diagnosis tells.

A user-space switch reads its interfaces through such sockets: one that waits for a processor loses packets there, which
no interface and no queue counts.
"""

import contextlib
import socket
import struct

from testbed.emulation.network.kernel.rtnetlink import Netlink, attributes_of

_SOCK_DIAG, _BY_FAMILY = 4, 20
_SHOW_MEMORY, _MEMORY, _DROPS_AT = 0x10, 6, 32
_HEADER_BYTES = 16


def packet_socket_drops() -> int:
    """Frames that all packet sockets of this process' network namespace have dropped since they were opened; 0 where
    the kernel does not tell."""
    request = struct.pack("=BBHIIII", socket.AF_PACKET, 0, 0, 0, _SHOW_MEMORY, 0xFFFFFFFF, 0xFFFFFFFF)
    total = 0
    with contextlib.suppress(OSError), socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as sock:
        for _, body in Netlink(sock).dump(_BY_FAMILY, request):
            memory = attributes_of(body[_HEADER_BYTES:]).get(_MEMORY, b"")
            if len(memory) >= _DROPS_AT + 4:
                total += struct.unpack_from("=I", memory, _DROPS_AT)[0]
    return total
