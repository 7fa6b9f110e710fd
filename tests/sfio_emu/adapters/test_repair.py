"""After a full disk, or a client that died while it appended: what is said of the file, and how it becomes whole."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from sfio_emu import PeerError, RemoteFailure, Session, StripedFile, use
from sfio_emu.adapters.repair import main
from sfio_emu.adapters.sockets import TcpConnections
from sfio_emu.ports import Connection, Conversation
from tests.helpers.listeners import listener, session_of

NAME = "p1/a;p2/a"


@pytest.mark.parametrize(("way", "size"), [("--cut", 30), ("--fill", 95)])
def test_a_file_that_a_client_left_half_written_is_made_whole(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], way: str, size: int
) -> None:
    with listener(tmp_path, "p1") as (_, first), listener(tmp_path, "p2") as (_, second):
        session = session_of(first, second)
        use(session)
        with StripedFile.open(NAME, 10, session=session) as file:
            file.pwrite(bytes(range(1, 101)), 0)
            assert file.extent() == (100, 100, 100) and file.extent().whole
        assert main([NAME]) == 0
        os.truncate(
            tmp_path / "p1" / "a", 45
        )  # as after a death between the messages to two I/O nodes
        os.truncate(tmp_path / "p2" / "a", 10)
        assert main([NAME]) == 1
        said = capsys.readouterr().out.splitlines()
        assert said[0] == f"{NAME}: 100 bytes, complete"
        assert said[1].endswith(
            "55 bytes in its subfiles, readable without a gap up to byte 30, its last byte at 84: these are not the sizes of"
            " one file; give --cut or --fill"
        )
        with StripedFile.open(NAME, 10, session=session) as file:
            assert file.size() == 55 and len(file.pread(100, 0)) == 30  # what the tool is for
        assert main([NAME, way]) == 0
        with StripedFile.open(NAME, 10, session=session) as file:
            assert file.size() == (30 if way == "--cut" else 85) == len(file.pread(200, 0))
            assert file.pread(20, 0) == bytes(range(1, 21))
            if way == "--fill":
                assert file.pread(25, 60) == bytes(range(61, 71)) + bytes(10) + bytes(range(81, 86))
        assert main([NAME]) == 0
        assert main(["p1/none;p2/none"]) == 2
        assert "open" in capsys.readouterr().err or size
        use(None)


def test_a_file_is_repaired_among_the_processes_of_a_group(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with listener(tmp_path, "p1") as (_, places):
        StripedFile.open("p1/a", 10, session=session_of(places)).close()
        address = f"p1=127.0.0.1:{places['p1'][1]}"
        for name, value in {
            "LISTENERS": address,
            "RANK": "1",
            "SIZE": "2",
            "GROUP": f"unix:{tmp_path}/no",
        }.items():
            monkeypatch.setenv(f"SFIO_{name}", value)
        use(None)
        assert main(["p1/a"]) == 0  # it does not wait for the others
    assert capsys.readouterr().out == "p1/a: 0 bytes, complete\n"


class _Killed(BaseException):
    """No client notices its own death."""


class _DyingConnections(TcpConnections):
    """``dying``: the client dies when the first node has had its message, and the others have not."""

    dying = False

    def carry(
        self, conversations: Sequence[tuple[Connection, Conversation]]
    ) -> Mapping[str, PeerError]:
        if not self.dying:
            return super().carry(conversations)
        super().carry(conversations[:1])
        raise _Killed


@pytest.mark.parametrize("size", [100, 50_000], ids=["in a message", "in many"])
@pytest.mark.parametrize("again", [True, False], ids=["the write is repeated", "another appends"])
def test_appender_that_dies_between_two_nodes_loses_nothing_acknowledged(
    tmp_path: Path, size: int, again: bool
) -> None:
    """Neither node knows of the other's message: that one had its part and one had not is seen by the sizes alone."""
    with listener(tmp_path, "p1") as (_, first), listener(tmp_path, "p2") as (_, second):
        connections, acknowledged = _DyingConnections(first | second), bytes(range(1, 101))
        file = StripedFile.open(NAME, 10, session=Session(connections))
        file.pwrite(acknowledged, 0)
        connections.dying = True
        with pytest.raises(_Killed):
            file.pwrite(b"a" * size, 100)
        other = StripedFile.open(NAME, 10, session=session_of(first, second))
        found = other.extent()
        assert not found.whole and 100 <= found.readable < found.end <= 100 + size
        assert other.pread(100, 0) == acknowledged
        with pytest.warns(RuntimeWarning, match="not complete"):
            other.pwrite(b"a" * size, 100 if again else found.end)
        assert other.extent().whole
        assert other.pread(100, 0) == acknowledged
        there = other.pread(size, 100)
        assert set(there) == set(b"a" if again else b"a\0"), (
            "what the dead client had not sent is zeros"
        )


def test_a_full_disk_says_how_much_was_done_and_is_repaired(tmp_path: Path) -> None:
    with (
        listener(tmp_path, "p1") as (_, first),
        listener(tmp_path, "p2", limit_bytes=4096) as (_, second),
    ):
        session = session_of(first, second)
        use(session)
        file = StripedFile.open(NAME, 1000, session=session)
        with pytest.raises(
            RemoteFailure, match="p2: write of a: File too large, after 4096 bytes"
        ) as caught:
            file.pwrite(b"x" * 20_000, 0)
        assert (caught.value.errno, caught.value.done_bytes) == (errno.EFBIG, 4096)
        assert not file.extent().whole
        assert main([NAME, "--cut"]) == 0
        assert file.size() == len(file.pread(20_000, 0)) == 9096
        file.close()
        use(None)


def test_a_file_without_a_layout_wants_its_stripe_unit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with listener(tmp_path, "p1") as (_, first):
        use(session_of(first))
        (tmp_path / "p1" / "plain").write_bytes(b"abc")
        assert main(["p1/plain"]) == 2
        assert main(["p1/plain", "--stripe-unit", "5"]) == 0
        told = capsys.readouterr()
        assert told.err == "repair: no stripe unit is stored with the file: give --stripe-unit\n"
        assert told.out == "p1/plain: 3 bytes, complete\n"
        assert main(["p1/plain", "--stripe-unit", "0"]) == 2
        use(None)


def test_a_subfile_without_its_attributes_is_taken_as_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with listener(tmp_path, "p1") as (_, first), listener(tmp_path, "p2") as (_, second):
        use(session_of(first, second))
        with StripedFile.open(NAME, 10) as file:
            file.pwrite(bytes(range(1, 101)), 0)
        os.removexattr(
            tmp_path / "p2" / "a", "user.sfio.layout"
        )  # as a copy that was put back has it
        assert main([NAME]) == 1
        assert capsys.readouterr().out.startswith(
            f"{NAME}: nothing is stored with p2/a, a copy without"
        )
        assert main([NAME, "--fill"]) == 0
        with StripedFile.open(NAME, 10, mode="r") as file:
            assert file.read() == bytes(range(1, 101))
        (tmp_path / "p2" / "a").unlink()
        os.mkfifo(tmp_path / "p2" / "a")
        capsys.readouterr()
        assert main([NAME, "--cut"]) == 2 == main([NAME])
        assert (
            capsys.readouterr().err == 2 * "repair: p2/a is not a subfile but a pipe: name a file\n"
        )
        use(None)
