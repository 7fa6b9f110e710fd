"""The ends of a metapath take datagrams of each other's address only, and count the others."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import pytest

from fec.adapters.raw_sockets import DatagramReceiver, FrameSender
from testbed.metapath.emulated.endpoints import Steering, _prepare_sink, _prepare_source
from testbed.metapath.emulated.fabric import health_of
from testbed.metapath.judgement import judge_metapaths
from testbed.metapath.wire import encode_packet
from testbed.stream.emulated.ends import Arrivals
from tests.testbed.metapath.test_metapath_verdict import _plan
from tests.testbed.metapath.test_metapath_verdict import _run as measured

PEER, OTHER = "127.0.0.2", "127.0.0.3"
SHORT = replace(_plan(), faults=(), duration_s=0.8)


class NoFrames:
    refused = 0

    def send(self, label: int, payload: bytes) -> None:
        pass


FRAMES = cast(FrameSender, NoFrames())


class Listening(Steering):
    def __init__(self) -> None:
        super().__init__()
        self.reports: list[bytes] = []

    def on_report(self, data: bytes, now_s: float) -> None:
        self.reports.append(data)


@dataclass
class SimpleEnd:
    foreign: int
    worst_lag_s: float = 0.0
    socket_drops: int = 0


@pytest.fixture
def own() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        sock.setblocking(False)
        yield sock


def send_later(own: socket.socket, datagrams: Sequence[tuple[str, bytes]]) -> threading.Timer:
    def send() -> None:
        for address, data in datagrams:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
                sock.bind((address, 0))
                sock.sendto(data, own.getsockname())

    timer = threading.Timer(0.3, send)
    timer.start()
    return timer


def test_the_sink_takes_packets_of_its_source_only(own: socket.socket) -> None:
    packets = [encode_packet(number, 0, 0.0, 64) for number in range(4)]
    run = _prepare_sink(SHORT, FRAMES, (own, Arrivals(own, 64, peer=PEER)), ())
    timer = send_later(
        own, [(PEER, packets[0]), (OTHER, packets[3]), (PEER, packets[1]), (OTHER, b"")]
    )
    result = run(time.monotonic() + 0.1)
    timer.join()
    assert result.log.number.tolist() == [0, 1]
    assert result.foreign == 2


def test_the_source_takes_reports_of_its_sink_only(own: socket.socket) -> None:
    steering, (here, there) = Listening(), socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with here, there:
        told = DatagramReceiver(own, peer=PEER)
        run = _prepare_source(SHORT, steering, FRAMES, (own, told, there), 0.0, ())
        timer = send_later(own, [(OTHER, b"forged"), (PEER, b"report")])
        result = run(time.monotonic() + 0.1)
        timer.join()
    assert steering.reports == [b"report"]
    assert result.foreign == 1


def test_the_verdict_tells_of_datagrams_of_others() -> None:
    plan = _plan()
    ends: Any = [SimpleEnd(foreign=2), SimpleEnd(foreign=1)]
    run = replace(measured(plan), health=health_of(ends[0], ends[1], 0.1))
    (note,) = judge_metapaths(plan, run).verdict.notes
    assert note.startswith("3 datagrams came from other addresses")
