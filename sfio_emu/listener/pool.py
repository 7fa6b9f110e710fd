"""The memory of a listener: a bounded number of message buffers that all its connections share."""

from sfio_emu import wire
from sfio_emu.listener.data_sieving import WINDOW_BYTES


class BufferPool:
    """Buffers of `buffer_bytes` for one message each, at most `memory_bytes` in all; made when first needed, then kept.

    Raises `ValueError` for sizes that the protocol does not allow, or memory for less than one buffer.
    """

    def __init__(self, memory_bytes: int, buffer_bytes: int) -> None:
        if not wire.MIN_LIMIT <= buffer_bytes <= wire.MAX_LIMIT or memory_bytes < buffer_bytes:
            raise ValueError(f"{memory_bytes} bytes of memory cannot hold messages of {buffer_bytes} bytes")
        self.buffer_bytes = buffer_bytes
        self._to_make = self._total = memory_bytes // buffer_bytes
        self._free: list[memoryview] = []
        self._scratch: memoryview | None = None

    @property
    def scarce(self) -> bool:
        """Whether so few buffers are left that none should be given to a message that has yet to arrive."""
        return self._to_make + len(self._free) <= max(1, self._total // 4)

    @property
    def scratch(self) -> memoryview:
        """WINDOW_BYTES for runs that are moved together, shared by all connections: for use inside one operation."""
        if self._scratch is None:
            self._scratch = memoryview(bytearray(WINDOW_BYTES))
        return self._scratch

    def acquire(self) -> memoryview | None:
        """A buffer, or None where all are in use."""
        if self._free:
            return self._free.pop()
        if not self._to_make:
            return None
        self._to_make -= 1
        return memoryview(bytearray(self.buffer_bytes))

    def release(self, buffer: memoryview) -> None:
        """Take back a buffer that `acquire` gave."""
        self._free.append(buffer)
