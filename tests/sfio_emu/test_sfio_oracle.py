"""Random operations of several clients on a striped file, compared byte for byte with a plain bytearray.
SFIO_ORACLE_OPERATIONS=100000 runs the full size; `make soak` a fifth of it, `make test` a second or two."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from sfio_emu import (
    Session,
    Settings,
    StripedFile,
    mchsize,
    mread,
    mreadb,
    mreadc,
    mwrite,
    mwriteb,
    mwritec,
)
from sfio_emu.adapters.sockets import TcpConnections
from tests.helpers.drawn import SOAK
from tests.helpers.warm import WarmProcess

OPERATIONS = int(os.environ.get("SFIO_ORACLE_OPERATIONS", "20000" if SOAK else "480"))
UNITS = (1, 5, 75, 200, 1005, 65536)
CLIENTS = 4
HOSTS = ("p1", "p2", "p3")
pytestmark = pytest.mark.scaled


@contextmanager
def listener_process(root: Path, *options: str) -> Iterator[dict[str, tuple[str, int]]]:
    """Three listeners in one process of their own; their addresses."""
    command = [
        sys.executable,
        "-P",
        "-m",
        "sfio_emu.adapters.listener",
        "--root",
        str(root),
        *options,
    ]
    for host in HOSTS:
        command += ["--listen", f"{host}@127.0.0.1:0"]
    with WarmProcess(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            ports = [int(process.stdout.readline().rpartition(":")[2]) for _ in HOSTS]
            yield {host: ("127.0.0.1", port) for host, port in zip(HOSTS, ports, strict=True)}
        finally:
            process.kill()


def region_bytes(unit: int) -> int:
    """How much of the file belongs to one client: some rounds of the stripes, never their multiple."""
    return min(max(20 * unit + 13, 400), 150_001)


class Client:
    """One client with its region of the file and what it should hold; every function of the interface is used."""

    def __init__(self, number: int, unit: int, file: StripedFile) -> None:
        self.random = random.Random(1000 * unit + number)
        self.file = file
        self.size = region_bytes(unit)
        self.start = number * self.size
        self.expected = bytearray(self.size)
        self.largest = min(self.size, 40 * unit + 200)

    def block(self) -> tuple[int, int]:
        size = self.random.randint(0, self.largest)
        return self.random.randint(0, self.size - size), size

    def step(self) -> None:
        operation = self.random.choice(
            (self.write_one, self.read_one, self.write_many, self.read_many)
        )
        operation()

    def write_one(self) -> None:
        offset, size = self.block()
        plain = self.random.random() < 0.15
        if plain:
            size = min(size, 30 * self.file.layout.stripe_unit)
        data = self.random.randbytes(size)
        (mwrite if plain else mwritec)(self.file, self.start + offset, data)
        self.expected[offset : offset + size] = data

    def read_one(self) -> None:
        offset, size = self.block()
        plain = self.random.random() < 0.15
        if plain:
            size = min(size, 30 * self.file.layout.stripe_unit)
        buffer = bytearray(size)
        count = (mread if plain else mreadc)(self.file, self.start + offset, buffer)
        assert count == size
        assert buffer == self.expected[offset : offset + size]

    def write_many(self) -> None:
        blocks = [self.block() for _ in range(self.random.choice((1, 2, 3, 50)))]
        blocks = [(offset, min(size, 1 + self.largest // len(blocks))) for offset, size in blocks]
        buffers = [self.random.randbytes(size) for _, size in blocks]
        sizes = [size for _, size in blocks]
        mwriteb(
            self.file, len(blocks), [self.start + offset for offset, _ in blocks], buffers, sizes
        )
        for (offset, size), data in zip(blocks, buffers, strict=True):
            self.expected[offset : offset + size] = data

    def read_many(self) -> None:
        blocks = [self.block() for _ in range(self.random.choice((1, 2, 3, 50)))]
        blocks = [(offset, min(size, 1 + self.largest // len(blocks))) for offset, size in blocks]
        buffers = [np.zeros(size, dtype=np.uint8) for _, size in blocks]
        sizes = [size for _, size in blocks]
        counts = mreadb(
            self.file, len(blocks), [self.start + offset for offset, _ in blocks], buffers, sizes
        )
        assert counts == sizes
        for (offset, size), buffer in zip(blocks, buffers, strict=True):
            assert buffer.tobytes() == self.expected[offset : offset + size]


SETTINGS = (
    Settings(),
    Settings(check_data=False, check_reads=False, message_bytes=4096),
    Settings(sort=False, merge=False, combine=False, pipeline=False),
    Settings(merge=False, window=2),
)


@pytest.mark.parametrize("unit", UNITS)
def test_four_clients_on_disjoint_regions_leave_what_a_bytearray_holds(
    tmp_path: Path, unit: int
) -> None:
    name = "p1/a;p2/sub/a;p3/a;p2/b"
    with listener_process(tmp_path, "--message", "65536") as addresses:
        sessions = [
            Session(TcpConnections(addresses, timeout_s=20), settings=SETTINGS[n])
            for n in range(CLIENTS)
        ]
        files = [StripedFile.open(name, unit, session=session) for session in sessions]
        clients = [Client(number, unit, file) for number, file in enumerate(files)]
        mchsize(files[0], CLIENTS * clients[0].size)
        faults: list[BaseException] = []

        def run(client: Client) -> None:
            try:
                for _ in range(OPERATIONS // CLIENTS // len(UNITS)):
                    client.step()
            except BaseException as fault:  # noqa: BLE001 - handed to the test below
                faults.append(fault)

        threads = [threading.Thread(target=run, args=(client,)) for client in clients]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if faults:
            raise faults[0]
        expected = b"".join(client.expected for client in clients)
        assert files[0].size() == len(expected)
        assert files[0].pread(len(expected) + 10, 0) == expected
        layout = files[0].layout
        subfiles = [bytearray() for _ in range(layout.subfiles)]
        for fragment in layout.fragments(0, len(expected)):
            subfiles[fragment.subfile] += expected[
                fragment.offset : fragment.offset + fragment.size
            ]
        on_disk = [(tmp_path / str(part)).read_bytes() for part in files[0].subfiles]
        assert on_disk == subfiles
        for session in sessions:
            session.close()


@pytest.mark.parametrize("unit", [3, 75])
def test_writes_truncations_and_reads_past_the_end_agree_with_a_bytearray(
    tmp_path: Path, unit: int
) -> None:
    draw = random.Random(unit)
    with listener_process(tmp_path) as addresses:
        file = StripedFile.open(
            "p1/a;p2/a;p3/a", unit, session=Session(TcpConnections(addresses, timeout_s=20))
        )
        expected = bytearray()
        for _ in range(max(60, OPERATIONS // 40)):
            offset, size = draw.randint(0, 40 * unit), draw.randint(0, 20 * unit)
            kind = draw.randrange(4)
            if kind == 0:
                mchsize(file, offset)
                expected = expected[:offset] + bytes(max(0, offset - len(expected)))
            elif kind == 1:
                buffer = bytearray(b"\xee" * size)
                count = (
                    mreadc(file, offset, buffer)
                    if draw.random() < 0.5
                    else mread(file, offset, buffer)
                )
                there = expected[offset : offset + size]
                assert count == len(there)
                assert buffer[:count] == there
            else:
                data = draw.randbytes(size)
                (mwritec if draw.random() < 0.5 else mwrite)(file, offset, data)
                if size:
                    expected += bytes(max(0, offset + size - len(expected)))
                    expected[offset : offset + size] = data
            assert file.size() == len(expected)
        assert file.pread(len(expected) + 1, 0) == expected
        file.close()
