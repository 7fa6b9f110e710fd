"""Subfiles in memory for what the listener does without a disk."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator

from sfio_emu.listener.ports import CallFailed
from sfio_emu.message_bodies import NO_LAYOUT, Entry, OpenFlag, Stat, StoredLayout
from sfio_emu.settings import ALL_CALLS


class MemoryFiles:
    """Files in memory; `full_at`: no byte from there on can be written."""

    def __init__(self, full_at: int = 2**62) -> None:
        self.files: dict[int, bytearray] = {}
        self.calls: list[tuple[int, int]] = []
        self.full_at = full_at
        self.cut: dict[int, int] = {}
        self.replaced: set[int] = set()
        self.locks: dict[str, object] = {}
        self.rejected = 0

    def open(self, path: str, flags: OpenFlag) -> tuple[int, bool]:
        if path == "missing":
            raise CallFailed("open", errno.ENOENT)
        self.files[len(self.files) + 10] = bytearray()
        return len(self.files) + 9, True

    def describe(self, file: int) -> Stat:
        return Stat(
            mode=0o100644,
            size=len(self.files[file]),
            modified_ns=0,
            device=1,
            inode=file,
            layout=NO_LAYOUT,
        )

    def write(self, file: int, piece: memoryview, offset: int) -> int:
        self.calls.append((offset, len(piece)))
        if offset + len(piece) > self.full_at:
            raise CallFailed("write", errno.ENOSPC)
        self.truncate(file, max(len(self.files[file]), offset))
        self.files[file][offset : offset + len(piece)] = piece
        return len(piece)

    def truncate(self, file: int, size: int) -> None:
        self.files[file] = (self.files[file] + bytes(max(0, size - len(self.files[file]))))[:size]

    def note_cut(self, file: int, cut: int) -> None:
        self.cut[file] = self.cuts(file) ^ cut

    def cuts(self, file: int) -> int:
        return self.cut.get(file, 0)

    def size(self, file: int) -> int:
        return len(self.files[file])

    def read(self, file: int, piece: memoryview, offset: int) -> int:
        there = self.files[file][offset : offset + len(piece)]
        piece[: len(there)] = there
        return len(there)

    def close(self, file: int) -> None: ...
    def unmake(self, file: int) -> None: ...
    def create(self, path: str) -> None: ...

    def unlink(self, path: str) -> None: ...
    def make_folder(self, path: str) -> None: ...
    def remove_folder(self, path: str) -> None: ...
    def rename(self, source: str, target: str, way: object) -> None: ...
    def store_layout(self, file: int, layout: StoredLayout) -> None: ...
    def note_rejected(self) -> None:
        self.rejected += 1

    def sync(self, file: int) -> Callable[[], None]:
        return lambda: None

    def stat(self, path: str) -> Stat:
        raise CallFailed("stat", errno.ENOENT)

    def list_folder(self, path: str, after: str) -> Iterator[Entry]:
        yield from ()

    def take_errors(self) -> list[int]:
        rejected, self.rejected = self.rejected, 0
        return [*[0] * len(ALL_CALLS), rejected]
