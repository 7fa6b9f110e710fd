"""The functions of SFIO (Gabrielyan 2007, Appendix A), which use the session of the process."""

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
    """Return the number of this compute process in its group, from 0."""
    return current_session().group.rank


def size() -> int:
    """Return the number of compute processes in the group."""
    return current_session().group.size


def mopen(
    name: str, stripe_unit_size: int, settings: Settings | None = None, *, mode: str = "rw"
) -> StripedFile:
    """Open a striped file. Collective.

    Args:
        name: The name of the file, "host/path;host/path;".
        stripe_unit_size: The stripe unit in bytes.
        settings: The settings of this file; by default those of the session.
        mode: The mode, as in `StripedFile.open`. By default, missing subfiles are created.
    """
    return StripedFile.open(name, stripe_unit_size, mode=mode, settings=settings)


def mclose(file: StripedFile) -> None:
    """Close a striped file. Collective."""
    _require_file(file).close()


def mchsize(file: StripedFile, size: int) -> None:
    """Change the size of the logical file to `size` bytes. Collective."""
    _require_file(file).change_size(size)


def mcreate(name: str) -> None:
    """Create the subfiles of a file, empty, and replace existing ones. Collective.

    Nothing is created or lost if an I/O node does not answer or refuses, or if one of the subfiles
    is not a regular file.
    """

    def create(session: Session) -> None:
        subfiles = parse_file_name(name)
        with locked(session, subfiles):
            present = []
            irregular = []
            for subfile, answer in zip(subfiles, stat_present(session, subfiles), strict=True):
                if answer is None:
                    continue
                present.append(subfile)
                if not stat.S_ISREG(answer.mode):
                    irregular.append(subfile)
            if irregular:
                # Their nodes refuse to replace them, and their errors say why.
                create_subfiles(session, irregular, [])
            else:
                create_subfiles(session, subfiles, present)

    _change("create", [name], create)


def mdelete(name: str) -> None:
    """Delete the subfiles of a file. Collective.

    Nothing is deleted if an I/O node does not answer or refuses, or if one of the subfiles is not a
    regular file. If some are missing, the others are deleted, and an error names the missing one.
    """
    _change("delete", [name], lambda session: remove_subfiles(session, parse_file_name(name)))


def mrename(name: str, new_name: str, *, replace: bool = False) -> None:
    """Rename a striped file on its hosts. Collective.

    If an I/O node refuses, nothing is changed.

    Args:
        name: The name of the file.
        new_name: The new name, with the same hosts in the same order.
        replace: Replace a file that has the new name.
    """
    _change(
        "rename",
        [name, new_name, replace],
        lambda session: rename_file(session, name, new_name, replace=replace),
    )


def _change(step: str, arguments: Sequence[object], change: Callable[[Session], None]) -> None:
    """Carry out a collective change of files in rank 0, after all ranks have checked the names.

    Args:
        step: The name of the change, for errors.
        arguments: The arguments, which must be the same in all processes: names, and switches.
        change: Carries out the change.
    """
    session = current_session()
    with session.agreed(step, arguments):
        for name in arguments:
            if not isinstance(name, bool):
                parse_file_name(name)  # type: ignore[arg-type]
    with session.agreed(f"{step} (the change)", arguments):
        if session.group.rank == 0:
            change(session)


def _require_file(file: StripedFile) -> StripedFile:
    if not isinstance(file, StripedFile):
        raise UsageError(f"a {type(file).__name__} is not a striped file: give what mopen returned")
    return file


def mread(file: StripedFile, offset: int, buffer: Buffer, size: int | None = None) -> int:
    """Read with one request per fragment, without optimisations.

    Args:
        file: The file.
        offset: The offset in the file, in bytes.
        buffer: Where to put the bytes.
        size: The number of bytes; by default the size of the buffer.

    Returns:
        The number of bytes read, which is smaller at the end of the file.
    """
    return _require_file(file).read_fragments(first_bytes(buffer, size), offset)


def mwrite(file: StripedFile, offset: int, buffer: Buffer, size: int | None = None) -> int:
    """Write with one request per fragment, without optimisations.

    Args:
        file: The file.
        offset: The offset in the file, in bytes.
        buffer: The data.
        size: The number of bytes; by default the size of the buffer.

    Returns:
        The number of bytes written.
    """
    return _require_file(file).write_fragments(first_bytes(buffer, size), offset)


