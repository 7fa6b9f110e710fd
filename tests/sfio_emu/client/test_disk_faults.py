"""Disks that fail, stand still, move little at a time or lose their power under a listener: what its clients see."""

from __future__ import annotations

import errno
import logging
import random
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from sfio_emu import ListenerLost, RemoteFailure, Settings, StripedFile
from tests.helpers.faulty_disk import Disk
from tests.helpers.listeners import listening, session_of
from tests.helpers.synced_writes import read_back, written_and_synced

CONTENT = np.random.default_rng(7).integers(0, 256, 3_000_000, dtype=np.uint8).tobytes()
CHECKED, PLAIN = Settings(), Settings(check_data=False, check_reads=False)
both = pytest.mark.parametrize("settings", [CHECKED, PLAIN], ids=["checked", "plain"])


@both
def test_a_disk_that_moves_little_at_a_time_moves_all(tmp_path: Path, settings: Settings) -> None:
    disk = Disk()
    with listening(tmp_path, subfiles=disk.subfiles) as addresses:
        file = StripedFile.open("p1/a;p1/b", 75, session=session_of(addresses, settings=settings))
        disk.most_bytes = 5000
        file.pwrite(CONTENT, 3)
        assert file.pread(len(CONTENT), 3) == CONTENT


@both
@pytest.mark.parametrize("place", [0, 2_000_000])
def test_disk_failure_within_a_long_read_is_named_with_the_path(
    tmp_path: Path, settings: Settings, place: int
) -> None:
    disk = Disk()
    with listening(tmp_path, subfiles=disk.subfiles) as addresses:
        session = session_of(addresses, settings=settings)
        file = StripedFile.open("p1/deep/a", 75, session=session)
        file.pwrite(CONTENT, 0)
        disk.most_bytes = 100_000
        disk.faults = lambda call, offset: errno.EIO if call == "read" and offset >= place else None
        with pytest.raises(RemoteFailure, match="p1: read of deep/a: Input/output error"):
            file.pread(len(CONTENT), 0)
        assert session.take_errors()["read"] >= 1, "one of each message that was under way"
        disk.faults = lambda call, offset: None
        assert file.pread(len(CONTENT), 0) == CONTENT, "the session goes on"


@both
def test_a_read_while_another_truncates_gets_fewer_bytes(
    tmp_path: Path, settings: Settings
) -> None:
    with listening(tmp_path) as addresses:
        reader, writer = (
            StripedFile.open("p1/a", 75, session=session_of(addresses, settings=settings))
            for _ in "rw"
        )
        buffer = bytearray(len(CONTENT))
        stop = threading.Event()

        def truncate() -> None:
            while not stop.is_set():
                writer.pwrite(CONTENT, 0)
                writer.truncate(1000)

        thread = threading.Thread(target=truncate)
        thread.start()
        try:
            counts = set()
            for _ in range(60):
                count = reader.pread(buffer, 0)
                assert isinstance(count, int)
                assert buffer[:count] == CONTENT[:count] or count > 1000, (
                    "what is there is right up to the old end"
                )
                counts.add(count)
        finally:
            stop.set()
            thread.join()
        assert len(counts) > 1


def test_a_file_that_ends_while_it_is_read_is_read_up_to_its_end(tmp_path: Path) -> None:
    disk = Disk()
    for settings in (CHECKED, PLAIN):
        with listening(tmp_path, subfiles=disk.subfiles) as addresses:
            file = StripedFile.open("p1/a", 75, session=session_of(addresses, settings=settings))
            file.pwrite(CONTENT, 0)
            disk.most_bytes = 200_000
            cut = threading.Event()

            def shorten(call: str, offset: int, cut: threading.Event = cut) -> None:
                if call == "read" and offset >= 1_000_000 and not cut.is_set():
                    cut.set()
                    with (tmp_path / "a").open("r+b") as under:
                        under.truncate(1_234_567)

            disk.faults = shorten
            assert file.pread(len(CONTENT), 0) == CONTENT[:1_234_567]
            disk.faults = lambda call, offset: None


