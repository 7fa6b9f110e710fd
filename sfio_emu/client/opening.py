"""How a striped file comes into being and is opened: its subfiles have one identity, or they are not opened as a file.

Whoever changes which subfiles lie under a name (creation, rename, deletion) has the name's lock meanwhile, at the host
of the least of its subfiles, so that of two changes at once one is whole before the other begins. Opening needs no lock
where all subfiles are there and say that they are one file's; otherwise it waits for the lock, in case a change was
under way, and looks again.
"""

import errno
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from enum import Enum
from functools import partial

from sfio_emu import message_bodies
from sfio_emu.client.retaining import all_or_none, change_retaining, question
from sfio_emu.client.session import OpenSubfile, Session, answered
from sfio_emu.client.threads import Event
from sfio_emu.errors import PeerError, RemoteFailure, SfioError, UsageError
from sfio_emu.message_bodies import UNSTORABLE, Opened, OpenFlag, Stat, StoredLayout, encode_lock
from sfio_emu.names import SubfileName
from sfio_emu.wire import Kind

MAX_TRIES, LONGEST_WAIT_S = 1000, 0.02  # for a lock: some 20 s
REPAIR = "`python -m sfio_emu.adapters.repair NAME` says what can be done"


Found = Opened | Stat
"""What a listener says of a subfile."""


class Condition(Enum):
    """What the subfiles of a name are together."""

    NOTHING = "no subfile is there"
    ONE = "the subfiles of one file"
    UNMARKED = "empty, or all there, and nothing is stored with some that could be"
    LOST = "a subfile is missing or is none of the file"
    MIXED = "subfiles of several files"


def condition(found: Sequence[Found | None]) -> tuple[Condition, int]:
    """What subfiles are together (None: nothing is there), and the first that is to blame.

    A file that is empty may lack subfiles that say nothing yet: whoever made it did not come to the end.
    """
    present = [one for one in found if one is not None]
    if not present:
        return Condition.NOTHING, 0
    ids = [one.layout.file_id for one in present if one.layout]
    foreign = [
        n
        for n, one in enumerate(found)
        if one is not None and one.layout and one.layout.file_id != ids[0]
    ]
    missing = [n for n, one in enumerate(found) if one is None]
    blank = [
        n
        for n, one in enumerate(found)
        if one is not None and not one.layout and one.layout != UNSTORABLE
    ]
    holds = any(one.size for one in present)
    if foreign:
        return Condition.MIXED, foreign[0]
    if missing and (ids or holds):
        return Condition.LOST, missing[0]
    if blank and ids and holds:
        return Condition.LOST, blank[0]
    return (Condition.UNMARKED if missing or blank else Condition.ONE), 0


def require_one_file(subfiles: Sequence[SubfileName], found: Sequence[Found | None]) -> Condition:
    """The condition of subfiles; raises `RemoteFailure` (ENOENT) or `UsageError` where they are not one file's."""
    state, culprit = condition(found)
    subfile = subfiles[culprit]
    if state is Condition.MIXED:
        raise UsageError(
            f"{subfile} is another file's than those before it: the subfiles of {subfiles[0]};... are not one file's:"
            f" {REPAIR}"
        )
    if state is Condition.LOST and found[culprit] is not None:
        raise UsageError(
            f"{subfile} is not the subfile of this file that it was, which is lost: {REPAIR}"
        )
    if state is Condition.LOST:
        hint = f": other subfiles of the file are there: {REPAIR}"
        raise RemoteFailure(subfile.host, "open", errno.ENOENT, subfile.path, hint=hint)
    return state


@contextmanager
def locked(session: Session, *files: Sequence[SubfileName]) -> Iterator[None]:
    """Alone among all clients in changing which subfiles lie under these names. Raises `PeerError` where somebody else
    has one for some 20 s."""
    held: list[SubfileName] = []
    try:
        for home in sorted(
            {min(subfiles) for subfiles in files}
        ):  # in one order: nobody waits in a circle
            _take_lock(session, home)
            held.append(home)
        yield
    finally:
        for home in held:
            with suppress(SfioError):  # a lost connection has given it back
                session.ask(home, Kind.LOCK, encode_lock(home.path, take=False), bytes)


def _take_lock(session: Session, home: SubfileName) -> None:
    body, waiting = encode_lock(home.path, take=True), Event()
    read = partial(message_bodies.unpack, message_bodies.LOCK_ANSWER)
    for number in range(MAX_TRIES):
        (granted,) = session.ask(home, Kind.LOCK, body, read)
        if granted:
            return
        waiting.wait(
            min(0.0005 * 2**number, LONGEST_WAIT_S) * (0.5 + secrets.randbelow(1000) / 1000)
        )
    raise PeerError(home.host, f"somebody else has been changing {home.path} for long: try again")


def create_subfiles(
    session: Session, subfiles: Sequence[SubfileName], present: Sequence[SubfileName]
) -> None:
    """Make new and empty subfiles, in the place of those that are `present`. Nothing is made or lost where a host
    cannot be reached or refuses; by whoever has the lock."""
    for subfile in subfiles:
        session.link(subfile.host)
    changes, undo = (
        [question(kind, one) for one in subfiles] for kind in (Kind.CREATE, Kind.UNLINK)
    )
    change_retaining(session, present, partial(all_or_none, session, changes, undo))


