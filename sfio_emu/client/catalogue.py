"""Striped files by name: status, listing, renaming, and deletion.

Each function queries all I/O nodes before it changes anything, and reports about the file as a
whole.
"""

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
    """Yield the entries of a folder of one listener, sorted by name.

    They are requested page by page.

    Args:
        session: The session.
        host: The name of the I/O node.
        path: The path of the folder; "" is the root.
    """
    after = ""
    more = True
    while more:
        body = message_bodies.encode_pair(b"", after, path)
        entries, more = session.ask(
            SubfileName(host=host, path=path), Kind.LIST, body, message_bodies.decode_entries
        )
        yield from entries
        after = entries[-1].name if entries else ""
        # A wrong listener could announce more entries for ever, without sending any.
        more = more and bool(entries)


def sync_subfiles(session: Session, subfiles: Sequence[OpenSubfile]) -> None:
    """Synchronise open subfiles with the disk, on all I/O nodes at once.

    All data that any client wrote before survive a power failure.
    """
    questions = []
    for subfile in subfiles:
        body = message_bodies.HANDLE.pack(session.handle(subfile))
        questions.append((subfile.name, Kind.SYNC, body))
    answered(session.ask_each(questions, bytes))


@dataclass(frozen=True, kw_only=True)
class FileStat:
    """The status of a striped file.

    Attributes:
        size: The size in bytes.
        modified_ns: The time of the last change, in nanoseconds since 1970.
        layout: The layout stored with the file; None if none is stored.
        whole: Whether the subfiles have the sizes of one file. If not, `sfio_emu.adapters.repair`
            can give them such sizes.
    """

    size: int
    modified_ns: int
    layout: Layout | None
    whole: bool


class ListedFile(NamedTuple):
    """A name that exists in all listed folders.

    Attributes:
        name: The name.
        size: The size of the striped file in bytes; 0 for a folder.
        folder: Whether it is a folder.
    """

    name: str
    size: int
    folder: bool


def mstat(name: str, session: Session | None = None) -> FileStat:
    """Return the status of a striped file.

    Args:
        name: The name of the file, "host/path;host/path;".
        session: The session; by default that of the process.

    Raises:
        RemoteFailure: A subfile is missing (ENOENT), or its status cannot be read.
        UsageError: It is a folder, or the subfiles do not belong to one file.
    """
    session = session or current_session()
    subfiles = parse_file_name(name)
    return file_stat(session, subfiles, stat_files(session, subfiles))


def file_stat(
    session: Session, subfiles: Sequence[SubfileName], answers: Sequence[Stat]
) -> FileStat:
    """Return the status of a striped file, given the status of its subfiles.

    Args:
        session: The session.
        subfiles: The names of the subfiles.
        answers: The status of each subfile.
    """
    if condition(answers)[0] is Condition.MIXED:
        # Perhaps the file is being replaced at this moment. The lock waits for the end of this.
        with locked(session, subfiles):
            answers = stat_files(session, subfiles)
    layout = stored_layout(subfiles, answers)
    sizes = [answer.size for answer in answers]
    is_lost = condition(answers)[0] is Condition.LOST
    sizes_fit = layout is None or fit_one_file(layout, dict(enumerate(sizes)))
    return FileStat(
        size=sum(sizes),
        modified_ns=max(answer.modified_ns for answer in answers),
        layout=layout,
        whole=sizes_fit and not is_lost,
    )


def stored_layout(subfiles: Sequence[SubfileName], answers: Sequence[Stat]) -> Layout | None:
    """Return the layout that is stored with all subfiles, or None if one has none.

    Raises:
        UsageError: The subfiles do not belong to one file, or are not all of it in order.
    """
    for number, (subfile, answer) in enumerate(zip(subfiles, answers, strict=True)):
        stored = answer.layout
        if stored and (stored.index, stored.subfiles) != (number, len(subfiles)):
            raise UsageError(
                f"{subfile} is subfile {stored.index + 1} of {stored.subfiles} of its file, "
                f"here it is {number + 1} of {len(subfiles)}: name all subfiles, in their order"
            )
    if condition(answers)[0] is Condition.MIXED:
        require_one_file(subfiles, answers)
    unit = min(answer.layout.stripe_unit for answer in answers)
    return Layout(stripe_unit=unit, subfiles=len(subfiles)) if unit else None


def mexists(name: str, session: Session | None = None) -> bool:
    """Return whether all subfiles exist and are regular files."""
    session = session or current_session()
    answers = stat_present(session, parse_file_name(name))
    return all(answer is not None and stat.S_ISREG(answer.mode) for answer in answers)


