"""The bytes of one client cut into requests: heads checked, bodies and data put into a buffer of the pool, checksums
compared. It provides the buffer of the next bytes; it opens no socket and touches no subfile. The memory of a listener
is a bounded number of message buffers that all its connections share."""

from typing import NamedTuple

from sfio_emu import wire
from sfio_emu.listener.data_sieving import WINDOW_BYTES
from sfio_emu.wire import Header, Malformed


class BufferPool:
    """Buffers of `buffer_bytes` for one message each, at most `memory_bytes` in all; made when first needed, then kept.

    Raises `ValueError` for sizes that the protocol does not allow, or memory for less than one buffer.
    """

    def __init__(self, memory_bytes: int, buffer_bytes: int) -> None:
        if not wire.MIN_LIMIT <= buffer_bytes <= wire.MAX_LIMIT or memory_bytes < buffer_bytes:
            raise ValueError(
                f"{memory_bytes} bytes of memory cannot hold messages of {buffer_bytes} bytes"
            )
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


NOTHING = memoryview(b"")


class Request(NamedTuple):
    """A message that has arrived whole. `buffer` is the memory it is in; its answer may take it over."""

    header: Header
    body: memoryview
    data: memoryview
    buffer: memoryview


class Reader:
    """The reading side of one connection.

    `place` is where the next bytes go (None: no buffer is free, `starved`), `received` says how many came and gives
    what they completed. After the request has been carried out and answered, `release` gives the buffer back.
    """

    def __init__(self, pool: BufferPool) -> None:
        self._pool = pool
        self._head = memoryview(bytearray(wire.HEADER_BYTES))
        self._header: Header | None = None
        self._buffer: memoryview | None = None
        self._arrived = 0
        self._due = wire.HEADER_BYTES  # bytes of the head, or of what follows it
        self._sum = wire.Checksum()
        self._summed = 0
        self.sequence = 0
        self.starved = False

    @property
    def holds_buffer(self) -> bool:
        """Whether a buffer of the pool is held."""
        return self._buffer is not None

    @property
    def mid_message(self) -> bool:
        """Whether a message has arrived in part."""
        return bool(self._arrived) or self._header is not None

    @property
    def awaited_bytes(self) -> int:
        """Bytes still to come for which a buffer is wanted that is not held yet; 0: none is wanted."""
        if self._buffer is not None or self._header is None:
            return 0
        return self._due

    def place(self) -> memoryview | None:
        """Where the next bytes go; None while no buffer of the pool is free."""
        self.starved = False
        if self._header is None:
            return self._head[self._arrived :]
        if self._buffer is None:
            self._buffer = self._pool.acquire()
            if self._buffer is None:
                self.starved = True
                return None
        return self._buffer[self._arrived : self._due]

    def received(self, count: int) -> Request | None:
        """Take `count` more bytes that were put at `place`; the request that they completed.

        Raises `Malformed` for a message that breaks the protocol; `sequence` is its number (0: its head is no head).
        """
        self._arrived += count
        header = self._header
        if header is not None and header.checked and header.data_bytes:
            self._sum_arrived(header)
        if self._arrived < self._due:
            return None
        if header is None:
            header = self._read_head()
            if self._due:
                return None
        self._header = None
        self._arrived, self._due = 0, wire.HEADER_BYTES
        buffer = NOTHING if self._buffer is None else self._buffer
        body = buffer[: header.body_bytes]
        wire.check_body(header, body)
        self._check_data(header, buffer)
        data = buffer[header.body_bytes : header.body_bytes + header.data_bytes]
        return Request(header=header, body=body, data=data, buffer=buffer)

    def release(self) -> None:
        """Give the buffer back to the pool."""
        if self._buffer is not None:
            self._pool.release(self._buffer)
            self._buffer = None

    def _read_head(self) -> Header:
        self.sequence = 0
        header = self._header = wire.decode_header(self._head, self._pool.buffer_bytes)
        self.sequence = header.sequence
        self._sum = wire.Checksum()
        self._arrived = self._summed = 0
        self._due = header.total_bytes
        return header

    def _sum_arrived(self, header: Header) -> None:
        """Add to the checksum what has arrived, while it is in the cache of the processor."""
        assert self._buffer is not None
        start = header.body_bytes + self._summed
        end = min(self._arrived, header.body_bytes + header.data_bytes)
        if end > start:
            self._sum.add(self._buffer[start:end])
            self._summed += end - start

    def _check_data(self, header: Header, buffer: memoryview) -> None:
        trailer = buffer[header.total_bytes - header.trailer_bytes : header.total_bytes]
        if len(trailer) and trailer != self._sum.trailer():
            raise Malformed("the data of a message are corrupted", fatal=False)