@both
def test_a_disk_that_stands_still_is_waited_for(
    tmp_path: Path, settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    disk = Disk()
    with listening(tmp_path, subfiles=disk.subfiles) as addresses:
        session = session_of(addresses, settings=settings, timeout_s=0.3)
        file = StripedFile.open("p1/a", 75, session=session)
        disk.gate.clear()
        threading.Timer(1.5, disk.gate.set).start()
        with caplog.at_level(logging.WARNING):
            file.pwrite(
                bytes(64 << 20), 0
            )  # more than the sockets hold: the window of the connection is closed meanwhile
        assert session.counters.bytes_written == 64 << 20
        assert "s: the disk is slow, or was stopped" in caplog.text


@both
def test_stalled_disk_within_a_long_read_spoils_no_answer(
    tmp_path: Path, settings: Settings
) -> None:
    disk = Disk()
    with listening(tmp_path, subfiles=disk.subfiles) as addresses:
        file = StripedFile.open("p1/a", 75, session=session_of(addresses, settings=settings))
        file.pwrite(CONTENT, 0)
        slow = {600_000, 1_500_000}

        def stall(call: str, offset: int) -> None:
            for place in [place for place in slow if call == "read" and offset >= place]:
                slow.remove(place)
                time.sleep(0.3)

        disk.faults = stall
        assert file.pread(len(CONTENT), 0) == CONTENT
        assert not slow


def test_all_clients_give_up_a_disk_that_does_not_come_back(tmp_path: Path) -> None:
    disk, words = (
        Disk(),
        "p1: its listener has transferred no byte for {} s: its disk is slow, or the process was stopped",
    )
    with listening(tmp_path, subfiles=disk.subfiles) as addresses:
        one, other = (
            StripedFile.open("p1/a", 75, session=session_of(addresses, timeout_s=0.5, stall_s=s))
            for s in (1.6, 0.6)
        )
        disk.gate.clear()
        try:
            with pytest.raises(ListenerLost, match=words.format("1.6")):
                one.pwrite(b"data", 0)
            with pytest.raises(ListenerLost, match=words.format("0.6")):
                other.pread(10, 0)
        finally:
            disk.gate.set()


def test_synced_writes_survive_a_power_cut(tmp_path: Path) -> None:
    """100 cuts: all bytes that were synced and not written again since are there, whatever else the disk had in its
    cache."""
    draw = random.Random(8)
    lost_without_sync = 0
    for cut in range(100):
        disk, root = Disk(), tmp_path / f"after{cut}"
        with listening(tmp_path / f"before{cut}", subfiles=disk.subfiles) as addresses:
            model, sure = written_and_synced(addresses, draw)
        root.mkdir()
        disk.after_power_cut(draw, root)
        with listening(root) as addresses:
            same = read_back(addresses) == model
            assert same[sure].all(), f"cut {cut} lost bytes that were synced"
            lost_without_sync += int((~same[~sure]).sum())
    assert lost_without_sync > 10_000, "a disk that loses nothing would show nothing"


def test_sync_during_a_sync_shares_the_next_one(tmp_path: Path) -> None:
    disk = Disk()
    with listening(tmp_path, subfiles=disk.subfiles) as addresses:
        sessions = [session_of(addresses) for _ in range(12)]
        files = [StripedFile.open("p1/a", 75, session=session) for session in sessions]
        files[0].pwrite(b"data", 0)
        disk.gate.clear()
        threads = [threading.Thread(target=file.sync, kwargs={"durable": True}) for file in files]
        threads[0].start()
        assert disk.entered.wait(5)
        for thread in threads[1:]:
            thread.start()
        time.sleep(0.5)
        disk.gate.set()
        for thread in threads:
            thread.join()
        assert 1 <= disk.syncs <= 3


def test_a_sync_that_fails_is_named_and_others_are_served_while_it_lasts(tmp_path: Path) -> None:
    disk = Disk()
    with listening(tmp_path, subfiles=disk.subfiles) as addresses:
        session, other = session_of(addresses), session_of(addresses)
        file = StripedFile.open("p1/a", 75, session=session)
        disk.faults = lambda call, offset: errno.EIO if call == "fsync" else None
        with pytest.raises(RemoteFailure, match="p1: fsync of a: Input/output error"):
            file.sync(durable=True)
        assert StripedFile.open("p1/b", 75, session=other).pwrite(b"data", 0) == 4


def test_sync_after_a_failed_one_includes_the_folders(tmp_path: Path) -> None:
    disk = Disk()
    with listening(tmp_path, subfiles=disk.subfiles) as addresses:
        file = StripedFile.open("p1/a", 75, session=session_of(addresses))
        disk.faults = lambda call, offset: errno.EIO if call == "fsync" else None
        with pytest.raises(RemoteFailure, match="fsync"):
            file.sync(durable=True)
        disk.faults = lambda call, offset: None
        disk.synced_paths.clear()
        file.sync(durable=True)
        file.sync(durable=True)
        assert disk.synced_paths == ["a", None]
