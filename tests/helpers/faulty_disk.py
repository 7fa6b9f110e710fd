"""A disk of a listener that does what disks do: short reads and writes, errors, stalls, full descriptors, power cuts.

`disk = Disk()`, then `listening(root, subfiles=disk.subfiles)`; what it shall do is said on `disk` at any time.
"""

from __future__ import annotations

import errno
import os
import random
import threading
from collections.abc import Callable
from pathlib import Path

from sfio_emu.adapters.listener_disk import RootedSubfiles
from sfio_emu.listener.ports import CallFailed
from sfio_emu.message_bodies import OpenFlag
from sfio_emu.settings import ALL_CALLS

SECTOR_BYTES = 512
Write = tuple[int, bytes] | int
"""Bytes at an offset, or a size that the file was given."""


class Disk:
    """A disk that fails on request.

    Attributes:
        most_bytes: Largest number of bytes that a call transfers.
        faults: Returns the errno of a failing call at an offset, or None.
        gate: The disk stalls while the gate is closed.
        entered: Set when a call has begun.
        held: Data that a power cut may remove.
    """

    def __init__(self) -> None:
        self.most_bytes = 2**62
        self.faults: Callable[[str, int], int | None] = lambda call, offset: None
        self.gate, self.entered = threading.Event(), threading.Event()
        self.gate.set()
        self.syncs = 0
        # The path whose folders each successful fsync included, or None.
        self.synced_paths: list[str | None] = []
        self.medium: dict[str, bytes] = {}
        self.held: dict[str, list[Write]] = {}
        self._lock = threading.Lock()

    def subfiles(self, root: Path) -> FaultySubfiles:
        return FaultySubfiles(root, self)

    def pass_through(self) -> None:
        if not self.gate.is_set():
            self.entered.set()
            assert self.gate.wait(60)

    def note(self, path: str, write: Write) -> None:
        with self._lock:
            self.held.setdefault(path, []).append(write)

    def note_synced(self, path: str, content: bytes) -> None:
        with self._lock:
            self.syncs += 1
            self.medium[path], self.held[path] = content, []

    def after_power_cut(self, draw: random.Random, root: Path) -> None:
        """Put into a new root what is on the medium: all that was synced, and of the rest any sectors that were
        written."""
        for path, writes in self.held.items():
            content = bytearray(self.medium.get(path, b""))
            for write in writes:
                if isinstance(write, int):
                    if draw.random() < 0.5:
                        content = content[:write].ljust(write, b"\0")
                    continue
                offset, data = write
                for start in range(0, len(data), SECTOR_BYTES):
                    if draw.random() < 0.5:
                        part = data[start : start + SECTOR_BYTES]
                        content = content.ljust(offset + start + len(part), b"\0")
                        content[offset + start : offset + start + len(part)] = part
            if path in self.medium or draw.random() < 0.5:
                place = root / path
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(content)


class FaultySubfiles(RootedSubfiles):
    """Real files on such a disk."""

    def __init__(self, root: Path, disk: Disk) -> None:
        super().__init__(root)
        self.disk = disk
        self._names: dict[int, str] = {}
        self._by_inode: dict[int, str] = {}

    def _meet(self, call: str, offset: int = 0) -> None:
        self.disk.pass_through()
        number = self.disk.faults(call, offset)
        if number is not None:
            assert call in ALL_CALLS
            raise self._failure(call, OSError(number, os.strerror(number)))

    def open(self, path: str, flags: OpenFlag) -> tuple[int, bool]:
        self._meet("open")
        file, created = super().open(path, flags)
        self._names[file] = path
        if file >= 0:
            self._by_inode[os.fstat(file).st_ino] = path
        if created:
            self.disk.held.setdefault(path, [])
        return file, created

    def write(self, file: int, piece: memoryview, offset: int) -> int:
        self._meet("write", offset)
        count = super().write(file, piece[: self.disk.most_bytes], offset)
        self.disk.note(self._names[file], (offset, bytes(piece[:count])))
        return count

    def truncate(self, file: int, size: int) -> None:
        self._meet("ftruncate", size)
        super().truncate(file, size)
        self.disk.note(self._names[file], size)

    def read(self, file: int, piece: memoryview, offset: int) -> int:
        self._meet("read", offset)
        return super().read(file, piece[: self.disk.most_bytes], offset)

    def fsync(self, file: int, path: str | None) -> None:
        """Put everything written before on the medium."""
        self.disk.pass_through()
        found = os.fstat(file)
        content = os.pread(file, found.st_size, 0)
        if self.disk.faults("fsync", 0) is not None:
            raise CallFailed("fsync", errno.EIO)
        self.disk.note_synced(self._by_inode[found.st_ino], content)
        self.disk.synced_paths.append(path)

    def size(self, file: int) -> int:
        self._meet("lseek")
        return super().size(file)
