"""A block parted over stages, and joined from them: always the bytes of the layout, whoever is ahead and whoever
stops."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfio_emu.layout import block_stage
from sfio_emu.layout.block_stage import BlockStage, room_bytes
from sfio_emu.layout.striping import Layout

WINDOW_BYTES = 64
SHAPES = st.tuples(st.integers(1, 90), st.integers(2, 5), st.integers(0, 700), st.integers(1, 1500))


@pytest.fixture(autouse=True, params=[False, True], ids=["numpy", "compiled"])
def small_windows(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block_stage, "window_bytes", lambda subfiles: WINDOW_BYTES)
    monkeypatch.setattr(block_stage, "COMPILED_FROM_BYTES", 0 if request.param else 2**62)
    if not request.param:
        monkeypatch.setattr(block_stage, "sys", type("NoModules", (), {"modules": {}}))


def subfiles_of(layout: Layout, data: np.ndarray, offset: int) -> list[bytes]:
    """What of the block lies on each subfile, byte by byte from the definition."""
    parts: list[bytearray] = [bytearray() for _ in range(layout.subfiles)]
    for place, byte in enumerate(data.tolist()):
        parts[(offset + place) // layout.stripe_unit % layout.subfiles].append(byte)
    return [bytes(part) for part in parts]


def stage_of(layout: Layout, memory: np.ndarray, offset: int, place: int, size: int) -> BlockStage:
    room = np.zeros(room_bytes(layout.subfiles), dtype=np.uint8)
    return BlockStage(layout, memory, offset, place, size, room)


def cuts(low: int, high: int, points: list[int]) -> list[tuple[int, int]]:
    """The messages of a subfile: [low, high) cut at some points."""
    borders = sorted({low, high, *(low + point % max(high - low, 1) for point in points)})
    return [pair for pair in pairwise(borders) if pair[0] < pair[1]]


@settings(max_examples=60, deadline=None)
@given(SHAPES, st.lists(st.integers(0, 4), max_size=200), st.lists(st.integers(0, 500), max_size=4))
def test_parted_windows_are_the_subfiles_whoever_is_ahead(
    shape: tuple[int, int, int, int], order: list[int], points: list[int]
) -> None:
    unit, count, offset, size = shape
    layout = Layout(stripe_unit=unit, subfiles=count)
    memory = np.random.default_rng(size).integers(0, 256, size + 20, dtype=np.uint8)
    stage = stage_of(layout, memory, offset, 7, size)
    gone: list[bytearray] = [bytearray() for _ in range(count)]

    def windows(subfile: int) -> Iterator[None]:
        for low, high in cuts(layout.share(offset, subfile), layout.share(offset + size, subfile), points):
            for (view,) in stage.parted(subfile, low, high):
                yield
                gone[subfile] += view  # taken late: nobody may have used the place meanwhile

    running = {subfile: windows(subfile) for subfile in range(count)}
    for subfile in [*(turn % count for turn in order), *range(count)]:
        if subfile in running and next(running[subfile], "end") == "end":
            del running[subfile]
    for rest in running.values():
        list(rest)
    assert [bytes(part) for part in gone] == subfiles_of(layout, memory[7 : 7 + size], offset)


@settings(max_examples=60, deadline=None)
@given(SHAPES, st.lists(st.integers(0, 4), max_size=200), st.lists(st.integers(0, 500), max_size=4), st.integers(-1, 4))
def test_joined_windows_fill_the_block_and_nothing_else(
    shape: tuple[int, int, int, int], order: list[int], points: list[int], skipped: int
) -> None:
    unit, count, offset, size = shape
    layout = Layout(stripe_unit=unit, subfiles=count)
    data = np.random.default_rng(size).integers(1, 256, size, dtype=np.uint8)
    memory = np.zeros(size + 20, dtype=np.uint8)
    shares = subfiles_of(layout, data, offset)
    stage = stage_of(layout, memory, offset, 7, size)

    def windows(subfile: int) -> Iterator[None]:
        first = layout.share(offset, subfile)
        for number, (low, high) in enumerate(cuts(first, layout.share(offset + size, subfile), points)):
            if number == skipped:  # this message came short: another way brings it
                continue
            for (view,) in stage.joined(subfile, low, high):
                view[:] = shares[subfile][low - first : low - first + len(view)]
                low += len(view)
                yield

    missing = np.zeros(size, dtype=bool)
    for subfile in range(count):
        first = layout.share(offset, subfile)
        messages = cuts(first, layout.share(offset + size, subfile), points)
        if 0 <= skipped < len(messages):
            for local in range(*messages[skipped]):
                missing[layout.logical_offset(subfile, local) - offset] = True
    running = {subfile: windows(subfile) for subfile in range(count)}
    for subfile in [*(turn % count for turn in order), *range(count)]:
        if subfile in running and next(running[subfile], "end") == "end":
            del running[subfile]
    for rest in running.values():
        list(rest)
    stage.flush()
    assert np.array_equal(memory[7 : 7 + size], np.where(missing, 0, data))
    assert not memory[:7].any() and not memory[7 + size :].any()


def test_windows_that_subfiles_fill_in_step_are_joined_in_one_pass_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """A subfile that the block does not reach keeps nobody waiting."""
    passes: list[tuple[int, list[int]]] = []
    copy = BlockStage._copy

    def counted(stage: BlockStage, number: int, chosen: list[int], *rest: Any, **options: Any) -> None:
        passes.append((number, list(chosen)))
        copy(stage, number, chosen, *rest, **options)

    monkeypatch.setattr(BlockStage, "_copy", counted)
    for subfiles, size, used in ((3, 3 * 3 * WINDOW_BYTES, [0, 1, 2]), (3, WINDOW_BYTES // 4, [0])):
        layout = Layout(stripe_unit=WINDOW_BYTES // 4, subfiles=subfiles)
        memory = np.zeros(size, dtype=np.uint8)
        stage = stage_of(layout, memory, 0, 0, size)
        passes.clear()
        running = [stage.joined(subfile, 0, layout.share(size, subfile)) for subfile in range(subfiles)]
        windows = -(-layout.share(size, 0) // WINDOW_BYTES)
        for _ in range(windows + 1):  # one more, to say that the last is full
            for views in running:
                for (view,) in itertools.islice(views, 1):
                    view[:] = b"x" * len(view)
        assert passes == [(number, used) for number in range(windows)]
        assert memory.tobytes() == b"x" * size


def test_a_block_outside_its_memory_is_refused() -> None:
    layout = Layout(stripe_unit=5, subfiles=2)
    with pytest.raises(ValueError, match="100 bytes at 1"):
        stage_of(layout, np.zeros(100, dtype=np.uint8), 0, 1, 100)
