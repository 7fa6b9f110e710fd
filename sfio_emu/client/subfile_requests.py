"""What else a listener does for a session: say what a path is, list a folder, rename, sync, store a layout. One call,
one answer.

There are no byte-range locks: a listener does one message after the other, and what must not be torn has to fit one
message.
"""

from collections.abc import Iterator, Sequence

from sfio_emu import message_bodies
from sfio_emu.client.connection import Message
from sfio_emu.client.session import Session
from sfio_emu.message_bodies import Entry, Stat, StoredLayout
from sfio_emu.names import SubfileName
from sfio_emu.wire import Kind

SYNCED_AT_ONCE = 1000


def stat_subfile(session: Session, subfile: SubfileName) -> Stat:
    """What the path of a subfile is; raises `RemoteFailure` (ENOENT where there is nothing)."""
    return session.ask(subfile, Kind.STAT, message_bodies.encode_path(subfile.path), Stat.decode)


def list_folder(session: Session, host: str, path: str) -> Iterator[Entry]:
    """The names of a folder ("" is the root) of a listener, in their order, requested page by page."""
    after, more = "", True
    while more:
        body = message_bodies.encode_pair(b"", after, path)
        entries, more = session.ask(SubfileName(host=host, path=path), Kind.LIST, body, message_bodies.decode_entries)
        yield from entries
        after = entries[-1].name if entries else ""
        more = more and bool(entries)


def rename_subfile(session: Session, subfile: SubfileName, path: str, *, replace: bool = False) -> None:
    """Give a subfile another path on its I/O node; `replace`: also where a file has it already (EEXIST otherwise).

    Its missing folders are made. Who has the file open goes on with it under its new name.
    """
    body = message_bodies.encode_pair(bytes([replace]), subfile.path, path)
    session.ask(subfile, Kind.RENAME, body, bytes)


def store_layout(session: Session, subfile: SubfileName, layout: StoredLayout) -> None:
    """Store a layout with an open subfile, in the place of what was stored."""
    handle = session.handle(subfile)
    body = message_bodies.LAYOUT.pack(handle, *layout)
    session.ask(subfile, Kind.LAYOUT, body, bytes)


def unmake_subfile(session: Session, subfile: SubfileName, *, read_only: bool) -> None:
    """Delete an open subfile that its opening made, with the folders made for it, as far as all are empty still."""
    handle = session.handle(subfile, read_only=read_only)
    session.ask(subfile, Kind.UNMAKE, message_bodies.HANDLE.pack(handle), bytes)


def sync_subfiles(session: Session, subfiles: Sequence[SubfileName]) -> None:
    """Bring open subfiles to the medium, on all I/O nodes at once: what was written before, by whomever, survives a
    power cut."""
    messages: dict[str, list[Message]] = {}
    for host in dict.fromkeys(subfile.host for subfile in subfiles):
        handles = {session.handle(subfile): subfile.path for subfile in subfiles if subfile.host == host}
        numbers = list(handles)
        messages[host] = [
            Message(
                Kind.SYNC,
                message_bodies.encode_handles(numbers[first : first + SYNCED_AT_ONCE]),
                path=handles.__getitem__,
            )
            for first in range(0, len(numbers), SYNCED_AT_ONCE)
        ]
    session.request(messages)
