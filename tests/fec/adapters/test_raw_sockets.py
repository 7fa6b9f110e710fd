"""Frames and datagrams through real descriptors: a pair of local sockets stands for the wire."""

from __future__ import annotations

import errno
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from fec.adapters.raw_sockets import (
    DatagramReceiver,
    FrameSender,
    Messages,
    RowReceiver,
    socket_drops,
)
from fec.adapters.scapy_layer import FrameTemplate
from fec.protocol.sender import OutgoingPacket


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with a, b:
        b.setblocking(False)
        yield a, b


@pytest.fixture(scope="module")
def template() -> FrameTemplate:
    return FrameTemplate(
        src_mac="02:00:00:00:00:01",
        dst_mac="02:00:00:00:00:02",
        src_ip="10.0.0.1",
        dst_ip="10.0.0.2",
    )


def packets(count: int, size: int = 300) -> list[OutgoingPacket]:
    return [
        OutgoingPacket(0.0, (i * 40503) % 65536, bytes([i % 256]) * size, 0, i, 22)
        for i in range(count)
    ]


def test_the_frames_that_the_template_describes_arrive_in_order(
    pair: tuple[socket.socket, socket.socket], template: FrameTemplate
) -> None:
    sender, receiver = FrameSender(pair[0], template), DatagramReceiver(pair[1], limit=5)
    got = []
    for batch in (packets(7), packets(3, size=90), packets(10)[5:]):
        for packet in batch:
            sender.send(packet.label, packet.data)
        while frames := receiver.receive():
            assert len(frames) <= 5
            got += frames
    expected = [*packets(7), *packets(3, size=90), *packets(10)[5:]]
    assert got == [template.frame(p.label, p.data) for p in expected]


class RefusingSocket:
    """Answers as a packet socket does while its interface drops or is down."""

    def __init__(self, number: int) -> None:
        self._number = number

    def sendmsg(self, buffers: object) -> int:
        raise OSError(self._number, "refused")


def test_a_frame_that_the_interface_drops_is_lost_and_counted(template: FrameTemplate) -> None:
    for number in (errno.ENOBUFS, errno.ENETDOWN):
        sender = FrameSender(RefusingSocket(number), template)  # type: ignore[arg-type]
        sender.send(1, b"payload")
        assert sender.refused == 1
    with pytest.raises(OSError):
        FrameSender(RefusingSocket(errno.ENXIO), template).send(1, b"payload")  # type: ignore[arg-type]


def test_nothing_waiting_is_an_empty_list_at_once(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    assert DatagramReceiver(pair[1]).receive() == []


def test_a_closed_socket_is_an_error(pair: tuple[socket.socket, socket.socket]) -> None:
    receiver = DatagramReceiver(pair[1])
    pair[1].close()
    with pytest.raises(OSError):
        receiver.receive()


def wait_for_stamps(receiver: DatagramReceiver, a: socket.socket, b: socket.socket) -> None:
    """The first socket that asks makes the kernel begin to stamp, some time later; till then reading counts as
    arrival."""
    for _ in range(500):
        a.sendto(b"is it on?", b.getsockname())
        time.sleep(0.02)
        assert receiver.receive() == [b"is it on?"]
        if receiver.arrival_times_s(1)[0] < time.time() - 0.015:
            return
    pytest.fail("the kernel does not stamp datagrams")


def test_the_kernel_tells_when_datagrams_arrived() -> None:
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as a,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as b,
    ):
        b.bind(("127.0.0.1", 0))
        receiver = DatagramReceiver(b, timestamps=True)
        wait_for_stamps(receiver, a, b)
        for _ in range(2):  # the second time with control lengths that the kernel has shortened
            before = time.time()
            a.sendto(b"one", b.getsockname())
            time.sleep(0.02)
            a.sendto(b"two", b.getsockname())
            assert receiver.receive() == [b"one", b"two"]
            first, second = receiver.arrival_times_s(2)
            assert before - 1e-3 <= first <= second - 0.02 + 1e-3
            assert second <= time.time() + 1e-3


def test_datagrams_that_found_the_buffer_full_are_counted() -> None:
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as a,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as b,
    ):
        b.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        b.bind(("127.0.0.1", 0))
        assert socket_drops(b) == 0
        for _ in range(100):
            a.sendto(bytes(1000), b.getsockname())
        assert 50 < socket_drops(b) < 100


def bound_to(address: str) -> socket.socket:
    found = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    found.bind((address, 0))
    return found


