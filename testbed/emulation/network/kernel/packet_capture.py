"""Records the packets that arrive over a link in a pcap file.

The module is also the stand-alone program that records one link:

    packet_capture.py SOCKET_DESCRIPTOR FILE_DESCRIPTOR

It is a process of its own, because the process that runs the network cannot also read ten thousand
packets a second.
"""

import os
import select
import signal
import socket
import struct
import subprocess
import sys
from pathlib import Path

_ETH_P_ALL = 3
_SO_TIMESTAMPNS = 35

# The header of a pcap file: timestamps in nanoseconds, version 2.4, longest packet, link type.
_MAGIC_NANOSECONDS = 0xA1B23C4D
_VERSION = (2, 4)
_SNAP_BYTES = 65535
_LINKTYPE_ETHERNET = 1
_PCAP_HEADER = struct.pack(
    "=IHHiIII", _MAGIC_NANOSECONDS, *_VERSION, 0, 0, _SNAP_BYTES, _LINKTYPE_ETHERNET
)

# A burst waits here while the recording process writes.
_RECEIVE_BYTES = 8 << 20

# Packets that are written at once.
_BATCH_PACKETS = 4096

_STOP_LIMIT_S = 5


class Capture:
    """A running recording.

    Args:
        sock: An unbound packet socket in the network namespace of the interface. The recording
            closes it.
        interface: Name of the interface.
        path: The pcap file to write.

    Raises:
        InputError: The file cannot be written.
    """

    def __init__(self, sock: socket.socket, interface: str, path: Path) -> None:
        # Imported here, because the stand-alone program runs without the testbed's packages.
        from testbed.errors import InputError
        from topologies.files.formats import open_to_write

        self.path = path
        with sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BYTES)
            sock.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
            sock.bind((interface, _ETH_P_ALL))
            try:
                with open_to_write(path) as file:
                    file.write(_PCAP_HEADER)
                    file.flush()
                    descriptors = (sock.fileno(), file.fileno())
                    program = [sys.executable, "-I", "-S", __file__]
                    self._process = subprocess.Popen(
                        program + [str(descriptor) for descriptor in descriptors],
                        stdin=subprocess.DEVNULL,
                        pass_fds=descriptors,
                        start_new_session=True,
                    )
            except (OSError, ValueError) as error:
                # A name with a zero byte raises ValueError.
                reason = getattr(error, "strerror", error)
                raise InputError(
                    f"pcap file {path}: {reason}; name a file in a directory that exists"
                ) from error

    def stop(self) -> None:
        """End the recording; the file contains every packet that has arrived."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(_STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(_STOP_LIMIT_S)


def record(sock: socket.socket, file_descriptor: int) -> None:
    """Write every arriving packet until SIGTERM, and then those that are still in the socket."""
    terminations: list[int] = []
    # The signal also writes to this pipe, so that it wakes ``poll`` whenever it arrives.
    waker, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGTERM, lambda number, _: terminations.append(number))
    sock.setblocking(False)
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    poll.register(waker, select.POLLIN)
    while not terminations:
        poll.poll()
        os.write(file_descriptor, _waiting_packets(sock))
    os.write(file_descriptor, _waiting_packets(sock))


def _waiting_packets(sock: socket.socket) -> bytes:
    """Return the pcap records of the received packets that wait in the socket."""
    parts: list[bytes] = []
    for _ in range(_BATCH_PACKETS):
        try:
            data, ancillary, _, address = sock.recvmsg(_SNAP_BYTES, 64)
        except OSError:
            # No packet waits, or the interface has just been taken down.
            break
        if address[2] == socket.PACKET_OUTGOING:
            continue
        seconds = 0
        nanoseconds = 0
        if ancillary:
            seconds, nanoseconds = struct.unpack("=qq", ancillary[0][2][:16])
        header = struct.pack("=IIII", seconds & 0xFFFFFFFF, nanoseconds, len(data), len(data))
        parts.append(header)
        parts.append(data)
    return b"".join(parts)


if __name__ == "__main__":
    try:
        record(socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2]))
    except OSError as error:
        sys.exit(f"testbed: a recording has ended: {error.strerror}")
