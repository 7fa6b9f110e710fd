"""When a client gives up a listener that is silent: within its time, and not for one lost question."""

from __future__ import annotations

import socket

import pytest

from sfio_emu.adapters.sockets import watch_listener


@pytest.mark.parametrize(
    ("timeout_s", "questions"),
    [(0.5, 1), (2.0, 1), (8.0, 4), (12.0, 4), (133.0, 4), (36_000.0, 4), (900_000.0, 4)],
)
def test_a_silent_listener_is_probed_more_than_once_where_there_is_time(
    timeout_s: float, questions: int
) -> None:
    with socket.socket() as stream:
        watch_listener(stream, timeout_s)
        names = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
        idle_s, step_s, count = (stream.getsockopt(socket.IPPROTO_TCP, name) for name in names)
    assert count >= questions
    assert idle_s + step_s * count <= max(2, timeout_s)
