"""A TUN device of a host's network, through which a process exchanges IP packets with programs.

Packets that programs send are read from a descriptor; packets written to it reach the programs. The
kernel removes the device with its last descriptor, however the process ends.
"""

import errno
import fcntl
import os
import socket
import struct
from typing import NamedTuple

from testbed.errors import CapabilityError

_DEVICE = "/dev/net/tun"
# From <linux/if_tun.h>.
_TUNSETIFF = 0x400454CA
_IFF_TUN = 0x0001
_IFF_NO_PI = 0x1000
# From <linux/sockios.h>.
_SIOCSIFFLAGS = 0x8914
_SIOCSIFADDR = 0x8916
_SIOCSIFDSTADDR = 0x8918
_SIOCSIFMTU = 0x8922
# IFF_UP | IFF_RUNNING of <linux/if.h>.
_IFF_UP_RUNNING = 0x41
# Column of /proc/net/dev behind the colon: dropped outgoing packets.
_TX_DROPPED = 11


def open_device() -> int:
    """Open a descriptor that has no TUN device yet.

    Raises:
        CapabilityError: The user may not open /dev/net/tun.
    """
    try:
        return os.open(_DEVICE, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise CapabilityError(
            f"a tunnel needs {_DEVICE}, which this user cannot open ({error.strerror}); "
            f"as root: modprobe tun && chmod 0666 {_DEVICE}"
        ) from None


class TunDevice(NamedTuple):
    """An open TUN device.

    Attributes:
        name: The name of the network interface.
        descriptor: The descriptor to read and write packets.
        statistics: A descriptor of the interface counters of its network (/proc/net/dev).
    """

    name: str
    descriptor: int
    statistics: int


def open_tun(name: str, address: str, peer: str, mtu: int) -> TunDevice:
    """Create a TUN device in the network namespace of this thread, and bring it up.

    The device queues 500 packets until they are read. This is the kernel's default, which only root
    can change.

    Args:
        name: The name of the device.
        address: Its IPv4 address.
        peer: The IPv4 address of the tunnel's other end.
        mtu: Its MTU in bytes.

    Raises:
        CapabilityError: The device cannot be created.
    """
    descriptor = open_device()
    try:
        create = struct.pack("16sH22x", name.encode(), _IFF_TUN | _IFF_NO_PI)
        fcntl.ioctl(descriptor, _TUNSETIFF, create)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
            for request, value in (
                (_SIOCSIFADDR, _address(address)),
                (_SIOCSIFDSTADDR, _address(peer)),
                (_SIOCSIFMTU, struct.pack("i", mtu)),
                (_SIOCSIFFLAGS, struct.pack("h", _IFF_UP_RUNNING)),
            ):
                fcntl.ioctl(control, request, struct.pack("16s24s", name.encode(), value))
    except OSError as error:
        os.close(descriptor)
        raise CapabilityError(f"TUN device {name} with {address}: {error.strerror}") from None
    statistics = os.open("/proc/thread-self/net/dev", os.O_RDONLY | os.O_CLOEXEC)
    return TunDevice(name, descriptor, statistics)


def _address(ip: str) -> bytes:
    """Return a ``struct sockaddr_in`` with this address."""
    return struct.pack("HH4s", socket.AF_INET, 0, socket.inet_aton(ip))


def packets_unread(tun: TunDevice) -> int:
    """Return the number of packets dropped because the device's queue was full."""
    for line in os.pread(tun.statistics, 1 << 20, 0).decode().splitlines():
        name, _, counters = line.partition(":")
        if name.strip() == tun.name:
            return int(counters.split()[_TX_DROPPED])
    return 0


def read_packet(descriptor: int, largest: int) -> bytes | None:
    """Return the next packet that a program sent, cut off at ``largest`` bytes, or None."""
    try:
        return os.read(descriptor, largest)
    except BlockingIOError:
        return None


def write_packet(descriptor: int, packet: bytes) -> bool:
    """Deliver a packet to the host, and return whether its kernel accepted it.

    The kernel rejects data that is not an IP packet, and packets for which it has no memory.
    """
    try:
        os.write(descriptor, packet)
    except OSError as error:
        if error.errno not in (errno.EAGAIN, errno.EINVAL, errno.ENOBUFS):
            raise
        return False
    return True
