"""Runs moved together at the listener: the same bytes as run by run, what lies between untouched, ends of files as
ever."""

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfio_emu import message_bodies, wire
from sfio_emu.listener.data_sieving import (
    MAX_GAP_BYTES,
    MIN_RUNS,
    WINDOW_BYTES,
    Window,
    parts_of,
    strided_parts,
)
from sfio_emu.wire import Malformed, Strided
from tests.helpers.drawn import drawn
from tests.helpers.mutated_messages import strided_body

Runs = list[tuple[int, int, int]]


@st.composite
def run_lists(draw: st.DrawFn) -> Runs:
    """Runs as clients send them: regular stretches, irregular ones, far jumps, other files, ends to ensure."""
    runs: Runs = []
    at = draw(st.integers(0, 50))
    for _ in range(draw(st.integers(1, 3))):
        handle = draw(st.integers(1, 2))
        if draw(st.booleans()):
            size, gap = draw(st.integers(1, 9)), draw(st.integers(0, 9))
            stretch = [(size, gap)] * draw(st.integers(1, 40))
        else:
            stretch = draw(
                st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=40)
            )
        for size, gap in stretch:
            runs.append((handle, size, at))
            at += size + gap
        at += draw(st.sampled_from([-60, 0, 3, MAX_GAP_BYTES + 1]))
        at = max(at, 0)
    return runs


def body_of(runs: Runs) -> memoryview:
    return memoryview(
        wire.encode_runs(
            [run[0] for run in runs], [run[2] for run in runs], [run[1] for run in runs]
        )
    )


@drawn(300)
@given(run_lists())
def test_parts_move_the_bytes_that_single_runs_would(runs: Runs) -> None:
    total = sum(size for _, size, _ in runs)
    stream = np.random.default_rng(total).integers(1, 256, total, dtype=np.uint8).tobytes()
    expected = {handle: bytearray(range(200)) * 100 for handle in (1, 2)}
    place = 0
    for handle, size, offset in runs:
        expected[handle][offset : offset + size] = stream[place : place + size]
        place += size
    files = {handle: bytearray(range(200)) * 100 for handle in (1, 2)}
    counts: list[int] = []
    place = 0
    for handle, size, offset, window in parts_of(body_of(runs)):
        data = memoryview(stream)[place : place + size]
        if window is None:
            files[handle][offset : offset + size] = data
            counts.append(size)
        else:
            assert (window.low, window.size) == (offset, size)
            span = memoryview(files[handle])[window.low : window.high]
            window.scatter(data, span)
            back = bytearray(size)
            window.gather(span, memoryview(back))
            assert back == data
            assert sum(window.counts(10**9)) == size
            counts += window.counts(10**9).tolist()
        place += size
    assert files == expected
    assert counts == [size for _, size, _ in runs]


@given(st.integers(0, 200))
def test_counts_end_where_the_subfile_ends(present: int) -> None:
    offsets, sizes = np.arange(20) * 10 + 1000, np.full(20, 4)
    expected = [min(4, max(0, present - 10 * i)) for i in range(20)]
    assert Window(offsets, sizes).counts(present).tolist() == expected


def test_windows_are_bounded_and_far_runs_stay_alone() -> None:
    far = [(1, 4, i * (MAX_GAP_BYTES + 5)) for i in range(50)]
    assert all(window is None for *_, window in parts_of(body_of(far)))
    near = [(1, 4, i * 1000) for i in range(2000)]
    windows = [window for *_, window in parts_of(body_of(near)) if window is not None]
    assert len(windows) >= 7
    assert all(window.high - window.low <= WINDOW_BYTES for window in windows)
    adjoining = [
        (1, 4, i * 4) for i in range(100)
    ]  # a client that does not merge wants them one by one
    assert all(window is None for *_, window in parts_of(body_of(adjoining)))


def test_strided_runs_are_kept_by_their_distance_and_go_in_windows() -> None:
    alone, spread, other = (
        Strided(1, 75, 9, 0, 1),
        Strided(1, 75, 5, 300, 2000),
        Strided(2, 4, 0, 4, 50),
    )
    parts, firsts = strided_parts([alone, spread, other])
    assert firsts == [0, 1, 2001]
    assert parts[0] == (1, 75, 9, None) and parts[-1] == (2, 200, 0, None), "neighbours are one run"
    windows = [window for *_, window in parts[1:-1]]
    assert {type(window) for window in windows} == {Window}
    assert sum(window.size for window in windows if window) == 150_000
    assert all(window.high - window.low <= WINDOW_BYTES for window in windows if window)
    far, _ = strided_parts([Strided(1, 4, 0, MAX_GAP_BYTES + 5, 30)])
    assert far == [(1, 4, number * (MAX_GAP_BYTES + 5), None) for number in range(30)]
    singly, _ = strided_parts([spread], together=False)
    assert len(singly) == 2000 and all(window is None for *_, window in singly)
    assert {
        type(window)
        for *_, window in parts_of(body_of([(1, 75, 5 + 300 * i) for i in range(2000)]))
    } == {Window}


