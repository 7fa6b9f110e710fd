"""Cuts the byte stream of a client into requests.

Headers are checked, bodies and data are put into a buffer of the pool, and checksums are compared.
The memory of a listener is a limited number of message buffers that all its connections share.
This module opens no sockets and touches no subfiles.
"""

from typing import NamedTuple

from sfio_emu import wire
from sfio_emu.listener.data_sieving import WINDOW_BYTES
from sfio_emu.wire import Header, Malformed


class BufferPool:
    """Buffers for one message each. They are allocated when first needed, and then kept.

    Args:
        memory_bytes: The limit for all buffers together.
        buffer_bytes: The size of a buffer, which is the size of the largest message.

    Raises:
        ValueError: The protocol does not allow messages of this size, or the memory is less than
            one buffer.
    """

    def __init__(self, memory_bytes: int, buffer_bytes: int) -> None:
        if not wire.MIN_LIMIT <= buffer_bytes <= wire.MAX_LIMIT or memory_bytes < buffer_bytes:
            raise ValueError(
                f"{memory_bytes} bytes of memory cannot hold messages of {buffer_bytes} bytes"
            )
        self.buffer_bytes = buffer_bytes
        self._total = memory_bytes // buffer_bytes

        # The number of buffers that may still be allocated.
        self._unallocated = self._total
        self._free: list[memoryview] = []
        self._scratch: memoryview | None = None

    @property
    def scarce(self) -> bool:
        """True if so few buffers are left that a message gets none before it has arrived."""
        return self._unallocated + len(self._free) <= max(1, self._total // 4)

    @property
    def scratch(self) -> memoryview:
        """`WINDOW_BYTES` of memory for data sieving.

        All connections share it. It may be used only within one operation.
        """
        if self._scratch is None:
            self._scratch = memoryview(bytearray(WINDOW_BYTES))
        return self._scratch

    def acquire(self) -> memoryview | None:
        """Return a buffer, or None if all are in use."""
        if self._free:
            return self._free.pop()
        if not self._unallocated:
            return None
        self._unallocated -= 1
        return memoryview(bytearray(self.buffer_bytes))

    def release(self, buffer: memoryview) -> None:
        """Take back a buffer from `acquire`."""
        self._free.append(buffer)


NOTHING = memoryview(b"")


class Request(NamedTuple):
    """A message that has arrived completely.

    Attributes:
        header: The header.
        body: The body.
        data: The data.
        buffer: The memory that contains body and data. The answer may use it.
    """

    header: Header
    body: memoryview
    data: memoryview
    buffer: memoryview


class Reader:
    """The receiving side of one connection.

    `place` returns the memory for the next bytes, and `received` processes them. After a request
    has been carried out and answered, `release` gives its buffer back to the pool.

    Attributes:
        sequence: The number of the last message; 0 if its header was invalid.
        starved: Whether no buffer was free when one was needed.
    """

    def __init__(self, pool: BufferPool) -> None:
        self._pool = pool
        self._head = memoryview(bytearray(wire.HEADER_BYTES))
        self._header: Header | None = None
        self._buffer: memoryview | None = None

        # Bytes that have arrived, and bytes that are expected, of the header. After the header,
        # of what follows it.
        self._arrived = 0
        self._due = wire.HEADER_BYTES

        # The checksum of the data, and the number of data bytes in it.
        self._sum = wire.Checksum()
        self._summed = 0
        self.sequence = 0
        self.starved = False

    @property
    def holds_buffer(self) -> bool:
        """True if the connection has a buffer of the pool."""
        return self._buffer is not None

    @property
    def mid_message(self) -> bool:
        """True if a part of a message has arrived."""
        return bool(self._arrived) or self._header is not None

    @property
    def awaited_bytes(self) -> int:
        """The number of bytes for which a buffer must be acquired; 0 if none is needed now."""
        if self._buffer is not None or self._header is None:
            return 0
        return self._due

    def place(self) -> memoryview | None:
        """Return the memory for the next bytes, or None while no buffer of the pool is free."""
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
        """Process `count` more bytes, which were put at `place`.

        Returns:
            The request that they completed, or None.

        Raises:
            Malformed: The message breaks the protocol. `sequence` is its number.
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
        self._arrived = 0
        self._due = wire.HEADER_BYTES
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
        # The number stays 0 if the header is invalid.
        self.sequence = 0
        header = wire.decode_header(self._head, self._pool.buffer_bytes)
        self._header = header
        self.sequence = header.sequence
        self._sum = wire.Checksum()
        self._summed = 0
        self._arrived = 0
        self._due = header.total_bytes
        return header

    def _sum_arrived(self, header: Header) -> None:
        """Add the data that have arrived to the checksum, while the processor's cache has them."""
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
