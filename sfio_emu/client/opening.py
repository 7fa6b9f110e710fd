"""Creating and opening a striped file.

The subfiles of a file have a common identity. Subfiles without it are not opened as one file.

A client that creates, renames or deletes a file first takes the lock of its name, on the host of
the file's least subfile. Of two changes at the same time, the second begins when the first is
complete. Opening needs no lock if all subfiles exist and have the same identity. Otherwise it takes
the lock, which waits for the end of a change in progress, and looks again.
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

# A lock is tried for some 20 seconds: this many times, with growing pauses up to this length.
MAX_TRIES = 1000
LONGEST_WAIT_S = 0.02

# The end of errors about files whose subfiles do not fit together.
REPAIR = "`python -m sfio_emu.adapters.repair NAME` says what can be done"

# What a listener answers about an existing subfile.
Found = Opened | Stat


class Condition(Enum):
    """The condition of the subfiles of a file as a whole.

    Attributes:
        NOTHING: No subfile exists.
        ONE: The subfiles belong to one file.
        UNMARKED: The creation of the file is not complete. It is empty or all subfiles exist, and
            some could have a layout but have none.
        LOST: A subfile is missing or does not belong to the file.
        MIXED: The subfiles belong to several files.
    """

    NOTHING = "no subfile is there"
    ONE = "the subfiles of one file"
    UNMARKED = "empty, or all there, and nothing is stored with some that could be"
    LOST = "a subfile is missing or is none of the file"
    MIXED = "subfiles of several files"


def condition(answers: Sequence[Found | None]) -> tuple[Condition, int]:
    """Judge the subfiles of a file.

    An empty file may lack subfiles, or the layouts of some: the client that created it was killed.

    Args:
        answers: What the listener of each subfile answered; None if the subfile does not exist.

    Returns:
        The condition, and the number of the first subfile that is the cause, or 0.
    """
    present = [answer for answer in answers if answer is not None]
    if not present:
        return Condition.NOTHING, 0
    ids = [answer.layout.file_id for answer in present if answer.layout]
    foreign = []
    missing = []
    blank = []
    for number, answer in enumerate(answers):
        if answer is None:
            missing.append(number)
        elif answer.layout:
            if answer.layout.file_id != ids[0]:
                foreign.append(number)
        elif answer.layout != UNSTORABLE:
            blank.append(number)
    has_data = any(answer.size for answer in present)
    if foreign:
        return Condition.MIXED, foreign[0]
    if missing and (ids or has_data):
        return Condition.LOST, missing[0]
    if blank and ids and has_data:
        return Condition.LOST, blank[0]
    return (Condition.UNMARKED if missing or blank else Condition.ONE), 0


def require_one_file(subfiles: Sequence[SubfileName], answers: Sequence[Found | None]) -> Condition:
    """Return the condition of subfiles, after checking that they belong to one file.

    Args:
        subfiles: The names of the subfiles.
        answers: What their listeners answered.

    Raises:
        RemoteFailure: A subfile is missing (ENOENT).
        UsageError: The subfiles do not belong to one file.
    """
    state, culprit = condition(answers)
    subfile = subfiles[culprit]
    if state is Condition.MIXED:
        raise UsageError(
            f"{subfile} is another file's than those before it: "
            f"the subfiles of {subfiles[0]};... are not one file's: {REPAIR}"
        )
    if state is Condition.LOST and answers[culprit] is not None:
        raise UsageError(
            f"{subfile} is not the subfile of this file that it was, which is lost: {REPAIR}"
        )
    if state is Condition.LOST:
        hint = f": other subfiles of the file are there: {REPAIR}"
        raise RemoteFailure(subfile.host, "open", errno.ENOENT, subfile.path, hint=hint)
    return state


@contextmanager
def locked(session: Session, *files: Sequence[SubfileName]) -> Iterator[None]:
    """Hold the locks of several files, so that no other client creates, renames or deletes them.

    Args:
        session: The session.
        files: The subfiles of each file.

    Raises:
        PeerError: Another client has had a lock for some 20 seconds.
    """
    locks: list[SubfileName] = []
    try:
        # All clients take locks in the same order, so that there is no deadlock.
        for home in sorted({min(subfiles) for subfiles in files}):
            _take_lock(session, home)
            locks.append(home)
        yield
    finally:
        for home in locks:
            # If the connection is lost, the listener has released the lock already.
            with suppress(SfioError):
                session.ask(home, Kind.LOCK, encode_lock(home.path, take=False), bytes)


def _take_lock(session: Session, home: SubfileName) -> None:
    body = encode_lock(home.path, take=True)
    pause = Event()
    decode = partial(message_bodies.unpack, message_bodies.LOCK_ANSWER)
    for number in range(MAX_TRIES):
        (granted,) = session.ask(home, Kind.LOCK, body, decode)
        if granted:
            return
        # The random factor keeps several clients from trying at the same moments.
        random_factor = 0.5 + secrets.randbelow(1000) / 1000
        pause.wait(min(0.0005 * 2**number, LONGEST_WAIT_S) * random_factor)
    raise PeerError(
        home.host, f"another client has been changing {home.path} for a long time: try again"
    )


def create_subfiles(
    session: Session, subfiles: Sequence[SubfileName], present: Sequence[SubfileName]
) -> None:
    """Create empty subfiles, and replace existing ones.

    If a host cannot be reached or refuses, nothing is created or lost. The caller has the lock.

    Args:
        session: The session.
        subfiles: The subfiles to create.
        present: The subfiles among them that exist.
    """
    # Connect first, so that a host that is down is noticed before anything is changed.
    for subfile in subfiles:
        session.link(subfile.host)
    changes = [question(Kind.CREATE, subfile) for subfile in subfiles]
    undo = [question(Kind.UNLINK, subfile) for subfile in subfiles]
    change_retaining(session, present, partial(all_or_none, session, changes, undo))


def store_layouts(session: Session, subfiles: Sequence[OpenSubfile], stripe_unit: int) -> None:
    """Store layout and identity with each subfile of a file that has none.

    The identity is that of the other subfiles, or a new one.

    Args:
        session: The session.
        subfiles: All subfiles of the file.
        stripe_unit: The stripe unit in bytes.
    """
    ids = [subfile.opened.layout.file_id for subfile in subfiles if subfile.opened.layout]
    file_id = ids[0] if ids else secrets.randbits(64) or 1
    blank = []
    questions = []
    for number, subfile in enumerate(subfiles):
        if not subfile.opened.layout and subfile.opened.layout != UNSTORABLE:
            layout = StoredLayout(stripe_unit, number, len(subfiles), file_id)
            body = message_bodies.LAYOUT.pack(session.handle(subfile), *layout)
            blank.append(subfile)
            questions.append((subfile.name, Kind.LAYOUT, body))
    decode = partial(message_bodies.unpack, message_bodies.LAYOUT_ANSWER)
    stored = answered(session.ask_each(questions, decode))
    for subfile, fields in zip(blank, stored, strict=True):
        # The answer says what is stored now: nothing, if the file system cannot store it.
        subfile.opened = subfile.opened._replace(layout=StoredLayout(*fields))


def make_lost_subfiles(session: Session, subfiles: Sequence[SubfileName], stripe_unit: int) -> None:
    """Create the missing subfiles of a file, empty and with the file's identity."""
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
    """Open the subfiles of a file. The caller must release them.

    Args:
        session: The session.
        subfiles: The names of the subfiles.
        stripe_unit: The stripe unit in bytes.
        flags: Whether to create missing subfiles, and whether to open for reading only.
        truncate: Whether the caller will truncate the file. If its layout is another, it is
            replaced.

    Raises:
        UsageError: The subfiles do not belong to one file, or were written in another layout.
        RemoteFailure: A subfile is missing (ENOENT) or exists already (EEXIST).
        ListenerLost: A listener cannot be reached.
    """
    look_flags = flags & OpenFlag.READ_ONLY
    if flags & OpenFlag.CREATE:
        look_flags |= OpenFlag.IF_THERE
    if not flags & OpenFlag.EXCLUSIVE and not truncate:
        opened = session.open(subfiles, look_flags)
        state, _ = condition(_answers(opened))
        if state is Condition.ONE or (flags & OpenFlag.READ_ONLY and state is Condition.UNMARKED):
            return opened
        session.release(opened)
    with locked(session, subfiles):
        opened = session.open(subfiles, look_flags)
        try:
            return _complete(session, opened, stripe_unit, flags, truncate=truncate)
        except SfioError:
            session.unmake(opened)
            session.release(opened)
            raise


