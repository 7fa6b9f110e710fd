"""Folders of many names: every name once, in pages, without holding up whoever reads and writes beside it."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfio_emu import RemoteFailure, Session, StripedFile, mlist
from sfio_emu.adapters.listener_disk import RootedSubfiles
from sfio_emu.client.catalogue import list_folder, make_folder, remove_folder
from sfio_emu.listener.operations import Operations
from sfio_emu.listener.reader import BufferPool
from sfio_emu.message_bodies import Entry, decode_entries
from sfio_emu.names import SubfileName
from tests.helpers.listeners import attacked, listening, session_of
from tests.helpers.memory_files import MemoryFiles
from tests.helpers.striped_nodes import Nodes

LISTING = """
import sys, time
from sfio_emu import Session, mlist
from sfio_emu.adapters.sockets import TcpConnections
session = Session(TcpConnections({"p1": ("127.0.0.1", int(sys.argv[1]))}))
for _ in range(3):
    started_s = time.monotonic()
    assert len(mlist("p1/big", session)) == 100_000
    print(time.monotonic() - started_s, flush=True)
"""


class NamesOnly(MemoryFiles):
    def __init__(self, names: list[str]) -> None:
        super().__init__()
        self.names = sorted(names)

    def list_folder(self, path: str, after: str) -> Iterator[Entry]:
        return (Entry(name, "file", len(name)) for name in self.names if name > after)


@settings(max_examples=30, deadline=None)
@given(
    st.sets(
        st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=60), max_size=300
    )
)
def test_every_name_is_in_one_page_in_its_order(names: set[str]) -> None:
    pool = BufferPool(1 << 16, 4096)
    operations = Operations(NamesOnly(list(names)), pool, sieve=True)
    found: list[str] = []
    more = True
    while more:
        body = bytes(operations._page("", found[-1] if found else "").body)
        assert len(body) <= 4096
        entries, more = decode_entries(memoryview(body))
        assert entries or not more
        found += [entry.name for entry in entries]
    assert found == sorted(names)


def test_a_folder_is_read_once_for_all_its_pages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import os

    names = [f"{number:04}-{'x' * 200}" for number in range(1000)]
    (tmp_path / "d").mkdir()
    for name in names:
        (tmp_path / "d" / name).touch()
    scanned, scandir = [], os.scandir
    monkeypatch.setattr(os, "scandir", lambda here: scanned.append(here) or scandir(here))  # type: ignore[func-returns-value]
    with listening(tmp_path) as addresses:
        session = session_of(addresses)
        pages = list_folder(session, "p1", "d")
        assert next(pages).name == names[0]
        (tmp_path / "d" / names[-1]).unlink()  # gone meanwhile: told as what it is no more
        entries = list(pages)
        assert [entry.name for entry in entries] == names[1:] and entries[-1].kind == "other"
        assert len(scanned) == 1
        assert len(list(list_folder(session, "p1", "d"))) == 999 and len(scanned) == 2


def test_others_are_served_while_a_folder_is_read(tmp_path: Path) -> None:
    begun, go_on = threading.Event(), threading.Event()

    class Slow(RootedSubfiles):
        def list_folder(self, path: str, after: str) -> Iterator[Entry]:
            begun.set()
            assert go_on.wait(20)
            return super().list_folder(path, after)

    with listening(tmp_path, subfiles=Slow) as addresses:
        found: list[object] = []
        thread = threading.Thread(target=lambda: found.append(mlist("p1/.", session_of(addresses))))
        thread.start()
        assert begun.wait(10)
        with StripedFile.open("p1/a", 75, session=session_of(addresses)) as file:
            assert file.pwrite(b"x" * 1000, 0) == 1000 and file.pread(3, 0) == b"xxx"
        assert not found
        go_on.set()
        thread.join()
        assert len(found) == 1


def test_folders_are_made_and_removed_on_all_hosts_or_on_none(tmp_path: Path) -> None:
    nodes = Nodes(tmp_path, ("p1", "p2"))
    session: Session = session_of(nodes.places)
    folders = [SubfileName(host=host, path="d") for host in nodes.hosts]

    def there() -> list[bool]:
        return [(tmp_path / host / "d").is_dir() for host in nodes.hosts]

    (tmp_path / "p2" / "d").touch()
    with pytest.raises(RemoteFailure, match="p2: mkdir of d: File exists"):
        make_folder(session, folders)
    assert there() == [False, False]
    (tmp_path / "p2" / "d").unlink()
    make_folder(session, folders)
    (tmp_path / "p2" / "d" / "full").touch()
    with pytest.raises(RemoteFailure, match="p2: rmdir of d: Directory not empty"):
        remove_folder(session, folders)
    assert there() == [True, True]
    (tmp_path / "p2" / "d" / "full").unlink()
    remove_folder(session, folders)
    assert there() == [False, False]
    counts = session.take_errors()
    assert (counts["mkdir"], counts["rmdir"]) == (1, 1)
    nodes.close()


def test_half_made_or_removed_folder_is_completed(
    tmp_path: Path,
) -> None:
    nodes = Nodes(tmp_path, ("p1", "p2"))
    session: Session = session_of(nodes.places)
    folders = [SubfileName(host=host, path="half") for host in nodes.hosts]
    places = [tmp_path / host / "half" for host in nodes.hosts]
    for place in places:
        place.mkdir()
        make_folder(session, folders)
        assert all(one.is_dir() for one in places)
        place.rmdir()
        remove_folder(session, folders)
        assert not any(one.exists() for one in places)
    with pytest.raises(RemoteFailure, match="No such file"):
        remove_folder(session, folders)
    nodes.close()


@pytest.mark.soak
def test_100_000_names_take_less_than_2_s_and_leave_others_their_turn(tmp_path: Path) -> None:
    with attacked(tmp_path) as it:
        folder = tmp_path / "files" / "p1" / "big"
        folder.mkdir(parents=True)
        for number in range(100_000):
            (folder / f"f{number:06}").touch()
        file = StripedFile.open("p1/a", 75, session=session_of(it.addresses))

        def usual_s(until: Callable[[], bool]) -> float:
            took_s = []
            while not until():
                started_s = time.monotonic()
                file.pwrite(bytes(100), 0)
                took_s.append(time.monotonic() - started_s)
            return median(took_s)

        end_s = time.monotonic() + 2
        alone_s = usual_s(lambda: time.monotonic() > end_s)
        command = [sys.executable, "-c", LISTING, str(it.addresses["p1"][1])]
        alone = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            beside_s = usual_s(lambda: process.poll() is not None)
        print(
            f"listings {alone.split()} s; a write alone {alone_s * 1e6:.0f} us, beside one {beside_s * 1e6:.0f} us"
        )
        assert min(map(float, alone.split())) < 2
        assert beside_s < 2 * alone_s
