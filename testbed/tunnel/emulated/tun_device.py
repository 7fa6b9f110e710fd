"""A TUN device of a host's network: IP packets that its programs send are read from a descriptor, and those written to
it reach them. It goes with the last descriptor, however its process ends."""

import errno
import fcntl
import os
import socket
import struct
from typing import NamedTuple

from testbed.errors import CapabilityError

_DEVICE = "/dev/net/tun"
_TUNSETIFF, _IFF_TUN, _IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
_SIOCSIFFLAGS, _SIOCSIFADDR, _SIOCSIFDSTADDR, _SIOCSIFMTU = 0x8914, 0x8916, 0x8918, 0x8922
_IFF_UP_RUNNING = 0x41


def open_device() -> int:
    """A descriptor that stands for no device yet. CapabilityError where this user may not open /dev/net/tun."""
    try:
        return os.open(_DEVICE, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise CapabilityError(
            f"a tunnel needs {_DEVICE}, which this user cannot open ({error.strerror}); as root: modprobe tun && chmod "
            f"0666 {_DEVICE}"
        ) from None


class TunDevice(NamedTuple):
    """``descriptor``: of packets; ``statistics``: of the counts of its network's devices (/proc/net/dev)."""

    name: str
    descriptor: int
    statistics: int


def open_tun(name: str, address: str, peer: str, mtu: int) -> TunDevice:
    """The device ``name``, up, with that IPv4 address and its other end's, in the network namespace of
    this thread; 500 packets wait to be read (the kernel's own number: another one is root's to set). CapabilityError
    where there can be none."""
    descriptor = open_device()
    try:
        fcntl.ioctl(
            descriptor, _TUNSETIFF, struct.pack("16sH22x", name.encode(), _IFF_TUN | _IFF_NO_PI)
        )
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
    return TunDevice(
        name, descriptor, os.open("/proc/thread-self/net/dev", os.O_RDONLY | os.O_CLOEXEC)
    )


def _address(ip: str) -> bytes:
    return struct.pack("HH4s", socket.AF_INET, 0, socket.inet_aton(ip))


def packets_unread(tun: TunDevice) -> int:
    """Packets of programs that found the device full, since nobody read it in time."""
    rows = (
        line.partition(":") for line in os.pread(tun.statistics, 1 << 20, 0).decode().splitlines()
    )
    return next((int(found.split()[11]) for one, _, found in rows if one.strip() == tun.name), 0)


def read_packet(descriptor: int, largest: int) -> bytes | None:
    """The next packet that a program sent; None where none waits."""
    try:
        return os.read(descriptor, largest)
    except BlockingIOError:
        return None


def write_packet(descriptor: int, packet: bytes) -> bool:
    """Hand a packet to the host; whether its kernel took it (what is no IP packet it refuses)."""
    try:
        os.write(descriptor, packet)
    except OSError as error:
        if error.errno not in (errno.EAGAIN, errno.EINVAL, errno.ENOBUFS):
            raise
        return False
    return True
