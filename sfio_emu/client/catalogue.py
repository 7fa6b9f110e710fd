"""Striped files by their names: what they are, which there are, other names for them, and away with them.
Each function queries all I/O nodes before it changes anything, and reports what it found of the file as a whole."""

import errno
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from sfio_emu import message_bodies
from sfio_emu.client.current_session import current_session
from sfio_emu.client.opening import Condition, condition, locked, require_one_file
from sfio_emu.client.retaining import (
    RETAINED,
    all_or_none,
    change_retaining,
    drop_retained,
    question,
    renaming,
    retained_name,
)
from sfio_emu.client.session import OpenSubfile, Session, answered
from sfio_emu.client.size_check import fit_one_file
from sfio_emu.errors import RemoteFailure, UsageError
from sfio_emu.layout.striping import Layout
from sfio_emu.message_bodies import Entry, RenameWay, Stat
from sfio_emu.names import SubfileName, parse_file_name
from sfio_emu.wire import Kind


def list_folder(session: Session, host: str, path: str) -> Iterator[Entry]:
    """The names of a folder ("" is the root) of a listener, in their order, requested page by page."""
    after, more = "", True
    while more:
        body = message_bodies.encode_pair(b"", after, path)
        entries, more = session.ask(
            SubfileName(host=host, path=path), Kind.LIST, body, message_bodies.decode_entries
        )
        yield from entries
        after = entries[-1].name if entries else ""
        more = more and bool(entries)


def sync_subfiles(session: Session, subfiles: Sequence[OpenSubfile]) -> None:
    """Bring open subfiles to the medium, on all I/O nodes at once: what was written before, by whomever, survives a
    power cut."""
    pack = message_bodies.HANDLE.pack
    answered(
        session.ask_each(
            [(one.name, Kind.SYNC, pack(session.handle(one))) for one in subfiles], bytes
        )
    )


@dataclass(frozen=True, kw_only=True)
class FileStat:
    """What a striped file is: `size` in bytes, time of its last change, the layout stored with it (None: none is).

    `whole`: the subfiles have the sizes of one file; where they have not, `sfio_emu.adapters.repair` makes them so.
    """

    size: int
    modified_ns: int
    layout: Layout | None
    whole: bool


class ListedFile(NamedTuple):
    """A name found in all folders: of a striped file (its size is that of all subfiles), or of folders."""

    name: str
    size: int
    folder: bool


def mstat(name: str, session: Session | None = None) -> FileStat:
    """What the striped file is. Raises `RemoteFailure` (ENOENT where a subfile is missing), `UsageError` for
    folders."""
    session = session or current_session()
    subfiles = parse_file_name(name)
    return file_stat(session, subfiles, stat_files(session, subfiles))


def file_stat(session: Session, subfiles: Sequence[SubfileName], found: Sequence[Stat]) -> FileStat:
    """What the file of these subfiles is that were found so."""
    if condition(found)[0] is Condition.MIXED:  # perhaps the file is being replaced just now
        with locked(session, subfiles):
            found = stat_files(session, subfiles)
    layout = stored_layout(subfiles, found)
    sizes = [one.size for one in found]
    return FileStat(
        size=sum(sizes),
        modified_ns=max(one.modified_ns for one in found),
        layout=layout,
        whole=condition(found)[0] is not Condition.LOST
        and (layout is None or fit_one_file(layout, dict(enumerate(sizes)))),
    )


def stored_layout(subfiles: Sequence[SubfileName], found: Sequence[Stat]) -> Layout | None:
    """The layout that all subfiles say, None where one says nothing; raises `UsageError` where they are not this
    file's."""
    for number, (subfile, one) in enumerate(zip(subfiles, found, strict=True)):
        stored = one.layout
        if stored and (stored.index, stored.subfiles) != (number, len(subfiles)):
            raise UsageError(
                f"{subfile} is subfile {stored.index + 1} of {stored.subfiles} of its file, here it is {number + 1} of"
                f" {len(subfiles)}: name all subfiles, in their order"
            )
    if condition(found)[0] is Condition.MIXED:
        require_one_file(subfiles, found)
    unit = min(one.layout.stripe_unit for one in found)
    return Layout(stripe_unit=unit, subfiles=len(subfiles)) if unit else None


