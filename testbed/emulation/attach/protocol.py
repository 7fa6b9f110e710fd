"""Messages on a network's control socket.

A message is a frame: a JSON header, which bytes and descriptors may accompany.
"""

import json
import os
import socket
from collections.abc import Sequence
from typing import NamedTuple

from testbed import errors
from testbed.emulation.attach.exec_proxy import LENGTHS, exactly, send_message
from testbed.errors import MachineDiedError, SessionClosedError, TestbedError
from topologies import Json, JsonObject, TopologyError
from topologies import errors as topology_errors

_MAX_HEADER_BYTES = 1 << 24
_MAX_DESCRIPTORS = 8


def _error_classes() -> dict[str, type[Exception]]:
    """Return the errors that an answer may name, by name.

    MachineDiedError is not among them, because its fields are not in the answer.
    """
    classes: dict[str, type[Exception]] = {}
    for name, value in (vars(errors) | vars(topology_errors)).items():
        if not isinstance(value, type) or value is MachineDiedError:
            continue
        if issubclass(value, (TestbedError, TopologyError)):
            classes[name] = value
    return classes


_ERRORS = _error_classes()


class Frame(NamedTuple):
    """A message.

    Attributes:
        header: The JSON header.
        body: Bytes that follow the header.
        descriptors: Open files that came with the message; the receiver must close them.
    """

    header: JsonObject
    body: bytes = b""
    descriptors: tuple[int, ...] = ()

    def close(self) -> None:
        """Close the descriptors."""
        for number in self.descriptors:
            os.close(number)


def send(
    sock: socket.socket, header: Json, body: bytes = b"", descriptors: Sequence[int] = ()
) -> None:
    """Send a frame.

    Args:
        sock: The connection.
        header: The JSON header.
        body: Bytes that follow the header.
        descriptors: Open files to pass.

    Raises:
        SessionClosedError: The other end is closed.
    """
    try:
        send_message(sock, json.dumps(header).encode(), list(descriptors), body)
    except OSError as error:
        raise SessionClosedError(f"the network has gone ({error.strerror})") from None


def receive(sock: socket.socket) -> Frame | None:
    """Return the next frame, or None if the other end is closed.

    Raises:
        SessionClosedError: The data are not a frame.
    """
    descriptors: list[int] = []
    try:
        lengths = b""
        while len(lengths) < LENGTHS.size:
            missing = LENGTHS.size - len(lengths)
            part, received, _, _ = socket.recv_fds(sock, missing, _MAX_DESCRIPTORS)
            descriptors += received
            if not part:
                return None
            lengths += part
        header_bytes, body_bytes = LENGTHS.unpack(lengths)
        if header_bytes > _MAX_HEADER_BYTES:
            raise SessionClosedError(
                f"protocol error: a message with a header of {header_bytes} bytes; "
                "is the other process another version?"
            )
        header = json.loads(exactly(sock, header_bytes))
        return Frame(header, exactly(sock, body_bytes), tuple(descriptors))
    except (ConnectionError, EOFError):
        return None
    except (OSError, ValueError) as error:
        raise SessionClosedError(f"a message of the network could not be read ({error})") from None


def error_header(error: Exception) -> JsonObject:
    """Return the header of an answer that reports an error."""
    if isinstance(error, (TestbedError, TopologyError)):
        return {"error": type(error).__name__, "text": str(error)}
    return {
        "error": "SessionClosedError",
        "text": f"the network's process met an error: {type(error).__name__}: {error}",
    }


def checked(frame: Frame | None) -> Frame:
    """Return an answer, or raise the error that it reports.

    Raises:
        TestbedError: The reported error, or SessionClosedError if there is no answer.
    """
    if frame is None:
        raise SessionClosedError("the network has gone: its process ended")
    if "error" in frame.header:
        error_class = _ERRORS.get(frame.header["error"], SessionClosedError)
        raise error_class(frame.header["text"])
    return frame
