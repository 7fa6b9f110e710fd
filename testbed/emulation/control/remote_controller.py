"""A controller of the user's own, in the sandbox or outside.

Switches connect to a port in the sandbox. Their bytes are passed on to the controller, and those of
the controller to them.
"""

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

# Switches that may wait to be accepted.
_BACKLOG = 1024

_BLOCK_BYTES = 65_536


def parse_controller(text: str) -> tuple[str, int]:
    """Parse ``remote[,IP[,PORT]]``, maybe with Mininet's ``ip=`` and ``port=``.

    >>> parse_controller("remote"), parse_controller("remote,10.0.0.9")
    (('127.0.0.1', 6653), ('10.0.0.9', 6653))
    >>> parse_controller("remote,ip=::1,port=6633"), parse_controller("remote,port=6633")
    (('::1', 6633), ('127.0.0.1', 6633))

    Returns:
        Host and port of the controller.

    Raises:
        InputError: The text has another form.
    """
    match = _REMOTE.fullmatch(text.strip().replace("remote,port=", "remote,127.0.0.1,port="))
    port = int(match["port"] or DEFAULT_PORT) if match else 0
    if match is None or not 0 < port < 65536:
        raise InputError(
            f"--controller {text}: give remote, or remote,IP or remote,IP,PORT for a controller "
            f"of your own (default 127.0.0.1, {DEFAULT_PORT}); without the option the testbed's "
            "own is used where a route needs one"
        )
    return match["ip"] or "127.0.0.1", port


class RemoteController:
    """Connects the switches to the user's controller as long as the process lives.

    Args:
        host: Host of the user's controller.
        port: TCP port of the user's controller.

    Attributes:
        port: Port on 127.0.0.1 of the sandbox to which switches connect.
    """

    def __init__(self, host: str, port: int) -> None:
        self._way_out = WayOut(host, port)
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=_BACKLOG)
        self.port: int = self._listener.getsockname()[1]
        accept_each(self._listener, self._serve)

    def problem(self) -> str | None:
        """Return why the controller cannot be reached now, or None if it can."""
        try:
            self._way_out.connect().close()
        except OSError as error:
            return str(error.strerror or error)
        return None

    def _serve(self, switch: socket.socket) -> None:
        """Connect one switch to the controller.

        If the controller cannot be reached, the switch's connection is closed, and the switch tries
        again.
        """
        with switch, suppress(OSError), self._way_out.connect() as controller:
            controller.settimeout(None)
            controller.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            copy_both_directions(switch, controller.fileno(), controller.fileno())


def accept_each(listening: socket.socket, serve: Callable[[socket.socket], None]) -> None:
    """Serve every connection in a thread of its own, until the listening socket is closed.

    The function returns at once.

    Args:
        listening: The listening socket.
        serve: Serves one connection.
    """

    def accept() -> None:
        # The closed socket ends the loop.
        with suppress(OSError):
            while True:
                connection, _ = listening.accept()
                thread = threading.Thread(
                    target=serve, args=(connection,), name="relay", daemon=True
                )
                thread.start()

    threading.Thread(target=accept, name="relays", daemon=True).start()


def copy_both_directions(sock: socket.socket, reading: int, writing: int) -> None:
    """Copy bytes in both directions without delay, until either side ends.

    Args:
        sock: The TCP connection on one side; its time limit is removed.
        reading: Descriptor from which the other side's bytes are read.
        writing: Descriptor to which bytes for the other side are written.
    """
    sock.settimeout(None)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    # An error means that a side has ended.
    with selectors.DefaultSelector() as selector, suppress(OSError):
        selector.register(sock, selectors.EVENT_READ)
        selector.register(reading, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is sock:
                    data = sock.recv(_BLOCK_BYTES)
                    if not data:
                        return
                    while data:
                        written = os.write(writing, data)
                        data = data[written:]
                else:
                    data = os.read(reading, _BLOCK_BYTES)
                    if not data:
                        return
                    sock.sendall(data)
