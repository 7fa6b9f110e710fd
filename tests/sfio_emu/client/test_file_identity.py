"""A striped file is one thing: whatever is renamed, made anew, lost or restarted, nobody reads or writes another file
than the one that was opened, and nobody takes subfiles of several files for one."""

from __future__ import annotations

import errno
import os
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfio_emu import (
    ListenerLost,
    PeerError,
    RemoteFailure,
    Session,
    SfioError,
    StaleFileError,
    StripedFile,
    UsageError,
    mcreate,
    mexists,
    mstat,
    use,
)
from sfio_emu.adapters import listener_disk, repair
from sfio_emu.client import opening
from sfio_emu.client.catalogue import remove_subfiles, rename_file
from sfio_emu.client.opening import Condition, condition, locked
from sfio_emu.message_bodies import NO_LAYOUT, NOT_THERE, UNSTORABLE, StoredLayout
from sfio_emu.names import parse_file_name
from sfio_emu.views.mpi_file import MpiFile
from tests.helpers.listeners import session_of
from tests.helpers.striped_nodes import Nodes

RACES = int(os.environ.get("SFIO_RACES", "30"))
HOSTS = ("p1", "p2", "p3")
NAME, OTHER, THIRD = (";".join(f"{host}/{path}" for host in HOSTS) for path in ("a", "b", "c/c"))


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Nodes]:
    running = Nodes(tmp_path, HOSTS)
    yield running
    running.close()


@pytest.fixture
def sessions(nodes: Nodes) -> Iterator[list[Session]]:
    made = [session_of(nodes.places) for _ in range(2)]
    yield made
    for session in made:
        session.close()


def write(session: Session, name: str, unit: int, data: bytes, mode: str = "w") -> None:
    with StripedFile.open(name, unit, mode=mode, session=session) as file:
        file.pwrite(data, 0)


def read(session: Session, name: str, unit: int) -> bytes:
    with StripedFile.open(name, unit, mode="r", session=session) as file:
        return file.read()


