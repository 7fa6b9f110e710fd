"""Requests that are begun and waited for later: what they move, how they share the windows, whom a fault is laid to."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sfio_emu import ListenerLost, StripedFile, UsageError, wait_all
from sfio_emu.client.nonblocking import Request
from tests.helpers.listeners import session_of
from tests.helpers.striped_nodes import Nodes
from tests.sfio_emu.client.test_threads_and_fork import in_child


@contextmanager
def nodes_at(root: Path) -> Iterator[Nodes]:
    nodes = Nodes(root, ("p1", "p2"))
    try:
        yield nodes
    finally:
        nodes.close()


def test_nonblocking_calls_are_complete_after_waiting(tmp_path: Path) -> None:
    with nodes_at(tmp_path) as nodes:
        file = StripedFile.open("p1/a;p2/a", 7, session=session_of(nodes.places, timeout_s=20))
        blocks = [np.full(1 + 37 * n, n, dtype=np.uint8) for n in range(40)]
        places = np.cumsum([0, *map(len, blocks)]).tolist()
        assert wait_all(
            file.ipwrite(block, place) for block, place in zip(blocks, places, strict=False)
        ) == [len(block) for block in blocks]
        targets = [np.zeros(len(block) + 3, dtype=np.uint8) for block in blocks]
        requests = [
            file.ipread(target, place) for target, place in zip(targets, places, strict=False)
        ]
        counts = wait_all(requests)
        assert counts == [
            min(len(block) + 3, places[-1] - place)
            for block, place in zip(blocks, places, strict=False)
        ]
        assert all(request.test() for request in requests)
        assert all(
            (target[: len(block)] == block).all()
            for target, block in zip(targets, blocks, strict=True)
        )
        assert file.ipwrite(b"", 5).wait() == 0
        spread = file.ipwrite_blocks(b"abcd", [places[-1] + 10, places[-1]], [0, 2], [2, 2])
        assert spread.wait() == 4
        back = bytearray(5)
        assert file.ipread_blocks(back, [places[-1], places[-1] + 10], [0, 2], [2, 3]).wait() == 4
        assert bytes(back) == b"cdab\x00"
        file.close()


def test_later_requests_win_and_those_that_wait_together_go_together(tmp_path: Path) -> None:
    with nodes_at(tmp_path) as nodes:
        session = session_of(nodes.places, timeout_s=20)
        carried: list[int] = []
        carry = session.connections.carry

        def counted(conversations: Sequence[Any]) -> Mapping[str, Any]:
            carried.append(len(conversations))
            return carry(conversations)

        session.connections.carry = counted  # type: ignore[method-assign]
        file = StripedFile.open("p1/a;p2/a", 7, session=session)
        looks: list[list[int]] = []
        ask_sizes = file._access.ask_sizes
        file._access.ask_sizes = lambda: looks.append(ask_sizes()) or looks[-1]  # type: ignore[method-assign,func-returns-value]
        carried.clear()
        with session.guard:  # as if a long call were under way
            requests = [file.ipwrite(bytes([n]) * 50, n) for n in range(30)]
            assert not any(request.test() for request in requests)
        wait_all(requests)
        assert (
            len(looks) <= len(carried) // 2
        )  # at most one look at the sizes after a transfer that extends the file
        assert (
            len(carried) - len(looks) <= 3
        )  # the first may have been on its way alone; one by one they would be 30
        assert file.pread(79, 0) == bytes(range(30)) + bytes([29]) * 49


def test_a_fault_is_laid_to_the_requests_that_it_cost(tmp_path: Path) -> None:
    with nodes_at(tmp_path) as nodes:
        session = session_of(nodes.places)
        file = StripedFile.open("p1/a;p2/a", 100, session=session)
        file.truncate(400)
        nodes.stop("p2")
        with session.guard:
            whole, lost, again = (
                file.ipwrite(b"a" * 100, 0),
                file.ipwrite(b"b" * 100, 100),
                file.ipwrite(b"c" * 9, 200),
            )
        assert (whole.wait(), again.wait()) == (100, 9)
        with pytest.raises(ListenerLost, match="p2"):
            lost.wait()
        with pytest.raises(ListenerLost, match="p2"):
            wait_all([whole, lost])
        assert (tmp_path / "p1" / "a").read_bytes()[:109] == b"a" * 100 + b"c" * 9


def test_closing_waits_for_requests_and_a_child_of_fork_has_none(tmp_path: Path) -> None:
    with nodes_at(tmp_path) as nodes:
        session = session_of(nodes.places, timeout_s=20)
        file = StripedFile.open("p1/a", 7, session=session)
        with session.guard:
            request = file.ipwrite(b"abc", 0)
            with pytest.raises(UsageError, match=r"not done after 0\.01 s"):
                request.wait(0.01)
            assert (
                in_child(lambda: _told(request))
                == "UsageError: the request was begun before this process was forked: wait for it in the parent"
            )
            closing = threading.Thread(target=file.close)
            closing.start()
        closing.join()
        assert request.test() and request.wait() == 3
        assert (tmp_path / "p1" / "a").read_bytes() == b"abc"
        with pytest.raises(UsageError, match="is closed"):
            file.ipwrite(b"abc", 0)


def _told(request: Request) -> str:
    request.wait()
    return "waited"
