"""One client of a listener: its bytes are read, its requests carried out, its answers queued, one message at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from sfio_emu import wire
from sfio_emu.listener.operations import Answer, FileRange, Operations, Rejections, Subfiles
from sfio_emu.listener.pool import BufferPool
from sfio_emu.listener.reader import LongWrite, Reader, Request
from sfio_emu.wire import Kind, Malformed


class ServerConnection:
    """The protocol with one client, driven by whoever owns the socket.

    `incoming` is where the next bytes go: empty while an answer is to be sent, and (`starved`) while no buffer of the
    pool is free. After `closed` nothing more is to be read; what `outgoing` still has may be sent. `sieve`: many small
    runs near one another are moved as one span (`sieves`).
    """

    def __init__(self, subfiles: Subfiles, pool: BufferPool, rejections: Rejections, *, sieve: bool = True) -> None:
        self._reader = Reader(pool)
        self._operations = Operations(subfiles, pool, rejections, sieve=sieve)
        self._rejections = rejections
        self._outgoing: deque[memoryview | FileRange] = deque()
        self.closed = False

    @property
    def starved(self) -> bool:
        """Whether a message waits for a buffer of the pool."""
        return self._reader.starved

    @property
    def holds_buffer(self) -> bool:
        """Whether a buffer of the pool is held."""
        return self._reader.holds_buffer

    def incoming(self) -> Sequence[memoryview]:
        if self._outgoing or self.closed:
            return ()
        place = self._reader.place()
        return () if place is None else (place,)

    def received(self, count: int) -> None:
        """Take `count` more bytes that were put where `incoming` said."""
        try:
            part = self._reader.received(count)
            if part is None:
                return
            if isinstance(part, Request):
                self._answer(self._operations.execute(part))
            elif isinstance(part, LongWrite):
                self._operations.begin_long_write(part)
                self._reader.release()
            else:
                answer = self._operations.write_chunk(part)
                self._reader.release()
                if answer is not None:
                    self._answer(answer)
        except Malformed as fault:
            self._rejections.count += 1
            self.closed = self.closed or fault.fatal
            self._answer(Answer(kind=Kind.REFUSED, body=str(fault).encode()))

    def outgoing(self) -> Sequence[memoryview | FileRange]:
        return self._outgoing

    def sent(self, count: int) -> None:
        while count:
            first = self._outgoing[0]
            if count < len(first):
                self._outgoing[0] = first.after(count) if isinstance(first, FileRange) else first[count:]
                return
            count -= len(first)
            self._outgoing.popleft()
        if not self._outgoing:
            self._reader.release()

    def abandon(self) -> None:
        """The connection is gone: close its files, give back its buffer; an unfinished message changes nothing."""
        self.closed = True
        self._outgoing.clear()
        self._reader.release()
        self._operations.close_files()

    def _answer(self, answer: Answer) -> None:
        """Queue an answer; the buffer stays held while data lie in it."""
        kind, body, data_bytes, checked = answer.kind, answer.body, answer.data_bytes, answer.checked
        self._outgoing.append(
            memoryview(wire.encode_header(kind, self._reader.sequence, body, data_bytes, checked=checked))
        )
        if not data_bytes:
            self._reader.release()
            return
        self._outgoing.extend(part for part in answer.data if len(part))
        if checked:
            total = wire.Checksum()
            for part in answer.data:
                assert isinstance(part, memoryview)
                total.add(part)
            self._outgoing.append(memoryview(total.trailer()))


__all__ = ["ServerConnection"]