def at_once(*acts: Callable[[], object]) -> list[object]:
    """What each of the acts came to, or raised, that were begun together."""
    barrier, results = threading.Barrier(len(acts)), [None] * len(acts)

    def run(number: int) -> None:
        barrier.wait()
        try:
            results[number] = acts[number]()
        except SfioError as error:
            results[number] = error

    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(acts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


# --- the name of an open file is another file's --------------------------------------------------------------------


@pytest.mark.parametrize("attributes", [True, False])
def test_file_replaced_during_a_restart_is_stale_and_the_new_one_unchanged(
    nodes: Nodes, sessions: list[Session], monkeypatch: pytest.MonkeyPatch, attributes: bool
) -> None:
    if not attributes:  # what a file system without them says
        monkeypatch.setattr(listener_disk, "LAYOUT_ATTRIBUTE", "nowhere.sfio.layout")
    first, second = sessions
    file = StripedFile.open(NAME, 5, session=first)
    file.pwrite(b"A" * 300, 0)
    write(second, OTHER, 75, b"N" * 1000)
    for host in HOSTS:
        nodes.stop(host)
        (nodes.root / host / "b").rename(nodes.root / host / "a")
        nodes.start(host)
    with pytest.raises(ListenerLost):
        file.size()
    for _ in range(3):
        for act in (
            lambda: file.pwrite(b"A" * 20, 0),
            lambda: file.pread(10, 0),
            file.size,
            lambda: file.truncate(3),
        ):
            with pytest.raises((StaleFileError, ListenerLost)):
                act()
    with pytest.raises(
        StaleFileError, match="p1: open of a: Stale file handle: it is not the file that was opened"
    ):
        file.pwrite(b"A" * 20, 0)
    assert read(session_of(nodes.places), NAME, 75) == b"N" * 1000
    file.close()


def restarted(nodes: Nodes, change: Callable[[], object]) -> None:
    """All listeners are restarted, and meanwhile their disks changed."""
    for host in HOSTS:
        nodes.stop(host)
    change()
    for host in HOSTS:
        nodes.start(host)


def test_a_file_whose_nodes_have_exchanged_their_disks_is_stale(
    nodes: Nodes, sessions: list[Session]
) -> None:
    file = StripedFile.open(NAME, 5, session=sessions[0])
    file.pwrite(b"aaaaabbbbbccccc", 0)
    first, second, aside = (nodes.root / name for name in ("p1", "p2", "aside"))

    def exchange() -> None:
        for source, target in ((first, aside), (second, first), (aside, second)):
            source.rename(target)

    restarted(nodes, exchange)
    with pytest.raises(ListenerLost):
        file.size()
    for act in (lambda: file.pread(15, 0), lambda: file.pwrite(b"A" * 10, 0), file.size):
        with pytest.raises(StaleFileError):
            act()
    restarted(nodes, exchange)
    assert read(session_of(nodes.places), NAME, 5) == b"aaaaabbbbbccccc"


@pytest.mark.parametrize("creator", [0, 1])
def test_stale_file_stays_stale_when_its_name_is_reopened(
    nodes: Nodes, sessions: list[Session], creator: int
) -> None:
    file = StripedFile.open(NAME, 5, session=sessions[0])
    file.pwrite(b"A" * 60, 0)
    restarted(nodes, lambda: [(nodes.root / host / "a").unlink() for host in HOSTS])
    for session in sessions:
        with suppress(ListenerLost):
            mexists(NAME, session)
    write(
        sessions[creator], NAME, 7, b"N" * 60
    )  # ext4 gives its subfiles the inodes of the other's
    with StripedFile.open(NAME, 7, session=sessions[0]) as new:
        for act in (lambda: file.pread(60, 0), lambda: file.pwrite(b"A" * 20, 0)):
            with pytest.raises(StaleFileError):
                act()
        file.close()
        assert new.pread(60, 0) == b"N" * 60


def test_a_file_that_only_lost_its_listener_is_gone_on_with(
    nodes: Nodes, sessions: list[Session]
) -> None:
    file = StripedFile.open(NAME, 5, session=sessions[0])
    file.pwrite(b"A" * 300, 0)
    for host in HOSTS:
        nodes.stop(host)
        nodes.start(host)
    for _ in HOSTS:
        try:
            file.pwrite(b"B", 7)
        except ListenerLost:
            continue
    assert file.pread(300, 0) == b"A" * 7 + b"B" + b"A" * 292


@pytest.mark.parametrize("replace", ["rename", "another unit", "mcreate"])
def test_a_call_on_an_old_open_file_raises(sessions: list[Session], replace: str) -> None:
    first, second = sessions
    file, mine = (
        StripedFile.open(NAME, 75, session=first),
        StripedFile.open(NAME, 75, session=second),
    )
    file.pwrite(b"A" * 1000, 0)
    if replace == "rename":
        write(second, OTHER, 5, b"N" * 500)
        rename_file(second, OTHER, NAME, replace=True)
    elif replace == "mcreate":
        use(second)
        mcreate(NAME)
        use(None)
    write(second, NAME, 5, b"N" * 500)
    for old in (file, mine):
        for act in (
            lambda old=old: old.pwrite(b"A", 0), lambda old=old: old.pwrite(b"A" * 100_000, 0),
            lambda old=old: old.pread(10, 0), lambda old=old: old.ipread(bytearray(2_000_000), 0).wait(),
            old.size, lambda old=old: old.sync(durable=True), lambda old=old: old.truncate(1),
        ):  # fmt: skip
            with pytest.raises(StaleFileError):
                act()
        old.close()
    assert read(first, NAME, 5) == b"N" * 500


def test_emptying_a_file_in_its_own_layout_leaves_it_the_file_that_it_is(
    sessions: list[Session],
) -> None:
    file = StripedFile.open(NAME, 75, session=sessions[0])
    file.pwrite(b"A" * 1000, 0)
    write(sessions[1], NAME, 75, b"new")
    assert file.pread(10, 0) == b"new" and file.pwrite(b"er", 3) == 2
    assert read(sessions[1], NAME, 75) == b"newer"


# --- two at once -----------------------------------------------------------------------------------------------------


@pytest.mark.scaled
def test_one_of_two_simultaneous_renames_wins(sessions: list[Session]) -> None:
    for race in range(RACES):
        for number, (session, name) in enumerate(zip(sessions, (OTHER, THIRD), strict=True)):
            write(session, name, 10, bytes([65 + number]) * 400)
        results = at_once(
            lambda: rename_file(sessions[0], OTHER, NAME, replace=True),
            lambda race=race: rename_file(sessions[1], THIRD, NAME, replace=race % 2 == 0),  # type: ignore[misc]
        )
        content = read(sessions[0], NAME, 10)
        assert content in (b"A" * 400, b"B" * 400) and results[0] is None
        if results[1] is not None:
            assert (
                isinstance(results[1], RemoteFailure)
                and results[1].errno == errno.EEXIST
                and race % 2
            )
        remove_subfiles(sessions[0], parse_file_name(NAME))
        for name in (OTHER, THIRD):
            if results != [None, None] and name == THIRD:
                remove_subfiles(sessions[0], parse_file_name(name))


@pytest.mark.scaled
def test_one_of_two_simultaneous_creations_wins(
    sessions: list[Session],
) -> None:
    for race in range(RACES):
        mode = ("w", "rw", "x")[race % 3]
        results = at_once(
            lambda mode=mode: write(sessions[0], NAME, 10, b"A" * 400, mode),  # type: ignore[misc]
            lambda mode=mode: write(sessions[1], NAME, 75, b"B" * 400, mode),  # type: ignore[misc]
        )
        layout = mstat(NAME, sessions[0]).layout
        assert layout is not None
        content = read(sessions[0], NAME, layout.stripe_unit)
        assert content == {10: b"A", 75: b"B"}[layout.stripe_unit] * 400
        errors = [error for error in results if error is not None]
        assert len(errors) <= 1 and (mode == "w" or len(errors) == 1)
        assert all(
            isinstance(error, (StaleFileError, UsageError, RemoteFailure)) for error in errors
        )
        remove_subfiles(sessions[0], parse_file_name(NAME))


def test_open_during_a_replacement_waits_and_gets_one_file(
    sessions: list[Session], nodes: Nodes
) -> None:
    """Half of the subfiles are the new file's: a reader waits for whoever has the lock, and then finds one file."""
    write(sessions[0], NAME, 10, b"A" * 400)
    write(sessions[0], OTHER, 10, b"B" * 400)
    begun, found = threading.Event(), []

    def look() -> None:
        begun.set()
        found.append(read(sessions[1], NAME, 10))

    with locked(sessions[0], parse_file_name(NAME)):
        (nodes.root / "p1" / "b").rename(nodes.root / "p1" / "a")
        thread = threading.Thread(target=look)
        thread.start()
        begun.wait()
        thread.join(0.1)
        assert not found
        for host in HOSTS[1:]:
            (nodes.root / host / "b").rename(nodes.root / host / "a")
    thread.join()
    assert found == [b"B" * 400]


def test_a_lock_ends_with_its_client_and_is_waited_for_no_longer_than_said(
    sessions: list[Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    name = parse_file_name(NAME)
    with locked(sessions[0], name):
        monkeypatch.setattr(opening, "MAX_TRIES", 3)
        with pytest.raises(
            PeerError, match="p1: another client has been changing a for a long time: try again"
        ):
            write(sessions[1], NAME, 5, b"")
        monkeypatch.undo()
        sessions[0].close()  # as if it had died
        write(sessions[1], NAME, 5, b"new")
    assert read(sessions[0], NAME, 5) == b"new"


# --- lost subfiles, subfiles of several files ------------------------------------------------------------------------


@pytest.mark.parametrize("emptied", [False, True])
@pytest.mark.parametrize(
    ("way", "content"), [("--cut", b"Q" * 75), ("--fill", b"Q" * 75 + bytes(75) + b"Q" * 75)]
)
def test_a_lost_subfile_is_an_error_until_it_is_repaired(
    nodes: Nodes,
    sessions: list[Session],
    capsys: pytest.CaptureFixture[str],
    way: str,
    content: bytes,
    emptied: bool,
) -> None:
    write(sessions[0], NAME, 75, b"Q" * 225)
    lost = nodes.root / "p2" / "a"
    lost.unlink()
    if emptied:
        lost.touch()
    for mode in ("rw", "r", "r+", "a"):
        with pytest.raises((RemoteFailure, UsageError)) as caught:
            StripedFile.open(NAME, 75, mode=mode, session=sessions[1])
        assert ("repair" in str(caught.value)) or mode in ("r", "r+")
        assert lost.exists() == emptied and (not emptied or lost.stat().st_size == 0)
    use(sessions[1])
    assert repair.main([NAME]) == 1
    assert f"{NAME}: what was in p2/a is lost (or was renamed" in capsys.readouterr().out
    assert lost.exists() == emptied
    assert repair.main([NAME, way]) == 0
    use(None)
    assert read(sessions[0], NAME, 75) == content and mstat(NAME, sessions[0]).whole


def test_subfiles_of_several_files_are_no_file(
    nodes: Nodes, sessions: list[Session], capsys: pytest.CaptureFixture[str]
) -> None:
    write(sessions[0], NAME, 5, b"A" * 300)
    write(sessions[0], OTHER, 5, b"B" * 300)
    (nodes.root / "p3" / "b").rename(nodes.root / "p3" / "a")
    for act in (lambda: read(sessions[1], NAME, 5), lambda: mstat(NAME, sessions[1])):
        with pytest.raises(
            UsageError, match=r"p3/a is another file's than those before it: .* are not one file's"
        ):
            act()
    use(sessions[1])
    assert repair.main([NAME, "--cut"]) == 1
    assert (
        "p3/a is another file's than those before it: finish the renaming (--from NAME), delete"
        in capsys.readouterr().out
    )
    use(None)
    for host in ("p1", "p2"):
        rename_file(sessions[1], f"{host}/b", f"{host}/a", replace=True)
    assert read(sessions[1], NAME, 5) == b"B" * 300
    write(sessions[0], NAME, 5, b"anew")
    assert read(sessions[1], NAME, 5) == b"anew"


def test_a_file_whose_creation_was_broken_off_is_completed(
    nodes: Nodes, sessions: list[Session]
) -> None:
    (nodes.root / "p1" / "a").touch()
    write(sessions[0], NAME, 5, b"A" * 300, "rw")
    assert read(sessions[1], NAME, 5) == b"A" * 300


def test_files_of_the_version_before_are_read_and_written(
    nodes: Nodes, sessions: list[Session]
) -> None:
    for number, host in enumerate(HOSTS):
        path = nodes.root / host / "a"
        path.write_bytes(b"abc")
        os.setxattr(
            path, listener_disk.LAYOUT_ATTRIBUTE, listener_disk.LAYOUTS[1].pack(1, 3, number, 3)
        )
    write(sessions[0], NAME, 3, b"XY", "rw")
    assert read(sessions[1], NAME, 3) == b"XYcabcabc"
    with pytest.raises(UsageError, match="in units of 3 bytes"):
        StripedFile.open(NAME, 4, session=sessions[0])


kinds = st.sampled_from([NO_LAYOUT, UNSTORABLE, StoredLayout(5, 0, 1, 7), StoredLayout(5, 0, 1, 9)])
subfile = st.none() | st.builds(
    lambda size, layout: NOT_THERE._replace(size=size, layout=layout), st.integers(0, 1), kinds
)


@given(st.lists(subfile, min_size=1, max_size=5))
def test_nothing_that_holds_data_is_taken_for_new_or_for_anothers(found: list[object]) -> None:
    state, culprit = condition(found)  # type: ignore[arg-type]
    there = [one for one in found if one is not None]
    ids = {one.layout.file_id for one in there if one.layout}  # type: ignore[attr-defined]
    assert (state is Condition.NOTHING) == (not there)
    assert (state is Condition.MIXED) == (len(ids) > 1)
    if None in found and any(one.size for one in there):  # type: ignore[attr-defined]
        assert state in (Condition.LOST, Condition.MIXED)
    if state in (Condition.LOST, Condition.MIXED):
        assert found[culprit] is None or found[culprit].layout != next(iter(there)).layout or ids  # type: ignore[attr-defined]
    if state is Condition.ONE:
        assert None not in found and NO_LAYOUT not in [one.layout for one in there]  # type: ignore[attr-defined]


# --- what is told ---------------------------------------------------------------------------------------------------


def test_a_write_to_a_file_that_is_not_whole_says_so(nodes: Nodes, sessions: list[Session]) -> None:
    file = StripedFile.open(NAME, 1000, session=sessions[0])
    nodes.full["p2"] = 10
    with pytest.raises(RemoteFailure, match="p2: write of a: No space left"):
        file.pwrite(b"x" * 20_000, 0)
    nodes.full["p2"] = None
    for late in (file, StripedFile.open(NAME, 1000, session=sessions[1])):
        with pytest.warns(
            RuntimeWarning,
            match=r"is not complete: .*`python -m sfio_emu.adapters.repair NAME` says what",
        ):
            late.pwrite(b"y", 0)
    file.truncate(100)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        file.pwrite(b"y", 0)


def test_an_mpi_file_that_an_exception_leaves_is_closed(
    nodes: Nodes, sessions: list[Session]
) -> None:
    def descriptors() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    before = descriptors()
    for number in range(6):
        with (
            pytest.raises(ZeroDivisionError),
            MpiFile.open(f"p1/m{number}", 75, session=sessions[0]),
        ):
            1 / 0  # noqa: B018
    assert descriptors() - before < 6  # those of the session's connection


def test_many_subfiles_are_opened_by_a_list_of_messages_a_host(sessions: list[Session]) -> None:
    name = ";".join(f"p{1 + n % 3}/s/{n}" for n in range(300))
    write(sessions[0], name, 5, b"A" * 3000)
    assert read(sessions[1], name, 5) == b"A" * 3000
