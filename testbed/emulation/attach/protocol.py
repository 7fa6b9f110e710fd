"""One message on a network's door: a JSON header, bytes that may follow it, and descriptors that may come with it."""

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

_MAX_HEADER, _MAX_DESCRIPTORS = 1 << 24, 8
_ERRORS = {
    name: kind
    for name, kind in (vars(errors) | vars(topology_errors)).items()
    if isinstance(kind, type)
    and issubclass(kind, (TestbedError, TopologyError))
    and kind is not MachineDiedError
}
"""What an answer may raise here; of a machine that died only its holder knows more than the words."""


class Frame(NamedTuple):
    """``descriptors`` belong to whoever received the frame."""

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
    """Raises SessionClosedError where nobody is there any more."""
    try:
        send_message(sock, json.dumps(header).encode(), list(descriptors), body)
    except OSError as error:
        raise SessionClosedError(f"the network has gone ({error.strerror})") from None


def receive(sock: socket.socket) -> Frame | None:
    """The next frame, None where the other end has closed. Raises SessionClosedError for a frame that is none."""
    descriptors: list[int] = []
    try:
        head = b""
        while len(head) < LENGTHS.size:
            part, found, _, _ = socket.recv_fds(sock, LENGTHS.size - len(head), _MAX_DESCRIPTORS)
            descriptors += found
            if not part:
                return None
            head += part
        length, size = LENGTHS.unpack(head)
        if length > _MAX_HEADER:
            raise SessionClosedError(
                f"protocol error: a message with a header of {length} bytes; is the other process another version?"
            )
        header = json.loads(exactly(sock, length))
        return Frame(header, exactly(sock, size), tuple(descriptors))
    except (ConnectionError, EOFError):
        return None
    except (OSError, ValueError) as error:
        raise SessionClosedError(f"a message of the network could not be read ({error})") from None


def error_header(error: Exception) -> JsonObject:
    """The answer that says what went wrong."""
    if isinstance(error, (TestbedError, TopologyError)):
        return {"error": type(error).__name__, "text": str(error)}
    return {
        "error": "SessionClosedError",
        "text": f"the network's process met an error: {type(error).__name__}: {error}",
    }


def checked(frame: Frame | None) -> Frame:
    """The frame; raises what it says went wrong, and SessionClosedError where there is none."""
    if frame is None:
        raise SessionClosedError("the network has gone: its process ended")
    if "error" in frame.header:
        raise _ERRORS.get(frame.header["error"], SessionClosedError)(frame.header["text"])
    return frame
