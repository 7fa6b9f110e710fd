"""What MPI-I/O has beside plain accesses, on real listeners: split calls, the atomic mode, modes, data representations,
room kept ahead, errors told, files of other groups."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest

from sfio_emu.client.catalogue import mexists
from sfio_emu.client.session import Session
from sfio_emu.errors import PeerError, SfioError, UsageError
from sfio_emu.ports import SoloGroup
from sfio_emu.views.access_modes import Amode
from sfio_emu.views.data_representation import Status
from sfio_emu.views.datatypes import BYTE, DOUBLE, INT16, INT32, contiguous, resized, struct, vector
from sfio_emu.views.dealt_arrays import darray
from sfio_emu.views.mpi_file import MpiFile
from sfio_emu.views.shared_counters import _counted
from tests.sfio_emu.views.test_views_on_striped_files import NAME, in_every_process


def test_a_collective_call_in_two_halves_moves_what_the_whole_does(tmp_path: Path) -> None:
    def act(rank: int, session: Session) -> object:
        with MpiFile.open(NAME, 5, session=session) as file:
            mine, back = bytes([65 + rank]) * 20, bytearray(20)
            file.write_at_all_begin(20 * rank, mine)
            with pytest.raises(
                UsageError, match="write_at_all has begun on this file: end it first"
            ):
                file.read_at_all_begin(0, back)
            assert file.write_at_all_end(mine) == 20
            file.sync(durable=False)
            file.read_at_all_begin(20 * (1 - rank), back)
            assert (file.read_at_all_end(back), back) == (20, bytes([66 - rank]) * 20)
            for begin, end in (
                (file.write_all_begin, file.write_all_end),
                (file.read_all_begin, file.read_all_end),
            ):
                begin(back)
                end(back)
            assert file.position == 40
            file.write_ordered_begin(mine[:2])
            assert (file.write_ordered_end(mine[:2]), file.position_shared) == (2, 4)
            file.sync(durable=False)
            file.seek_shared(0)
            file.read_ordered_begin(back)
            assert file.read_ordered_end(back) == 20
            file.read_all_begin(back)
            with pytest.raises(UsageError, match="write_all_end where read_all has begun"):
                file.write_all_end(back)
            return bytes(back[:4])

    assert in_every_process(tmp_path, 2, act)[0] == b"AABB"


def test_in_the_atomic_mode_an_access_is_seen_whole_or_not_at_all(tmp_path: Path) -> None:
    size = 20_000

    def act(rank: int, session: Session) -> object:
        with MpiFile.open(NAME, 3, session=session) as file:
            file.set_view(0, BYTE, resized(contiguous(2, BYTE), 0, 3))
            file.set_atomicity(True)
            assert file.atomicity
            file.write_at_all(0, bytes([9]) * size)
            seen = set()
            for turn in range(12):
                if rank < 2:
                    assert file.iwrite_at(0, bytes([4 * turn + rank]) * size).wait() == size
                else:
                    back = bytearray(size)
                    assert file.read_at(0, back) == size
                    seen.add(len(set(back)))
            with pytest.raises(UsageError, match=r"calls set_atomicity with .* where process"):
                file.set_atomicity(rank == 0)
            file.set_atomicity(False)
            return seen - {1}, file.atomicity

    assert in_every_process(tmp_path, 3, act) == [(set(), False)] * 3


def test_room_is_kept_and_what_is_there_stays(tmp_path: Path) -> None:
    def act(rank: int, session: Session) -> object:
        with MpiFile.open(NAME, 5, session=session) as file:
            file.write_at(1000, b"x")
            file.sync(durable=False)
            sizes = []
            for size in (10, 1001, 3000):
                file.preallocate(size)
                sizes.append(file.size())
            with pytest.raises(UsageError, match=r"calls preallocate with .* where process"):
                file.preallocate(rank)
            back = bytearray(3000)
            file.read_at_all(0, back)
            return sizes, back == bytes(1000) + b"x" + bytes(1999)

    assert in_every_process(tmp_path, 2, act) == [([1001, 1001, 3000], True)] * 2
    kept = sum(
        (tmp_path / place).stat().st_blocks
        for place in ("p1/tmp/a.dat", "p2/tmp/b.dat", "p3/c.dat")
    )
    assert kept * 512 >= 3000


def test_modes_are_kept_and_contradictions_refused(tmp_path: Path) -> None:
    create = Amode.CREATE | Amode.WRONLY

    def act(rank: int, session: Session) -> object:
        with MpiFile.open(
            NAME, 5, mode=create | Amode.SEQUENTIAL | Amode.UNIQUE_OPEN, session=session
        ) as file:
            file.write_ordered(bytes([65 + rank]) * 3)
            file.set_view(None, INT16)
            for call in (
                lambda: file.write_at(0, b"ab"),
                lambda: file.write(b"ab"),
                lambda: file.seek(0),
            ):
                with pytest.raises(UsageError, match=" of a file that was opened as SEQUENTIAL"):
                    call()
            with pytest.raises(UsageError, match="give None for a sequential file, and only there"):
                file.set_view(0)
            file.write_shared(b"..")
            assert file.view.displacement == 6
        with MpiFile.open(
            NAME, 5, mode=Amode.RDWR | Amode.DELETE_ON_CLOSE, session=session
        ) as file:
            back = bytearray(11)
            assert (file.read_at_all(0, back), file.amode) == (
                10,
                Amode.RDWR | Amode.DELETE_ON_CLOSE,
            )
            assert file.hints["striping_factor"] == "3" and file.group.size == 2
        session.group.barrier()
        return bytes(back), mexists(NAME, session=session)

    assert in_every_process(tmp_path, 2, act) == [(b"AAABBB....\0", False)] * 2
    for mode in (
        create | Amode.RDWR,
        0,
        Amode.RDONLY | Amode.CREATE,
        Amode.RDWR | Amode.SEQUENTIAL,
        512,
        True,
    ):
        with pytest.raises(UsageError, match="the mode is"):
            MpiFile.open("p1/a", 5, mode=mode)


def test_external32_has_the_highest_byte_first_and_is_read_back(tmp_path: Path) -> None:
    record = struct([1, 2], [0, 8], [INT32, DOUBLE])
    table = np.zeros(
        5, dtype=np.dtype({"names": ["n", "x"], "formats": ["<i4", "2<f8"], "offsets": [0, 8]})
    )
    table["n"], table["x"] = range(5), np.arange(10).reshape(5, 2) / 3

    def act(rank: int, session: Session) -> object:
        with MpiFile.open(NAME, 7, session=session) as file:
            file.set_view(4, record, resized(record, 0, 30), representation="external32")
            assert (file.write_all(table, record, 5), file.type_extent(record)) == (100, 24)
            back, begun = np.zeros_like(table), np.zeros_like(table)
            assert Status(file.read_at(0, back, record, 5)).count(record) == 5
            assert file.iread_at(2, begun, record, 5).wait() == 60
            assert file.representation == "external32"
            with pytest.raises(
                UsageError, match="the data representation is 'xdr': give one of native"
            ):
                file.set_view(representation="xdr")
            file.set_view(0, INT32, representation="internal")
            raw = bytearray(34)
            file.read_at(1, raw[:0])
            file.set_view()
            assert file.read_at(4, raw) == 34
            return bool((back == table).all()), begun["n"].tolist(), bytes(raw)

    first = np.array([0], ">i4").tobytes() + np.array([0, 1 / 3], ">f8").tobytes()
    raw = first[:4] + bytes(4) + first[4:] + bytes(6) + np.array([1], ">i4").tobytes()
    assert in_every_process(tmp_path, 1, act) == [(True, [2, 3, 4, 0, 0], raw)]


def test_a_status_counts_whole_elements_and_the_numbers_in_a_part_of_one() -> None:
    record = struct([1, 2], [0, 8], [INT32, DOUBLE])
    assert [Status(n).count(record) for n in (0, 19, 20, 60)] == [0, None, 1, 3]
    assert [Status(n).elements(record) for n in (0, 4, 12, 20, 24, 60)] == [0, 1, 2, 3, 4, 9]
    assert (
        Status(24).elements(vector(2, 3, 5, INT32)) == 6
        and Status(4).count(contiguous(0, BYTE)) == 0
    )


def test_an_error_reaches_the_handler_and_is_raised_all_the_same(tmp_path: Path) -> None:
    def act(rank: int, session: Session) -> object:
        told: list[SfioError] = []
        with MpiFile.open(NAME, 5, session=session) as file:
            file.errhandler = lambda which, error: told.append(error) if which is file else None
            with pytest.raises(UsageError):
                file.write_at(-1, b"abc")
            with pytest.raises(UsageError if rank else PeerError):
                file.set_view(0, BYTE, resized(BYTE, 0, -1) if rank else BYTE)
            with pytest.raises(UsageError):
                file.seek(-1)
        return [type(error).__name__ for error in told]

    assert in_every_process(tmp_path, 2, act) == [
        ["UsageError", kind, "UsageError"] for kind in ("PeerError", "UsageError")
    ]


def test_file_of_one_process_works_beside_shared_ones_and_after_an_error(
    tmp_path: Path,
) -> None:
    def act(rank: int, session: Session) -> object:
        name = f"p1/own{rank};p2/own{rank}"
        with MpiFile.open(NAME, 5, session=session) as shared:
            for _ in range(3):
                with (
                    pytest.raises(RuntimeError),
                    MpiFile.open(name, 5, session=session, group=SoloGroup()) as own,
                ):
                    own.write_all(b"mine alone"[: 10 - rank])
                    assert own.group.size == 1
                    raise RuntimeError
            shared.write_at_all(rank, b"!")
        with pytest.raises(UsageError, match="the file is closed"):
            own.read_at(0, bytearray(1))
        MpiFile.delete(name, session=session)
        return mexists(name, session=session)

    assert in_every_process(tmp_path, 2, act) == [False, False]


@pytest.mark.parametrize("order", ["C", "F"])
def test_an_array_that_is_dealt_out_is_whole_again(order: str) -> None:
    ways = [
        ("block", None, 2),
        ("cyclic", 2, 2),
        ("cyclic", None, 2),
        ("block", 4, 2),
        ("none", None, 1),
    ]
    for first, second in product(ways, ways):
        axes = [(7, *first), (5, *second)]
        ranks = first[2] * second[2]
        seen = np.full(35, -1)
        for rank in range(ranks):
            mine = darray(ranks, rank, axes, BYTE, order)  # type: ignore[arg-type]
            assert mine.extent_bytes == 35 and mine.true_ub <= 35
            for offset, length in mine.runs.pairs():
                assert (seen[offset : offset + length] == -1).all()
                seen[offset : offset + length] = rank
        grid = np.arange(ranks).reshape(first[2], second[2])
        index = seen.reshape((7, 5), order=order)  # type: ignore[call-overload]
        for (i, j), rank in np.ndenumerate(index):
            place = [
                0 if way == "none" else (k // (block or (-(-n // p) if way == "block" else 1))) % p
                for k, n, (way, block, p) in ((i, 7, first), (j, 5, second))
            ]
            assert rank == grid[place[0], place[1]]
    for wrong in (
        [(7, "block", 3, 2)],
        [(7, "some", None, 2)],
        [(7, "none", None, 2)],
        [],
        [(7, "block", None, 3)],
    ):
        with pytest.raises(UsageError, match="darray"):
            darray(2, 0, wrong, BYTE)  # type: ignore[arg-type]


def test_the_atomic_mode_may_be_turned_on_and_off_for_ever(tmp_path: Path) -> None:
    def act(rank: int, session: Session) -> object:
        with MpiFile.open(NAME, 3, session=session) as file:
            before: int = _counted[session.group]
            for number in range(10):
                file.set_atomicity(number % 2 == 0)
            return _counted[session.group] - before  # an MpiGroup has 4096 counters

    assert in_every_process(tmp_path, 2, act) == [1, 1]