def mexists(name: str, session: Session | None = None) -> bool:
    """Whether all subfiles are there, and are plain files."""
    session = session or current_session()
    found = stat_present(session, parse_file_name(name))
    return all(one is not None and stat.S_ISREG(one.mode) for one in found)


def mlist(folders: str, session: Session | None = None) -> list[ListedFile]:
    """The striped files with one subfile of the same name in each of the folders "host/path;host/path" ("host/." is the
    root).

    Raises `RemoteFailure` where a folder is missing.
    """
    session = session or current_session()
    found: dict[str, list[Entry]] = {}
    places = parse_folders(folders)
    for place in places:
        for entry in list_folder(session, place.host, place.path):
            found.setdefault(entry.name, []).append(entry)
    return [
        ListedFile(name, sum([entry.size for entry in entries]), entries[0].kind == "folder")
        for name, entries in sorted(found.items())
        if [entry.kind for entry in entries] in (["file"] * len(places), ["folder"] * len(places))
        and not name.startswith(RETAINED)
    ]


def parse_folders(folders: str) -> tuple[SubfileName, ...]:
    """The folders of "host/path;host/path", where "host/." is the root of a host."""
    if not isinstance(folders, str):
        raise UsageError(
            f"the folders are a str like 'p1/runs;p2/runs', not {type(folders).__name__}"
        )
    roots = [part.partition("/") for part in folders.split(";")]
    if roots and all(
        set(path.split("/")) <= {"", "."} and host for host, _, path in roots if host or path
    ):
        return tuple(SubfileName(host=host, path="") for host, _, _ in roots if host)
    return parse_file_name(folders)


def rename_file(session: Session, name: str, new_name: str, *, replace: bool = False) -> None:
    """Give a striped file another name, on the same hosts in the same order.

    `replace`: also where a file has that name. Where one node refuses all names are again what they were. What a client
    that was killed has begun is brought to its end. Raises `UsageError`, `RemoteFailure` (ENOENT, EEXIST),
    `ListenerLost`.
    """
    olds, news = parse_file_name(name), parse_file_name(new_name)
    if [old.host for old in olds] != [new.host for new in news]:
        raise UsageError(
            "a file is renamed on its I/O nodes: give the new name with the same hosts in the same order"
        )
    if any(new in olds for old, new in zip(olds, news, strict=True) if old != new):
        raise UsageError(
            "a subfile would get the old name of another: rename the file to a third name first"
        )
    with locked(session, olds, news):
        found, there = stat_present(session, olds), stat_present(session, news)
        require_files(olds, found, "name a file")
        ids = {one.layout.file_id for one in found if one is not None and one.layout} - {0}
        pairs, present, moved = [], [], []
        for old, new, one, target in zip(olds, news, found, there, strict=True):
            if (
                one is None
                and target is not None
                and target.layout
                and target.layout.file_id in ids
            ):
                moved.append(new)
            elif one is None:
                raise RemoteFailure(old.host, "stat", errno.ENOENT, old.path)
            elif old != new:
                pairs.append((old, new))
                present += [new] if target is not None else []
                if target is not None and not (replace and stat.S_ISREG(target.mode)):
                    raise RemoteFailure(new.host, "rename", errno.EEXIST, new.path)
        changes = [renaming(*pair, RenameWay(replace)) for pair in pairs]
        undo = [renaming(new, old) for old, new in pairs]
        change_retaining(session, present, partial(all_or_none, session, changes, undo))
        drop_retained(session, moved)


