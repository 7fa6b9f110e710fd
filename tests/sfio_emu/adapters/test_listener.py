"""The listener's loop over real sockets: what one client does or meets does not reach another."""

from __future__ import annotations

import errno
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from sfio_emu import ListenerLost, RemoteFailure, Session, StripedFile, message_bodies, mlist, wire
from sfio_emu.adapters.environment import parse_listeners
from sfio_emu.adapters.listener_disk import RootedSubfiles
from sfio_emu.adapters.sockets import TcpConnections
from sfio_emu.client.catalogue import remove_subfiles
from sfio_emu.listener.ports import CallFailed
from sfio_emu.names import parse_file_name
from sfio_emu.wire import Kind
from tests.helpers.listeners import listener, listening, session_of


def test_listener_refuses_too_large_a_read_and_serves_others(
    tmp_path: Path,
) -> None:
    with listening(tmp_path) as addresses:
        file = StripedFile.open("p1/a", 5, session=session_of(addresses))
        with socket.create_connection(addresses["p1"], timeout=10) as stream:
            for number, kind, body in (
                (1, Kind.OPEN, message_bodies.encode_open("big")),
                (2, Kind.RESIZE, message_bodies.RESIZE.pack(1, 1 << 33, 7)),
                (3, Kind.READ, wire.encode_runs([1, 1], [0, 0], [0xFFFFFFFF, 0xFFFFFFFF])),
            ):
                stream.sendall(wire.encode_header(kind, number, body))
                head = wire.decode_header(
                    stream.recv(wire.HEADER_BYTES, socket.MSG_WAITALL), wire.MAX_LIMIT
                )
                if head.body_bytes:
                    stream.recv(head.body_bytes, socket.MSG_WAITALL)
        assert head.kind == Kind.REFUSED
        file.pwrite(b"alive", 0)
        assert file.pread(5, 0) == b"alive"


def test_an_error_of_one_connection_ends_that_one_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class FaultySubfiles(RootedSubfiles):
        def create(self, path: str) -> None:
            raise ZeroDivisionError("a mistake of the program")

    monkeypatch.setattr("sfio_emu.adapters.listener.RootedSubfiles", FaultySubfiles)
    with listening(tmp_path) as addresses:
        file = StripedFile.open("p1/a", 5, session=session_of(addresses))
        with socket.create_connection(addresses["p1"], timeout=10) as stream:
            stream.sendall(wire.encode_header(Kind.CREATE, 1, message_bodies.encode_path("b")))
            assert stream.recv(1) == b"", "its connection ends"
        file.pwrite(b"alive", 0)
        assert file.pread(5, 0) == b"alive"


def test_the_error_is_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(self: RootedSubfiles, path: str, flags: message_bodies.OpenFlag) -> tuple[int, bool]:
        raise ZeroDivisionError("a mistake of the program")

    monkeypatch.setattr(RootedSubfiles, "open", fail)
    with listening(tmp_path) as addresses, pytest.raises(ListenerLost):
        StripedFile.open("p1/a", 5, session=session_of(addresses))
    assert "ZeroDivisionError: a mistake of the program" in caplog.text


def test_a_refusal_is_read_before_the_connection_goes(tmp_path: Path) -> None:
    data = bytes(8 << 20)
    with listening(tmp_path) as addresses:
        for number in range(10):
            with socket.create_connection(addresses["p1"], timeout=10) as stream:
                stream.sendall(
                    wire.encode_header(
                        Kind.WRITE,
                        number,
                        wire.encode_runs([1], [0], [len(data)]),
                        len(data),
                        checked=True,
                    )
                )
                stream.sendall(data)  # the listener takes no more of it than it must
                head = wire.decode_header(
                    stream.recv(wire.HEADER_BYTES, socket.MSG_WAITALL), wire.MAX_LIMIT
                )
                assert (head.kind, head.sequence) == (Kind.REFUSED, 0)
                assert b"bytes where" in stream.recv(head.body_bytes, socket.MSG_WAITALL)
                assert stream.recv(1) == b""


def test_a_refused_client_that_goes_on_sending_is_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sfio_emu.adapters.listener.MAX_DRAIN_S", 0.2)
    with (
        listening(tmp_path) as addresses,
        socket.create_connection(addresses["p1"], timeout=10) as stream,
    ):
        stream.sendall(b"no message of this protocol, and never an end")
        with pytest.raises(OSError):  # broken pipe or reset
            while True:
                stream.sendall(bytes(1000))


