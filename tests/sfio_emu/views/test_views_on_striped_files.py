"""Views on real striped files: listeners on loopback, processes (threads here) of a group, files below a root."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from sfio_emu.adapters.listener import Listener, open_listening_socket
from sfio_emu.adapters.peers.group_server import GroupServer
from sfio_emu.adapters.process_group import SocketGroup
from sfio_emu.adapters.sockets import TcpConnections
from sfio_emu.client.session import Session
from sfio_emu.errors import PeerError, UsageError
from sfio_emu.striped_file import StripedFile
from sfio_emu.views.datatypes import BYTE, INT32, hindexed, indexed_block, resized, subarray, vector
from sfio_emu.views.mpi_file import MpiFile

Open = Callable[[str, int, str], MpiFile]


@contextmanager
def listeners(root: Path, hosts: list[str]) -> Iterator[dict[str, tuple[str, int]]]:
    doors = [open_listening_socket("127.0.0.1", 0) for _ in hosts]
    addresses = {
        host: ("127.0.0.1", int(listening.getsockname()[1]))
        for host, listening in zip(hosts, doors, strict=True)
    }
    places = [(listening, root / host) for host, listening in zip(hosts, doors, strict=True)]
    for _, place in places:
        place.mkdir(parents=True)
    listener = Listener(places)
    thread = threading.Thread(target=listener.serve_forever)
    thread.start()
    try:
        yield addresses
    finally:
        listener.close()
        thread.join()


def in_every_process(root: Path, size: int, act: Callable[[int, Session], object]) -> list[object]:
    """Run `act(rank, session)` in `size` processes with two I/O nodes."""
    with (
        listeners(root, ["p1", "p2", "p3"]) as addresses,
        GroupServer(f"unix:{root}/group", size) as server,
        ThreadPoolExecutor(size) as pool,
    ):

        def one(rank: int) -> object:
            with SocketGroup.join(server.address, rank, size, 10) as group:
                session = Session(TcpConnections(addresses), group)
                try:
                    return act(rank, session)
                finally:
                    session.close()

        return [future.result() for future in [pool.submit(one, rank) for rank in range(size)]]


NAME = "p1/tmp/a.dat;p2/tmp/b.dat;p3/c.dat;"


@pytest.mark.parametrize("stripe_unit", [1, 75, 1005])
def test_columns_written_by_four_processes_make_the_matrix(
    tmp_path: Path, stripe_unit: int
) -> None:
    matrix = np.arange(60 * 16, dtype=np.int32).reshape(60, 16)

    def act(rank: int, session: Session) -> object:
        with MpiFile.open(NAME, stripe_unit, session=session) as file:
            file.set_view(0, INT32, subarray([60, 16], [60, 4], [0, 4 * rank], INT32))
            # memory in columns, the file in rows: the data's order is the file's
            mine = np.ascontiguousarray(matrix[:, 4 * rank : 4 * rank + 4].T)
            by_rows = indexed_block(
                1, [column * 60 + row for row in range(60) for column in range(4)], INT32
            )
            assert file.write_all(mine, by_rows) == mine.nbytes
            file.set_view()
            whole = np.zeros_like(matrix)
            assert file.read_at_all(0, whole) == matrix.nbytes == file.size()
            return np.array_equal(whole, matrix)

    assert in_every_process(tmp_path, 4, act) == [True] * 4
    subfiles = [
        (tmp_path / place).read_bytes() for place in ("p1/tmp/a.dat", "p2/tmp/b.dat", "p3/c.dat")
    ]
    content = matrix.tobytes()
    units = [content[at : at + stripe_unit] for at in range(0, len(content), stripe_unit)]
    assert subfiles == [b"".join(units[number::3]) for number in range(3)]


def test_random_views_against_a_bytearray(tmp_path: Path) -> None:
    random = np.random.default_rng(7)
    oracle = bytearray()

    def act(rank: int, session: Session) -> object:
        with MpiFile.open(NAME, 7, session=session) as file:
            for _ in range(150):
                gaps, lengths = random.integers(0, 9, 6), random.integers(1, 9, 6)
                places = np.cumsum(gaps + lengths) - lengths
                end = int(places[-1] + lengths[-1])
                tile = resized(
                    hindexed(lengths.tolist(), places.tolist(), BYTE),
                    0,
                    end + int(random.integers(0, 9)),
                )
                displacement, offset, count = (int(n) for n in random.integers(0, 300, 3))
                file.set_view(displacement, BYTE, tile)
                stream = [
                    at + i
                    for at, length in file.view.runs(offset, count).pairs()
                    for i in range(length)
                ]
                data = random.integers(0, 256, count, dtype=np.uint8)
                if random.random() < 0.5:
                    file.write_at(offset, data)
                    oracle.extend(bytes(max([0, *[at + 1 - len(oracle) for at in stream]])))
                    for at, value in zip(stream, data.tolist(), strict=True):
                        oracle[at] = value
                else:
                    expected = bytes(oracle[at] for at in stream if at < len(oracle))
                    buffer = bytearray(count)
                    assert file.read_at(offset, buffer) == len(expected)
                    assert buffer[: len(expected)] == expected
                if random.random() < 0.05:
                    size = int(random.integers(0, 900))
                    file.set_size(size)
                    oracle[size:] = bytes(max(0, size - len(oracle)))
            file.set_view()
            buffer = bytearray(len(oracle) + 10)
            assert file.read(buffer) == len(oracle) == file.size()
            return buffer[: len(oracle)] == oracle

    assert in_every_process(tmp_path, 1, act) == [True]


def test_a_strided_access_is_few_messages(tmp_path: Path) -> None:
    def act(rank: int, session: Session) -> object:
        with MpiFile.open(NAME, 75, session=session) as file:
            file.set_view(0, BYTE, resized(vector(1, 75, 75, BYTE), 0, 225))
            file.write_at(0, bytes(75 * 2000))
            assert isinstance(file.file, StripedFile)
            return file.file.counters.messages, file.file.counters.bytes_written

    messages, written = in_every_process(tmp_path, 1, act)[0]  # type: ignore[misc]
    assert written == 150_000
    assert messages < 20


def test_a_failed_open_and_a_refused_view_end_everywhere(tmp_path: Path) -> None:
    def act(rank: int, session: Session) -> object:
        with pytest.raises(UsageError):
            MpiFile.open(NAME, 0, session=session)
        with MpiFile.open(NAME, 75, session=session) as file:
            cross = hindexed([1, 1], [4, 2], BYTE)
            with pytest.raises(UsageError if rank == 1 else PeerError, match="cross-ordered"):
                file.set_view(0, BYTE, cross if rank == 1 else BYTE)
            file.set_size(50)
            return file.size()

    assert in_every_process(tmp_path, 2, act) == [50, 50]
