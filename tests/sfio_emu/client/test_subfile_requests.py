"""What a listener does beside reading and writing: stat, list, rename, exclusive and read-only opens, layouts, sync; no
aliases."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from sfio_emu import RemoteFailure, Session, StripedFile, UsageError, message_bodies
from sfio_emu.adapters.listener_disk import RootedSubfiles
from sfio_emu.client.catalogue import (
    list_folder,
    rename_file,
    stat_paths,
    sync_subfiles,
)
from sfio_emu.client.opening import store_layouts
from sfio_emu.client.session import OpenSubfile
from sfio_emu.message_bodies import OpenFlag
from sfio_emu.names import SubfileName
from sfio_emu.wire import Kind
from tests.helpers.listeners import listener, session_of

A, B = SubfileName(host="p1", path="a"), SubfileName(host="p1", path="deep/b")


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    with listener(tmp_path, "p1") as (_, addresses):
        yield session_of(addresses)


def failed_with(number: int) -> object:
    return pytest.raises(RemoteFailure, match=os.strerror(number))


def test_a_layout_is_stored_with_a_new_subfile_and_kept(session: Session) -> None:
    opened = session.open([A, B])
    assert [one.opened.created for one in opened] == [True, True]
    store_layouts(session, opened, 75)
    layout = opened[0].opened.layout
    assert (
        layout[:3] == (75, 0, 2)
        and layout.file_id
        and opened[1].opened.layout == (75, 1, 2, layout.file_id)
    )
    again = session.open([B, A])
    store_layouts(session, again, 5)
    assert not again[1].opened.created and again[1].opened.layout == layout, "what is stored stays"
    assert stat_paths(session, [A])[0].layout == layout


def test_opens_as_they_are_asked_for(session: Session, tmp_path: Path) -> None:
    with failed_with(errno.ENOENT):  # type: ignore[attr-defined]
        session.open([A], OpenFlag(0))
    with failed_with(errno.ENOENT):  # type: ignore[attr-defined]
        session.open([B], OpenFlag.READ_ONLY)
    assert not session.open([B], OpenFlag.IF_THERE)[0].opened.handle
    assert list((tmp_path / "p1").iterdir()) == [], "nothing was made"
    assert session.open([A], OpenFlag.CREATE | OpenFlag.EXCLUSIVE)[0].opened.created
    with failed_with(errno.EEXIST):  # type: ignore[attr-defined]
        session.open([A], OpenFlag.CREATE | OpenFlag.EXCLUSIVE)
    (tmp_path / "p1/a").chmod(0o444)
    assert session.open([A], OpenFlag.READ_ONLY)[0].opened.size == 0


def test_a_refused_open_leaves_no_folders(session: Session, tmp_path: Path) -> None:
    with failed_with(errno.ENAMETOOLONG):  # type: ignore[attr-defined]
        session.open([A, SubfileName(host="p1", path="new/deeper/" + "x" * 300), B])
    assert list((tmp_path / "p1").iterdir()) == []


def opened(session: Session, *paths: str) -> list[OpenSubfile]:
    return session.open([SubfileName(host="p1", path=path) for path in paths])


def test_unmake_removes_created_subfiles_unless_they_are_used(
    session: Session, tmp_path: Path
) -> None:
    root = tmp_path / "p1"
    one, two, three = opened(session, "new/one/a", "new/two/b", "c")
    (root / "new/two/beside").touch()
    session.unmake([one, two])
    assert sorted(root.rglob("*")) == [
        root / "c",
        root / "new",
        root / "new/two",
        root / "new/two/beside",
    ]
    (root / "c").write_bytes(b"somebody wrote into it")
    session.unmake([three])
    (root / "old").touch()
    session.unmake(opened(session, "old"))
    made = opened(session, "a")
    (root / "a").unlink()
    (root / "a").touch()
    session.unmake(made)
    assert (root / "c").exists() and (root / "old").exists() and (root / "a").exists(), (
        "used, older, another file"
    )


def test_truncations_of_a_file_are_kept_while_anybody_has_it_open(tmp_path: Path) -> None:
    subfiles = RootedSubfiles(tmp_path)
    (first, _), (second, _), (other, _) = (
        subfiles.open(path, OpenFlag.CREATE) for path in ("a", "a", "b")
    )
    subfiles.note_cut(first, 5)
    assert [subfiles.cuts(file) for file in (first, second, other)] == [5, 5, 0]
    subfiles.close(first)
    third, _ = subfiles.open("a", OpenFlag.CREATE)
    assert subfiles.cuts(third) == subfiles.cuts(second) == 5
    for file in (second, third):
        subfiles.close(file)
    anew, _ = subfiles.open("a", OpenFlag.CREATE)
    assert subfiles.cuts(anew) == 0
    subfiles.close(anew)
    subfiles.close(other)
    subfiles.dispose()


def test_stat_and_list_and_rename(session: Session, tmp_path: Path) -> None:
    session.open([A, B])
    (tmp_path / "p1/a").write_bytes(b"12345")
    (tmp_path / "p1/pipe").unlink(missing_ok=True)
    os.mkfifo(tmp_path / "p1/pipe")
    assert stat_paths(session, [A])[0].size == 5
    with failed_with(errno.ENOENT):  # type: ignore[attr-defined]
        stat_paths(session, [SubfileName(host="p1", path="none")])
    found = [(entry.name, entry.kind, entry.size) for entry in list_folder(session, "p1", "")]
    assert found == [("a", "file", 5), ("deep", "folder", 0), ("pipe", "other", 0)]
    with failed_with(errno.EEXIST):  # type: ignore[attr-defined]
        rename_file(session, "p1/a", "p1/deep/b")
    rename_file(session, "p1/a", "p1/deep/b", replace=True)
    rename_file(session, "p1/deep/b", "p1/far/away/c")
    assert (tmp_path / "p1/far/away/c").read_bytes() == b"12345"
    assert [entry.name for entry in list_folder(session, "p1", "deep")] == []
    body = message_bodies.encode_pair(b"\0", "pipe", "q")
    with failed_with(errno.EINVAL):  # type: ignore[attr-defined]
        session.ask(SubfileName(host="p1", path="pipe"), Kind.RENAME, body, bytes)
    counts = session.take_errors()
    assert counts | {"lseek": 0} == dict.fromkeys(session.take_errors(), 0) | {
        "stat": 2,
        "rename": 1,
    }


def test_a_folder_of_many_names_is_listed_page_by_page(session: Session, tmp_path: Path) -> None:
    names = [f"{number:04}-{'x' * 200}" for number in range(500)]
    for name in names:
        (tmp_path / "p1" / name).touch()
    assert [entry.name for entry in list_folder(session, "p1", "")] == names


def test_only_plain_files_are_deleted(session: Session, tmp_path: Path) -> None:
    root = tmp_path / "p1"
    os.mkfifo(root / "pipe")
    (root / "link").symlink_to("pipe")
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(root / "socket"))
        for name in ("pipe", "link", "socket"):
            with failed_with(errno.EINVAL):  # type: ignore[attr-defined]
                session.link("p1")
                session.ask(SubfileName(host="p1", path=name), Kind.UNLINK, name.encode(), bytes)
    assert sorted(path.name for path in root.iterdir()) == ["link", "pipe", "socket"]


def test_synced_subfiles_and_one_that_is_not_there(session: Session, tmp_path: Path) -> None:
    both = session.open([A, B])
    sync_subfiles(session, both)
    (tmp_path / "p1/a").unlink()
    session.close()
    with failed_with(errno.ENOENT):  # type: ignore[attr-defined]
        sync_subfiles(session, both)


def test_subfiles_that_are_one_file_on_the_disk_are_refused(tmp_path: Path) -> None:
    with listener(tmp_path, "p1") as (_, addresses):
        root = tmp_path / "p1"
        (root / "a").touch()
        (root / "hard").hardlink_to(root / "a")
        session = session_of(addresses, {"alias": addresses["p1"]})
        for name in ("p1/a;p1/hard", "p1/c;alias/c"):
            with pytest.raises(
                UsageError, match="are one file on the disk: name each subfile once"
            ):
                StripedFile.open(name, 5, session=session)
        StripedFile.open("p1/c;alias/d", 5, session=session).close()
