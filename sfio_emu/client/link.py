"""A live connection of a process to one listener, and what of it is open there."""

from dataclasses import dataclass, field

import numpy as np

from sfio_emu import wire
from sfio_emu.layout.piece import Bytes
from sfio_emu.ports import Connection

OpenKey = tuple[str, bool, int]


@dataclass(kw_only=True)
class Link:
    """The number of the next message, what a message may hold, the machine the listener says it runs on, the handles
    and users of open subfiles by key (path, whether for reading only, inode)."""

    connection: Connection
    next_sequence: int = 1
    limit_bytes: int = wire.MIN_LIMIT
    machine: bytes = b""
    handles: dict[OpenKey, int] = field(default_factory=dict)
    users: dict[OpenKey, int] = field(default_factory=dict)
    _stage: Bytes = field(default_factory=lambda: np.empty(0, dtype=np.uint8))

    def stage(self, size: int) -> Bytes:
        """Memory for gathering and scattering the messages of one conversation, used again."""
        if len(self._stage) < size:
            self._stage = np.empty(size, dtype=np.uint8)
        return self._stage[:size]

    def path_of(self, handle: int) -> str:
        """The subfile of a handle, for an error."""
        return next((path for (path, _, _), known in self.handles.items() if known == handle), "its subfiles")
