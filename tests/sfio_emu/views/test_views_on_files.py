"""Accesses through views against a bytearray, alone and in a group of processes that act together."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from sfio_emu.adapters.peers.group_server import GroupServer
from sfio_emu.adapters.process_group import SocketGroup
from sfio_emu.client.session import Session
from sfio_emu.errors import PeerError, UsageError
from sfio_emu.views.datatypes import (
    BYTE,
    INT16,
    INT32,
    Datatype,
    contiguous,
    hindexed,
    indexed,
    resized,
    subarray,
    vector,
)
from sfio_emu.views.mpi_file import MpiFile
from tests.helpers.drawn import drawn


class NoConnections:
    """To no listeners."""

    def connect(self, host: str) -> None: ...


class MemoryFile:
    """A file in memory with the blocks of a striped one; `broken` makes it fail as an I/O node would."""

    def __init__(self, content: bytes = b"", group: SocketGroup | None = None) -> None:
        self.content = bytearray(content)
        self.session = Session(NoConnections(), group)  # type: ignore[arg-type]
        self.broken = False
        self.calls = 0

    def pread_blocks(
        self, buffer: memoryview, offsets: NDArray, places: NDArray, lengths: NDArray
    ) -> int:  # type: ignore[type-arg]
        self.calls += 1
        moved = 0
        for place, offset, length in zip(
            places.tolist(), offsets.tolist(), lengths.tolist(), strict=True
        ):
            piece = self.content[offset : offset + length]
            buffer[place : place + len(piece)] = piece
            moved += len(piece)
        return moved

    def pwrite_blocks(
        self, buffer: memoryview, offsets: NDArray, places: NDArray, lengths: NDArray
    ) -> int:  # type: ignore[type-arg]
        if self.broken:
            raise PeerError("p1", "write of /a: No space left on device")
        self.calls += 1
        for place, offset, length in zip(
            places.tolist(), offsets.tolist(), lengths.tolist(), strict=True
        ):
            self.content.extend(bytes(max(0, offset + length - len(self.content))))
            self.content[offset : offset + length] = buffer[place : place + length]
        return int(lengths.sum())

    def size(self) -> int:
        return len(self.content)

    def truncate(self, size_bytes: int) -> None:
        self.content[size_bytes:] = bytes(max(0, size_bytes - len(self.content)))

    def close(self) -> None:
        pass


def viewed(file: MemoryFile, mode: Any = "rw") -> MpiFile:
    return MpiFile(file, mode=mode)  # type: ignore[arg-type]


@st.composite
def layouts(draw: st.DrawFn, ordered: bool) -> Datatype:
    blocks, at = [], 0
    for _ in range(draw(st.integers(1, 4))):
        at += draw(st.integers(0, 3))
        length = draw(st.integers(1, 4))
        blocks.append((at, length))
        at += length
    extent = at - blocks[0][0] + draw(st.integers(0, 4))
    if not ordered:
        blocks = draw(st.permutations(blocks))
        extent = max(extent, at)
    made = hindexed([length for _, length in blocks], [place for place, _ in blocks], BYTE)
    return resized(made, 0, extent)


def bytes_of(layout: Datatype, count: int, start: int) -> list[int]:
    return [
        start + element * layout.extent_bytes + offset + i
        for element in range(count)
        for offset, length in layout.runs.pairs()
        for i in range(length)
    ]


@drawn(70)
@given(st.data())
def test_view_reads_back_its_writes_and_changes_nothing_else(
    data: st.DataObject,
) -> None:
    before = bytes(range(1, 200))
    file = MemoryFile(before)
    mpi = viewed(file)
    displacement = data.draw(st.integers(0, 10))
    mpi.set_view(displacement, BYTE, data.draw(layouts(ordered=True)))
    expected = bytearray(before)
    for _ in range(3):
        memory, count = data.draw(layouts(ordered=False)), data.draw(st.integers(0, 5))
        offset, start = data.draw(st.integers(0, 30)), data.draw(st.integers(0, 5))
        source = np.random.default_rng(count).integers(
            0, 256, start + count * memory.extent_bytes + 9, dtype=np.uint8
        )
        places = bytes_of(memory, count, start)
        assert mpi.write_at(offset, source, memory, count, start) == len(places)
        stream = bytes_of(mpi.view.filetype, offset + len(places), displacement)[
            offset : offset + len(places)
        ]
        expected.extend(bytes(max([0, *[at + 1 - len(expected) for at in stream]])))
        for place, at in zip(places, stream, strict=True):
            expected[at] = source[place]
        assert file.content == expected
        back = np.zeros_like(source)
        assert mpi.read_at(offset, back, memory, count, start) == len(places)
        wanted = np.zeros_like(source)
        wanted[places] = source[places]
        assert np.array_equal(back, wanted)


@drawn(100)
@given(layouts(ordered=True), st.integers(0, 12), st.integers(0, 40), st.integers(0, 60))
def test_reading_past_the_end_is_short_as_the_stream_is(
    filetype: Datatype, displacement: int, size: int, offset: int
) -> None:
    mpi = viewed(MemoryFile(bytes(range(size))))
    mpi.set_view(displacement, BYTE, filetype)
    stream = bytes_of(filetype, 80, displacement)[offset : offset + 20]
    expected = bytes(at for at in stream if at < size)
    buffer = bytearray(20)
    assert mpi.read_at(offset, buffer) == len(expected)
    assert bytes(buffer) == expected + bytes(20 - len(expected))


def test_pointers_count_etypes_and_follow_the_view() -> None:
    file = MemoryFile()
    mpi = viewed(file)
    mpi.set_view(4, INT16, resized(contiguous(2, INT16), 0, 8))
    assert mpi.write(np.arange(5, dtype=np.int16)) == 10
    assert (mpi.position, mpi.byte_offset(5), file.size()) == (5, 22, 22)
    assert mpi.seek(-2, "current") == 3
    buffer = np.zeros(4, dtype=np.int16)
    assert mpi.read(buffer) == 4  # two whole etypes to the end
    assert buffer.tolist() == [3, 4, 0, 0]
    assert (mpi.position, mpi.seek(0, "end")) == (5, 5)
    mpi.set_view()
    assert mpi.position == 0
    with pytest.raises(UsageError, match="seek to etype -1"):
        mpi.seek(-1)


def test_an_overlapping_view_reads_to_the_end_of_the_file() -> None:
    mpi = viewed(MemoryFile(bytes(range(9))), "r")
    mpi.set_view(0, BYTE, hindexed([4, 4], [0, 2], BYTE))
    buffer = bytearray(16)
    assert mpi.read_at(0, buffer) == 11
    assert list(buffer[:11]) == [0, 1, 2, 3, 2, 3, 4, 5, 6, 7, 8]


def test_one_access_is_one_request_below() -> None:
    file = MemoryFile()
    mpi = viewed(file)
    mpi.set_view(0, INT32, vector(100, 1, 3, INT32))
    mpi.write_at(0, np.arange(250, dtype=np.int32))
    assert file.calls == 1


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda mpi: mpi.write_at(-1, b"abcd"), "the offset (etypes of the view) is -1"),
        (lambda mpi: mpi.read_at(0, b"abcd"), "the buffer to read into is read-only"),
        (lambda mpi: mpi.read_at(0, np.zeros((4, 4))[:, 1]), "the buffer is not contiguous"),
        (lambda mpi: mpi.read_at(0, 17), "a int is not a buffer"),
        (
            lambda mpi: mpi.read_at(0, np.zeros(2, "datetime64[s]")),
            "has no bytes, cannot include dtype 'M'",
        ),
        (lambda mpi: mpi.write_at(0, np.array([None, 1])), "holds Python objects"),
        (lambda mpi: mpi.write_at(1.7, b"abcd"), "the offset (etypes of the view) is 1.7"),
        (lambda mpi: mpi.write_at("3", b"abcd"), "the offset (etypes of the view) is '3'"),
        (lambda mpi: mpi.write_at(0, b"abcd", BYTE, 2.0), "the count of contiguous is 2.0"),
        (lambda mpi: mpi.write_at(0, b"abcd", BYTE, 2, None), "the start byte in memory is None"),
        (lambda mpi: mpi.write_at(0, b"abcd", 4), "the layout in memory is 4: give a datatype"),
        (lambda mpi: mpi.seek(1.5), "the offset to seek (etypes) is 1.5"),
        (lambda mpi: mpi.byte_offset(None), "the offset (etypes of the view) is None"),
        (lambda mpi: mpi.set_size("9"), "the size of the file (bytes) is '9'"),
        (lambda mpi: mpi.set_view(0.0), "the displacement of the view (bytes) is 0.0"),
        (lambda mpi: mpi.set_view(0, 4), "the etype of the view is 4: give a datatype"),
        (lambda mpi: mpi.write_at(0, b"abc"), "write of 3 bytes through a view of etypes of 2"),
        (lambda mpi: mpi.write_at(0, b"abcd", INT16, 3), "cover bytes 0 to 6 of a buffer of 4"),
        (lambda mpi: mpi.write_at(0, b"abcd", INT16, -3), "the count of contiguous is -3"),
        (lambda mpi: mpi.set_size(-1), "the size of the file (bytes) is -1"),
        (lambda mpi: mpi.seek(0, "middle"), "seek from 'middle'"),
        (lambda mpi: mpi.set_view(0, BYTE, indexed([1, 1], [4, 2], BYTE)), "cross-ordered"),
    ],
)
def test_mistakes_of_the_caller_are_named(act: Callable[[MpiFile], object], message: str) -> None:
    mpi = viewed(MemoryFile(b"12345678"))
    mpi.set_view(0, INT16)
    with pytest.raises(UsageError) as caught:
        act(mpi)
    assert message in str(caught.value)


def test_modes_and_the_end_of_a_file_are_kept() -> None:
    reading, writing = viewed(MemoryFile(b"1"), "r"), viewed(MemoryFile(b"1"), "w")
    with pytest.raises(UsageError, match="opened for reading only"):
        reading.write_at(0, b"x")
    with pytest.raises(UsageError, match="opened for writing only"):
        writing.read_at(0, bytearray(1))
    with pytest.raises(UsageError, match="mode is 'w\\+'"):
        viewed(MemoryFile(), "w+")
    writing.close()
    with pytest.raises(UsageError, match="the file is closed"):
        writing.write_at(0, b"x")


def together(tmp_path: Path, size: int, act: Callable[[SocketGroup], object]) -> list[object]:
    with GroupServer(f"unix:{tmp_path}/group", size) as server, ThreadPoolExecutor(size) as pool:

        def one(rank: int) -> object:
            with SocketGroup.join(server.address, rank, size, 10) as group:
                return act(group)

        return [future.result() for future in [pool.submit(one, rank) for rank in range(size)]]


def test_processes_write_and_read_their_columns_together(tmp_path: Path) -> None:
    content, matrix = bytearray(), np.arange(12 * 8, dtype=np.int32).reshape(12, 8)

    def act(group: SocketGroup) -> object:
        file = MemoryFile(group=group)
        file.content = content
        mpi = viewed(file)
        mpi.set_view(0, INT32, subarray([12, 8], [12, 2], [0, 2 * group.rank], INT32))
        mine = np.ascontiguousarray(matrix[:, 2 * group.rank : 2 * group.rank + 2])
        assert mpi.write_all(mine) == mine.nbytes
        neighbour = (group.rank + 1) % 4
        mpi.set_view(0, INT32, subarray([12, 8], [12, 2], [0, 2 * neighbour], INT32))
        theirs = np.zeros((12, 2), dtype=np.int32)
        mpi.read_at_all(0, theirs)
        return np.array_equal(theirs, matrix[:, 2 * neighbour : 2 * neighbour + 2])

    assert together(tmp_path, 4, act) == [True] * 4
    assert content == matrix.tobytes()


def test_a_fault_in_one_process_ends_the_collective_call_in_all(tmp_path: Path) -> None:
    def act(group: SocketGroup) -> object:
        file = MemoryFile(group=group)
        file.broken = group.rank == 1
        mpi = viewed(file)
        with pytest.raises(PeerError, match="No space left") as caught:
            mpi.write_at_all(0, b"abc")
        file.broken = False
        assert mpi.write_at_all(0, b"abc") == 3  # and the group is still in step
        return str(caught.value)

    fault = "p1: write of /a: No space left on device"
    others = f"process 1: its write_at_all failed: {fault}"
    assert together(tmp_path, 3, act) == [others, fault, others]


def test_views_and_sizes_are_agreed_on(tmp_path: Path) -> None:
    def act(group: SocketGroup) -> object:
        mpi = viewed(MemoryFile(group=group))
        with pytest.raises(
            UsageError, match=r"process . calls set_view with .'an etype of . bytes'. where process"
        ):
            mpi.set_view(0, INT32 if group.rank else INT16)
        with pytest.raises(UsageError, match=r"calls set_size with \[1.\] where process"):
            mpi.set_size(10 + group.rank)
        cross = indexed([1, 1], [4, 2], BYTE)
        with pytest.raises(UsageError if group.rank else PeerError, match="cross-ordered"):
            mpi.set_view(0, BYTE, cross if group.rank else BYTE)
        mpi.set_size(10)
        mpi.sync(durable=False)
        return mpi.size()

    assert together(tmp_path, 2, act) == [10, 10]
