"""Opening as POSIX and MPI do, the layout that is kept with a file, and a striped file as a file of Python."""

from __future__ import annotations

import errno
import io
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sfio_emu import PeerError, RemoteFailure, Session, StripedFile, UsageError
from sfio_emu.adapters.peers.group_server import GroupServer
from sfio_emu.adapters.process_group import SocketGroup
from sfio_emu.positioned_file import FILE_MODES
from sfio_emu.views.mpi_file import MpiFile
from tests.helpers.listeners import listener, session_of
from tests.helpers.striped_nodes import Nodes
from tests.sfio_emu.views.test_views_on_striped_files import in_every_process

NAME = "p1/a;p2/deep/b"
Open = Callable[..., StripedFile]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Open]:
    nodes = Nodes(tmp_path, ("p1", "p2"))
    session = session_of(nodes.places)
    yield lambda mode="rw", name=NAME, unit=5: StripedFile.open(
        name, unit, mode=mode, session=session
    )
    nodes.close()


def failure(number: int, host: str) -> Any:
    return pytest.raises(RemoteFailure, match=f"{host}: open of .*{os.strerror(number)}")


def test_only_modes_that_create_make_anything(opened: Open, tmp_path: Path) -> None:
    for mode in ("r", "rb", "r+"):
        with failure(errno.ENOENT, "p1"):
            opened(mode)
    assert list((tmp_path / "p1").iterdir()) == [] == list((tmp_path / "p2").iterdir())
    for mode in ("w", "wb", "w+", "x", "x+", "a", "a+b", "rw"):
        opened(mode, name=f"p1/{mode};p2/{mode}").close()
        assert (tmp_path / "p1" / mode).exists() and (tmp_path / "p2" / mode).exists()
    for mode in ("rwx", "", "W", None, 5, "r++"):
        with pytest.raises(UsageError, match=r"the mode is .*: give one of 'rw', 'r', "):
            opened(mode)


def test_exclusive_opening_succeeds_once_and_leaves_nothing_of_a_refusal(
    opened: Open, tmp_path: Path
) -> None:
    (tmp_path / "p2" / "deep").mkdir()
    (tmp_path / "p2" / "deep" / "b").write_bytes(b"there")
    with failure(errno.EEXIST, "p2"):
        opened("x")
    assert not (tmp_path / "p1" / "a").exists()
    assert (tmp_path / "p2" / "deep" / "b").read_bytes() == b"there"
    (tmp_path / "p2" / "deep" / "b").unlink()
    with opened("x+") as file:
        file.pwrite(b"mine", 0)
    with failure(errno.EEXIST, "p1"):
        opened("x")


def test_a_refused_opening_deletes_what_it_made(opened: Open, tmp_path: Path) -> None:
    """Also the folders on another host than the one that refused, but none that somebody else has put something
    into."""
    (tmp_path / "p2" / "deep").write_text("a file, where a folder is wanted")
    with failure(errno.ENOTDIR, "p2"):
        opened()
    assert not (tmp_path / "p1" / "a").exists()
    (tmp_path / "p1" / "there").mkdir()
    with failure(errno.ENOTDIR, "p2"):
        opened(name="p1/there/new/deeper/a;p2/deep/b")
    assert list((tmp_path / "p1").rglob("*")) == [tmp_path / "p1" / "there"]


def test_a_session_has_a_file_open_for_reading_and_for_writing(opened: Open) -> None:
    with opened() as file, opened("r") as same:
        file.pwrite(b"Good*morning!", 0)
        assert same.pread(13, 0) == b"Good*morning!"
        for act in (
            lambda: same.pwrite(b"x", 0),
            lambda: same.truncate(3),
            lambda: same.write_fragments(b"x", 0),
        ):
            with pytest.raises(UsageError, match="opened for reading only"):
                act()
        file.pwrite(b"G", 0)


def test_a_file_below_a_folder_that_cannot_be_written_is_read(tmp_path: Path) -> None:
    words = (
        "unshare",
        "--mount",
        "sh",
        "-c",
        'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && exec "$@"',
    )
    if subprocess.run([*words, str(tmp_path), "true"], check=False, capture_output=True).returncode:
        pytest.skip("a read-only mount cannot be made here")
    with (
        listener(tmp_path, "p1") as (_, place),
        StripedFile.open("p1/a", 5, session=session_of(place)) as file,
    ):
        file.pwrite(b"Good*morning!", 0)
    with listener(tmp_path, "p1", before=(*words, str(tmp_path))) as (_, place):
        session = session_of(place)
        with StripedFile.open("p1/a", 5, mode="r", session=session) as file:
            assert file.read() == b"Good*morning!"
        with pytest.raises(RemoteFailure) as caught:
            StripedFile.open("p1/a", 5, session=session)
        assert caught.value.errno == errno.EROFS


def test_new_layout_is_allowed_for_empty_files_only(opened: Open) -> None:
    with opened() as file:
        file.pwrite(b"Good*morning!", 0)
    refusals = (
        (
            NAME,
            7,
            "p1/a was written as subfile 1 of 2 in units of 5 bytes, and is opened as subfile 1 of 2 in units of 7",
        ),
        (
            "p2/deep/b;p1/a",
            5,
            "p2/deep/b was written as subfile 2 of 2 .* and is opened as subfile 1 of 2",
        ),
        ("p1/a", 5, "p1/a was written as subfile 1 of 2 .* and is opened as subfile 1 of 1"),
    )
    for name, unit, said in refusals:
        for mode in ("rw", "r", "r+", "a"):
            with pytest.raises(UsageError, match=said):
                opened(mode, name=name, unit=unit)
    with opened("w+", unit=7) as file:
        assert file.size() == 0
        file.pwrite(b"Good*morning!", 0)
    with opened("r", unit=7) as file:
        assert file.read() == b"Good*morning!"


