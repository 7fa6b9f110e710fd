"""Shared pointers, non-blocking calls, hints and two-phase buffering: against what the plain calls leave and read."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from sfio_emu.client.session import Session
from sfio_emu.errors import PeerError, UsageError
from sfio_emu.views.collective_buffering import Hints, TwoPhase
from sfio_emu.views.datatypes import BYTE, INT32, contiguous, hindexed, resized, subarray
from sfio_emu.views.file_views import PairedRuns
from sfio_emu.views.mpi_file import MpiFile
from tests.sfio_emu.views.test_views_on_striped_files import NAME, in_every_process


def test_a_log_by_the_shared_pointer_has_every_record_once(tmp_path: Path) -> None:
    records = 25

    def act(rank: int, session: Session) -> object:
        with MpiFile.open(NAME, 5, session=session) as file, MpiFile.open(NAME, 5, session=session) as other:
            file.set_view(0, INT32)
            for turn in range(records):
                file.write_shared(np.array([rank * 1000 + turn, rank], dtype=np.int32))
            session.group.barrier()
            assert file.position_shared == 2 * 3 * records and other.position_shared == 0 and file.position == 0
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
    assert sorted(seen) == [(rank * 1000 + turn, rank) for rank in range(3) for turn in range(records)]


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
            with pytest.raises(UsageError, match="seek_shared to different places"):
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


def test_non_blocking_collective_and_shared_calls_move_what_the_blocking_ones_do(tmp_path: Path) -> None:
    def act(rank: int, session: Session) -> object:
        with MpiFile.open(NAME, 5, session=session) as file:
            file.set_view(0, INT32, subarray([40, 2], [40, 1], [0, rank], INT32))
            mine = np.arange(40, dtype=np.int32) + 1000 * rank
            requests = [file.iwrite_all(mine[:20]), file.iwrite_at_all(20, mine[20:])]
            assert (file.position, [request.wait() for request in requests]) == (20, [80, 80])
            session.group.barrier()
            back = np.zeros(40, dtype=np.int32)
            file.seek(0)
            assert [r.wait() for r in [file.iread_all(back[:20]), file.iread_at_all(20, back[20:])]] == [80, 80]
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


def test_hints_are_read_and_shown() -> None:
    assert Hints.read({"access_style": "random", "romio_cb_write": "Enable"}) == Hints(buffer_writes=True)
    assert Hints.read({"collective_buffering": "true", "romio_cb_read": "disable"}).buffer_reads is False
    for given, said in (
        ({"cb_nodes": "0"}, "the hint cb_nodes is 0: give a whole number from 1"),
        ({"cb_buffer_size": "much"}, "the hint cb_buffer_size is 'much'"),
        ({"collective_buffering": "perhaps"}, "the hint collective_buffering is 'perhaps': give 'true' or 'false'"),
        ("cb_nodes=3", "the hints are 'cb_nodes=3'"),
    ):
        with pytest.raises(UsageError, match=said):
            Hints.read(given)  # type: ignore[arg-type]


@pytest.mark.parametrize("hints", [{"cb_nodes": "1"}, {"cb_nodes": "2", "cb_buffer_size": "4096"}, {"cb_nodes": "9"}])
def test_two_phases_write_and_read_what_plain_calls_do(tmp_path: Path, hints: dict[str, str]) -> None:
    matrix = np.arange(90 * 48, dtype=np.int32).reshape(90, 48)

    def act(rank: int, session: Session) -> object:
        with MpiFile.open(NAME, 75, session=session, hints=hints | {"collective_buffering": "true"}) as file:
            assert file.hints["cb_nodes"] == str(min(int(hints["cb_nodes"]), 3)) and file.hints["striping_unit"] == "75"
            file.set_view(16, INT32, subarray([90, 48], [90, 16], [0, 16 * rank], INT32))
            mine = np.ascontiguousarray(matrix[:, 16 * rank : 16 * rank + 16])
            assert file.write_all(mine) == mine.nbytes
            requests = file.file.counters.requests  # type: ignore[attr-defined]
            back = np.zeros_like(mine)
            assert file.read_at_all(0, back) == mine.nbytes
            beyond = np.full(20, 7, dtype=np.int32)
            assert file.read_at_all(90 * 16 - 3, beyond) == 12
            assert beyond.tolist() == [*mine.reshape(-1)[-3:].tolist(), *[7] * 17]
            return np.array_equal(back, mine), requests

    told = in_every_process(tmp_path, 3, act)
    assert [right for right, _ in told] == [True] * 3  # type: ignore[misc]
    content = bytes(16) + matrix.tobytes()
    units = [content[at : at + 75] for at in range(0, len(content), 75)]
    subfiles = [(tmp_path / place).read_bytes() for place in ("p1/tmp/a.dat", "p2/tmp/b.dat", "p3/c.dat")]
    assert subfiles == [b"".join(units[number::3]) for number in range(3)]
    # 90 rows of each process would be 270 runs or more: gathered they are a few long ones a window
    assert sum(requests for _, requests in told) < 50  # type: ignore[misc]


def test_two_phases_of_random_blocks_agree_with_a_bytearray(tmp_path: Path) -> None:
    draw = np.random.default_rng(11)
    plans = []
    for _ in range(12):
        each = []
        for _rank in range(3):
            lengths = draw.integers(0, 30, int(draw.integers(1, 12)))
            gaps = draw.integers(0, 60, len(lengths))
            each.append(((np.cumsum(gaps + lengths) - lengths).tolist(), lengths.tolist(), int(draw.integers(0, 200))))
        plans.append(each)

    def act(rank: int, session: Session) -> object:
        oracle = bytearray()
        with MpiFile.open(NAME, 7, session=session, hints={"collective_buffering": "true", "cb_nodes": "2"}) as file:
            for turn, each in enumerate(plans):
                for other, (places, lengths, displacement) in enumerate(each):
                    for place, length in zip(places, lengths, strict=True):
                        start = displacement + place
                        if length:
                            oracle.extend(bytes(max(0, start + length - len(oracle))))
                            oracle[start : start + length] = bytes([1 + other + 3 * turn]) * length
                places, lengths, displacement = each[rank]
                tile = hindexed(lengths, places, BYTE) if sum(lengths) else contiguous(1, BYTE)
                file.set_view(displacement, BYTE, resized(tile, 0, tile.true_ub + 1))
                file.write_at_all(0, np.full(sum(lengths), 1 + rank + 3 * turn, dtype=np.uint8))
                file.set_view()
                window = bytearray(len(oracle) + 5 - 11 * rank)
                assert file.read_at_all(11 * rank, window) == len(oracle) - 11 * rank
                assert window[: len(oracle) - 11 * rank] == oracle[11 * rank :]
        return True

    assert in_every_process(tmp_path, 3, act) == [True] * 3


def test_a_gatherer_that_cannot_write_fails_everybody_alike(tmp_path: Path) -> None:
    def act(rank: int, session: Session) -> object:
        with MpiFile.open(NAME, 5, session=session, hints={"collective_buffering": "true", "cb_nodes": "1"}) as file:
            if rank == 0:
                file.file.pwrite_blocks = _full  # type: ignore[method-assign]
            with pytest.raises(PeerError, match="no space") as caught:
                file.write_at_all(10 * rank, b"0123456789")
            assert file.read_at_all(0, bytearray(5)) == 0  # the group is in step
            return caught.value.host

    assert in_every_process(tmp_path, 3, act) == ["p9", "rank 0", "rank 0"]


def _full(*_: object) -> int:
    raise PeerError("p9", "no space")


def test_regions_begin_where_rounds_of_the_stripes_do() -> None:
    class Alone:
        rank, size = 0, 1

    blocks = PairedRuns(memory_offsets=np.array([0]), file_offsets=np.array([1234]), lengths=np.array([50_000]))
    for buffer_bytes in (100, 4096, 10_000, 1 << 20):
        two_phase = TwoPhase(
            None,
            Alone(),
            lambda act: [act()],
            nodes=1,
            buffer_bytes=buffer_bytes,
            align_bytes=225,  # type: ignore[arg-type]
        )
        windows = two_phase._windows(blocks)
        edges = [(int(low[0]), int(high[0])) for low, high in windows]
        assert edges[0][0] == 1234 - 1234 % 225 and edges[-1][1] >= 51_234
        assert all(low % 225 == 0 and high - low <= max(225, buffer_bytes) for low, high in edges)
        assert all(a[1] == b[0] for a, b in pairwise(edges))
