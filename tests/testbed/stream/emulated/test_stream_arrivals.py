"""Arrival times at the emulated stream's sink are the kernel's, not those of a process that was kept waiting."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from testbed.stream.emulated.ends import Arrivals, discard_until


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sink,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as source,
    ):
        sink.bind(("127.0.0.1", 0))
        source.connect(sink.getsockname())
        yield source, sink


def test_datagrams_that_lay_in_the_socket_keep_the_time_at_which_they_came(
    pair: tuple[socket.socket, socket.socket], timely: Callable[[Callable[[], str | None]], None]
) -> None:
    source, sink = pair

    def run() -> str | None:
        arrivals = Arrivals(sink, 100)
        start = time.monotonic()
        assert arrivals.waiting(start) == []
        sent_s = []
        for number in range(3):
            before = time.monotonic() - start
            source.send(bytes([number]))
            sent_s.append((before, time.monotonic() - start))
            time.sleep(0.02)
        before = time.monotonic() - start
        got = arrivals.waiting(start)
        after = time.monotonic() - start
        assert [data for _, data in got] == [b"\0", b"\1", b"\2"]
        assert arrivals.waiting(start) == []
        assert got[-1][0] < before - 0.01  # the time of the socket, not of who took it out
        off = [
            at
            for (low, high), (at, _) in zip(sent_s, got, strict=True)
            if not low - 0.001 <= at <= high + 0.001
        ]
        if off:
            return f"datagrams stamped at {off}, sent within {sent_s}"
        low, high = before - sent_s[0][1] - 0.001, after - sent_s[0][0] + 0.001
        return (
            None
            if low <= arrivals.worst_lag_s <= high
            else f"lag {arrivals.worst_lag_s}, not in {low} to {high}"
        )

    timely(run)


def test_arrivals_are_read_in_batches_without_long_datagrams(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    source, sink = pair
    arrivals = Arrivals(sink, 10)
    for _ in range(arrivals.limit + 3):
        source.send(bytes(50))
    assert [len(arrivals.waiting(0.0)) for _ in range(3)] == [arrivals.limit, 3, 0]
    source.send(bytes(50))
    assert len(arrivals.waiting(0.0)[0][1]) != 10


def test_arrivals_before_the_start_are_discarded_but_not_the_first_packet(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    """The first packet may be there before the process that waits for it is woken."""
    source, sink = pair
    sink.setblocking(False)
    start_s = time.monotonic() + 0.3
    source.send(b"warm up")
    first = threading.Timer(start_s - 0.01 - time.monotonic(), source.send, [b"first"])
    first.start()
    discard_until(start_s, sink)
    first.join()
    assert time.monotonic() >= start_s
    assert sink.recv(100) == b"first"
