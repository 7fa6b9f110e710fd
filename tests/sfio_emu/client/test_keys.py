"""Who may speak: a listener with a key serves nobody without it, and a client with a key speaks to no stranger;
versions told apart."""

from __future__ import annotations

import socket
import struct
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from sfio_emu import ProtocolError, Session, StripedFile, message_bodies, wire
from sfio_emu.adapters.sockets import TcpConnections
from sfio_emu.wire import Kind
from tests.helpers.listeners import Addresses, listening

KEY, OTHER = b"k" * 32, b"o" * 32


@pytest.fixture(params=[KEY, None], ids=["with a key", "without"])
def place(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[tuple[Addresses, bytes | None]]:
    with listening(tmp_path, key=request.param) as addresses:
        yield addresses, request.param


@pytest.mark.parametrize("key", [KEY, OTHER, None])
def test_only_those_with_the_same_key_speak_to_each_other(
    place: tuple[Addresses, bytes | None], key: bytes | None
) -> None:
    addresses, theirs = place
    session = Session(TcpConnections(addresses, key=key))
    if key == theirs:
        assert StripedFile.open("p1/a", 5, session=session).pwrite(b"data", 0) == 4
        return
    why = "requires the key of its run" if key is None else "does not have the key of this run"
    for _ in range(2):
        with pytest.raises(ProtocolError, match=f"p1: its listener {why}"):
            StripedFile.open("p1/a", 5, session=session)


def answer_to(stream: socket.socket, kind: int, body: bytes) -> tuple[int, bytes]:
    stream.sendall(wire.encode_header(kind, 1, body))
    head = wire.decode_header(stream.recv(wire.HEADER_BYTES, socket.MSG_WAITALL), wire.MAX_LIMIT)
    return head.kind, stream.recv(head.body_bytes, socket.MSG_WAITALL)


@pytest.mark.parametrize("kind", [Kind.OPEN, Kind.UNLINK, Kind.ERRORS, Kind.KEY, Kind.WRITE])
def test_a_stranger_is_told_and_dropped_whatever_it_says(tmp_path: Path, kind: Kind) -> None:
    (tmp_path / "a").write_bytes(b"kept")
    with (
        listening(tmp_path, key=KEY) as addresses,
        socket.create_connection(addresses["p1"], timeout=10) as stream,
    ):
        answer_to(stream, Kind.HELLO, bytes(16))
        body = {
            Kind.OPEN: message_bodies.encode_open("a"),
            Kind.KEY: bytes(32),
            Kind.WRITE: wire.encode_runs([1], [0], [0]),
        }
        found, said = answer_to(stream, kind, body.get(kind, b"a"))
        assert found == Kind.REFUSED
        assert b"key" in said
        assert stream.recv(1) == b""
    assert (tmp_path / "a").read_bytes() == b"kept"


def test_an_old_proof_is_of_no_use(tmp_path: Path) -> None:
    from sfio_emu import authentication

    with listening(tmp_path, key=KEY) as addresses:
        said = []
        for _ in range(2):
            with socket.create_connection(addresses["p1"], timeout=10) as stream:
                welcome = message_bodies.Welcome.decode(
                    memoryview(answer_to(stream, Kind.HELLO, bytes(16))[1])
                )
                said.append(welcome)
                kind, _ = answer_to(
                    stream, Kind.KEY, authentication.proof(KEY, "client", bytes(16), said[0].nonce)
                )
                assert kind == (Kind.DONE if len(said) == 1 else Kind.REFUSED)
        assert authentication.proof(KEY, "listener", bytes(16), said[0].nonce) == said[0].proof


def test_a_client_of_an_older_version_is_told_so_in_one_line(tmp_path: Path) -> None:
    with (
        listening(tmp_path) as addresses,
        socket.create_connection(addresses["p1"], timeout=10) as stream,
    ):
        head = struct.pack("<4sBBH4I", b"SFIO", 2, 1, 0, 1, 0, 0, 0)
        stream.sendall(head + struct.pack("<I", zlib.crc32(head)))
        head_back = wire.decode_header(
            stream.recv(wire.HEADER_BYTES, socket.MSG_WAITALL), wire.MAX_LIMIT
        )
        said = stream.recv(head_back.body_bytes, socket.MSG_WAITALL).decode()
        assert (
            said
            == f"version 2 of the protocol; this side speaks version {wire.VERSION}: update the older one"
        )


def test_a_listener_of_an_older_version_is_told_apart(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as door:
        session = Session(TcpConnections({"p1": door.getsockname()}))

        def answer() -> None:
            with door.accept()[0] as stream:
                stream.recv(wire.HEADER_BYTES + 16, socket.MSG_WAITALL)
                head = struct.pack("<4sBBH4I", b"SFIO", 2, 130, 0, 1, 5, 0, zlib.crc32(b"hello"))
                stream.sendall(head + struct.pack("<I", zlib.crc32(head)) + b"hello")
                with suppress(ConnectionResetError):
                    stream.recv(1)

        import threading

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(
            ProtocolError,
            match=f"version 2 of the protocol; this side speaks version {wire.VERSION}",
        ):
            session.link("p1")
        thread.join()
