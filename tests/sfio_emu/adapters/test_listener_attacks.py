"""Denial of service: whatever strangers do, other clients are served soon, memory stays within its bound, and it is
logged."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from sfio_emu import ProtocolError, StripedFile, message_bodies, wire
from sfio_emu.adapters.listener_clients import LINES_AT_ONCE, PERIOD_S, LimitedLog, Limits
from sfio_emu.wire import Kind
from tests.helpers.listeners import Attacked, attacked, listening, session_of

SIZE = int(os.environ.get("SFIO_ATTACKERS", "1"))  # 1: a few seconds in all
MESSAGE = wire.encode_header(Kind.WRITE, 1, wire.encode_runs([1], [0], [1 << 20]), 1 << 20) + bytes(
    1 << 20
)
OPEN = wire.encode_header(Kind.OPEN, 0, message_bodies.encode_open("big"))


def trickle(it: Attacked, seconds: float) -> Callable[[], None]:
    """Clients that send a message byte by byte; returns what ends them."""
    streams = [it.knock() for _ in range(40 * SIZE)]
    for stream in streams:
        stream.sendall(MESSAGE[: wire.HEADER_BYTES])
    stop = threading.Event()

    def send() -> None:
        while not stop.wait(seconds):
            for stream in streams:
                with pytest.MonkeyPatch.context():
                    try:
                        stream.send(b"\0")
                    except OSError:
                        continue

    thread = threading.Thread(target=send)
    thread.start()

    def end() -> None:
        stop.set()
        thread.join()

    return end


def test_clients_that_send_byte_by_byte_lock_nobody_out(tmp_path: Path) -> None:
    with attacked(tmp_path) as it:
        end = trickle(it, 0.1)
        try:
            time.sleep(0.5)
            assert it.worst_s() < 1.0
        finally:
            end()


def test_half_messages_delay_nobody(tmp_path: Path) -> None:
    with attacked(tmp_path) as it:
        before = it.memory()
        for _ in range(100 * SIZE):
            it.knock().sendall(MESSAGE[: len(MESSAGE) // 2])
        time.sleep(0.5)
        assert it.worst_s() < 1.0
        assert it.memory() - before < 72 << 20


@pytest.mark.parametrize("size", [66_000, 100_000, 140_000])
def test_half_messages_delay_no_message_above_the_window(tmp_path: Path, size: int) -> None:
    with (
        attacked(tmp_path) as it
    ):  # the kernel grants what it is asked for, rounded down: the last bytes would never come
        for _ in range(40):
            it.knock().sendall(MESSAGE[: wire.HEADER_BYTES + 16])
        time.sleep(0.3)
        file = StripedFile.open("p1/another", 75, session=session_of(it.addresses, timeout_s=10))
        began_s = time.monotonic()
        file.pwrite(bytes(size), 0)
        assert time.monotonic() - began_s < 5.0


@pytest.mark.long
def test_reads_of_many_runs_that_nobody_takes_stay_within_the_memory(tmp_path: Path) -> None:
    memory = 8 << 20
    with attacked(tmp_path, "--memory", str(memory)) as it:
        it.worst_s(3)
        before = it.memory()
        runs = 65_000
        body = wire.encode_runs([1] * runs, [20_000 * number for number in range(runs)], [1] * runs)
        for _ in range(30 + 30 * SIZE):
            stream = it.knock()
            stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            stream.setblocking(False)
            stream.send(OPEN + wire.encode_header(Kind.READ, 1, body))
        time.sleep(1.5)
        assert it.memory() - before < memory + (16 << 20), (
            "and what one request takes while it is carried out"
        )


def test_a_path_of_a_megabyte_is_refused_at_once(tmp_path: Path) -> None:
    with attacked(tmp_path) as it:
        stream = it.knock()
        stream.sendall(wire.encode_header(Kind.OPEN, 1, message_bodies.encode_open("a/" * 500_000)))
        head = wire.decode_header(
            stream.recv(wire.HEADER_BYTES, socket.MSG_WAITALL), wire.MAX_LIMIT
        )
        assert head.kind == Kind.REFUSED
        assert b"where 4096 are allowed" in stream.recv(head.body_bytes, socket.MSG_WAITALL)
        assert it.worst_s(3) < 1.0
        assert "refused a message of 127.0.0.1" in it.log.read_text()


def test_without_descriptors_clients_are_turned_away_and_it_is_said(tmp_path: Path) -> None:
    with attacked(tmp_path, descriptors=80) as it:
        kept = StripedFile.open("p1/kept", 75, session=session_of(it.addresses, timeout_s=20))
        for _ in range(120):
            it.knock()
        time.sleep(0.3)
        start_s, used_s = time.monotonic(), sum(os.times()[:4])
        assert kept.pwrite(b"data", 0) == 4
        assert time.monotonic() - start_s < 1.0
        assert used_s >= 0
        text = it.log.read_text()
        assert "lost" in text or "turned away" in text
        assert len(text.splitlines()) < 4 * LINES_AT_ONCE
        assert it.worst_s(3) < 2.0, "those who have said nothing make room"


@pytest.mark.long
def test_a_client_with_costly_requests_does_not_hold_up_others(tmp_path: Path) -> None:
    with attacked(tmp_path) as it:
        runs = 5_000
        body = wire.encode_runs([1] * runs, [9000 * number for number in range(runs)], [1] * runs)
        message = wire.encode_header(Kind.WRITE, 1, body, runs) + bytes(runs)
        stop = threading.Event()

        def flood() -> None:
            stream = it.knock()
            stream.sendall(OPEN)
            try:
                while not stop.is_set():
                    stream.sendall(message)
            except OSError:
                return

        threads = [threading.Thread(target=flood) for _ in range(4)]
        for thread in threads:
            thread.start()
        try:
            time.sleep(0.5)
            assert it.worst_s(3, size=1000) < 3.0
        finally:
            stop.set()
            for stream in it.streams:
                stream.close()
            for thread in threads:
                thread.join()


def test_client_that_never_ends_a_message_is_disconnected(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    limits = Limits(greeting_s=0.4, grace_s=0.4)
    with listening(tmp_path, limits=limits) as addresses:
        with socket.create_connection(addresses["p1"], timeout=10) as silent:
            assert silent.recv(1) == b""
        with socket.create_connection(addresses["p1"], timeout=10) as slow:
            slow.sendall(OPEN)
            slow.recv(1000)
            slow.sendall(MESSAGE[:1000])
            assert slow.recv(1) == b""
        file = StripedFile.open("p1/a", 75, session=session_of(addresses))
        time.sleep(0.8)
        assert file.pwrite(b"idle between messages is no fault", 0) == 33
    assert "it has sent no complete message for 0.4 s" in caplog.text
    assert "its message arrives too slowly: 1000 bytes" in caplog.text


def test_a_listener_full_of_clients_says_so_and_serves_those_it_has(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with listening(tmp_path, limits=Limits(clients=3)) as addresses:
        sessions = [session_of(addresses) for _ in range(3)]
        files = [StripedFile.open("p1/a", 75, session=session) for session in sessions]
        for _ in range(3):
            with pytest.raises(
                ProtocolError,
                match="p1: it refused a message: it serves no more clients: 3 clients are",
            ):
                session_of(addresses).link("p1")
        assert all(file.pwrite(b"data", 0) == 4 for file in files)
        sessions[0].close()
        time.sleep(0.1)
        assert StripedFile.open("p1/a", 75, session=session_of(addresses)).pwrite(b"data", 0) == 4
    assert "3 clients are served already" in caplog.text


def test_too_many_open_files_are_an_error_of_the_open_alone(tmp_path: Path) -> None:
    from sfio_emu import RemoteFailure

    with listening(tmp_path, limits=Limits(files=2)) as addresses:
        session = session_of(addresses)
        first = StripedFile.open("p1/a;p1/b", 75, session=session)
        with pytest.raises(RemoteFailure, match="open of c: Too many open files"):
            StripedFile.open("p1/c", 75, session=session)
        first.close()
        StripedFile.open("p1/c", 75, session=session).close()


def test_a_lost_client_is_logged_and_one_that_ends_is_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with listening(tmp_path) as addresses:
        session = session_of(addresses)
        StripedFile.open("p1/a", 75, session=session).close()
        session.close()
        time.sleep(0.1)
        assert caplog.text == ""
        with socket.create_connection(addresses["p1"], timeout=10) as stream:
            stream.sendall(MESSAGE[:1000])
        time.sleep(0.2)
        assert "it disconnected in the middle of a message" in caplog.text


def test_a_flood_of_lines_is_counted_and_not_written(caplog: pytest.LogCaptureFixture) -> None:
    now = [0.0]
    log = LimitedLog(lambda: now[0])
    for port in range(1000):
        log.warn("refused", f"10.0.0.1:{port}", "text")
        log.warn("refused", "10.0.0.2:1", "text") if port < 2 else None
    assert len(caplog.records) == LINES_AT_ONCE + 2
    now[0] = PERIOD_S + 1
    log.warn("refused", "10.0.0.1:1", "text")
    assert "995 more such lines about clients at 10.0.0.1 were left out" in caplog.text
