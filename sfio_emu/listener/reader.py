"""The bytes of one client cut into requests: heads checked, bodies and data put into a buffer of the pool, checksums
compared. It provides the buffer of the next bytes; it opens no socket and touches no subfile."""

from typing import NamedTuple

from sfio_emu import wire
from sfio_emu.listener.pool import BufferPool
from sfio_emu.wire import Header, Malformed

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
