"""Connections from the sandbox to one TCP address outside: a program that stays outside.

    way_out.py DESCRIPTOR HOST PORT

When the sandbox requests a connection through the descriptor, the program connects to the address
and passes the connected socket in. A socket belongs to the network namespace in which it was
created, even if another process uses it. The program ends when no process has the other end of its
descriptor any more, however the network ended.
"""

import os
import socket
import subprocess
import sys
import threading
from contextlib import suppress

#: Environment variable of a sandbox: the descriptor through which connections are requested.
VARIABLE = "TESTBED_WAY_OUT"

_CONNECT_S = 5.0
_REQUEST = b"?"
_OPENED = b"+"
_MAX_ANSWER_BYTES = 200


def open_way_out(host: str, port: int) -> None:
    """Start the program outside, before the sandbox is entered.

    The process inside can then request connections (``WayOut``) to this address only.

    Args:
        host: Host of the address.
        port: TCP port of the address.
    """
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
    """The sandbox's end; one per process. Thread-safe.

    If no program was started outside, ``connect`` reaches only addresses in the sandbox.

    Args:
        host: Host of the address.
        port: TCP port of the address.
    """

    def __init__(self, host: str, port: int) -> None:
        self.address = (host, port)
        # The variable is removed, and the descriptor not inherited, so that programs started
        # inside cannot use it.
        number = os.environ.pop(VARIABLE, "")
        self._request_socket = socket.socket(fileno=int(number)) if number.isdigit() else None
        if self._request_socket is not None:
            self._request_socket.set_inheritable(False)
        self._lock = threading.Lock()

    def connect(self) -> socket.socket:
        """Return a connection to the address in the sandbox or, if none listens there, outside.

        Raises:
            OSError: There is no connection; the error says why.
        """
        # If this fails, the address outside is tried.
        with suppress(OSError):
            return socket.create_connection(self.address, _CONNECT_S)
        if self._request_socket is None:
            raise ConnectionRefusedError("this sandbox has no proxy to the outside")
        with self._lock:
            self._request_socket.send(_REQUEST)
            answer, descriptors, _, _ = socket.recv_fds(self._request_socket, _MAX_ANSWER_BYTES, 1)
        if answer == _OPENED and descriptors:
            return socket.socket(fileno=descriptors[0])
        raise OSError(answer.decode(errors="replace") or "the proxy to the outside has closed")


def main(descriptor: int, host: str, port: int) -> int:
    """Answer requests until the other end is closed.

    Args:
        descriptor: The socket through which requests arrive.
        host: Host of the address.
        port: TCP port of the address.
    """
    with socket.socket(fileno=descriptor) as requests:
        while requests.recv(1):
            try:
                with socket.create_connection((host, port), _CONNECT_S) as sock:
                    sock.settimeout(None)
                    socket.send_fds(requests, [_OPENED], [sock.fileno()])
            except OSError as error:
                reason = str(error.strerror or error).encode()[:_MAX_ANSWER_BYTES]
                requests.send(reason or b"refused")
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
