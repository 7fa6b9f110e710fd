"""Requests to a network that another process holds up, each over a connection of its own: threads do not wait for each
other.

A connection that closes early, by Ctrl-C or a kill, cancels its request.
"""

import json
import os
import socket
import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from testbed.emulation.attach.protocol import Frame, checked, receive, send
from testbed.emulation.sandbox.control_socket import connect, control_address
from testbed.model.progress import Progress, ReportProgress
from topologies.text.json_types import Json

_STAND_IN = Path(__file__).with_name("exec_proxy.py")


def send_request(
    name: str, header: Json, body: bytes = b"", report_progress: ReportProgress | None = None
) -> Frame:
    """The answer of the network of that name; raises what it says went wrong. Progress that comes first is passed
    on."""
    with connect(name) as sock:
        send(sock, header, body)
        return receive_reply(sock, report_progress)


def receive_reply(sock: socket.socket, report_progress: ReportProgress | None = None) -> Frame:
    """The next answer that is no progress."""
    while True:
        frame = checked(receive(sock))
        reported = frame.header.get("progress")
        if reported is None:
            return frame
        if report_progress is not None:
            report_progress(Progress(done_s=reported[0], total_s=reported[1], doing=reported[2]))


def program_argv(
    name: str,
    host: str,
    argv: Sequence[str],
    env: Mapping[str, str] | None = None,
    *,
    cwd: str | Path = ".",
    **marks: bool,
) -> list[str]:
    """Return the command line of a local process that stands for ``argv`` in the host.

    Args:
        name: The network's name.
        host: The node in which the program runs.
        argv: The program and its arguments.
        env: Variables of the program's environment beside the sandbox's.
        cwd: The program's working directory.
        marks: ``end_point`` as of ``host_processes.run_program``. ``owned``: the caller holds the
            network up; the process ends without a message if the network is taken down.

    Raises:
        InputError: No such network of this user's is up.
    """
    program = {"host": host, "argv": list(argv), "env": dict(env or {}), **marks}
    header = {"do": "exec", "cwd": str(Path(cwd).absolute()), **program}
    return [sys.executable, "-I", "-S", str(_STAND_IN), control_address(name), json.dumps(header)]


def exec_program(name: str, host: str, argv: Sequence[str]) -> None:
    """This process becomes the program's stand-in; never returns."""
    words = program_argv(name, host, argv)
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(words[0], words)


class Recording(AbstractContextManager["Recording"]):
    """A recording of a link that runs until ``stop``; a context manager. ``path``: the pcap file."""

    def __init__(self, name: str, link: str, path: Path) -> None:
        self.path = path
        self._sock: socket.socket | None = connect(name)
        try:
            send(self._sock, {"do": "capture", "link": link, "path": str(path.absolute())})
            receive_reply(self._sock)
        except BaseException:
            self._sock.close()
            raise

    def stop(self) -> Path:
        """End it; what had arrived is in the file. May be called twice."""
        if self._sock is not None:
            with self._sock as sock:
                self._sock = None
                send(sock, {"stop": True})
                receive_reply(sock)
        return self.path

    def __exit__(self, *_: object) -> None:
        self.stop()
