"""A controller of the user's own, in the sandbox or outside: switches connect to a port here, from which their bytes go
there and back."""

import os
import re
import selectors
import socket
import threading
from collections.abc import Callable
from contextlib import suppress

from testbed.emulation.control.controller_link import DEFAULT_PORT
from testbed.emulation.sandbox.way_out import WayOut
from testbed.errors import InputError

_REMOTE = re.compile(r"remote(?:,(?:ip=)?(?P<ip>[\w.:-]+?))?(?:,(?:port=)?(?P<port>\d+))?")
_WAITING = 1024
_BLOCK_BYTES = 65_536


def parse_controller(text: str) -> tuple[str, int]:
    """``remote[,IP[,PORT]]``, or with Mininet's ``ip=`` and ``port=``, to (host, port); InputError for anything else.

    >>> parse_controller("remote"), parse_controller("remote,10.0.0.9"), parse_controller("remote,ip=::1,port=6633")
    (('127.0.0.1', 6653), ('10.0.0.9', 6653), ('::1', 6633))
    >>> parse_controller("remote,port=6633")
    ('127.0.0.1', 6633)
    """
    found = _REMOTE.fullmatch(text.strip().replace("remote,port=", "remote,127.0.0.1,port="))
    port = int(found["port"] or DEFAULT_PORT) if found else 0
    if found is None or not 0 < port < 65536:
        raise InputError(
            f"--controller {text}: give remote, or remote,IP or remote,IP,PORT for a controller of your own (default "
            f"127.0.0.1, {DEFAULT_PORT}); without the option the testbed's own is used where a route needs one"
        )
    return found["ip"] or "127.0.0.1", port


class RemoteController:
    """Listens on ``port`` of the sandbox's 127.0.0.1 as long as the process lives."""

    def __init__(self, host: str, port: int) -> None:
        self._way_out = WayOut(host, port)
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=_WAITING)
        self.port: int = self._listener.getsockname()[1]
        accept_each(self._listener, self._serve)

    def problem(self) -> str | None:
        """Why nobody answers at the address now, None where somebody does."""
        try:
            self._way_out.connect().close()
        except OSError as error:
            return str(error.strerror or error)
        return None

    def _serve(self, switch: socket.socket) -> None:
        """One switch's connection; closed at once where nobody answers, so that the switch tries again."""
        with switch, suppress(OSError), self._way_out.connect() as controller:
            controller.settimeout(None)
            controller.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            copy_both_directions(switch, controller.fileno(), controller.fileno())


def accept_each(listening: socket.socket, serve: Callable[[socket.socket], None]) -> None:
    """Serve every connection in a thread of its own, from now on until the socket is closed."""

    def accept() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(
                    target=serve, args=(listening.accept()[0],), name="relay", daemon=True
                ).start()

    threading.Thread(target=accept, name="relays", daemon=True).start()


def copy_both_directions(sock: socket.socket, reading: int, writing: int) -> None:
    """Pass bytes on both ways, at once and without a time limit of the TCP socket's, until either side ends."""
    sock.settimeout(None)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with selectors.DefaultSelector() as selector, suppress(OSError):
        selector.register(sock, selectors.EVENT_READ)
        selector.register(reading, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is sock:
                    if not (data := sock.recv(_BLOCK_BYTES)):
                        return
                    while data:
                        data = data[os.write(writing, data) :]
                else:
                    if not (data := os.read(reading, _BLOCK_BYTES)):
                        return
                    sock.sendall(data)
