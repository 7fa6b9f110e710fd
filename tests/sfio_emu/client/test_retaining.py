"""Changes of names that one I/O node refuses, or in which the client is killed, lose nothing."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from sfio_emu import (
    PeerError,
    RemoteFailure,
    Session,
    StripedFile,
    mcreate,
    mdelete,
    mexists,
    mlist,
    mrename,
    mstat,
    use,
)
from sfio_emu.adapters.listener_disk import RootedSubfiles
from sfio_emu.adapters.repair import main
from sfio_emu.adapters.sockets import TcpConnections
from sfio_emu.message_bodies import RenameWay
from sfio_emu.ports import Connection, Conversation
from tests.helpers.listeners import session_of
from tests.helpers.striped_nodes import Nodes

OLD, NEW = "p1/d/old;p2/d/old", "p1/d/new;p2/d/new"


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Nodes]:
    """Two listeners, a file OLD and a file NEW."""
    running = Nodes(tmp_path, ("p1", "p2"))
    use(session_of(running.places))
    for name in (OLD, NEW):
        write(name, 5, name.encode())
    yield running
    use(None)
    running.close()


def write(name: str, unit: int, data: bytes) -> None:
    with StripedFile.open(name, unit, mode="w") as file:
        file.pwrite(data, 0)


def content(name: str, unit: int = 5) -> bytes:
    with StripedFile.open(name, unit, mode="r") as file:
        return file.read()


def retained(root: Path) -> list[str]:
    return [path.name for path in root.rglob(".sfio-retained-*")]


@pytest.mark.parametrize("change", ["rename", "mcreate", "another unit", "mdelete"])
def test_refusal_of_one_node_changes_nothing(
    nodes: Nodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    refusing = (tmp_path / "p2").stat().st_ino

    def refuse(method: str, to_refuse: Callable[..., bool]) -> None:
        real: Any = getattr(RootedSubfiles, method)

        def act(self: Any, *arguments: Any) -> Any:
            if os.fstat(self._root).st_ino == refusing and to_refuse(*arguments):
                with self._counted(method.replace("create", "creat")):
                    raise PermissionError(errno.EACCES, "refused")
            return real(self, *arguments)

        monkeypatch.setattr(RootedSubfiles, method, act)

    refuse(
        "rename",
        lambda _, target, way: (
            way is RenameWay.REPLACE and (target == "d/new" or change == "mdelete")
        ),
    )
    refuse("create", lambda *_: True)
    use(session_of(nodes.places))
    with StripedFile.open(NEW, 5) as file:
        acts: dict[str, Callable[[], object]] = {
            "rename": lambda: mrename(OLD, NEW, replace=True), "mcreate": lambda: mcreate(NEW),
            "another unit": lambda: write(NEW, 7, b"other"), "mdelete": lambda: mdelete(NEW),
        }  # fmt: skip
        with pytest.raises(RemoteFailure, match=r"p2: .* Permission denied"):
            acts[change]()
        assert file.pwrite(b"P", 0) == 1, "whoever has it open goes on in it"
    assert content(NEW) == b"P" + NEW.encode()[1:] and content(OLD) == OLD.encode()
    assert not retained(tmp_path)
    monkeypatch.undo()
    use(session_of(nodes.places))
    acts[change]()
    assert not retained(tmp_path)
    assert mexists(NEW) == (change != "mdelete") and mexists(OLD) == (change != "rename")


class _Killed(BaseException):
    """No client notices its own death."""


class _DyingConnections(TcpConnections):
    """``left``: after so many rounds of messages the client dies, when only the first node has had its own."""

    left = 1000

    def carry(
        self, conversations: Sequence[tuple[Connection, Conversation]]
    ) -> Mapping[str, PeerError]:
        self.left -= len(conversations) > 1
        if self.left >= 0:
            return super().carry(conversations)
        super().carry(conversations[:1])
        raise _Killed


@pytest.mark.parametrize(
    "rounds", [2, 3, 4], ids=["it is retained", "it is replaced", "it is dropped"]
)
@pytest.mark.parametrize("again", [True, False], ids=["the caller renames again", "repair"])
def test_a_renaming_whose_client_is_killed_is_named_and_ended(
    nodes: Nodes, tmp_path: Path, capsys: pytest.CaptureFixture[str], rounds: int, again: bool
) -> None:
    connections = _DyingConnections(nodes.places)
    dying = Session(connections)
    connections.left = rounds
    use(dying)
    with pytest.raises(_Killed):
        mrename(OLD, NEW, replace=True)
    dying.close()
    use(session_of(nodes.places))
    assert len(retained(tmp_path)) == {2: 1, 3: 2, 4: 1}[rounds]
    assert all(entry.name in ("old", "new") for entry in mlist("p1/d;p2/d"))
    assert main([NEW]) == 1 and retained(tmp_path)[0] in capsys.readouterr().out
    if rounds == 4:
        assert content(NEW) == OLD.encode() and not mexists(OLD)
        assert main([NEW, "--cut"]) == 0
    elif again:
        mrename(OLD, NEW, replace=True)
    else:
        assert main([NEW, "--from", OLD]) == 0
    assert content(NEW) == OLD.encode() and not retained(tmp_path)
    assert main([NEW]) == 0 and main([NEW, "--from", "p1/d/none;p2/d/none"]) == 2


def test_a_deletion_whose_client_is_killed_is_undone_by_repair(
    nodes: Nodes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    connections = _DyingConnections(nodes.places)
    dying = Session(connections)
    connections.left = 1
    use(dying)
    with pytest.raises(_Killed):
        mdelete(NEW)
    dying.close()
    use(session_of(nodes.places))
    assert main([NEW]) == 1 and "--cut or --fill completes it" in capsys.readouterr().out
    assert main([NEW, "--cut"]) == 0 and content(NEW) == NEW.encode() and not retained(tmp_path)


def test_a_plain_renaming_that_was_broken_off_is_ended_by_renaming_again(
    nodes: Nodes, tmp_path: Path
) -> None:
    target = "p1/e/new;p2/e/new"
    mrename("p1/d/old", "p1/e/new")
    mrename(OLD, target)
    assert content(target) == OLD.encode() and mstat(target).whole and not mexists(OLD)