def _complete(
    session: Session,
    opened: list[OpenSubfile],
    stripe_unit: int,
    flags: OpenFlag,
    *,
    truncate: bool,
) -> list[OpenSubfile]:
    """Create the missing subfiles of a file that is being opened. The caller has the lock.

    Args:
        session: The session.
        opened: The subfiles; those that do not exist have handle 0. They are replaced in this
            list when they are created, so that the caller can release them after an error.
        stripe_unit: As in `open_subfiles`.
        flags: As in `open_subfiles`.
        truncate: As in `open_subfiles`.

    Returns:
        The open subfiles.
    """
    answers = _answers(opened)
    subfiles = [subfile.name for subfile in opened]
    existing = [subfile.name for subfile in opened if subfile.opened.handle]
    if flags & OpenFlag.EXCLUSIVE and existing:
        raise RemoteFailure(existing[0].host, "open", errno.EEXIST, existing[0].path)
    if truncate and existing and not _has_layout(answers, stripe_unit):
        session.release(opened)
        create_subfiles(session, subfiles, existing)
        opened[:] = session.open(subfiles, OpenFlag(0))
        answers = _answers(opened)
    for number, subfile in enumerate(opened):
        check_layout(subfile, (stripe_unit, number, len(opened)))
    state = require_one_file(subfiles, answers)
    missing = [number for number, answer in enumerate(answers) if answer is None]
    created = session.open([subfiles[number] for number in missing], flags)
    for number, subfile in zip(missing, created, strict=True):
        opened[number] = subfile
    if state is not Condition.ONE:
        store_layouts(session, opened, stripe_unit)
    return opened


