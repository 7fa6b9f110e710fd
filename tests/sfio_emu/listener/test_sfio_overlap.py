"""Disk and network work at the same time: while a call of the disk stands still, later messages cross the network."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sfio_emu import Session, Settings, StripedFile
from sfio_emu.adapters.listener import Listener, open_listening_socket
from sfio_emu.adapters.listener_disk import RootedSubfiles
from sfio_emu.adapters.sockets import TcpConnections
from tests.helpers.listeners import proxy

MESSAGE_BYTES, MESSAGES = 32_768, 12


class Gate:
    """A disk whose calls stand still while it is shut; `entered` tells that one of them has come."""

    def __init__(self) -> None:
        self.open, self.entered, self.calls = threading.Event(), threading.Event(), 0
        self.open.set()

    def pass_through(self) -> None:
        self.calls += 1
        if not self.open.is_set():
            self.entered.set()
            assert self.open.wait(20)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Gate:
    made = Gate()

    class GatedSubfiles(RootedSubfiles):
        def write(self, file: int, piece: memoryview, offset: int) -> int:
            made.pass_through()
            return super().write(file, piece, offset)

    monkeypatch.setattr("sfio_emu.adapters.listener.RootedSubfiles", GatedSubfiles)
    return made


@contextmanager
def counted_way(root: Path) -> Iterator[tuple[dict[str, tuple[str, int]], list[int]]]:
    """A listener of p1 in a thread, and a way to it that counts what the client has sent."""
    root.mkdir(exist_ok=True)
    listening = open_listening_socket("127.0.0.1", 0)
    listener = Listener([(listening, root)])
    thread = threading.Thread(target=listener.serve_forever)
    thread.start()
    sent = [0]

    def count(part: bytes, place: int) -> bytes:
        sent[0] = place + len(part)
        return part

    try:
        with proxy(listening.getsockname(), count) as way:
            yield {"p1": way}, sent
    finally:
        listener.close()
        thread.join()


def eventually(holds: Callable[[], bool], limit_s: float) -> bool:
    give_up_s = time.monotonic() + limit_s
    while not holds() and time.monotonic() < give_up_s:
        time.sleep(0.01)
    return holds()


def sent_while_the_disk_stands_still(
    root: Path, gate: Gate, settings: Settings, limit_s: float, enough: int
) -> int:
    """Bytes that cross the network during the first call of the disk; the write must end when the disk goes on."""
    with counted_way(root) as (addresses, sent):
        session = Session(TcpConnections(addresses, timeout_s=30), settings=settings)
        file = StripedFile.open("p1/a", 75, session=session)
        data = bytes(range(256)) * (MESSAGE_BYTES * MESSAGES // 256)
        gate.open.clear()
        before = sent[0]
        writing = threading.Thread(target=lambda: file.pwrite(data, 0))
        writing.start()
        try:
            assert gate.entered.wait(20)
            eventually(lambda: sent[0] - before >= enough, limit_s)
            crossed = sent[0] - before
            assert gate.calls == 1 and writing.is_alive(), "the disk is at its first call"
        finally:
            gate.open.set()
            writing.join()
        assert file.pread(len(data), 0) == data
        session.close()
        return crossed


def test_later_messages_are_transferred_during_disk_work_on_the_first(
    tmp_path: Path, gate: Gate
) -> None:
    settings = Settings(message_bytes=MESSAGE_BYTES, window=4)
    enough = 3 * MESSAGE_BYTES
    assert sent_while_the_disk_stands_still(tmp_path / "root", gate, settings, 20, enough) >= enough


def test_without_a_pipeline_the_network_waits_for_the_disk(tmp_path: Path, gate: Gate) -> None:
    settings = Settings(message_bytes=MESSAGE_BYTES, pipeline=False)
    crossed = sent_while_the_disk_stands_still(
        tmp_path / "root", gate, settings, 0.3, MESSAGE_BYTES + 1
    )
    assert crossed <= MESSAGE_BYTES
