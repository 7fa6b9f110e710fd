"""Sends requests to a network of another process.

Each request has a connection of its own, so that threads do not wait for each other. If the
connection is closed early, by Ctrl-C or a kill, the request is cancelled.
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

_PROXY = Path(__file__).with_name("exec_proxy.py")


def send_request(
    name: str, header: Json, body: bytes = b"", report_progress: ReportProgress | None = None
) -> Frame:
    """Send a request to a network, and return the answer.

    Args:
        name: Name of the network.
        header: The request; ``do`` names it.
        body: Bytes that follow the request.
        report_progress: Called with the progress that the network reports before the answer.

    Raises:
        TestbedError: The error in the answer, or SessionClosedError if the network ends.
    """
    with connect(name) as sock:
        send(sock, header, body)
        return receive_reply(sock, report_progress)


def receive_reply(sock: socket.socket, report_progress: ReportProgress | None = None) -> Frame:
    """Return the next answer that is not a report of progress.

    Args:
        sock: The connection to the network.
        report_progress: Called with the progress that is reported before.

    Raises:
        TestbedError: The error in the answer, or SessionClosedError if the network ends.
    """
    while True:
        frame = checked(receive(sock))
        progress = frame.header.get("progress")
        if progress is None:
            return frame
        if report_progress is not None:
            report_progress(Progress(done_s=progress[0], total_s=progress[1], doing=progress[2]))


def program_argv(
    name: str,
    host: str,
    argv: Sequence[str],
    env: Mapping[str, str] | None = None,
    *,
    cwd: str | Path = ".",
    **marks: bool,
) -> list[str]:
    """Return the command line of a local process that represents a program in a host.

    Args:
        name: Name of the network.
        host: The node in which the program runs.
        argv: The program and its arguments.
        env: Environment variables of the program in addition to the sandbox's.
        cwd: Working directory of the program.
        marks: ``end_point`` as for ``host_processes.run_program``. ``owned``: the caller has built
            the network, so the process ends without a message if the network is taken down.

    Raises:
        InputError: This user has no running network of this name.
    """
    program = {"host": host, "argv": list(argv), "env": dict(env or {}), **marks}
    header = {"do": "exec", "cwd": str(Path(cwd).absolute()), **program}
    return [sys.executable, "-I", "-S", str(_PROXY), control_address(name), json.dumps(header)]


def exec_program(name: str, host: str, argv: Sequence[str]) -> None:
    """Replace this process by one that represents a program in a host; do not return.

    Args:
        name: Name of the network.
        host: The node in which the program runs.
        argv: The program and its arguments.
    """
    proxy_argv = program_argv(name, host, argv)
    # The new program would not write what is in the buffers.
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(proxy_argv[0], proxy_argv)


class Recording(AbstractContextManager["Recording"]):
    """A recording of the packets that arrive over a link, until ``stop``; a context manager.

    Args:
        name: Name of the network.
        link: The link.
        path: The pcap file.

    Attributes:
        path: The pcap file.
    """

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
        """End the recording, and return the path of the file; may be called twice.

        The file contains every packet that has arrived.
        """
        if self._sock is not None:
            with self._sock as sock:
                self._sock = None
                send(sock, {"stop": True})
                receive_reply(sock)
        return self.path

    def __exit__(self, *_: object) -> None:
        self.stop()