def mlist(folders: str, session: Session | None = None) -> list[ListedFile]:
    """List the striped files that have a subfile of the same name in each of several folders.

    Args:
        folders: "host/path;host/path"; "host/." is the root of a host.
        session: The session; by default that of the process.

    Raises:
        RemoteFailure: A folder is missing.
    """
    session = session or current_session()
    entries_by_name: dict[str, list[Entry]] = {}
    folder_names = parse_folders(folders)
    for folder in folder_names:
        for entry in list_folder(session, folder.host, folder.path):
            entries_by_name.setdefault(entry.name, []).append(entry)
    files = []
    for name, entries in sorted(entries_by_name.items()):
        kinds = {entry.kind for entry in entries}
        same_kind = kinds in ({"file"}, {"folder"})
        in_every_folder = len(entries) == len(folder_names)
        if same_kind and in_every_folder and not name.startswith(RETAINED):
            size = sum(entry.size for entry in entries)
            files.append(ListedFile(name, size, kinds == {"folder"}))
    return files


def parse_folders(folders: str) -> tuple[SubfileName, ...]:
    """Return the folders of "host/path;host/path", where "host/." is the root of a host.

    Raises:
        UsageError: The text is malformed.
    """
    if not isinstance(folders, str):
        raise UsageError(
            f"the folders are a str like 'p1/runs;p2/runs', not {type(folders).__name__}"
        )
    parts = [part.partition("/") for part in folders.split(";")]
    # A last semicolon gives a part without host and path.
    named_parts = [(host, path) for host, _, path in parts if host or path]
    if all(host and set(path.split("/")) <= {"", "."} for host, path in named_parts):
        return tuple(SubfileName(host=host, path="") for host, _ in named_parts)
    return parse_file_name(folders)


def rename_file(session: Session, name: str, new_name: str, *, replace: bool = False) -> None:
    """Rename a striped file on its hosts.

    If one node refuses, all subfiles get their names back. If a client was killed while it renamed
    the file in the same way, the rest of the subfiles are renamed.

    Args:
        session: The session.
        name: The name of the file.
        new_name: The new name, with the same hosts in the same order.
        replace: Replace a file that has the new name.

    Raises:
        UsageError: The names do not match, or are not those of files.
        RemoteFailure: The file does not exist (ENOENT), or the new name does (EEXIST).
        ListenerLost: A listener cannot be reached.
    """
    old_names = parse_file_name(name)
    new_names = parse_file_name(new_name)
    if [old.host for old in old_names] != [new.host for new in new_names]:
        raise UsageError(
            "a file is renamed on its I/O nodes: "
            "give the new name with the same hosts in the same order"
        )
    for old, new in zip(old_names, new_names, strict=True):
        if old != new and new in old_names:
            raise UsageError(
                "a subfile would get the old name of another: rename the file to a third name first"
            )
    with locked(session, old_names, new_names):
        sources = stat_present(session, old_names)
        targets = stat_present(session, new_names)
        require_files(old_names, sources, "name a file")
        ids = {source.layout.file_id for source in sources if source is not None and source.layout}
        ids.discard(0)
        pairs: list[tuple[SubfileName, SubfileName]] = []
        replaced: list[SubfileName] = []
        renamed_before: list[SubfileName] = []
        for old, new, source, target in zip(old_names, new_names, sources, targets, strict=True):
            if source is None:
                if target is None or not target.layout or target.layout.file_id not in ids:
                    raise RemoteFailure(old.host, "stat", errno.ENOENT, old.path)
                renamed_before.append(new)
            elif old != new:
                pairs.append((old, new))
                if target is None:
                    continue
                replaced.append(new)
                if not (replace and stat.S_ISREG(target.mode)):
                    raise RemoteFailure(new.host, "rename", errno.EEXIST, new.path)
        changes = [renaming(old, new, RenameWay(replace)) for old, new in pairs]
        undo = [renaming(new, old) for old, new in pairs]
        change_retaining(session, replaced, partial(all_or_none, session, changes, undo))
        drop_retained(session, renamed_before)


def remove_subfiles(session: Session, subfiles: Sequence[SubfileName]) -> None:
    """Delete subfiles.

    Nothing is deleted unless all I/O nodes answer, and the existing subfiles are regular files that
    can be deleted. If some are missing, the others are deleted before the error is raised.

    Raises:
        PeerError: The first error; also if a subfile is missing (ENOENT).
        UsageError: One of them is not a regular file.
    """
    with locked(session, subfiles):
        answers = stat_present(session, subfiles)
        require_files(subfiles, answers, "nothing is deleted")
        changes = []
        undo = []
        names = []
        for subfile, answer in zip(subfiles, answers, strict=True):
            if answer is None:
                # Deleting the missing name makes the listener report the error.
                names.append(subfile)
                continue
            retained = retained_name(subfile)
            changes.append(renaming(subfile, retained, RenameWay.REPLACE))
            undo.append(renaming(retained, subfile))
            names.append(retained)
        all_or_none(session, changes, undo)
        answered(session.ask_each([question(Kind.UNLINK, name) for name in names], bytes))


