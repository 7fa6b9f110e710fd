"""Records what arrives over a link into a pcap file; also the stand-alone program that does it, one process a link.

A process of its own, because the one that runs the network has other things to do at ten thousand packets a second.
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
_SNAP_BYTES = 65535
_MAGIC_NANOSECONDS = 0xA1B23C4D
_ETHERNET = 1
_SO_TIMESTAMPNS = 35


class Capture:
    """A running recording. ``sock`` is an unbound packet socket in the interface's namespace; it is taken over."""

    def __init__(self, sock: socket.socket, interface: str, path: Path) -> None:
        """Raises InputError where the file cannot be written."""
        from testbed.errors import InputError
        from topologies.files.formats import open_to_write

        self.path = path
        with sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
            sock.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
            sock.bind((interface, _ETH_P_ALL))
            try:
                with open_to_write(path) as file:
                    file.write(
                        struct.pack(
                            "=IHHiIII", _MAGIC_NANOSECONDS, 2, 4, 0, 0, _SNAP_BYTES, _ETHERNET
                        )
                    )
                    file.flush()
                    self._process = subprocess.Popen(
                        [
                            sys.executable,
                            "-I",
                            "-S",
                            __file__,
                            str(sock.fileno()),
                            str(file.fileno()),
                        ],
                        stdin=subprocess.DEVNULL,
                        pass_fds=(sock.fileno(), file.fileno()),
                        start_new_session=True,
                    )
            except (OSError, ValueError) as error:  # ValueError: a name with a zero byte
                raise InputError(
                    f"pcap file {path}: {getattr(error, 'strerror', error)}; name a file in a directory that exists"
                ) from error

    def stop(self) -> None:
        """End the recording; what had arrived is in the file."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(5)


def record(sock: socket.socket, file_descriptor: int) -> None:
    """Write every arriving packet until SIGTERM, then what is still in the socket."""
    ending: list[int] = []
    waker, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGTERM, lambda number, _: ending.append(number))
    sock.setblocking(False)
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    poll.register(waker, select.POLLIN)
    while not ending:
        poll.poll()
        os.write(file_descriptor, _waiting_packets(sock))
    os.write(file_descriptor, _waiting_packets(sock))


def _waiting_packets(sock: socket.socket) -> bytes:
    parts: list[bytes] = []
    for _ in range(4096):
        try:
            data, ancillary, _, address = sock.recvmsg(_SNAP_BYTES, 64)
        except OSError:  # nothing is there now, or the interface has just been taken down
            break
        if address[2] == socket.PACKET_OUTGOING:
            continue
        seconds, nanoseconds = struct.unpack("=qq", ancillary[0][2][:16]) if ancillary else (0, 0)
        parts += (
            struct.pack("=IIII", seconds & 0xFFFFFFFF, nanoseconds, len(data), len(data)),
            data,
        )
    return b"".join(parts)


if __name__ == "__main__":
    try:
        record(socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2]))
    except OSError as error:
        sys.exit(f"testbed: a recording has ended: {error.strerror}")
