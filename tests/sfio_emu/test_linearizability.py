"""Concurrent reads and writes of single stripe units, whatever their length: each takes effect at one moment, for all
clients. SFIO_HISTORY_CALLS=20000 runs more of them (`make soak`)."""

from __future__ import annotations

import dataclasses
import os
import random
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import pytest

from sfio_emu import Settings, StripedFile
from tests.helpers.linearizability import Operation, linearizable
from tests.helpers.listeners import session_of
from tests.helpers.striped_nodes import Nodes

pytestmark = pytest.mark.scaled
CALLS = int(os.environ.get("SFIO_HISTORY_CALLS", "300"))
CLIENTS = 4
REGISTERS = 3
MIN_OVERLAPS, MAX_ROUNDS = 10, 40
"""Of the calls on a register, so many must have run while another did."""


def call(begin: float, end: float, value: bytes, *, writes: bool = False) -> Operation:
    return Operation(begin=begin, end=end, writes=writes, value=value)


@pytest.mark.parametrize(
    ("history", "possible"),
    [
        ([call(0, 1, b"a", writes=True), call(2, 3, b"a")], True),
        ([call(0, 1, b"a", writes=True), call(2, 3, b"0")], False),  # a stale read
        (
            [call(0, 9, b"a", writes=True), call(1, 2, b"a"), call(3, 4, b"0")],
            False,
        ),  # back in time
        ([call(0, 9, b"a", writes=True), call(1, 2, b"0"), call(3, 4, b"a")], True),
        ([call(0, 9, b"a", writes=True), call(0, 9, b"b", writes=True), call(10, 11, b"a")], True),
        (
            [
                call(0, 9, b"a", writes=True),
                call(0, 9, b"b", writes=True),
                call(3, 4, b"a"),
                call(5, 6, b"b"),
            ],
            True,
        ),
        (
            [
                call(0, 2, b"a", writes=True),
                call(1, 4, b"b", writes=True),
                call(5, 6, b"a"),
                call(7, 8, b"b"),
            ],
            False,
        ),
        ([call(0, 1, b"a", writes=True), call(0.5, 2, b"x")], False),  # never written, or torn
    ],
)
def test_the_checker_tells_what_may_be_from_what_may_not(
    history: list[Operation], possible: bool
) -> None:
    assert linearizable(history, b"0") is possible


@pytest.mark.parametrize("unit", [8, 4096, 300_000])
def test_reads_and_writes_of_one_stripe_unit_take_effect_at_one_moment(
    tmp_path: Path, unit: int
) -> None:
    nodes = Nodes(tmp_path, ("p1", "p2"))
    with StripedFile.open("p1/a;p2/a", unit, session=session_of(nodes.places)) as file:
        file.pwrite(b"00000000" * (unit // 8) * REGISTERS, 0)
    histories: dict[int, list[Operation]] = {register: [] for register in range(REGISTERS)}
    turns = max(1, (CALLS if unit < 100_000 else CALLS // 6) // CLIENTS)
    for first in range(
        0, MAX_ROUNDS * turns, turns
    ):  # a busy machine may run one client after the other: then again
        _live_together(nodes, unit, range(first, first + turns), histories)
        if all(_overlaps(history) >= MIN_OVERLAPS for history in histories.values()):
            break
    nodes.close()
    for history in histories.values():
        assert linearizable(history, b"00000000")
        assert _overlaps(history) >= MIN_OVERLAPS, (
            "the clients did not run at the same time: nothing was tested"
        )
        assert not linearizable(_with_a_stale_read(history), b"00000000")


def _live_together(
    nodes: Nodes, unit: int, turns: range, histories: dict[int, list[Operation]]
) -> None:
    """All clients at once, so many calls each; their calls are added to the histories of the registers."""
    together = threading.Barrier(CLIENTS)

    def live(number: int) -> list[tuple[int, Operation]]:
        draw, found = random.Random(f"{number} {turns.start}"), []
        # a long unit in one message that the listener holds: a longer one is written in blocks, as the guarantees say
        session = session_of(
            nodes.places, timeout_s=20, settings=Settings(check_data=number % 2 == 0)
        )
        try:
            file = StripedFile.open("p1/a;p2/a", unit, session=session)
            together.wait(60)
            for turn in turns:
                register, writes = draw.randrange(REGISTERS), draw.random() < 0.5
                value = f"{number:02d}{turn:06d}".encode() * (unit // 8) if writes else b""
                begin = time.monotonic()
                if writes:
                    file.pwrite(value, register * unit)
                else:
                    value = file.pread(unit, register * unit)
                end = time.monotonic()
                assert value == value[:8] * (unit // 8), "a value that is torn"
                found.append(
                    (register, Operation(begin=begin, end=end, writes=writes, value=value[:8]))
                )
        finally:
            session.close()
        return found

    with ThreadPoolExecutor(CLIENTS) as clients:
        for found in clients.map(live, range(CLIENTS)):
            for register, operation in found:
                histories[register].append(operation)


def _overlaps(history: Sequence[Operation]) -> int:
    ordered = sorted(history, key=lambda call: call.begin)
    return sum(later.begin < call.end for call, later in pairwise(ordered))


def _with_a_stale_read(history: Sequence[Operation]) -> list[Operation]:
    """The same, but one of its reads gave what had been overwritten before it began: what a client that caches would
    see."""
    last = max(call.begin for call in history)
    writes = sorted((call for call in history if call.writes), key=lambda call: call.end)
    stale = Operation(begin=last + 1, end=last + 2, writes=False, value=writes[0].value)
    return [*(dataclasses.replace(call) for call in history), stale]
