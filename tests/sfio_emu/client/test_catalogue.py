"""Striped files by name: what they are, which there are, renamed and deleted as a whole or not at all."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from sfio_emu import (
    Layout,
    ListenerLost,
    RemoteFailure,
    Session,
    StripedFile,
    UsageError,
    mcreate,
    mdelete,
    merror,
    mexists,
    mlist,
    mrename,
    mstat,
    use,
)
from tests.helpers.listeners import listener, listening, session_of
from tests.helpers.striped_nodes import Nodes

NAME = "p1/runs/a;p2/runs/a"


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Nodes]:
    """Two listeners; the session of the process knows both."""
    running = Nodes(tmp_path, ("p1", "p2"))
    use(session_of(running.places))
    yield running
    use(None)
    running.close()


def write(name: str, data: bytes, unit: int = 5) -> None:
    with StripedFile.open(name, unit) as file:
        file.pwrite(data, 0)


def test_a_file_is_what_all_its_subfiles_are(nodes: object, tmp_path: Path) -> None:
    assert not mexists(NAME)
    with pytest.raises(RemoteFailure, match="No such file") as caught:
        mstat(NAME)
    assert caught.value.errno == errno.ENOENT
    write(NAME, b"Good*morning!")
    found = mstat(NAME)
    assert (found.size, found.layout, found.whole) == (13, Layout(stripe_unit=5, subfiles=2), True)
    assert found.modified_ns == max(
        (tmp_path / host / "runs" / "a").stat().st_mtime_ns for host in ("p1", "p2")
    )
    assert mexists(NAME) and not mexists("p1/runs/a;p2/runs/b") and not mexists("p1/runs;p2/runs")
    with pytest.raises(
        UsageError, match="p2/runs/a is subfile 2 of 2 of its file, here it is 1 of 2"
    ):
        mstat("p2/runs/a;p1/runs/a")
    with pytest.raises(UsageError, match="p1/runs is not a subfile but a folder"):
        mstat("p1/runs;p2/runs")
    os.truncate(tmp_path / "p1" / "runs" / "a", 0)
    assert not mstat(NAME).whole
    (tmp_path / "p1" / "plain").write_bytes(b"abc")
    assert mstat("p1/plain").layout is None


def test_files_are_listed_that_have_a_subfile_in_every_folder(
    nodes: object, tmp_path: Path
) -> None:
    write(NAME, b"Good*morning!")
    write("p1/runs/b;p2/runs/b", b"abc")
    (tmp_path / "p1" / "runs" / "alone").write_bytes(b"abc")
    (tmp_path / "p1" / "runs" / "odd").mkdir()
    (tmp_path / "p2" / "runs" / "odd").write_bytes(b"")
    write("p1/runs/deep/c;p2/runs/deep/c", b"")
    assert [(e.name, e.size, e.folder) for e in mlist("p1/runs;p2/runs")] == [
        ("a", 13, False), ("b", 3, False), ("deep", 0, True),
    ]  # fmt: skip
    assert (
        [entry.name for entry in mlist("p1/.;p2/.")]
        == ["runs"]
        == [entry.name for entry in mlist("p1/;p2/")]
    )
    assert [entry.name for entry in mlist("p1/runs")] == ["a", "alone", "b", "deep", "odd"]
    with pytest.raises(RemoteFailure, match="No such file"):
        mlist("p1/none;p2/none")
    with pytest.raises(UsageError, match="the folders are a str"):
        mlist(None)  # type: ignore[arg-type]


def test_a_file_is_renamed_as_a_whole_or_not_at_all(nodes: Nodes, tmp_path: Path) -> None:
    write(NAME, b"Good*morning!")
    mrename(NAME, "p1/other/b;p2/other/c")
    with StripedFile.open("p1/other/b;p2/other/c", 5, mode="r") as file:
        assert file.read() == b"Good*morning!"
    write(NAME, b"new")
    for replace in (False, True):
        (tmp_path / "p2" / "there").mkdir(exist_ok=True)
        with pytest.raises(RemoteFailure, match="File exists"):
            mrename(NAME, "p1/there;p2/there", replace=replace)
    with pytest.raises(RemoteFailure, match="File exists"):
        mrename(NAME, "p1/other/b;p2/other/c")
    mrename(NAME, "p1/other/b;p2/other/c", replace=True)
    assert mstat("p1/other/b;p2/other/c").size == 3 and not mexists(NAME)
    with pytest.raises(UsageError, match="with the same hosts in the same order"):
        mrename("p1/other/b;p2/other/c", "p2/other/c;p1/other/b")
    # the second node refuses: the first gets its name back
    (tmp_path / "p2" / "blocked").write_bytes(b"a file where a folder is wanted")
    with pytest.raises(RemoteFailure):
        mrename("p1/other/b;p2/other/c", "p1/blocked/b;p2/blocked/c")
    assert mstat("p1/other/b;p2/other/c").size == 3
    nodes.stop("p2")
    with pytest.raises(ListenerLost, match="p2"):
        mrename("p1/other/b;p2/other/c", "p1/last;p2/last")
    assert (tmp_path / "p1" / "other" / "b").exists()


def test_nothing_is_deleted_where_a_host_does_not_answer(nodes: Nodes, tmp_path: Path) -> None:
    write(NAME, b"Good*morning!")
    nodes.stop("p2")
    with pytest.raises(ListenerLost, match="p2"):
        mdelete(NAME)
    with pytest.raises(ListenerLost, match="p2"):
        mcreate(NAME)  # would have emptied the first
    assert (tmp_path / "p1" / "runs" / "a").read_bytes() == b"Good*ng!"


def test_only_plain_files_are_deleted_and_nothing_beside_one_that_is_none(
    nodes: object, tmp_path: Path
) -> None:
    for root in (tmp_path / "p1", tmp_path / "p2"):
        (root / "a").write_bytes(b"abc")
    (tmp_path / "p2" / "link").symlink_to("a")
    os.mkfifo(tmp_path / "p2" / "pipe")
    (tmp_path / "p2" / "folder").mkdir()
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(tmp_path / "p2" / "socket"))
        for name, kind in (
            ("link", "a symbolic link"),
            ("pipe", "a pipe"),
            ("folder", "a folder"),
            ("socket", "a socket"),
        ):
            with pytest.raises(
                UsageError, match=f"p2/{name} is not a subfile but {kind}: nothing is deleted"
            ):
                mdelete(f"p1/a;p2/{name}")
    assert (tmp_path / "p1" / "a").exists()
    assert sorted(path.name for path in (tmp_path / "p2").iterdir()) == [
        "a",
        "folder",
        "link",
        "pipe",
        "socket",
    ]


def test_half_a_file_is_deleted_and_the_missing_half_is_the_error(
    nodes: object, tmp_path: Path
) -> None:
    (tmp_path / "p2" / "a").write_bytes(b"abc")
    merror()
    with pytest.raises(RemoteFailure, match="p1: unlink of a: No such file"):
        mdelete("p1/a;p2/a")
    assert not (tmp_path / "p2" / "a").exists()
    assert merror()["unlink"] == 1


def test_names_are_asked_for_over_a_session_that_is_given(tmp_path: Path) -> None:
    with listener(tmp_path, "p1") as (_, one):
        session: Session = session_of(one)
        StripedFile.open("p1/a", 5, session=session).close()
        assert mexists("p1/a", session) and mstat("p1/a", session).size == 0
        assert [entry.name for entry in mlist("p1/.", session)] == ["a"]


def test_subfiles_are_not_renamed_over_one_another(nodes: object, tmp_path: Path) -> None:
    write("p1/one;p1/two", b"Good*morning!")
    for new in ("p1/two;p1/one", "p1/two;p1/three"):
        with pytest.raises(UsageError, match="the old name of another"):
            mrename("p1/one;p1/two", new, replace=True)
    mrename("p1/one;p1/two", "p1/three;p1/two")
    assert mstat("p1/three;p1/two").size == 13


def test_names_of_dots_are_folders_and_not_the_root(nodes: object) -> None:
    write("p1/.../...;p2/.../...", b"abc")
    assert [entry.name for entry in mlist("p1/...;p2/...")] == ["..."]
    assert [entry.name for entry in mlist("p1/./;p2/.//.")] == ["..."]
    with pytest.raises(UsageError, match="leaves the root"):
        mlist("p1/..;p2/..")


def test_nothing_is_created_where_a_subfile_would_be_a_folder(
    nodes: object, tmp_path: Path
) -> None:
    (tmp_path / "p1" / "a").mkdir()
    write("p2/a", b"kept")
    for name in ("p1/a;p2/a", "p1/a;p2/b"):
        with pytest.raises(RemoteFailure, match="p1: creat of a: Is a directory"):
            mcreate(name)
    assert mstat("p2/a").size == 4 and not mexists("p2/b")


def test_a_file_may_have_the_time_of_any_clock() -> None:
    with TemporaryDirectory(dir="/dev/shm") as folder, listening(Path(folder)) as addresses:
        session, subfile = session_of(addresses), Path(folder) / "a"
        for mtime_ns in (-(10**19), 0, 2**63 - 1):
            subfile.write_bytes(b"abc")
            os.utime(subfile, ns=(mtime_ns, mtime_ns))
            if subfile.stat().st_mtime_ns != mtime_ns:
                pytest.skip("the file system has no time before 1677")
            assert mstat("p1/a", session).modified_ns == max(mtime_ns, -(2**63))