def remove_subfiles(session: Session, subfiles: Sequence[SubfileName]) -> None:
    """Delete subfiles when all their I/O nodes have answered and all that is there are plain files that can be deleted;
    nothing otherwise.

    Raises the first fault: also where a subfile was missing, when the others are deleted.
    """
    with locked(session, subfiles):
        found = stat_present(session, subfiles)
        require_files(subfiles, found, "nothing is deleted")
        retained = [
            (one, retained_name(one))
            for one, there in zip(subfiles, found, strict=True)
            if there is not None
        ]
        changes = [renaming(one, away, RenameWay.REPLACE) for one, away in retained]
        all_or_none(session, changes, [renaming(away, one) for one, away in retained])
        places = [
            retained_name(one) if there is not None else one
            for one, there in zip(subfiles, found, strict=True)
        ]
        answered(session.ask_each([question(Kind.UNLINK, one) for one in places], bytes))


def stat_files(session: Session, subfiles: Sequence[SubfileName]) -> list[Stat]:
    """What the subfiles are; raises the first fault, and `UsageError` where one is no plain file."""
    found = stat_paths(session, subfiles)
    require_files(subfiles, found, "name a file")
    return found


def stat_paths(session: Session, places: Sequence[SubfileName]) -> list[Stat]:
    """What the paths are; raises the first fault."""
    return answered(session.ask_each([question(Kind.STAT, place) for place in places], Stat.decode))


def different_hosts(session: Session) -> tuple[str, ...]:
    """The hosts of a session, one name for each root: a listener may be known by two."""
    found: dict[tuple[bytes, int, int], str] = {}
    for host in session.connections.hosts:
        (root,) = stat_paths(session, [SubfileName(host=host, path="")])
        found.setdefault((session.link(host).machine, root.device, root.inode), host)
    return tuple(found.values())


def stat_present(session: Session, places: Sequence[SubfileName]) -> list[Stat | None]:
    """What the paths are, None where there is nothing."""
    answers = session.ask_each([question(Kind.STAT, place) for place in places], Stat.decode)
    return answered([None if is_missing(one) else one for one in answers])


def is_missing(answer: object) -> bool:
    """Whether it is the failure that says that there is nothing of a name."""
    return isinstance(answer, RemoteFailure) and answer.errno in (errno.ENOENT, errno.ENOTDIR)


def require_files(subfiles: Sequence[SubfileName], found: Sequence[Stat | None], what: str) -> None:
    """Raises `UsageError` where something that was found is no plain file."""
    for subfile, one in zip(subfiles, found, strict=True):
        if one is not None and not stat.S_ISREG(one.mode):
            raise UsageError(f"{subfile} is no subfile but {_kind_of(one)}: {what}")


def make_folder(session: Session, folders: Sequence[SubfileName]) -> None:
    """Make a folder on each host, in ones that are there; none where one cannot be made. Raises `RemoteFailure`
    (EEXIST, ENOENT)."""
    _change_folders(
        session,
        folders,
        Kind.MKDIR,
        Kind.RMDIR,
        lambda one: one is None or not stat.S_ISDIR(one.mode),
    )


def remove_folder(session: Session, folders: Sequence[SubfileName]) -> None:
    """Remove an empty folder on each host; none where one cannot be removed. Raises `RemoteFailure` (ENOTEMPTY,
    ENOENT)."""
    _change_folders(session, folders, Kind.RMDIR, Kind.MKDIR, lambda one: one is not None)


def _change_folders(
    session: Session,
    folders: Sequence[SubfileName],
    kind: Kind,
    undo: Kind,
    due: Callable[[Stat | None], bool],
) -> None:
    """By whoever has the lock, so that of two changes at once one succeeds. Where some need no change, a client was
    killed in the middle of it: it is brought to its end."""
    with locked(session, folders):
        found = stat_present(session, folders)
        changed = [
            folder for folder, one in zip(folders, found, strict=True) if due(one)
        ] or folders
        all_or_none(
            session,
            [question(kind, one) for one in changed],
            [question(undo, one) for one in changed],
        )


def _kind_of(found: Stat) -> str:
    kinds = (
        (stat.S_ISDIR, "a folder"),
        (stat.S_ISLNK, "a symbolic link"),
        (stat.S_ISFIFO, "a pipe"),
        (stat.S_ISSOCK, "a socket"),
    )
    return next((name for test, name in kinds if test(found.mode)), "a device")