def check_layout(subfile: OpenSubfile, meant: tuple[int, int, int]) -> None:
    """Check that the layout stored with a subfile is the expected one.

    Args:
        subfile: The subfile. Without a stored layout, it passes.
        meant: The expected stripe unit in bytes, number of the subfile, and number of subfiles.

    Raises:
        UsageError: The stored layout is another.
    """
    stored = subfile.opened.layout
    unit, number, subfiles = meant
    if stored and stored[:3] != meant:
        raise UsageError(
            f"{subfile.name} was written as subfile {stored.index + 1} of {stored.subfiles} "
            f"in units of {stored.stripe_unit} bytes, "
            f"and is opened as subfile {number + 1} of {subfiles} in units of {unit}: "
            "open it as it was written, or create it again (mcreate, mode 'w')"
        )


def _has_layout(answers: Sequence[Found | None], stripe_unit: int) -> bool:
    """Return whether all subfiles exist and have the layout, as far as it can be stored.

    Such a file need only be truncated, not replaced.
    """
    if condition(answers)[0] is not Condition.ONE:
        return False
    for number, answer in enumerate(answers):
        expected = (stripe_unit, number, len(answers))
        if answer is None or answer.layout[:3] not in (expected, UNSTORABLE[:3]):
            return False
    return True


def _answers(opened: Sequence[OpenSubfile]) -> list[Found | None]:
    """Return the answers to OPEN, None for subfiles that do not exist."""
    return [subfile.opened if subfile.opened.handle else None for subfile in opened]
