"""Several threads on one session, children of fork, and handlers of signals: each gets its own bytes, or is told why
not."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

import pytest

from sfio_emu import Session, Settings, StripedFile, UsageError, mopen, use
from sfio_emu.adapters.peers.group_server import GroupServer
from sfio_emu.adapters.process_group import SocketGroup
from sfio_emu.client.connection import Exchange
from tests.helpers.listeners import Addresses, listener, listening, session_of

THREADS = 4


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Addresses]:
    tmp_path = tmp_path_factory.mktemp("root")
    with listener(tmp_path, "p1") as (_, first), listener(tmp_path, "p2") as (_, second):
        yield first | second


def test_threads_on_one_session_take_turns(places: Addresses) -> None:
    session = session_of(places, timeout_s=20)
    files = [
        StripedFile.open(f"p1/{name};p2/{name}", 75, session=session)
        for name in ("shared", "other")
    ]
    faults: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for turn in range(60):
                file, place = files[turn % 2], (turn * THREADS + number) * 1000
                block = bytes([1 + number]) * (700 + turn)
                assert file.pwrite(block, place) == len(block)
                assert file.pread(len(block), place) == block
                if not turn % 20:
                    StripedFile.open(f"p1/own{number};p2/own{number}", 5, session=session).close()
        except BaseException as fault:  # noqa: BLE001 - handed to the test below
            faults.append(fault)

    threads = [
        threading.Thread(target=work, args=(number,), daemon=True) for number in range(THREADS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    assert not faults


def test_threads_that_write_at_the_position_of_one_file_lose_nothing(places: Addresses) -> None:
    file = StripedFile.open("p1/log;p2/log", 7, session=session_of(places, timeout_s=20))
    lines = [f"line {number:03d} of a thread\n".encode() for number in range(120)]
    threads = [
        threading.Thread(target=lambda n=n: [file.write(line) for line in lines[n::4]])
        for n in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert file.tell() == len(b"".join(lines))
    assert sorted(file.pread(file.tell(), 0).splitlines(keepends=True)) == lines


@pytest.fixture
def in_the_middle(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Callable[[], object]]]:
    """What is put here is called in the middle of a call, as by a handler of a signal or a finalizer."""
    due: list[Callable[[], object]] = []
    sent, count = Exchange.sent, 0

    def interrupted(exchange: Exchange, size: int) -> None:
        nonlocal count
        count += 1
        if due and not count % 3:
            due.pop()()
        sent(exchange, size)

    monkeypatch.setattr(Exchange, "sent", interrupted)
    yield due
    assert not due


def test_a_call_in_the_middle_of_a_call_has_connections_of_its_own(
    places: Addresses, in_the_middle: list[Callable[[], object]]
) -> None:
    session = session_of(places, timeout_s=20)
    file, log, left = (
        StripedFile.open(f"p1/{name}1;p2/{name}1", 75, session=session)
        for name in ("a", "log", "left")
    )
    data, mine = os.urandom(4_000_000), dict(session.links)
    for number in range(5):
        in_the_middle += [
            lambda n=number: log.pwrite(b"%d" % n, n),
            lambda: file.pread(10, 0),
            left.close,
        ]
        file.pwrite(data, 0)
    assert file.pread(len(data), 0) == data and log.pread(10, 0) == b"01234"
    assert session.links == mine and len(session.forgotten) == 1
    StripedFile.open("p1/more;p2/more", 75, session=session).close()
    assert not session.forgotten and {len(link.handles) for link in mine.values()} == {2}


def test_a_write_that_was_interrupted_is_in_doubt(
    places: Addresses, in_the_middle: list[Callable[[], object]]
) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    file = StripedFile.open("p1/doubt;p2/doubt", 1000, session=session_of(places, timeout_s=20))
    in_the_middle.append(interrupt)
    with pytest.raises(KeyboardInterrupt):
        file.pwrite(bytes(4_000_000), 0)
    assert not file.extent().whole
    with pytest.warns(RuntimeWarning, match="is not complete"):
        file.pwrite(b"small", 0)
        file.pwrite(bytes(4_000_000), 0)
    assert file.extent().whole


@pytest.mark.parametrize("raises", [True, False])
def test_a_signal_may_come_at_any_step_of_a_call(places: Addresses, raises: bool) -> None:
    """Its handler raises, or makes a call of its own; other threads have their turn, and all goes on."""
    session, steps = session_of(places, timeout_s=20), 0
    file, log = (
        StripedFile.open(f"p1/{name};p2/{name}", 75, session=session) for name in ("turn", "ticks")
    )
    file.pwrite(b"12345678", 0)

    def trace(frame: FrameType, event: str, _: object) -> object:
        nonlocal steps
        frame.f_trace_opcodes = True
        steps -= event == "opcode"
        if steps == 0 and event == "opcode":
            steps = -1
            if raises:
                raise KeyboardInterrupt
            log.pwrite(b"tick", 0)
        return trace

    for number in range(1, 600, 2):
        steps, before, data = number, sys.gettrace(), b""
        sys.settrace(trace)  # type: ignore[arg-type]
        try:
            data = file.pread(8, 0)
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(before)
        assert raises or data == b"12345678", f"interrupted at step {number}"
        other = threading.Thread(target=lambda: file.pwrite(b"1", 0), daemon=True)
        other.start()
        other.join(20)
        assert not other.is_alive(), f"interrupted at step {number}"
    assert not session._outer_links


def in_child(act: Callable[[], object]) -> str:
    """What a child of fork says of the call: "" where it went well, else the error."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        said = "the child ended"
        try:
            said = str(act() or "")
        except BaseException as fault:  # noqa: BLE001 - told to the parent
            said = f"{type(fault).__name__}: {fault}"
        finally:
            os.write(writer, said.encode())
            os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    with open(reader, "rb") as told:
        return told.read().decode()


