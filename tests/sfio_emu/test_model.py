"""Two sessions on one striped file against one byte array: any calls, sizes, truncations, faults and reopenings.
SFIO_MODEL_STEPS=100000 runs the full size (`make soak`); by default it is some hundreds."""

from __future__ import annotations

import os
import random
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from sfio_emu import (
    ListenerLost,
    RemoteFailure,
    Session,
    Settings,
    StripedFile,
    mrename,
    mstat,
    use,
    wait_all,
)
from sfio_emu.adapters.sockets import TcpConnections
from tests.helpers.striped_nodes import Nodes

pytestmark = pytest.mark.scaled
STEPS = int(os.environ.get("SFIO_MODEL_STEPS", "200"))
STEPS_EACH = 50
HOSTS = ("p1", "p2", "p3")
NAME, OTHER = "p1/a;p2/a;p3/a;p1/b", "p1/x/a;p2/x/a;p3/x/a;p1/x/b"
REACH = 700
FURTHEST = 2000
who = st.integers(0, 1)
places = st.integers(0, REACH)
blobs = st.binary(min_size=0, max_size=260)
shapes = st.tuples(
    st.integers(1, 4), st.sampled_from([0, 1, 2, 3, 5]), st.integers(0, 2), st.integers(1, 70)
)
"""Size, gap in the file, gap in memory, number of blocks."""
full = st.binary(min_size=60, max_size=260)


def alike(
    offset: int, distance: int, place_distance: int, size: int, count: int
) -> tuple[list[int], ...]:
    """Blocks at one distance: offsets in the file, places in memory, sizes."""
    numbers = range(count)
    return (
        [offset + distance * n for n in numbers],
        [place_distance * n for n in numbers],
        [size] * count,
    )


