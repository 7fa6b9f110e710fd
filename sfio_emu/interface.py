"""The functions of SFIO as a program calls them (Gabrielyan 2007, Appendix A), over the session of the process."""

from __future__ import annotations

import stat
from collections.abc import Callable, Sequence, Sized
from typing import TYPE_CHECKING

from sfio_emu.client.buffers import first_bytes
from sfio_emu.client.catalogue import remove_subfiles, rename_file, stat_present
from sfio_emu.client.current_session import current_session
from sfio_emu.client.opening import create_subfiles, locked
from sfio_emu.client.session import Session
from sfio_emu.errors import UsageError, whole_number
from sfio_emu.names import parse_file_name
from sfio_emu.settings import CALLS, Settings
from sfio_emu.striped_file import StripedFile

if TYPE_CHECKING:
    from typing_extensions import Buffer


def rank() -> int:
    """The number of this compute process in its group, from 0."""
    return current_session().group.rank


def size() -> int:
    """The number of compute processes in the group."""
    return current_session().group.size


def mopen(
    name: str, stripe_unit_size: int, settings: Settings | None = None, *, mode: str = "rw"
) -> StripedFile:
    """Open the striped file "host/path;host/path;": collective. Missing subfiles are created, unless `mode` says
    otherwise.

    `mode`: as of `StripedFile.open`. `settings`: of this file, where they are not to be those of the session.
    """
    return StripedFile.open(name, stripe_unit_size, mode=mode, settings=settings)


def mclose(file: StripedFile) -> None:
    """Close a striped file: collective."""
    _opened(file).close()


def mchsize(file: StripedFile, size: int) -> None:
    """Change the size of the logical file: collective."""
    _opened(file).change_size(size)


def mcreate(name: str) -> None:
    """Create the subfiles, new and empty, also in the place of others: collective. Nothing is made or lost where one of
    their I/O nodes does not answer or refuses, or one of the subfiles is no plain file."""

    def create(session: Session) -> None:
        subfiles = parse_file_name(name)
        with locked(session, subfiles):
            found = zip(subfiles, stat_present(session, subfiles), strict=True)
            present = [
                (subfile, stat.S_ISREG(one.mode)) for subfile, one in found if one is not None
            ]
            refused = [subfile for subfile, plain in present if not plain]
            retained = [] if refused else [subfile for subfile, _ in present]
            create_subfiles(
                session, refused or subfiles, retained
            )  # refusing nodes say why, the others change nothing

    _change("create", [name], create)


def mdelete(name: str) -> None:
    """Delete the subfiles: collective. Nothing is deleted where an I/O node does not answer or refuses, or one of them
    is no plain file.

    Where some are missing the others are deleted, and the missing one is the error.
    """
    _change("delete", [name], lambda session: remove_subfiles(session, parse_file_name(name)))


def mrename(name: str, new_name: str, *, replace: bool = False) -> None:
    """Give a striped file another name on the same hosts: collective. `replace`: also where a file has it.
    Where an I/O node refuses both files are what they were."""
    _change(
        "rename",
        [name, new_name, replace],
        lambda session: rename_file(session, name, new_name, replace=replace),
    )


def _change(what: str, same: Sequence[object], act: Callable[[Session], None]) -> None:
    session = current_session()
    with session.agreed(what, same):
        for name in same:
            if not isinstance(name, bool):
                parse_file_name(name)  # type: ignore[arg-type]
    with session.agreed(f"{what} (the change)", same):
        if session.group.rank == 0:
            act(session)


def _opened(file: StripedFile) -> StripedFile:
    if not isinstance(file, StripedFile):
        raise UsageError(f"a {type(file).__name__} is no striped file: give what mopen returned")
    return file


def mread(file: StripedFile, offset: int, buffer: Buffer, size: int | None = None) -> int:
    """Read into `buffer`, one request a fragment; the number of bytes (fewer at the end of the file)."""
    return _opened(file).read_fragments(first_bytes(buffer, size), offset)


def mwrite(file: StripedFile, offset: int, buffer: Buffer, size: int | None = None) -> int:
    """Write the first `size` bytes of `buffer` (all unless given), one request a fragment."""
    return _opened(file).write_fragments(first_bytes(buffer, size), offset)


def mreadc(file: StripedFile, offset: int, buffer: Buffer, size: int | None = None) -> int:
    """Read into `buffer`, optimised; the number of bytes (fewer at the end of the file)."""
    count = _opened(file).pread(first_bytes(buffer, size), offset)
    assert isinstance(count, int)
    return count


def mwritec(file: StripedFile, offset: int, buffer: Buffer, size: int | None = None) -> int:
    """Write the first `size` bytes of `buffer` (all unless given), optimised."""
    return _opened(file).pwrite(first_bytes(buffer, size), offset)


def mreadb(
    file: StripedFile,
    number_of_blocks: int,
    offsets: Sequence[int],
    buffers: Sequence[Buffer],
    sizes: Sequence[int],
) -> list[int]:
    """Read many blocks in one optimised call; the bytes each got."""
    return _opened(file).preadv(_blocks(number_of_blocks, offsets, buffers, sizes), list(offsets))


def mwriteb(
    file: StripedFile,
    number_of_blocks: int,
    offsets: Sequence[int],
    buffers: Sequence[Buffer],
    sizes: Sequence[int],
) -> int:
    """Write many blocks in one optimised call; where they overlap, the later wins."""
    return _opened(file).pwritev(_blocks(number_of_blocks, offsets, buffers, sizes), list(offsets))


def _blocks(
    count: int, offsets: Sequence[int], buffers: Sequence[Buffer], sizes: Sequence[int]
) -> list[Buffer]:
    count = whole_number(count, "number of blocks")
    for what, values in (("offsets", offsets), ("buffers", buffers), ("sizes", sizes)):
        if not isinstance(values, Sized):
            raise UsageError(f"the {what} are {values!r}: give a list, one entry a block")
    if not count == len(offsets) == len(buffers) == len(sizes):
        raise UsageError(
            f"{count} blocks with {len(offsets)} offsets, {len(buffers)} buffers and {len(sizes)} sizes:"
            " give one of each a block"
        )
    return [first_bytes(buffer, size) for buffer, size in zip(buffers, sizes, strict=True)]


def merror() -> dict[str, int]:
    """Failed calls of the operating system on all I/O nodes, whichever process made them, by name; reading resets
    them."""
    return {call: count for call, count in current_session().take_errors().items() if call in CALLS}


def merrora() -> dict[str, int]:
    """What `merror` counts, requested by all processes of the group at once, the sum on each: collective."""
    session = current_session()
    session.group.barrier()
    with session.agreed("merrora", []):
        mine = merror()
    figures = session.group.all_gather(" ".join(str(mine[call]) for call in CALLS).encode())
    columns = zip(*(map(int, item.split()) for item in figures), strict=True)
    return {call: sum(column) for call, column in zip(CALLS, columns, strict=True)}


def prioerrora(write: Callable[[str], object] = print) -> None:
    """Print the figures of `merrora`, from process 0: collective."""
    figures = merrora()
    if rank() == 0:
        write("I/O errors: " + " ".join(f"{call}={count}" for call, count in figures.items()))
