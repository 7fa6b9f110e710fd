"""Changes of names that lose nothing where one I/O node refuses: what lies under the names is retained beside them
(links `.sfio-retained-*` in the same folders) until all nodes have done the change, and put back where one has not."""

from collections.abc import Callable, Sequence

from xxhash import xxh3_64_hexdigest

from sfio_emu import message_bodies
from sfio_emu.client.session import Question, Session, answered
from sfio_emu.errors import PeerError, RemoteFailure, SfioError
from sfio_emu.message_bodies import RenameWay, encode_path
from sfio_emu.names import SubfileName
from sfio_emu.wire import Kind

RETAINED = ".sfio-retained-"


def retained_name(subfile: SubfileName) -> SubfileName:
    """Where a subfile is retained while its name is given to another."""
    folder, slash, _ = subfile.path.rpartition("/")
    place = f"{folder}{slash}{RETAINED}{xxh3_64_hexdigest(encode_path(subfile.path))}"
    return SubfileName(host=subfile.host, path=place)


def question(kind: Kind, place: SubfileName) -> Question:
    """A message that names a path and nothing else."""
    return place, kind, encode_path(place.path)


def renaming(old: SubfileName, new: SubfileName, way: RenameWay = RenameWay.REFUSE) -> Question:
    """The message that gives `old` the path of `new`."""
    return old, Kind.RENAME, message_bodies.encode_pair(bytes([way]), old.path, new.path)


def all_or_none(session: Session, questions: Sequence[Question], undo: Sequence[Question]) -> None:
    """Change something about each path; where one change fails, undo the others, and raise the first fault. One that
    was not answered may have been done: `undo` does nothing where it was not."""
    answers = session.ask_each(questions, bytes)
    if any(isinstance(answer, PeerError) for answer in answers):
        done = zip(undo, answers, strict=True)
        session.ask_each(
            [one for one, answer in done if not isinstance(answer, RemoteFailure)], bytes
        )
    answered(answers)


def change_retaining(
    session: Session, present: Sequence[SubfileName], change: Callable[[], None]
) -> None:
    """Carry out a change (all or none) of the names under which the subfiles `present` lie; where it fails they lie
    there again. By whoever has the lock."""
    links = [renaming(one, retained_name(one), RenameWay.LINK) for one in present]
    all_or_none(session, links, [renaming(retained_name(one), one) for one in present])
    try:
        change()
    except SfioError:
        put_back(session, present)
        raise
    drop_retained(session, present)


def put_back(session: Session, subfiles: Sequence[SubfileName]) -> None:
    """Give what was retained its name again, where nothing else has that now."""
    session.ask_each([renaming(retained_name(one), one) for one in subfiles], bytes)


def drop_retained(session: Session, subfiles: Sequence[SubfileName]) -> None:
    """Delete what was retained; what stays, as a listener is gone, is deleted after the next change of that name."""
    session.ask_each([question(Kind.UNLINK, retained_name(one)) for one in subfiles], bytes)
