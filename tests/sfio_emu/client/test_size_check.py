"""The sum of the subfiles is the size of the file after every call, whatever others did in between."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from sfio_emu import StripedFile, striped_file
from sfio_emu.client.access import Access
from sfio_emu.client.size_check import WrittenSizes, fit_one_file, min_size, possibly_short_subfiles
from sfio_emu.layout.striping import Layout
from sfio_emu.message_bodies import Written
from tests.helpers.listeners import listener, proxy, session_of

LAYOUT = Layout(stripe_unit=5, subfiles=3)


def test_sizes_of_subfiles_tell_how_long_a_file_is_at_least() -> None:
    for size in range(40):
        sizes = dict(enumerate(LAYOUT.subfile_sizes(size)))
        assert min_size(LAYOUT, sizes) == size
        assert fit_one_file(LAYOUT, sizes)
    assert not fit_one_file(LAYOUT, {0: 10, 1: 0, 2: 5}), (
        "10 bytes of the first need 5 of the second"
    )


@pytest.mark.parametrize("size", range(0, 40, 3))
@pytest.mark.parametrize("end", [1, 7, 15, 22, 31])
@pytest.mark.parametrize("touched", [(0,), (1, 2), (0, 1, 2)])
def test_subfiles_are_found_short_exactly_where_they_might_be(
    size: int, end: int, touched: tuple[int, ...]
) -> None:
    sizes, true = WrittenSizes(), LAYOUT.subfile_sizes(size)
    sizes.note_before(touched, [true[number] for number in touched])
    short = possibly_short_subfiles(LAYOUT, end, sizes)
    due = LAYOUT.subfile_sizes(end)
    assert all(number in short for number in range(3) if true[number] < due[number])
    assert all(short[number] == due[number] for number in short)
    if touched == (0, 1, 2):
        assert all(true[number] < due[number] for number in short)


def test_a_write_after_another_session_has_shortened_the_file(tmp_path: Path) -> None:
    with listener(tmp_path, "p1") as (_, first), listener(tmp_path, "p2") as (_, second):
        a, b, c = (
            StripedFile.open("p1/x;p2/x", 5, session=session_of(first, second)) for _ in range(3)
        )
        b.pwrite(bytes(100), 0)
        a.truncate(0)
        b.pwrite(b"Z", 50)
        assert c.size() == 51
        assert c.pread(100, 0) == bytes(50) + b"Z"
        b.pwrite(bytes(100), 0)
        a.truncate(7)
        b.write_fragments(b"Y", 62)
        assert c.size() == 63
        assert c.pread(100, 0) == bytes(62) + b"Y"


def test_any_calls_of_three_sessions_leave_a_file(tmp_path: Path) -> None:
    draw = random.Random(4)
    with listener(tmp_path, "p1") as (_, first), listener(tmp_path, "p2") as (_, second):
        files = [
            StripedFile.open("p1/x;p2/x;p1/y", 5, session=session_of(first, second))
            for _ in range(3)
        ]
        model = bytearray()
        for _ in range(120):
            file, offset, size = draw.choice(files), draw.randrange(60), draw.randrange(1, 20)
            act = draw.randrange(3)
            if act == 0:
                file.truncate(offset)
                model = (model + bytes(60))[:offset] if offset > len(model) else model[:offset]
            else:
                data = draw.randbytes(size)
                (file.pwrite if act == 1 else file.write_fragments)(data, offset)
                model.extend(bytes(max(0, offset + size - len(model))))
                model[offset : offset + size] = data
            assert draw.choice(files).pread(100, 0) == model
            assert files[0].size() == len(model)


def test_writes_beside_truncations_leave_the_subfiles_of_one_file(tmp_path: Path) -> None:
    draw = random.Random(5)
    with listener(tmp_path, "p1") as (_, first), listener(tmp_path, "p2") as (_, second):
        files = [
            StripedFile.open("p1/x;p2/x", 5, session=session_of(first, second)) for _ in range(3)
        ]
        for _ in range(40):
            ends = [draw.randrange(1, 60) for _ in range(2)]
            threads = [
                threading.Thread(target=files[0].truncate, args=(draw.randrange(10),)),
                threading.Thread(target=files[1].pwrite, args=(bytes(ends[0]), 0)),
                threading.Thread(target=files[2].pwrite, args=(bytes(ends[1]), 3)),
            ]
            for thread in draw.sample(threads, 3):
                thread.start()
            for thread in threads:
                thread.join()
            sizes = {
                number: (tmp_path / host / "x").stat().st_size
                for number, host in enumerate(("p1", "p2"))
            }
            assert fit_one_file(Layout(stripe_unit=5, subfiles=2), sizes), sizes


class LateNode(NamedTuple):
    """Two openings of one file over two nodes; what the first sends to the second node waits from `held` to `go_on`."""

    late: StripedFile
    prompt: StripedFile
    held: threading.Event
    go_on: threading.Event

    def finish(self, call: threading.Thread, folder: Path) -> list[int]:
        """Let the late call end; the sizes of the subfiles, which must be those of one file."""
        self.go_on.set()
        call.join()
        self.late.session.close()
        sizes = [(folder / host / "x").stat().st_size for host in ("p1", "p2")]
        assert fit_one_file(Layout(stripe_unit=5, subfiles=2), dict(enumerate(sizes))), sizes
        assert self.prompt.size() == len(self.prompt.pread(200, 0)) == sum(sizes)
        return sizes


@contextmanager
def late_node(folder: Path) -> Iterator[LateNode]:
    held, go_on = threading.Event(), threading.Event()

    def hold(part: bytes, place: int) -> bytes:
        if held.is_set():
            assert go_on.wait(20)
        return part

    with (
        listener(folder, "p1") as (_, first),
        listener(folder, "p2") as (_, second),
        proxy(second["p2"], hold) as late,
    ):
        sessions = session_of(first, {"p2": late}, timeout_s=20), session_of(first, second)
        yield LateNode(
            *(StripedFile.open("p1/x;p2/x", 5, session=session) for session in sessions),
            held,
            go_on,
        )


def test_without_numbers_of_truncations_a_late_write_would_leave_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rival: what the answers say of the sizes alone fits one file."""
    monkeypatch.setattr(striped_file.secrets, "randbits", lambda bits: 0)
    with pytest.raises(AssertionError, match=r"\{0: 0, 1: 20\}"):
        test_a_write_that_is_late_on_one_node_leaves_one_file(tmp_path)


