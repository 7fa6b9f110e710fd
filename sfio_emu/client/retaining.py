"""Changes of names that lose nothing if one I/O node refuses.

The subfiles under the names are retained by links `.sfio-retained-*` in the same folders until all
nodes have carried out the change. If one node has not, the subfiles get their names back.
"""

from collections.abc import Callable, Sequence

from xxhash import xxh3_64_hexdigest

from sfio_emu import message_bodies
from sfio_emu.client.session import Question, Session, answered
from sfio_emu.errors import PeerError, RemoteFailure, SfioError
from sfio_emu.message_bodies import RenameWay, encode_path
from sfio_emu.names import SubfileName
from sfio_emu.wire import Kind

# The beginning of the names of retained subfiles.
RETAINED = ".sfio-retained-"


def retained_name(subfile: SubfileName) -> SubfileName:
    """Return the name under which a subfile is retained while another gets its name."""
    folder, slash, _ = subfile.path.rpartition("/")
    path = f"{folder}{slash}{RETAINED}{xxh3_64_hexdigest(encode_path(subfile.path))}"
    return SubfileName(host=subfile.host, path=path)


def question(kind: Kind, subfile: SubfileName) -> Question:
    """Return a message whose body is the path of the subfile."""
    return subfile, kind, encode_path(subfile.path)


def renaming(old: SubfileName, new: SubfileName, way: RenameWay = RenameWay.REFUSE) -> Question:
    """Return the message that gives the subfile `old` the path of `new`."""
    return old, Kind.RENAME, message_bodies.encode_pair(bytes([way]), old.path, new.path)


def all_or_none(session: Session, questions: Sequence[Question], undo: Sequence[Question]) -> None:
    """Change several paths, and undo the changes if one of them fails.

    Args:
        session: The session.
        questions: The message that changes each path.
        undo: The message that undoes each change. It must do nothing if the change was not carried
            out, because a change that was not answered may have been carried out or not.

    Raises:
        PeerError: The first error.
    """
    answers = session.ask_each(questions, bytes)
    if any(isinstance(answer, PeerError) for answer in answers):
        possibly_changed = [
            undo_one
            for undo_one, answer in zip(undo, answers, strict=True)
            if not isinstance(answer, RemoteFailure)
        ]
        session.ask_each(possibly_changed, bytes)
    answered(answers)


def change_retaining(
    session: Session, present: Sequence[SubfileName], change: Callable[[], None]
) -> None:
    """Carry out a change of names. If it fails, the subfiles have their names again.

    The caller has the lock of the names.

    Args:
        session: The session.
        present: The subfiles whose names are changed.
        change: Changes all of the names or none.
    """
    links = [renaming(subfile, retained_name(subfile), RenameWay.LINK) for subfile in present]
    all_or_none(session, links, [renaming(retained_name(subfile), subfile) for subfile in present])
    try:
        change()
    except SfioError:
        put_back(session, present)
        raise
    drop_retained(session, present)


def put_back(session: Session, subfiles: Sequence[SubfileName]) -> None:
    """Give retained subfiles their names again, unless another file has the name now."""
    session.ask_each([renaming(retained_name(subfile), subfile) for subfile in subfiles], bytes)


def drop_retained(session: Session, subfiles: Sequence[SubfileName]) -> None:
    """Delete the retained subfiles.

    Errors are ignored. A link that remains because its listener is down is deleted after the next
    change of the name.
    """
    messages = [question(Kind.UNLINK, retained_name(subfile)) for subfile in subfiles]
    session.ask_each(messages, bytes)
