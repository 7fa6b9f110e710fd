"""Represents a program in a host of a running network; a stand-alone program.

    exec_proxy.py ADDRESS HEADER

ADDRESS is the address of the network's control socket without the zero byte, and HEADER is the
request as JSON.

The process has the input, output, signals and exit code of the program in the host. It passes its
three standard descriptors to the network's process, which starts the program with them. When this
process ends in any way, the program in the host ends too.

It is run by ``python -I -S``, with which it starts in some hundredths of a second.
"""

import json
import os
import select
import signal
import socket
import struct
import sys

#: Lengths of a message's header and body in bytes, which come first.
LENGTHS = struct.Struct(">II")

# struct ucred: process id, user id and group id of the other side.
_CREDENTIALS = struct.Struct("=iII")

# Signals that are passed on to the program.
_FORWARDED = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
)

_EXIT_REFUSED = 2
_EXIT_GONE = 3

_BLOCK_BYTES = 1 << 20


def main(address: str, header: str) -> int:
    """Run a program in a host.

    Args:
        address: Address of the network's control socket, without the zero byte.
        header: The request as JSON.

    Returns:
        The exit code of the program. If a signal ended it, this process ends by the same signal,
        or, if that fails, with 128 + n for signal n. The code is 2 for an invalid request, and 3 if
        the network has gone.
    """
    # Signals do nothing here but write their number to this pipe, from which they are passed on.
    waker, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    for number in _FORWARDED:
        signal.signal(number, lambda *_: None)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    # The process that built the network knows that it was taken down, maybe before the program
    # started.
    owned = bool(json.loads(header).get("owned"))
    started = False
    try:
        sock.connect("\0" + address)
        if _user_of_peer(sock) != os.geteuid():
            # Another user must not get our terminal.
            print(
                "testbed: the network has gone, and another user listens in its place",
                file=sys.stderr,
            )
            return _EXIT_GONE
        send_message(sock, header.encode(), [0, 1, 2])
        while True:
            ready: list[object] = select.select([sock, waker], [], [])[0]  # type: ignore[type-var]
            if waker in ready:
                for arrived in os.read(waker, 64):
                    send_message(sock, json.dumps({"signal": arrived}).encode(), [])
            if sock in ready:
                length, _ = LENGTHS.unpack(exactly(sock, LENGTHS.size))
                answer = json.loads(exactly(sock, length))
                if "error" in answer:
                    print("testbed: " + answer["text"], file=sys.stderr)
                    return _EXIT_REFUSED
                if "code" in answer:
                    return _end_like_program(answer["code"])
                if "closed" in answer and owned:
                    return _EXIT_GONE
                started = True
    except (OSError, EOFError):
        if started or not owned:
            print("testbed: the network has gone", file=sys.stderr)
        return _EXIT_GONE


def _user_of_peer(sock: socket.socket) -> int:
    """Return the user id of the process at the other end."""
    content = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, user, _ = _CREDENTIALS.unpack(content)
    return int(user)


def send_message(
    sock: socket.socket, header: bytes, descriptors: list[int], body: bytes = b""
) -> None:
    """Send a header and a body, which follow their lengths.

    Args:
        sock: The connection.
        header: The header.
        descriptors: Descriptors that are passed with the message.
        body: The body.

    Raises:
        OSError: The other end is closed.
    """
    data = LENGTHS.pack(len(header), len(body)) + header
    sent = 0
    if descriptors:
        sent = socket.send_fds(sock, [data], descriptors)
    for part in (data[sent:], body):
        # Even sending nothing fails if the other end has answered and closed already.
        if part:
            sock.sendall(part)


def exactly(sock: socket.socket, size: int) -> bytes:
    """Receive a number of bytes.

    Raises:
        EOFError: The other end is closed before.
    """
    parts = []
    remaining = size
    while remaining:
        part = sock.recv(min(remaining, _BLOCK_BYTES))
        if not part:
            raise EOFError
        parts.append(part)
        remaining -= len(part)
    return b"".join(parts)


def _end_like_program(code: int) -> int:
    """End this process by the signal that ended the program, or return the exit code.

    Args:
        code: Exit code of the program, or -n if signal n ended it.
    """
    if code >= 0:
        return code
    number = -code
    # The action of SIGKILL cannot be changed.
    if number != signal.SIGKILL:
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    return 128 + number


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