def stat_files(session: Session, subfiles: Sequence[SubfileName]) -> list[Stat]:
    """Return the status of subfiles.

    Raises:
        PeerError: The first error.
        UsageError: One of them is not a regular file.
    """
    answers = stat_paths(session, subfiles)
    require_files(subfiles, answers, "name a file")
    return answers


def stat_paths(session: Session, paths: Sequence[SubfileName]) -> list[Stat]:
    """Return the status of paths, or raise the first error."""
    return answered(session.ask_each([question(Kind.STAT, path) for path in paths], Stat.decode))


def different_hosts(session: Session) -> tuple[str, ...]:
    """Return the hosts of a session, but only one of the names of each listener's root.

    One listener may be known by two names.
    """
    host_by_root: dict[tuple[bytes, int, int], str] = {}
    for host in session.connections.hosts:
        (root,) = stat_paths(session, [SubfileName(host=host, path="")])
        host_by_root.setdefault((session.link(host).machine, root.device, root.inode), host)
    return tuple(host_by_root.values())


def stat_present(session: Session, paths: Sequence[SubfileName]) -> list[Stat | None]:
    """Return the status of paths, None for those that do not exist."""
    answers = session.ask_each([question(Kind.STAT, path) for path in paths], Stat.decode)
    return answered([None if is_missing(answer) else answer for answer in answers])


def is_missing(answer: object) -> bool:
    """Return whether an answer is the error that a path does not exist."""
    return isinstance(answer, RemoteFailure) and answer.errno in (errno.ENOENT, errno.ENOTDIR)


def require_files(
    subfiles: Sequence[SubfileName], answers: Sequence[Stat | None], hint: str
) -> None:
    """Check that the existing ones of several paths are regular files.

    Args:
        subfiles: The paths.
        answers: The status of each path; None if it does not exist.
        hint: The end of the error message.

    Raises:
        UsageError: A path is something else.
    """
    for subfile, answer in zip(subfiles, answers, strict=True):
        if answer is not None and not stat.S_ISREG(answer.mode):
            raise UsageError(f"{subfile} is not a subfile but {_kind_of(answer)}: {hint}")


def make_folder(session: Session, folders: Sequence[SubfileName]) -> None:
    """Create a folder on each host, or none if one cannot be created.

    Raises:
        RemoteFailure: A folder exists (EEXIST), or the folder around it does not (ENOENT).
    """

    def is_due(answer: Stat | None) -> bool:
        return answer is None or not stat.S_ISDIR(answer.mode)

    _change_folders(session, folders, Kind.MKDIR, Kind.RMDIR, is_due)


def remove_folder(session: Session, folders: Sequence[SubfileName]) -> None:
    """Remove an empty folder on each host, or none if one cannot be removed.

    Raises:
        RemoteFailure: A folder is not empty (ENOTEMPTY), or does not exist (ENOENT).
    """

    def is_due(answer: Stat | None) -> bool:
        return answer is not None

    _change_folders(session, folders, Kind.RMDIR, Kind.MKDIR, is_due)


def _change_folders(
    session: Session,
    folders: Sequence[SubfileName],
    kind: Kind,
    undo: Kind,
    is_due: Callable[[Stat | None], bool],
) -> None:
    """Change a folder on each host under the lock, so that of two clients at once one succeeds.

    If some folders are changed already, but not all, a client was killed in the middle of the
    change. The others are then changed. If all are changed already, the listeners report errors.

    Args:
        session: The session.
        folders: The folders.
        kind: The message that changes a folder.
        undo: The message that undoes the change.
        is_due: Returns whether a folder has yet to be changed, given its status.
    """
    with locked(session, folders):
        answers = stat_present(session, folders)
        due = [folder for folder, answer in zip(folders, answers, strict=True) if is_due(answer)]
        changed = due or folders
        changes = [question(kind, folder) for folder in changed]
        undo_changes = [question(undo, folder) for folder in changed]
        all_or_none(session, changes, undo_changes)


def _kind_of(answer: Stat) -> str:
    """Return what a path is that is not a regular file, for an error message."""
    kinds = (
        (stat.S_ISDIR, "a folder"),
        (stat.S_ISLNK, "a symbolic link"),
        (stat.S_ISFIFO, "a pipe"),
        (stat.S_ISSOCK, "a socket"),
    )
    for is_kind, name in kinds:
        if is_kind(answer.mode):
            return name
    return "a device"