class TwoSessions(RuleBasedStateMachine):
    """`expected` is the file; every rule does the same to both, and reads are compared at once."""

    steps = 0
    full_disks = 0

    @initialize(
        unit=st.sampled_from([1, 3, 7, 75, 1005]), merge=st.booleans(), check_data=st.booleans()
    )
    def begin(self, unit: int, merge: bool, check_data: bool) -> None:
        self.folder = tempfile.TemporaryDirectory(
            dir="/dev/shm" if Path("/dev/shm").is_dir() else None
        )
        self.nodes = Nodes(Path(self.folder.name), HOSTS)
        self.unit, self.name = unit, NAME
        kinds = (
            Settings(check_data=check_data),
            Settings(merge=merge, message_bytes=4096, window=2),
        )
        self.sessions = [
            Session(TcpConnections(self.nodes.places, timeout_s=20), settings=kind)
            for kind in kinds
        ]
        self.files = [StripedFile.open(NAME, unit, session=session) for session in self.sessions]
        self.expected = bytearray()

    def note(self, offset: int, data: bytes) -> None:
        if data:
            self.expected.extend(bytes(max(0, offset + len(data) - len(self.expected))))
            self.expected[offset : offset + len(data)] = data

    @rule(who=who, offset=places, data=blobs)
    def write(self, who: int, offset: int, data: bytes) -> None:
        assert self.files[who].pwrite(data, offset) == len(data)
        self.note(offset, data)

    @rule(who=who, offset=places, data=st.binary(max_size=20))
    def write_fragments(self, who: int, offset: int, data: bytes) -> None:
        self.files[who].write_fragments(data, offset)
        self.note(offset, data)

    @rule(who=who, blocks=st.lists(st.tuples(places, st.binary(max_size=40)), max_size=6))
    def write_many(self, who: int, blocks: list[tuple[int, bytes]]) -> None:
        self.files[who].pwritev([data for _, data in blocks], [offset for offset, _ in blocks])
        for offset, data in blocks:
            self.note(offset, data)

    @rule(who=who, blocks=st.lists(st.tuples(places, st.binary(max_size=40)), max_size=6))
    def write_without_waiting(self, who: int, blocks: list[tuple[int, bytes]]) -> None:
        wait_all([self.files[who].ipwrite(data, offset) for offset, data in blocks])
        for offset, data in blocks:
            self.note(offset, data)

    @rule(who=who, offset=places, shape=shapes)
    def write_strided(self, who: int, offset: int, shape: tuple[int, int, int, int]) -> None:
        size, gap, more, count = shape
        data = bytes(random.Random(count).randbytes((size + more) * count))
        assert (
            self.files[who].pwrite_blocks(
                data, *alike(offset, size + gap, size + more, size, count)
            )
            == size * count
        )
        for number in range(count):
            start = number * (size + more)
            self.note(offset + number * (size + gap), data[start : start + size])

    @rule(who=who, offset=places, shape=shapes)
    def read_strided(self, who: int, offset: int, shape: tuple[int, int, int, int]) -> None:
        size, gap, more, count = shape
        target, wanted, moved = (
            bytearray((size + more) * count),
            bytearray((size + more) * count),
            0,
        )
        for number in range(count):
            there = self.expected[offset + number * (size + gap) :][:size]
            start, moved = number * (size + more), moved + len(there)
            wanted[start : start + len(there)] = there
        blocks = alike(offset, size + gap, size + more, size, count)
        assert (self.files[who].pread_blocks(target, *blocks), target) == (moved, wanted)

    @rule(who=who, data=blobs)
    def append(self, who: int, data: bytes) -> None:
        with StripedFile.open(self.name, self.unit, mode="a", session=self.sessions[who]) as file:
            file.write(data)
        self.note(len(self.expected), data)

    @rule(who=who, offset=places, size=st.integers(0, 900), plain=st.booleans())
    def read(self, who: int, offset: int, size: int, plain: bool) -> None:
        target = bytearray(b"\xee" * min(size, 60 if plain else size))
        count = (
            self.files[who].read_fragments(target, offset)
            if plain
            else self.files[who].pread(target, offset)
        )
        there = self.expected[offset : offset + len(target)]
        assert count == len(there)
        assert target == there + b"\xee" * (len(target) - len(there))

    @rule(
        who=who,
        blocks=st.lists(st.tuples(places, st.integers(0, 60)), max_size=6),
        waiting=st.booleans(),
    )
    def read_many(self, who: int, blocks: list[tuple[int, int]], waiting: bool) -> None:
        targets = [bytearray(size) for _, size in blocks]
        offsets = [offset for offset, _ in blocks]
        if waiting:
            counts = self.files[who].preadv(targets, offsets)
        else:
            begun = [self.files[who].ipread(*block) for block in zip(targets, offsets, strict=True)]
            counts = wait_all(begun)
        for target, offset, count in zip(targets, offsets, counts, strict=True):
            assert target[:count] == self.expected[offset : offset + len(target)]

    @rule(who=who, size=places)
    def truncate(self, who: int, size: int) -> None:
        self.files[who].truncate(size)
        self.expected = self.expected[:size] + bytes(max(0, size - len(self.expected)))

    @rule(who=who)
    def size(self, who: int) -> None:
        assert self.files[who].size() == len(self.expected)
        found = mstat(self.name, self.sessions[who])
        assert (found.size, found.whole) == (len(self.expected), True)

    @rule(who=who, mode=st.sampled_from(["rw", "r+"]))
    def reopen(self, who: int, mode: str) -> None:
        self.files[who].close()
        self.files[who] = StripedFile.open(
            self.name, self.unit, mode=mode, session=self.sessions[who]
        )

    @rule(who=who)
    def empty(self, who: int) -> None:
        with StripedFile.open(self.name, self.unit, mode="w", session=self.sessions[who]):
            self.expected = bytearray()

    @rule()
    def rename(self) -> None:
        new = OTHER if self.name == NAME else NAME
        for (
            file
        ) in self.files:  # a file that is open keeps its old name: reopened under the new one
            file.close()
        use(self.sessions[0])
        mrename(self.name, new)
        use(None)
        self.name = new
        self.files = [
            StripedFile.open(new, self.unit, mode="r+", session=session)
            for session in self.sessions
        ]

    @rule(who=who)
    def lose_connections(self, who: int) -> None:
        self.sessions[who].close()

    @rule(host=st.sampled_from(HOSTS))
    def restart(self, host: str) -> None:
        self.nodes.stop(host)
        self.nodes.start(host)
        for file in self.files:
            with suppress(
                ListenerLost
            ):  # the first call notices it, and the next one connects anew
                file.size()

    @rule(who=who, host=st.sampled_from(HOSTS), left=st.integers(0, 20), offset=places, data=full)
    def fill_the_disk(self, who: int, host: str, left: int, offset: int, data: bytes) -> None:
        """A write that may fail in the middle: each byte of it is as before or as written, all others are as before."""
        before = bytes(self.expected)
        self.nodes.full[host] = left
        failed = False
        try:
            self.files[who].pwrite(data, offset)
        except RemoteFailure as failure:
            failed = True
            assert failure.host == host and failure.call == "write" and failure.done_bytes <= left
        self.nodes.full[host] = None
        self.note(offset, data)
        if not failed:
            return
        TwoSessions.full_disks += 1
        found = self.files[who].extent()
        assert len(before) <= max(found.end, len(before)) <= max(len(before), offset + len(data))
        self.files[who].truncate(max(found.end, len(before)))
        there = self.files[who].pread(FURTHEST, 0)
        assert len(there) == max(found.end, len(before))
        for place, byte in enumerate(there):
            old = before[place] if place < len(before) else 0
            assert byte == old or (
                offset <= place < offset + len(data) and byte == data[place - offset]
            )
        self.expected = bytearray(there)

    @invariant()
    def the_sum_of_the_subfiles_is_the_size(self) -> None:
        TwoSessions.steps += 1
        if hasattr(self, "expected"):
            sizes = [
                (Path(self.folder.name) / part).stat().st_size for part in self.name.split(";")
            ]
            assert sizes == list(self.files[0].layout.subfile_sizes(len(self.expected)))

    def teardown(self) -> None:
        if not hasattr(self, "nodes"):
            return
        try:
            for file in self.files:
                assert file.pread(FURTHEST, 0) == self.expected
            parts = [(Path(self.folder.name) / part).read_bytes() for part in self.name.split(";")]
            wanted = [bytearray() for _ in parts]
            for piece in self.files[0].layout.fragments(0, len(self.expected)):
                wanted[piece.subfile] += self.expected[piece.offset : piece.offset + piece.size]
            assert parts == wanted
        finally:
            for session in self.sessions:
                session.close()
            self.nodes.close()
            self.folder.cleanup()


TestTwoSessions = TwoSessions.TestCase
TestTwoSessions.settings = settings(
    max_examples=-(-STEPS // 40),  # a few steps of each fall away
    stateful_step_count=STEPS_EACH,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    derandomize=STEPS < 10_000,
    phases=[Phase.explicit, Phase.generate]
    if STEPS < 10_000
    else list(Phase),  # shrinking takes minutes
    database=None,
    print_blob=True,
)


def test_the_steps_were_taken() -> None:
    if TwoSessions.steps:  # else the machine was not chosen to run
        assert TwoSessions.steps >= STEPS, (
            "the machine stops earlier than it was thought to: see its settings"
        )
        assert TwoSessions.full_disks > STEPS // 200, "hardly a write met a full disk"
