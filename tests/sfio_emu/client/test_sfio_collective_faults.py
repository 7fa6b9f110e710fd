"""Groups of processes on real listeners that fail: errors counted over all, disagreements, deaths in the middle of
writes."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sfio_emu import ListenerLost, PeerError, Session, StripedFile, UsageError
from sfio_emu.adapters.peers.group_server import GroupServer
from sfio_emu.adapters.process_group import SocketGroup
from sfio_emu.adapters.sockets import TcpConnections
from sfio_emu.views.mpi_file import MpiFile
from tests.helpers.listeners import listener, session_of, small_disk

CALLS = ("open", "close", "creat", "unlink", "ftruncate", "lseek", "write", "read")


def in_every_rank(
    root: Path,
    size: int,
    addresses: dict[str, tuple[str, int]],
    act: Callable[[int, Session], object],
) -> list[Any]:
    """Run `act(rank, session)` in `size` ranks, threads here; a rank that does not come back in 20 s is a failure."""
    with GroupServer(f"unix:{root}/group", size) as server, ThreadPoolExecutor(size) as pool:

        def one(rank: int) -> object:
            with SocketGroup.join(server.address, rank, size, 10) as group:
                session = Session(TcpConnections(addresses), group)
                try:
                    return act(rank, session)
                finally:
                    session.close()

        return [
            future.result(timeout=20) for future in [pool.submit(one, rank) for rank in range(size)]
        ]


COUNTING = """
import sys
from sfio_emu import SfioError, mchsize, mclose, mcreate, mdelete, merror, merrora, mopen, mwritec, prioerrora, rank
from sfio_emu.client.current_session import current_session

def fails(call, *words):
    try:
        call(*words)
    except SfioError as fault:
        return str(fault)
    raise SystemExit(f"{call.__name__} did not fail")

file = mopen("p1/a;p2/a;p3/a", 100)
told = []
for turn in range(1 + rank()):                                # 1 + 2 + 3 writes past the limits of p1 and p2
    told.append(fails(mwritec, file, 60_000 * (1 + rank()), bytes(60_000)))
