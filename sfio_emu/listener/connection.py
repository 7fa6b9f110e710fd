"""One client of a listener.

Its bytes are read, its requests are carried out, and its answers are queued, one message at a time.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from hmac import compare_digest

from xxhash import xxh3_64_intdigest

from sfio_emu import authentication, message_bodies, wire
from sfio_emu.listener.operations import Operations
from sfio_emu.listener.ports import Answer, Subfiles
from sfio_emu.listener.reader import BufferPool, Reader, Request
from sfio_emu.wire import Kind, Malformed

# Bodies of at least this size are sent without copying them behind their header.
_MIN_SEPARATE_BODY_BYTES = 4096


@dataclass(frozen=True, kw_only=True)
class Identity:
    """The identity of a listener towards one client.

    Attributes:
        nonce: Random bytes that are used once.
        machine: 16 bytes that identify the machine.
        key: The key that clients must have; None if no key is required. It is not sent.
    """

    nonce: bytes = bytes(message_bodies.NONCE_BYTES)
    machine: bytes = bytes(16)
    key: bytes | None = None


class ServerConnection:
    """The protocol with one client. Whoever owns the socket transfers the bytes.

    Args:
        subfiles: The files that the client can use.
        pool: The message buffers.
        identity: What the client is told about the listener.
        sieve: Transfer many small runs that are close to one another as one span.

    Attributes:
        reader: The receiving side.
        pending: Work for a helper thread. Whoever owns the socket takes it away, and calls `answer`
            with its result.
        closed: Whether nothing more must be read. What `outgoing` still has may be sent.
        refusal: The reason for the last rejected message.
    """

    def __init__(
        self,
        subfiles: Subfiles,
        pool: BufferPool,
        *,
        identity: Identity | None = None,
        sieve: bool = True,
    ) -> None:
        self.reader = Reader(pool)
        self._operations = Operations(subfiles, pool, sieve=sieve)
        self._pool = pool
        self._subfiles = subfiles
        self._identity = identity or Identity()
        self._client_nonce: bytes | None = None
        self._trusted = self._identity.key is None
        self._outgoing: deque[memoryview] = deque()

        # Whether a helper thread works on a request.
        self._working = False
        self.pending: Answer | None = None
        self.refusal = ""
        self.closed = False

    def incoming(self) -> Sequence[memoryview]:
        """Return the memory for the next bytes.

        It is empty while an answer waits to be sent, while a helper thread works on a request, and
        while no buffer of the pool is free (`reader.starved`).
        """
        if self._outgoing or self.closed or self._working:
            return ()
        place = self.reader.place()
        return () if place is None else (place,)

    def received(self, count: int) -> None:
        """Process `count` more bytes, which were put into `incoming`."""
        try:
            request = self.reader.received(count)
            if request is not None:
                self._answer(self._execute(request))
        except Malformed as fault:
            self._subfiles.note_rejected()
            self.closed = self.closed or fault.fatal
            self.refusal = str(fault)
            self._answer(Answer(kind=Kind.REFUSED, body=self.refusal.encode()))

    def outgoing(self) -> Sequence[memoryview]:
        """Return the bytes to send next."""
        return self._outgoing

    def sent(self, count: int) -> None:
        """Record that `count` bytes were sent. After the last, the buffer is given back."""
        if wire.drop_sent(self._outgoing, count):
            self.reader.release()

    def answer(self, answer: Answer) -> None:
        """Queue the result of the work that was `pending`."""
        self._working = False
        if not self.closed:
            self._queue(answer)

    def abandon(self) -> None:
        """Close the files and give the buffer back, because the client is disconnected.

        A message that has arrived in part is not carried out.
        """
        self.closed = True
        self._outgoing.clear()
        if self.pending is not None and self.pending.work is not None:
            # No helper has taken it. It must be called to release what it has reserved.
            self.pending.work()
        self.pending = None
        self.reader.release()
        self._operations.close_files()

    def _execute(self, request: Request) -> Answer:
        kind = request.header.kind
        if kind == Kind.HELLO:
            return self._welcome(request.body)
        if kind == Kind.KEY:
            return self._take_proof(request.body)
        if not self._trusted:
            raise Malformed(
                "this listener requires the key of its run: give it (SFIO_KEY_FILE, or key=)",
                fatal=True,
            )
        return self._operations.execute(request)

    def _welcome(self, body: memoryview) -> Answer:
        """Answer HELLO."""
        (client_nonce,) = message_bodies.unpack(message_bodies.HELLO, body)
        assert isinstance(client_nonce, bytes)
        self._client_nonce = client_nonce
        identity = self._identity
        proof = authentication.NO_PROOF
        if identity.key is not None:
            proof = authentication.proof(identity.key, "listener", client_nonce, identity.nonce)
        welcome = message_bodies.Welcome(
            limit_bytes=self._pool.buffer_bytes,
            wants_key=identity.key is not None,
            nonce=identity.nonce,
            machine=identity.machine,
            proof=proof,
        )
        return Answer(body=welcome.encode())

    def _take_proof(self, body: memoryview) -> Answer:
        """Answer KEY, or raise `Malformed` if the client does not have the key."""
        (proof,) = message_bodies.unpack(message_bodies.KEY, body)
        assert isinstance(proof, bytes)
        key = self._identity.key
        client_nonce = self._client_nonce
        if key is None or client_nonce is None:
            raise Malformed("a key that was not required", fatal=True)
        expected = authentication.proof(key, "client", client_nonce, self._identity.nonce)
        if not compare_digest(proof, expected):
            raise Malformed("another key than that of this listener's run", fatal=True)
        self._trusted = True
        return Answer()

    def _answer(self, answer: Answer) -> None:
        """Queue an answer, or its work. The buffer is released unless the answer is in it."""
        if answer.work is not None:
            self._working = True
            self.pending = answer
            self.reader.release()
            return
        self._queue(answer)
        if not answer.data and not isinstance(answer.body, memoryview):
            self.reader.release()

    def _queue(self, answer: Answer) -> None:
        head = wire.encode_head(
            answer.kind, self.reader.sequence, answer.body, len(answer.data), checked=answer.checked
        )
        if len(answer.body) < _MIN_SEPARATE_BODY_BYTES:
            self._outgoing.append(memoryview(head + answer.body))
        else:
            self._outgoing.append(memoryview(head))
            self._outgoing.append(memoryview(answer.body))
        if answer.data:
            self._outgoing.append(answer.data)
            if answer.checked:
                self._outgoing.append(memoryview(wire.TRAILER.pack(xxh3_64_intdigest(answer.data))))