@pytest.mark.parametrize(
    ("runs", "text"),
    [
        ([(1, 4, 0, 8, 0)], "0 strided runs of 4 bytes"),
        ([(1, 0, 0, 8, 2)], "2 strided runs of 0 bytes"),
        ([(1, 9, 0, 8, 2)], "2 strided runs of 9 bytes at a distance of 8"),
        ([(1, 4, 2**62, 8, 2)], "an offset beyond"),
        ([(1, 4, 0, 2**62, 3)], "an offset beyond"),
        ([(1, 4, 0, 8, 2049), (1, 4, 0, 8, 2048)], "4097 strided runs where 4096 are allowed"),
    ],
)
def test_malformed_strided_runs_are_rejected(
    runs: list[tuple[int, int, int, int, int]], text: str
) -> None:
    with pytest.raises(Malformed, match=text):
        wire.decode_strided(memoryview(strided_body(runs)), 1 << 16)
    for body in (b"", bytes(33)):
        with pytest.raises(Malformed, match="a list of strided runs of"):
            wire.decode_strided(memoryview(body), 1 << 16)


def test_a_malformed_list_is_rejected() -> None:
    runs = [(1, 4, i * 8) for i in range(MIN_RUNS)]
    with pytest.raises(Malformed, match="a list of runs of"):
        parts_of(body_of(runs)[:-1])
    with pytest.raises(Malformed, match="an offset beyond"):
        parts_of(body_of([*runs, (1, 4, 2**63)]))
    with pytest.raises(Malformed, match="an offset beyond"):
        parts_of(body_of([(1, 4, 2**62 - 100 + i * 8) for i in range(40)]))


@pytest.mark.parametrize("sieve", [True, False])
def test_few_calls_of_the_disk_for_many_runs_where_sieved_and_gaps_kept(
    tmp_path: Path, sieve: bool
) -> None:
    from sfio_emu.adapters.listener_disk import RootedSubfiles
    from sfio_emu.listener.connection import ServerConnection
    from sfio_emu.listener.reader import BufferPool

    (tmp_path / "f").write_bytes(bytes(range(256)) * 40)
    subfiles = RootedSubfiles(tmp_path)
    server = ServerConnection(subfiles, BufferPool(1 << 20, 1 << 18), sieve=sieve)

    def ask(kind: int, body: bytes, data: bytes = b"") -> bytes:
        message = wire.encode_header(kind, 1, body, len(data)) + data
        while message:
            room = server.incoming()[0]
            count = min(len(room), len(message))
            room[:count] = message[:count]
            message = message[count:]
            server.received(count)
        answer = b"".join(bytes(part) for part in server.outgoing())  # type: ignore[arg-type]
        server.sent(len(answer))
        return answer[wire.HEADER_BYTES :]

    opened = message_bodies.Opened.decode(
        memoryview(ask(wire.Kind.OPEN, message_bodies.encode_open("f", message_bodies.OpenFlag(0))))
    )
    handle, size = opened.handle, opened.size
    runs = [(handle, 5, 20 * i + 3) for i in range(1000)]
    written, disk_calls = message_bodies.WRITE_ANSWER.unpack_from(
        ask(wire.Kind.WRITE, bytes(body_of(runs)), b"abcde" * 1000)
    )
    assert (written, size) == (5000, 10240)
    assert disk_calls < 10 if sieve else disk_calls == 1000
    expected = bytearray(bytes(range(256)) * 40 + bytes(20 * 999 + 8 - 10240))
    for _, length, offset in runs:
        expected[offset : offset + length] = b"abcde"
    assert (tmp_path / "f").read_bytes() == expected
    os.truncate(tmp_path / "f", 10_000)
    answer = ask(wire.Kind.READ, bytes(body_of(runs)))
    calls, counts = wire.decode_counts(memoryview(answer[: wire.READ_DONE.size + 4000]), 1000)
    assert counts.cast("I").tolist() == [*[5] * 500, *[0] * 500]
    assert answer[wire.READ_DONE.size + 4000 :] == b"abcde" * 500
    assert calls < 10 if sieve else calls >= 500
    strided = strided_body([(handle, 5, 3, 20, 400), (handle, 5, 8003, 20, 600)])
    again = ask(wire.Kind.READ_STRIDED, strided)
    calls, counts = wire.decode_counts(memoryview(again[: wire.READ_DONE.size + 8]), 2)
    assert (
        counts.cast("I").tolist() == [2000, 500]
        and again[wire.READ_DONE.size + 8 :] == b"abcde" * 500
    )
    assert calls < 10 if sieve else calls >= 500
    written, _ = message_bodies.WRITE_ANSWER.unpack_from(
        ask(wire.Kind.WRITE_STRIDED, strided, b"vwxyz" * 1000)
    )
    for _, length, offset in runs:
        expected[offset : offset + length] = b"vwxyz"
    expected[10_000:10_003] = bytes(3)
    for gap in range(10_000, len(expected)):  # cut off and written anew: zeros between the runs
        expected[gap] = expected[gap] if (gap - 3) % 20 < 5 else 0
    assert written == 5000 and (tmp_path / "f").read_bytes() == expected
    server.abandon()
    subfiles.dispose()
