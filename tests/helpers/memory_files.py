"""Subfiles in memory for what the listener does without a disk."""

from __future__ import annotations

import errno

from sfio_emu.listener.operations import CallFailed
from sfio_emu.settings import CALLS


class MemoryFiles:
    """Files in memory; `full_at`: no byte from there on can be written."""

    def __init__(self, full_at: int = 2**62) -> None:
        self.files: dict[int, bytearray] = {}
        self.calls: list[tuple[int, int]] = []
        self.full_at = full_at

    def open(self, path: str, *, create: bool) -> int:
        if path == "missing":
            raise CallFailed("open", errno.ENOENT)
        self.files[len(self.files) + 10] = bytearray()
        return len(self.files) + 9

    def write(self, file: int, piece: memoryview, offset: int) -> int:
        self.calls.append((offset, len(piece)))
        if offset + len(piece) > self.full_at:
            raise CallFailed("write", errno.ENOSPC)
        self.truncate(file, max(len(self.files[file]), offset))
        self.files[file][offset : offset + len(piece)] = piece
        return len(piece)

    def truncate(self, file: int, size: int) -> None:
        self.files[file] = (self.files[file] + bytes(max(0, size - len(self.files[file]))))[:size]

    def size(self, file: int) -> int:
        return len(self.files[file])

    def read(self, file: int, piece: memoryview, offset: int) -> int:
        there = self.files[file][offset : offset + len(piece)]
        piece[: len(there)] = there
        return len(there)

    def close(self, file: int) -> None: ...
    def create(self, path: str) -> None: ...
    def unlink(self, path: str) -> None: ...
    def take_errors(self) -> list[int]:
        return [0] * len(CALLS)
