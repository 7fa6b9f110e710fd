"""A way out of the sandbox for one TCP address: a stand-alone program that stays outside, connects when it is asked
to, and hands the connection in.

    way_out.py DESCRIPTOR HOST PORT

A socket belongs to the network namespace in which it was made, wherever it is used. The program ends when nobody holds
the other end of its descriptor any more, in whatever way the network ended.
"""

import os
import socket
import subprocess
import sys
import threading
from contextlib import suppress

VARIABLE = "TESTBED_WAY_OUT"
"""In the environment of a sandbox: the descriptor of its way out."""
_CONNECT_S = 5.0
_OPENED = b"+"


def open_way_out(host: str, port: int) -> None:
    """Before the sandbox is entered: what this process becomes can ask for connections to the address (``WayOut``)."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        subprocess.Popen(
            [sys.executable, "-I", "-S", __file__, str(theirs.fileno()), host, str(port)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(theirs.fileno(),),
            start_new_session=True,
        )
    ours.set_inheritable(True)
    os.environ[VARIABLE] = str(ours.detach())


class WayOut:
    """The sandbox's side, once. Without a way out ``connect`` goes no further than the sandbox. Thread-safe."""

    def __init__(self, host: str, port: int) -> None:
        self.address = host, port
        number = os.environ.pop(VARIABLE, "")
        self._asks = socket.socket(fileno=int(number)) if number.isdigit() else None
        if self._asks is not None:
            self._asks.set_inheritable(False)
        self._turn = threading.Lock()

    def connect(self) -> socket.socket:
        """A connection to the address in the sandbox or, where nobody listens there, outside. OSError says why there is
        none."""
        with suppress(OSError):
            return socket.create_connection(self.address, _CONNECT_S)
        if self._asks is None:
            raise ConnectionRefusedError("no way out of the sandbox")
        with self._turn:
            self._asks.send(b"?")
            answer, descriptors, _, _ = socket.recv_fds(self._asks, 200, 1)
        if answer == _OPENED and descriptors:
            return socket.socket(fileno=descriptors[0])
        raise OSError(answer.decode(errors="replace") or "the way out has closed")


def main(descriptor: int, host: str, port: int) -> int:
    """Connect as often as asked."""
    with socket.socket(fileno=descriptor) as asked:
        while asked.recv(1):
            try:
                with socket.create_connection((host, port), _CONNECT_S) as sock:
                    sock.settimeout(None)
                    socket.send_fds(asked, [_OPENED], [sock.fileno()])
            except OSError as error:
                asked.send(str(error.strerror or error).encode()[:200] or b"refused")
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
