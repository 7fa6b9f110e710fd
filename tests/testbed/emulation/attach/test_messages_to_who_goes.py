"""A request is sent whole although whoever answers it has done so, and gone, before its sender comes to the next
line."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from testbed.emulation.attach import exec_proxy, protocol

SENDERS: dict[str, Callable[[socket.socket], None]] = {
    "request": lambda sock: protocol.send(sock, {"do": "exec"}, descriptors=[0, 1, 2]),
    "stand-in": lambda sock: exec_proxy.send_message(sock, b'{"do": "exec"}', [0, 1, 2]),
}


@pytest.mark.parametrize("sender", SENDERS)
def test_program_that_answers_and_exits_is_not_too_early(
    sender: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program in a host that ends at once: its exit code is on the way back before the last line of sending."""
    ours, theirs = socket.socketpair()
    send_fds = socket.send_fds

    def answered(sock: socket.socket, parts: Sequence[Any], descriptors: Sequence[int]) -> int:
        sent = send_fds(sock, parts, list(descriptors))
        frame = protocol.receive(theirs)
        assert frame is not None and frame.header == {"do": "exec"}
        frame.close()
        protocol.send(theirs, {"code": 7})
        theirs.close()
        return sent

    monkeypatch.setattr(socket, "send_fds", answered)
    with ours:
        SENDERS[sender](ours)
        answer = protocol.receive(ours)
        assert answer is not None and answer.header == {"code": 7}