def test_a_failed_read_names_the_path_of_its_subfile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: RootedSubfiles, file: int, piece: memoryview, offset: int) -> int:
        raise CallFailed("read", errno.EIO)

    with listening(tmp_path) as addresses:
        file = StripedFile.open("p1/a;p1/b", 5, session=session_of(addresses))
        file.pwrite(bytes(100), 0)
        monkeypatch.setattr(RootedSubfiles, "read", fail)
        with pytest.raises(RemoteFailure, match="p1: read of b: Input/output error"):
            file.pread(3, 6)
        with pytest.raises(RemoteFailure, match="p1: read of a: Input/output error"):
            file.preadv([bytearray(2), bytearray(3)], [0, 20])


def test_a_folder_is_served_by_one_listener_at_a_time(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "sfio_emu.adapters.listener",
        "--root",
        str(tmp_path),
        "--listen",
        "p1@127.0.0.1:0",
    ]
    with listener(tmp_path, "p1") as (process, _):
        second = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
        assert second.returncode == 2
        [line] = second.stderr.splitlines()
        assert f"{tmp_path}/p1 is served by another listener (process {process.pid})" in line
        for root, line in (
            (tmp_path, "a folder in {}"),
            (tmp_path / "p1" / "deep", "{}/p1, around {}/p1/deep/p1,"),
        ):
            command[4:] = [
                str(root),
                "--listen",
                "127.0.0.1:0" if root == tmp_path else "p1@127.0.0.1:0",
            ]
            second = subprocess.run(
                command, capture_output=True, text=True, timeout=20, check=False
            )
            said = f"{line.format(tmp_path, tmp_path)} is served by another listener (process {process.pid})"
            assert (second.returncode, said in second.stderr, second.stderr.count("\n")) == (
                2,
                True,
                1,
            )
    with listening(tmp_path / "p1") as addresses:  # what a killed listener held is free
        StripedFile.open("p1/a", 5, session=session_of(addresses)).close()
    with listening(tmp_path / "p1"):  # and what a closed one held
        pass


def test_names_are_the_same_bytes_whatever_the_locale(tmp_path: Path) -> None:
    narrow = ("env", "LC_ALL=C", "PYTHONUTF8=0", "PYTHONCOERCECLOCALE=0")
    with listener(tmp_path, "p1", before=narrow) as (_, addresses):
        session = session_of(addresses)
        for name in ("Zürich/東京", "Zürich/\udcff"):
            with StripedFile.open(f"p1/{name}", 5, session=session) as file:
                file.pwrite(b"alive", 0)
            assert (tmp_path / "p1" / name).read_bytes() == b"alive"
        assert [entry.name for entry in mlist("p1/Zürich", session)] == ["東京", "\udcff"]
        remove_subfiles(session, parse_file_name("p1/Zürich/東京"))
        assert not (tmp_path / "p1" / "Zürich" / "東京").exists()


@pytest.mark.skipif(not Path("/proc/net/if_inet6").exists(), reason="this kernel has no IPv6")
def test_an_address_of_ipv6_is_in_brackets(tmp_path: Path) -> None:
    words = [
        sys.executable,
        "-m",
        "sfio_emu.adapters.listener",
        "--root",
        str(tmp_path),
        "--listen",
        "[::1]:0",
    ]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said, place = process.stdout.readline().split()
        assert (said, place.rpartition(":")[0]) == ("listening", "[::1]")
        session = Session(TcpConnections(parse_listeners(f"p1={place}")))
        with StripedFile.open("p1/a", 5, session=session) as file:
            file.pwrite(b"alive", 0)
        process.kill()
    assert (tmp_path / "a").read_bytes() == b"alive"


def test_a_listener_that_cannot_print_its_addresses_does_not_start(tmp_path: Path) -> None:
    words = [
        sys.executable,
        "-m",
        "sfio_emu.adapters.listener",
        "--root",
        str(tmp_path),
        "--listen",
        "127.0.0.1:0",
    ]
    with open("/dev/full", "w") as full:
        ran = subprocess.run(
            words, stdout=full, stderr=subprocess.PIPE, text=True, timeout=20, check=False
        )
    assert "the listener cannot start: [Errno 28]" in ran.stderr and "Traceback" not in ran.stderr