def mreadc(file: StripedFile, offset: int, buffer: Buffer, size: int | None = None) -> int:
    """Read with all optimisations of the file's settings.

    Args:
        file: The file.
        offset: The offset in the file, in bytes.
        buffer: Where to put the bytes.
        size: The number of bytes; by default the size of the buffer.

    Returns:
        The number of bytes read, which is smaller at the end of the file.
    """
    count = _require_file(file).pread(first_bytes(buffer, size), offset)
    assert isinstance(count, int)
    return count


def mwritec(file: StripedFile, offset: int, buffer: Buffer, size: int | None = None) -> int:
    """Write with all optimisations of the file's settings.

    Args:
        file: The file.
        offset: The offset in the file, in bytes.
        buffer: The data.
        size: The number of bytes; by default the size of the buffer.

    Returns:
        The number of bytes written.
    """
    return _require_file(file).pwrite(first_bytes(buffer, size), offset)


def mreadb(
    file: StripedFile,
    number_of_blocks: int,
    offsets: Sequence[int],
    buffers: Sequence[Buffer],
    sizes: Sequence[int],
) -> list[int]:
    """Read many blocks in one optimised call.

    Args:
        file: The file.
        number_of_blocks: The number of blocks.
        offsets: The offset of each block in the file, in bytes.
        buffers: Where to put each block.
        sizes: The size of each block in bytes.

    Returns:
        The number of bytes read of each block.
    """
    blocks = _blocks(number_of_blocks, offsets, buffers, sizes)
    return _require_file(file).preadv(blocks, list(offsets))


def mwriteb(
    file: StripedFile,
    number_of_blocks: int,
    offsets: Sequence[int],
    buffers: Sequence[Buffer],
    sizes: Sequence[int],
) -> int:
    """Write many blocks in one optimised call. Where blocks overlap, the last one is written.

    Args:
        file: The file.
        number_of_blocks: The number of blocks.
        offsets: The offset of each block in the file, in bytes.
        buffers: The data of each block.
        sizes: The size of each block in bytes.

    Returns:
        The number of bytes written.
    """
    blocks = _blocks(number_of_blocks, offsets, buffers, sizes)
    return _require_file(file).pwritev(blocks, list(offsets))


def _blocks(
    count: int, offsets: Sequence[int], buffers: Sequence[Buffer], sizes: Sequence[int]
) -> list[Buffer]:
    """Return the first bytes of each buffer, after checking that there is one of each per block."""
    count = whole_number(count, "number of blocks")
    for name, values in (("offsets", offsets), ("buffers", buffers), ("sizes", sizes)):
        if not isinstance(values, Sized):
            raise UsageError(f"the {name} are {values!r}: give a list with one entry per block")
    if not count == len(offsets) == len(buffers) == len(sizes):
        raise UsageError(
            f"{count} blocks with {len(offsets)} offsets, {len(buffers)} buffers "
            f"and {len(sizes)} sizes: give one of each per block"
        )
    return [first_bytes(buffer, size) for buffer, size in zip(buffers, sizes, strict=True)]


def merror() -> dict[str, int]:
    """Return and reset the number of failed system calls on all I/O nodes, by name.

    The calls of all processes count.
    """
    return {call: count for call, count in current_session().take_errors().items() if call in CALLS}


def merrora() -> dict[str, int]:
    """Return the sum of `merror` over all processes of the group. Collective."""
    session = current_session()
    session.group.barrier()
    with session.agreed("merrora", []):
        my_counts = merror()
    items = session.group.all_gather(" ".join(str(my_counts[call]) for call in CALLS).encode())
    totals = dict.fromkeys(CALLS, 0)
    for item in items:
        for call, count in zip(CALLS, item.split(), strict=True):
            totals[call] += int(count)
    return totals


def prioerrora(write: Callable[[str], object] = print) -> None:
    """Print the result of `merrora` in process 0. Collective.

    Args:
        write: Takes the line.
    """
    counts = merrora()
    if rank() == 0:
        write("I/O errors: " + " ".join(f"{call}={count}" for call, count in counts.items()))
