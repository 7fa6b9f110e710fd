"""Stands for a program in a host of a network that is up: its own input, output, signals and exit code are the
program's.

    exec_proxy.py ADDRESS HEADER        ADDRESS: the door's name without the zero byte; HEADER: the request as JSON

A stand-alone program (``python -I -S``: it starts in some hundredths of a second). It passes its three standard
descriptors to the network's process, which starts the program on them. When this process ends in whatever way, the
program in the host ends too.
"""

import json
import os
import select
import signal
import socket
import struct
import sys

LENGTHS = struct.Struct(">II")
"""Bytes of a message's header and body, before it."""
_CREDENTIALS = struct.Struct("=iII")
_PASSED_ON = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
)


def main(address: str, header: str) -> int:
    """Exit code: the program's, 128 + n of one that signal n ended when it cannot be shown otherwise; 3 where the
    network is gone."""
    waker, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    for number in _PASSED_ON:
        signal.signal(number, lambda *_: None)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    # Who holds the network up knows that it was taken down, perhaps before the program began.
    owned = bool(json.loads(header).get("owned"))
    begun = False
    try:
        sock.connect("\0" + address)
        if (
            _CREDENTIALS.unpack(
                sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
            )[1]
            != os.geteuid()
        ):
            print(
                "testbed: the network has gone, and another user listens in its place",
                file=sys.stderr,
            )
            return 3  # our terminal is not handed to a stranger
        send_message(sock, header.encode(), [0, 1, 2])
        while True:
            ready: list[object] = select.select([sock, waker], [], [])[0]  # type: ignore[type-var]
            if waker in ready:
                for passed in os.read(waker, 64):
                    send_message(sock, json.dumps({"signal": passed}).encode(), [])
            if sock in ready:
                length, _ = LENGTHS.unpack(exactly(sock, LENGTHS.size))
                answer = json.loads(exactly(sock, length))
                if "error" in answer:
                    print("testbed: " + answer["text"], file=sys.stderr)
                    return 2
                if "code" in answer:
                    return _end_as(answer["code"])
                if "closed" in answer and owned:
                    return 3
                begun = True
    except (OSError, EOFError):
        if begun or not owned:
            print("testbed: the network has gone", file=sys.stderr)
        return 3


def send_message(
    sock: socket.socket, header: bytes, descriptors: list[int], body: bytes = b""
) -> None:
    """Both, behind their lengths; OSError where nobody is there any more."""
    data = LENGTHS.pack(len(header), len(body)) + header
    sent = socket.send_fds(sock, [data], descriptors) if descriptors else 0
    for part in (data[sent:], body):
        if part:  # sending nothing fails, too, where the other end has answered and gone already
            sock.sendall(part)


def exactly(sock: socket.socket, size: int) -> bytes:
    """So many bytes; EOFError where the other end closes before."""
    parts, left = [], size
    while left:
        part = sock.recv(min(left, 1 << 20))
        if not part:
            raise EOFError
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def _end_as(code: int) -> int:
    """Ends as the program did: by the same signal where it was one."""
    if code < 0:
        signal.signal(-code, signal.SIG_DFL) if -code != signal.SIGKILL else None
        os.kill(os.getpid(), -code)
        return 128 - code
    return code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
