"""What an MpiFile stands on."""

from typing import Protocol

from sfio_emu.views.datatypes import Integers


class BlockFile(Protocol):
    """What an MpiFile stands on: blocks of a file moved from and to one buffer in one call; StripedFile is one.

    Block i is `sizes[i]` bytes at `places[i]` of the buffer and `offsets[i]` of the file, int64 arrays of shape (n,).
    Reading stops at the end of the file (fewer bytes are returned), writing extends the file. `truncate` and `close`
    are called by every process of the group.
    """

    def pread_blocks(self, target: memoryview, offsets: Integers, places: Integers, sizes: Integers) -> int: ...
    def pwrite_blocks(self, data: memoryview, offsets: Integers, places: Integers, sizes: Integers) -> int: ...
    def size(self) -> int: ...
    def truncate(self, size: int) -> object: ...
    def close(self) -> None: ...