def store_layouts(session: Session, subfiles: Sequence[OpenSubfile], stripe_unit: int) -> None:
    """Store with each subfile of a file that has none the layout, and the identity of the others or a new one."""
    known = [one.opened.layout.file_id for one in subfiles if one.opened.layout]
    file_id = known[0] if known else secrets.randbits(64) or 1
    layouts = [
        StoredLayout(stripe_unit, number, len(subfiles), file_id) for number in range(len(subfiles))
    ]
    blank = [
        (one, (one.name, Kind.LAYOUT, message_bodies.LAYOUT.pack(session.handle(one), *layout)))
        for one, layout in zip(subfiles, layouts, strict=True)
        if not one.opened.layout and one.opened.layout != UNSTORABLE
    ]
    read = partial(message_bodies.unpack, message_bodies.LAYOUT_ANSWER)
    stored = answered(session.ask_each([question for _, question in blank], read))
    for (one, _), layout in zip(blank, stored, strict=True):
        one.opened = one.opened._replace(layout=StoredLayout(*layout))


def make_lost_subfiles(session: Session, subfiles: Sequence[SubfileName], stripe_unit: int) -> None:
    """Make the subfiles that a file lacks, empty and with its identity."""
    with locked(session, subfiles):
        opened = session.open(subfiles)
        try:
            store_layouts(session, opened, stripe_unit)
        finally:
            session.release(opened)


def open_subfiles(
    session: Session,
    subfiles: Sequence[SubfileName],
    stripe_unit: int,
    flags: OpenFlag,
    *,
    truncate: bool,
) -> list[OpenSubfile]:
    """Open the subfiles of a file, or make them where `flags` say so; to be released. `truncate`: it will be emptied,
    so that it is recreated where its layout differs.

    Raises `UsageError` where they are not one file's, `RemoteFailure` (ENOENT: one is missing, EEXIST), `ListenerLost`.
    """
    look = flags & OpenFlag.READ_ONLY
    if flags & OpenFlag.CREATE:
        look |= OpenFlag.IF_THERE
    if not flags & OpenFlag.EXCLUSIVE and not truncate:
        opened = session.open(subfiles, look)
        state, _ = condition(_found(opened))
        if state is Condition.ONE or (flags & OpenFlag.READ_ONLY and state is Condition.UNMARKED):
            return opened
        session.release(opened)
    with locked(session, subfiles):
        opened = session.open(subfiles, look)
        try:
            return _made(session, opened, stripe_unit, flags, truncate=truncate)
        except SfioError:
            session.unmake(opened)
            session.release(opened)
            raise


def _made(
    session: Session,
    opened: list[OpenSubfile],
    stripe_unit: int,
    flags: OpenFlag,
    *,
    truncate: bool,
) -> list[OpenSubfile]:
    """The subfiles that were `opened` (where there were such), and those made as `flags` say; by whoever has the
    lock."""
    found, subfiles = _found(opened), [one.name for one in opened]
    there = next((one for one in opened if one.opened.handle), None)
    if flags & OpenFlag.EXCLUSIVE and there is not None:
        raise RemoteFailure(there.name.host, "open", errno.EEXIST, there.name.path)
    if truncate and there is not None and not _has_layout(found, stripe_unit):
        session.release(opened)
        create_subfiles(session, subfiles, [one.name for one in opened if one.opened.handle])
        opened[:] = session.open(subfiles, OpenFlag(0))
        found = _found(opened)
    for number, one in enumerate(opened):
        check_layout(one, (stripe_unit, number, len(opened)))
    state = require_one_file(subfiles, found)
    missing = [number for number, one in enumerate(found) if one is None]
    made = session.open([subfiles[number] for number in missing], flags)
    for number, one in zip(missing, made, strict=True):
        opened[number] = one
    if state is not Condition.ONE:
        store_layouts(session, opened, stripe_unit)
    return opened


def check_layout(subfile: OpenSubfile, meant: tuple[int, int, int]) -> None:
    """Raises `UsageError` where a subfile says another stripe unit, place or number of subfiles than is `meant`."""
    stored, (unit, number, subfiles) = subfile.opened.layout, meant
    if stored and stored[:3] != meant:
        raise UsageError(
            f"{subfile.name} was written as subfile {stored.index + 1} of {stored.subfiles} in units of"
            f" {stored.stripe_unit} bytes, and is opened as subfile {number + 1} of {subfiles} in units of {unit}:"
            " open it as it was written, or create it again (mcreate, mode 'w')"
        )


def _has_layout(found: Sequence[Found | None], stripe_unit: int) -> bool:
    """Whether all subfiles are there and lie as they shall, as far as anybody can say: they need only be emptied."""
    if condition(found)[0] is not Condition.ONE:
        return False
    meant = [(stripe_unit, number, len(found)) for number in range(len(found))]
    return all(
        one is not None and one.layout[:3] in (place, UNSTORABLE[:3])
        for one, place in zip(found, meant, strict=True)
    )


def _found(opened: Sequence[OpenSubfile]) -> list[Found | None]:
    return [one.opened if one.opened.handle else None for one in opened]