def test_only_the_peers_datagrams_are_taken_and_keep_their_times() -> None:
    with ExitStack() as stack:
        own, peer, other = (stack.enter_context(bound_to(f"127.0.0.{k}")) for k in (1, 2, 3))
        receiver = DatagramReceiver(own, timestamps=True, peer="127.0.0.2")
        for number, sock in enumerate((other, peer, other, peer, peer)):
            sock.sendto(bytes([number]), own.getsockname())
            time.sleep(0.002)
        assert receiver.receive() == [b"\1", b"\3", b"\4"]
        assert receiver.foreign == 2
        times = receiver.arrival_times_s(3)
        assert len(times) == 3 and times == sorted(times)
        other.sendto(b"x", own.getsockname())
        assert receiver.receive() == [] and receiver.foreign == 3
        assert receiver.arrival_times_s(0) == []


def test_rows_leave_whole_and_in_order_and_those_refused_are_counted(
    pair: tuple[socket.socket, socket.socket],
    template: FrameTemplate,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sender, receiver = FrameSender(pair[0], template), DatagramReceiver(pair[1], limit=64)
    rows = np.arange(5 * 50, dtype=np.uint8).reshape(5, 50)
    sender.send_rows(Messages(rows), np.zeros(4))
    assert receiver.receive() == [row.tobytes() for row in rows[:4]]

    send, answers = Messages.send, iter([errno.EINTR, errno.ENOBUFS, 0, errno.ENXIO])

    def refusing(messages: Messages, sock: socket.socket, first: int, stop: int) -> int:
        if number := next(answers):
            raise OSError(number, "refused")
        return send(messages, sock, first, first + 2)

    monkeypatch.setattr(Messages, "send", refusing)
    with pytest.raises(OSError, match="refused") as told:
        sender.send_rows(Messages(rows), np.zeros(5))
    assert told.value.errno == errno.ENXIO and sender.refused == 1
    assert receiver.receive() == [row.tobytes() for row in rows[1:3]]


def test_the_peers_datagrams_come_into_rows_with_their_lengths_and_times() -> None:
    with ExitStack() as stack:
        own, peer, other = (stack.enter_context(bound_to(f"127.0.0.{k}")) for k in (1, 2, 3))
        rows, lengths, times = np.zeros((6, 10), np.uint8), np.zeros(6, np.int64), np.zeros(6)
        batch: Any = SimpleNamespace(rows=rows, lengths=lengths, times=times)
        receiver = RowReceiver(own, batch, "127.0.0.2")
        assert receiver.receive() == 0
        for _ in range(2):  # the second time with lengths that the kernel has shortened
            before = time.time()
            for number, sock in enumerate((other, peer, other, peer, peer)):
                sock.sendto(bytes([number] * (3 * number + 1)), own.getsockname())
            assert receiver.receive() == 3
            assert [rows[k, : lengths[k]].tolist() for k in range(3)] == [
                [1] * 4,
                [3] * 10,
                [4] * 10,
            ]
            assert np.all(np.diff([before - 1e-3, *times[:3], time.time() + 1e-3]) >= 0)
        assert receiver.foreign == 4
        for _ in range(8):
            peer.sendto(b"x", own.getsockname())
        assert [receiver.receive() for _ in range(3)] == [6, 2, 0]
        own.close()
        with pytest.raises(OSError):
            receiver.receive()


@pytest.mark.parametrize("rows", [False, True])
def test_larger_queue_takes_all_packets_before_the_last(rows: bool) -> None:
    """Foreign datagrams fill a batch, too."""
    with ExitStack() as stack:
        own, peer, other = (stack.enter_context(bound_to(f"127.0.0.{k}")) for k in (1, 2, 3))
        batch: Any = SimpleNamespace(
            rows=np.zeros((4, 10), np.uint8), lengths=np.zeros(4, np.int64), times=np.zeros(4)
        )
        plain = DatagramReceiver(own, limit=4, timestamps=True, peer="127.0.0.2")
        receiver = RowReceiver(own, batch, "127.0.0.2") if rows else plain
        for sock in (peer, other, other, other, peer):
            sock.sendto(b"x", own.getsockname())
        between = time.time()
        time.sleep(0.01)
        for sock in (other, other, other, peer):
            sock.sendto(b"x", own.getsockname())
        count = int if rows else len
        assert count(receiver.receive()) == 1 and between - 1 < receiver.until_s <= between  # type: ignore[arg-type]
        assert count(receiver.receive()) == 1 and between < receiver.until_s <= time.time()  # type: ignore[arg-type]
        assert count(receiver.receive()) == 1 and receiver.until_s == np.inf  # type: ignore[arg-type]
        assert count(receiver.receive()) == 0 and receiver.until_s == np.inf  # type: ignore[arg-type]