def test_writing_goes_to_the_end_where_it_is_appended(opened: Open) -> None:
    with opened("a") as file, opened("a+") as other:
        file.write(b"one,")
        other.write(b"two,")
        file.write(b"three")
        assert (file.tell(), other.tell()) == (13, 8)
        with pytest.raises(UsageError, match="opened for writing only"):
            file.read(3)
        other.seek(0)
        assert other.read() == b"one,two,three"


def test_processes_open_exclusively_together_and_are_refused_together(tmp_path: Path) -> None:
    def act(rank: int, session: Session) -> object:
        told = []
        for mode in ("x+", "x", "w+", "r+"):
            try:
                with StripedFile.open(NAME, 5, mode=mode, session=session) as file:
                    told.append(file.size())
                    session.group.barrier()
                    if rank == 1 and file.writable():
                        file.pwrite(b"four", 0)
            except PeerError as error:
                told.append(str(error).replace("process 0: its open (the subfiles) failed: ", ""))
        return told

    assert in_every_process(tmp_path, 3, act) == [[0, "p1: open of a: File exists", 0, 4]] * 3


def test_mpi_modes_are_mpis(tmp_path: Path) -> None:
    def act(rank: int, session: Session) -> object:
        with pytest.raises(PeerError, match="No such file"):
            MpiFile.open(NAME, 5, mode="r", session=session)
        with MpiFile.open(NAME, 5, mode="x", session=session) as file:
            file.write_at_all(4 * rank, b"abcd")
        with pytest.raises(PeerError, match="File exists"):
            MpiFile.open(NAME, 5, mode="x", session=session)
        with MpiFile.open(NAME, 5, mode="a", session=session) as file:
            assert (file.position, file.position_shared) == (8, 8)
            file.write_ordered(bytes([65 + rank]))
        file = MpiFile.open(
            NAME, 5, mode="w", session=session
        )  # not cut: that is Python's mode, not MPI's
        with pytest.raises(UsageError, match="opened for writing only"):
            file.read_at(0, bytearray(3))
        file.close()
        with MpiFile.open(NAME, 5, mode="r", session=session) as file:
            back = bytearray(20)
            assert file.read_at_all(0, back) == 10
        return bytes(back[:10])

    assert in_every_process(tmp_path, 2, act) == [b"abcdabcdAB"] * 2


def test_a_striped_file_is_a_raw_file_of_python(opened: Open) -> None:
    assert isinstance(opened("w"), io.RawIOBase)
    with opened("w") as raw, io.BufferedWriter(raw, 50) as writer:
        assert (raw.readable(), raw.writable(), raw.seekable(), raw.mode) == (
            False,
            True,
            True,
            "wb",
        )
        for number in range(100):
            writer.write(f"line {number}\n".encode())
    assert raw.closed
    raw = opened("r")
    assert (raw.readable(), raw.writable(), raw.name) == (True, False, NAME)
    with io.BufferedReader(raw) as reader:
        assert reader.readline() == b"line 0\n"
        assert reader.peek(4)[:4] == b"line"
        assert sum(1 for _ in reader) == 99
        reader.seek(-8, io.SEEK_END)
        assert reader.read() == b"line 99\n"[-8:]
    with io.TextIOWrapper(io.BufferedRandom(opened("r+")), encoding="utf-8") as text:
        assert text.readlines()[5] == "line 5\n"
        text.seek(0)
        text.write("LINE")
        text.truncate(6)
    with opened("r") as raw:
        assert raw.readall() == b"LINE 0" and raw.readall() == b""
        with pytest.raises(OSError, match="fileno"):
            raw.fileno()
    assert set(FILE_MODES) == {"rw", "r", "r+", "w", "w+", "x", "x+", "a", "a+"}


def test_truncating_to_the_position(opened: Open) -> None:
    with opened() as file:
        file.write(b"0123456789")
        file.seek(4)
        assert file.truncate() == 4
        assert file.pread(10, 0) == b"0123"


def test_a_forgotten_file_closes_nothing_for_the_others(tmp_path: Path) -> None:
    with (
        listener(tmp_path, "p1") as (_, first),
        GroupServer(f"unix:{tmp_path}/group", 1) as server,
        SocketGroup.join(server.address, 0, 1, 10) as group,
    ):
        session = Session(session_of(first).connections, group)
        StripedFile.open("p1/a", 5, session=session)  # forgotten: no collective call may come of it
        assert group.all_gather(b"in step") == [b"in step"]


def test_lines_of_a_raw_file_are_not_read_byte_by_byte(opened: Open) -> None:
    lines = [b"a" * 300 + b"\n", b"\n", b"b" * 20_000 + b"\n", b"the end"]
    with opened("w+", unit=700) as raw:
        raw.write(b"".join(lines))
        raw.seek(0)
        before = raw.counters.messages
        assert list(raw) == lines and raw.counters.messages - before < 40
        raw.seek(10)
        assert raw.readline(20) == b"a" * 20 and raw.tell() == 30


def test_nothing_that_is_appended_moves_nothing(opened: Open) -> None:
    opened("w").write(b"0123")
    with opened("a+") as raw:
        raw.seek(1)
        assert raw.write(b"") == 0 and raw.read(1) == b"1"
