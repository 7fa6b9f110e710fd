"""Shared pointers, non-blocking calls and hints: against what the plain calls leave and read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from sfio_emu.client.session import Session
from sfio_emu.errors import PeerError, UsageError
from sfio_emu.views.datatypes import INT32, subarray
from sfio_emu.views.mpi_file import MpiFile
from tests.sfio_emu.views.test_views_on_striped_files import NAME, in_every_process


def test_a_log_by_the_shared_pointer_has_every_record_once(tmp_path: Path) -> None:
    records = 25

    def act(rank: int, session: Session) -> object:
        with (
            MpiFile.open(NAME, 5, session=session) as file,
            MpiFile.open(NAME, 5, session=session) as other,
        ):
            file.set_view(0, INT32)
            for turn in range(records):
                file.write_shared(np.array([rank * 1000 + turn, rank], dtype=np.int32))
            session.group.barrier()
            assert (
                file.position_shared == 2 * 3 * records
                and other.position_shared == 0
                and file.position == 0
            )
            session.group.barrier()
            file.seek_shared(0)
            mine = np.zeros(2, dtype=np.int32)
            seen = []
            while file.read_shared(mine):
                seen.append(tuple(mine.tolist()))
            file.seek_shared(-2, "end")
            assert file.position_shared == 2 * 3 * records - 2
            file.set_view(4, INT32)
            assert file.position_shared == 0
            return seen

    seen = [record for records in in_every_process(tmp_path, 3, act) for record in records]  # type: ignore[attr-defined]
    assert sorted(seen) == [
        (rank * 1000 + turn, rank) for rank in range(3) for turn in range(records)
    ]


def test_ordered_calls_go_in_the_order_of_ranks(tmp_path: Path) -> None:
    def act(rank: int, session: Session) -> object:
        with MpiFile.open(NAME, 5, session=session) as file:
            for turn in range(3):
                assert file.write_ordered(bytes([65 + rank]) * (rank + turn)) == rank + turn
            file.seek_shared(0)
            back = bytearray(rank + 1)
            assert file.read_ordered(back) == rank + 1
            with pytest.raises(UsageError if rank == 1 else PeerError, match="is read-only"):
                file.read_ordered(b"abc" if rank == 1 else bytearray(3))
            with pytest.raises(UsageError, match=r"calls seek_shared with .* where process"):
                file.seek_shared(rank)
            return bytes(back), file.position_shared

    text = b"BCC" + b"ABBCCC" + b"AABBBCCCC"
    assert in_every_process(tmp_path, 3, act) == [(text[:1], 6), (text[1:3], 6), (text[3:6], 6)]


def test_non_blocking_calls_move_the_pointer_at_once(tmp_path: Path) -> None:
    def act(rank: int, session: Session) -> object:
        with MpiFile.open(NAME, 5, session=session) as file:
            file.set_view(0, INT32, subarray([40, 2], [40, 1], [0, rank], INT32))
            halves = [np.arange(20, dtype=np.int32) + 1000 * rank + 20 * n for n in range(2)]
            requests = [file.iwrite(half) for half in halves]
            assert file.position == 40
            assert [request.wait() for request in requests] == [80, 80]
            file.seek(0)
            back = [np.zeros(20, dtype=np.int32) for _ in halves]
            assert [request.wait() for request in [file.iread(half) for half in back]] == [80, 80]
            assert file.iread_at(39, np.zeros(4, dtype=np.int32)).wait() == 4
            assert file.iwrite_at(0, halves[0][:1]).wait() == 4
            return all(np.array_equal(a, b) for a, b in zip(back, halves, strict=True))

    assert in_every_process(tmp_path, 2, act) == [True] * 2


def test_nonblocking_collective_and_shared_calls_match_blocking_ones(
    tmp_path: Path,
) -> None:
    def act(rank: int, session: Session) -> object:
        with MpiFile.open(NAME, 5, session=session) as file:
            file.set_view(0, INT32, subarray([40, 2], [40, 1], [0, rank], INT32))
            mine = np.arange(40, dtype=np.int32) + 1000 * rank
            requests = [file.iwrite_all(mine[:20]), file.iwrite_at_all(20, mine[20:])]
            assert (file.position, [request.wait() for request in requests]) == (20, [80, 80])
            session.group.barrier()
            back = np.zeros(40, dtype=np.int32)
            file.seek(0)
            assert [
                r.wait() for r in [file.iread_all(back[:20]), file.iread_at_all(20, back[20:])]
            ] == [80, 80]
            file.set_view(1000, INT32)
            assert file.iwrite_shared(mine[:3]).wait() == 12
            session.group.barrier()
            assert file.position_shared == 6
            file.seek_shared(0)
            record = np.zeros(3, dtype=np.int32)
            assert file.iread_shared(record).wait() == 12
            return np.array_equal(back, mine), tuple(record.tolist())

    found = in_every_process(tmp_path, 2, act)
    assert sorted(found) == [(True, (0, 1, 2)), (True, (1000, 1001, 1002))]  # type: ignore[type-var]


def test_hints_are_taken_and_those_in_use_shown(tmp_path: Path) -> None:
    def act(rank: int, session: Session) -> object:
        with MpiFile.open(
            NAME, 75, session=session, hints={"collective_buffering": "true"}
        ) as file:
            file.set_hints({"cb_nodes": "2"})
            with pytest.raises(
                UsageError, match="the hints are 'cb_nodes=3': give names and texts"
            ):
                file.set_hints("cb_nodes=3")  # type: ignore[arg-type]
            return file.hints

    assert (
        in_every_process(tmp_path, 2, act) == [{"striping_unit": "75", "striping_factor": "3"}] * 2
    )