def test_a_child_of_fork_has_connections_of_its_own(places: Addresses) -> None:
    file = StripedFile.open("p1/a;p2/a", 3, session=session_of(places))
    file.pwrite(b"of the parent", 0)
    mine = dict(file.session.links)

    def act() -> None:
        assert file.pread(13, 0) == b"of the parent"
        file.pwrite(b"of a child", 20)
        file.close()

    assert in_child(act) == ""
    assert file.pread(10, 20) == b"of a child"
    assert file.session.links == mine  # the same connections still answer
    file.close()


def test_a_fork_while_another_thread_is_in_a_call_does_not_hang(places: Addresses) -> None:
    file = StripedFile.open("p1/a;p2/a", 3, session=session_of(places))
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with file.session.guard:
            held.set()
            done.wait(20)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    assert in_child(lambda: file.pwrite(b"abc", 0) == 3 and "") == ""
    done.set()
    thread.join()
    assert file.pread(3, 0) == b"abc"


def test_a_child_of_fork_has_no_place_in_the_group(tmp_path: Path, places: Addresses) -> None:
    with GroupServer(f"unix:{tmp_path}/group", 1) as server:
        group = SocketGroup.join(server.address, 0, 1, 10)
        file = StripedFile.open(
            "p1/a;p2/a", 3, session=Session(session_of(places).connections, group)
        )
        assert in_child(lambda: file.pwrite(b"abc", 0) and "") == ""
        assert in_child(lambda: file.truncate(9)).startswith(
            "UsageError: this process was forked from rank 0"
        )
        assert in_child(group.close) == ""
        assert in_child(server.close) == ""
        file.pwrite(b"abc", 0)
        file.truncate(2)  # the parent is still a member, and its coordinator lives
        assert file.pread(5, 0) == b"ab"


def test_a_file_may_have_settings_of_its_own(places: Addresses) -> None:
    use(session_of(places))
    try:
        with (
            mopen("p1/s;p2/s", 5, Settings(merge=False, combine=False)) as slow,
            mopen("p1/s;p2/s", 5) as fast,
        ):
            slow.pwrite(b"x" * 50, 0)
            fast.pwrite(b"x" * 50, 0)
            assert slow.counters.messages == 10 and fast.counters.messages == 2
        with pytest.raises(UsageError, match="settings of type dict: give a Settings"):
            mopen("p1/a", 5, {"merge": False})  # type: ignore[arg-type]
        with pytest.raises(
            UsageError, match=r"the stripe unit is Settings\(.*: give a whole number from 1"
        ):
            mopen("p1/a", Settings())  # type: ignore[arg-type]
    finally:
        use(None)


def test_file_closed_by_one_thread_is_closed_for_other_threads(
    tmp_path: Path,
) -> None:
    with listening(tmp_path) as addresses:
        session = session_of(addresses)
        unexpected: list[BaseException] = []

        def use_it(file: StripedFile) -> None:
            try:
                while True:
                    file.pwrite(bytes(400), 7)
                    file.pread(700, 3)
                    file.size()
                    file.ipwrite(b"abc", 0).wait()
            except UsageError as error:
                assert "is closed" in str(error)
            except BaseException as error:  # noqa: BLE001 - it would end in the thread unseen
                unexpected.append(error)

        for _ in range(40):
            file = StripedFile.open("p1/a;p1/b", 5, session=session)
            threads = [threading.Thread(target=use_it, args=(file,)) for _ in range(3)]
            for thread in threads:
                thread.start()
            file.pread(10, 0)
            file.close()
            for thread in threads:
                thread.join()
        assert not unexpected
        session.close()