assert all("write of a: File too large" in text for text in told), told
assert "No such file" in fails(mdelete, "p1/none;p2/none;p3/none")     # once on each: process 0 makes the change
assert "Is a directory" in fails(mcreate, "p3/taken")
assert "File too large" in fails(mchsize, file, 3_000_000)             # p1 and p2: 1 MB is past their limit
assert "open of" in fails(mopen, "p1/taken;p3/b", 10)                   # every process opens
counted = merrora()
again = merrora()
alone = merror()
current_session().group.barrier()
print("counted", sorted(counted.items()), flush=True)
assert not any(again.values()) and not any(alone.values()), "reading resets"
assert "too large" in fails(mwritec, file, 60_000 * (1 + rank()), bytes(60_000))
prioerrora()
mclose(file)
"""


def test_errors_of_all_nodes_are_summed_over_processes_and_reset_when_read(
    tmp_path: Path,
) -> None:
    for host in ("p1", "p3"):
        (tmp_path / host / "taken").mkdir(parents=True)
    with (
        listener(tmp_path, "p1", limit_bytes=15_000) as (_, first),
        listener(tmp_path, "p2", limit_bytes=15_000) as (_, second),
        listener(tmp_path, "p3") as (_, third),
        GroupServer(f"unix:{tmp_path}/group", 3) as server,
    ):
        places = {**first, **second, **third}
        known = ",".join(f"{host}={address}:{port}" for host, (address, port) in places.items())
        processes = [
            subprocess.Popen(
                [sys.executable, "-c", COUNTING],
                env={
                    "SFIO_RANK": str(rank),
                    "SFIO_SIZE": "3",
                    "SFIO_GROUP": server.address,
                    "SFIO_LISTENERS": known,
                },
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for rank in range(3)
        ]
        told = [process.communicate(timeout=30) for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0], told
    expected = dict.fromkeys(CALLS, 0) | {
        "write": 12,
        "unlink": 3,
        "creat": 1,
        "ftruncate": 2,
        "open": 3,
    }
    for rank, (out, _) in enumerate(told):
        lines = out.splitlines()
        assert lines[0] == f"counted {sorted(expected.items())}"
        printed = "I/O errors: open=0 close=0 creat=0 unlink=0 ftruncate=0 lseek=0 write=6 read=0"
        assert lines[1:] == ([printed] if rank == 0 else []), "process 0 prints, once"


def test_every_process_learns_what_one_raises_in_a_collective_call(tmp_path: Path) -> None:
    def act(rank: int, session: Session) -> list[str]:
        told = []
        for mode, hints, said in (("q", None, "the mode is 'q'"), ("rw", 5, "the hints are 5")):
            with pytest.raises(UsageError if rank else PeerError, match=said):
                MpiFile.open(
                    "p1/a", 5, session=session, **({"mode": mode, "hints": hints} if rank else {})
                )  # type: ignore[arg-type]
        with MpiFile.open("p1/a", 5, session=session) as file:
            named = {"representation": np.zeros(2)} if rank else {}  # a mistake that nobody foresaw
            with pytest.raises(ValueError if rank else PeerError, match="truth value") as caught:
                file.set_view(0, **named)  # type: ignore[arg-type]
            told.append(str(caught.value))
            assert file.write_at_all(5 * rank, b"hello") == 5
            assert file.size() == 10
        return told

    with listener(tmp_path, "p1") as (_, addresses):
        (told, _) = in_every_rank(tmp_path, 2, addresses, act)
    assert told[0].startswith("process 1: its set_view failed: ValueError: The truth value")


@pytest.mark.parametrize("odd", [0, 1, 2])
def test_collective_open_refuses_different_stripe_units_in_all_processes(
    tmp_path: Path, odd: int
) -> None:
    def act(rank: int, session: Session) -> float:
        start_s = time.monotonic()
        with pytest.raises(UsageError) as caught:
            StripedFile.open("p1/a;p2/a", 7 if rank == odd else 5, session=session)
        took_s = time.monotonic() - start_s
        named = str(caught.value)
        assert (
            "must be the same in all processes" in named and "', 5]" in named and "', 7]" in named
        )
        with StripedFile.open(
            "p1/a;p2/a", 9, session=session
        ) as file:  # nothing is left of the refused one
            file.pwrite(bytes([rank]), rank)
            session.group.barrier()
            assert file.pread(3, 0) == b"\0\1\2"
        return took_s

    with listener(tmp_path, "p1") as (_, first), listener(tmp_path, "p2") as (_, second):
        assert max(in_every_rank(tmp_path, 3, {**first, **second}, act)) < 2


def test_a_file_that_is_open_is_not_opened_with_another_stripe_unit(tmp_path: Path) -> None:
    with listener(tmp_path, "p1") as (_, first), listener(tmp_path, "p2") as (_, second):
        session = session_of(first, second)
        file = StripedFile.open("p1/a;p2/a", 5, session=session)
        file.pwrite(b"Good*morning!", 0)
        with pytest.raises(
            UsageError, match="p1/a was written as subfile 1 of 2 in units of 5 bytes"
        ):
            StripedFile.open("p1/a;p2/a", 7, session=session)
        with StripedFile.open("p1/a;p2/a;", 5, session=session) as same:
            assert same.pread(13, 0) == b"Good*morning!"
        assert file.pread(13, 0) == b"Good*morning!"
        file.close()
        with pytest.raises(
            UsageError,
            match=r"p1/a was written as subfile 1 of 2 in units of 5 bytes, and is opened .* of 7",
        ):
            StripedFile.open("p1/a;p2/a", 7, session=session)


def test_one_process_that_opens_an_open_file_otherwise_stops_all_of_them(tmp_path: Path) -> None:
    def act(rank: int, session: Session) -> int:
        with StripedFile.open("p1/a", 5, session=session) as file:
            with pytest.raises(UsageError):
                StripedFile.open("p1/a", 7 if rank == 2 else 5, session=session)
            return file.size()

    with listener(tmp_path, "p1") as (_, addresses):
        assert in_every_rank(tmp_path, 3, addresses, act) == [0, 0, 0]


BLOCK_BYTES = 200_000


def killed_in_the_middle(root: Path) -> float:
    """Three ranks write their own blocks while the listener of p2 is killed; seconds until the last of them was
    told."""
    killed_s: list[float] = []

    def act(rank: int, session: Session) -> tuple[int, float, float]:
        file = StripedFile.open("p1/a;p2/a", 100, session=session)
        block = np.full(BLOCK_BYTES, rank + 1, dtype=np.uint8)
        whole = 0
        give_up_s = time.monotonic() + 15
        with pytest.raises(ListenerLost, match=r"^p2: ") as caught:
            while time.monotonic() < give_up_s:
                file.pwrite(block, (3 * whole + rank) * BLOCK_BYTES)
                whole += 1
        told_s = time.monotonic()
        assert caught.value.host == "p2"
        with pytest.raises(PeerError):  # collective: none of them waits for ever
            file.truncate(0)
        return whole, told_s, time.monotonic() - told_s

    with listener(root, "p1") as (_, first), listener(root, "p2") as (victim, second):

        def kill() -> None:
            killed_s.append(time.monotonic())
            victim.kill()

        timer = threading.Timer(0.4, kill)
        timer.start()
        found = in_every_rank(root, 3, {**first, **second}, act)
        timer.join()
    for rank, (whole, _, _) in enumerate(found):
        assert whole > 0, "acknowledged before the end"
        for number in range(whole):
            start = (3 * number + rank) * BLOCK_BYTES // 2
            for host in ("p1", "p2"):
                with (root / host / "a").open("rb") as subfile:
                    subfile.seek(start)
                    part = subfile.read(BLOCK_BYTES // 2)
                assert part == bytes([rank + 1]) * (BLOCK_BYTES // 2), (
                    "what was acknowledged is on disk"
                )
    assert max(hung_s for _, _, hung_s in found) < 10
    return max(told_s for _, told_s, _ in found) - killed_s[0]


def test_every_process_is_told_of_a_killed_listener_within_two_seconds(tmp_path: Path) -> None:
    took_s = []
    for attempt in range(3):  # a machine with much else to do may be late once
        root = tmp_path / str(attempt)
        root.mkdir()
        took_s.append(killed_in_the_middle(root))
        if took_s[-1] < 2:
            break
    assert min(took_s) < 2, took_s


def test_acknowledged_writes_of_a_killed_client_are_on_disk(tmp_path: Path) -> None:
    program = (
        "import os, sys\n"
        "from sfio_emu import mopen, mwritec\n"
        "file = mopen('p1/a;p2/a', 75)\n"
        "number = 0\n"
        "while True:\n"
        "    mwritec(file, number * 150_000, bytes([number % 255 + 1]) * 150_000)\n"
        "    number += 1\n"
        "    os.write(1, b'.')\n"
    )
    with listener(tmp_path, "p1") as (_, first), listener(tmp_path, "p2") as (_, second):
        places = {**first, **second}
        known = ",".join(f"{host}={address}:{port}" for host, (address, port) in places.items())
        with subprocess.Popen(
            [sys.executable, "-c", program], env={"SFIO_LISTENERS": known}, stdout=subprocess.PIPE
        ) as client:
            assert client.stdout is not None
            told = client.stdout.read(3)
            time.sleep(0.1)
            client.kill()
            told += client.stdout.read()
        assert len(told) >= 3
        for number in range(len(told)):
            for host in ("p1", "p2"):
                with (tmp_path / host / "a").open("rb") as subfile:
                    subfile.seek(number * 75_000)
                    assert subfile.read(75_000) == bytes([number % 255 + 1]) * 75_000
        other = StripedFile.open("p1/a;p2/a", 75, session=session_of(places))
        other.pwrite(b"alive", 0)
        assert other.pread(5, 0) == b"alive"


def test_full_disk_is_counted_and_harms_no_other_subfile_or_later_call(
    tmp_path: Path,
) -> None:
    small = tmp_path / "small"
    small.mkdir()
    own_mount = small_disk(small)
    with (
        listener(small, "p1", before=own_mount) as (_, first),
        listener(tmp_path / "big", "p2") as (_, second),
    ):
        session = session_of(first, second)
        kept = StripedFile.open("p1/kept;p2/kept", 1000, session=session)
        kept.pwrite(b"k" * 20_000, 0)
        file = StripedFile.open("p1/a;p2/a", 1000, session=session)
        with pytest.raises(PeerError, match="p1: write of a: No space left"):
            file.pwrite(b"x" * 2_000_000, 0)
        counts = session.take_errors()
        assert counts["write"] >= 1 and sum(counts.values()) == counts["write"]
        assert not any(session.take_errors().values())
        assert (tmp_path / "big/p2/a").read_bytes() == b"x" * 1_000_000
        assert kept.pread(20_000, 0) == b"k" * 20_000
        file.truncate(0)  # room again
        kept.pwrite(b"l" * 20_000, 0)
        file.pwrite(b"y" * 100_000, 0)
        assert kept.pread(20_000, 0) == b"l" * 20_000 and file.pread(100_000, 0) == b"y" * 100_000