def test_a_write_that_extends_a_file_on_several_nodes_asks_nobody_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with listener(tmp_path, "p1") as (_, first), listener(tmp_path, "p2") as (_, second):
        a, b = (
            StripedFile.open("p1/x;p2/x;p1/y", 5, session=session_of(first, second))
            for _ in range(2)
        )
        b.pwrite(bytes(2000), 0)
        a.truncate(7)
        b.pwrite(b"s", 6)  # it has seen now how long the file is
        asked: list[int] = []
        monkeypatch.setattr(Access, "ask_each", lambda *_: asked.append(1))
        for write, size, offset in (
            (b.pwrite, 100, 7),
            (b.pwrite, 1, 900),
            (b.pwrite, 200_000, 100_000),
            (b.write_fragments, 100, 300_000),
        ):
            write(bytes(size), offset)
            assert not asked
        monkeypatch.undo()
        assert a.size() == len(a.pread(400_000, 0)) == 300_100


def test_each_fragment_is_one_message_and_disk_call_without_optimisation(
    tmp_path: Path,
) -> None:
    """Also where the file grows by them, and behind its end; nothing is no fragment."""
    with listener(tmp_path, "p1") as (_, first), listener(tmp_path, "p2") as (_, second):
        file = StripedFile.open("p1/x;p2/x", 5, session=session_of(first, second))
        for offset, fragments in ((0, 20), (50, 40), (400, 60)):
            file.write_fragments(bytes(100), offset)
            assert (file.counters.messages, file.counters.disk_calls) == (fragments, fragments)
        assert file.write_fragments(b"", 900) == 0 and file.size() == 500 and file.extent().whole


def test_truncations_between_the_parts_of_a_write_are_told() -> None:
    def told(*answers: tuple[int, int]) -> WrittenSizes:
        sizes = WrittenSizes()
        for subfile, cuts in answers:
            sizes.note_answer([subfile], Written(1, 1, (0,), (cuts,)))
        return sizes

    assert told((0, 5), (1, 5), (2, 5)).of_one_time
    assert not told((0, 5), (1, 3)).of_one_time and not told((0, 5), (1, 3)).torn
    assert told((0, 5), (1, 5), (0, 3)).torn
    assert not told((0, 5), (0, 3), (0, 5)).of_one_time


def test_a_truncation_that_is_late_on_one_node_leaves_one_file(tmp_path: Path) -> None:
    """The first node has shortened its subfile, the other hears of it only when somebody has written to both."""
    with late_node(tmp_path) as node:
        node.prompt.pwrite(bytes(100), 0)
        node.held.set()
        truncating = threading.Thread(target=node.late.truncate, args=(0,))
        truncating.start()
        while (tmp_path / "p1/x").stat().st_size:
            time.sleep(0.01)
        node.prompt.pwrite(b"B" * 100, 0)
        sizes = node.finish(truncating, tmp_path)
        assert sizes[0] == 50, "the first node has what was written after the truncation"


def test_a_write_that_is_late_on_one_node_leaves_one_file(tmp_path: Path) -> None:
    """The first node has its part of a write, the other gets the rest only when the file was truncated to nothing, as
    it began."""
    with late_node(tmp_path) as node:
        node.late.truncate(0)
        node.held.set()
        writing = threading.Thread(target=node.late.pwrite, args=(b"A" * 40, 0))
        writing.start()
        while (tmp_path / "p1/x").stat().st_size < 20:
            time.sleep(0.01)
        node.prompt.truncate(0)
        node.finish(writing, tmp_path)
