"""One client of a listener: its bytes are read, its requests carried out, its answers queued, one message at a time."""

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


@dataclass(frozen=True, kw_only=True)
class Identity:
    """What a listener says of itself to a client: the machine it runs on, the key it requires (None: no key), a nonce
    that is used once."""

    nonce: bytes = bytes(message_bodies.NONCE_BYTES)
    machine: bytes = bytes(16)
    key: bytes | None = None


class ServerConnection:
    """The protocol with one client, driven by whoever owns the socket.

    `incoming` is where the next bytes go: empty while an answer is to be sent, while work is done elsewhere (`pending`,
    to be taken away and followed by `answer`), and while no buffer of the pool is free (`reader.starved`). After
    `closed` nothing more is to be read; what `outgoing` still has may be sent, and `refusal` says why. `sieve`: many
    small runs near one another are moved as one span.
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
        self._pool, self._subfiles = pool, subfiles
        self._identity = identity or Identity()
        self._client_nonce: bytes | None = None
        self._trusted = self._identity.key is None
        self._outgoing: deque[memoryview] = deque()
        self._working = False
        self.pending: Answer | None = None
        self.refusal = ""
        self.closed = False

    def incoming(self) -> Sequence[memoryview]:
        if self._outgoing or self.closed or self._working:
            return ()
        place = self.reader.place()
        return () if place is None else (place,)

    def received(self, count: int) -> None:
        """Take `count` more bytes that were put where `incoming` said."""
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
        return self._outgoing

    def sent(self, count: int) -> None:
        if wire.drop_sent(self._outgoing, count):
            self.reader.release()

    def answer(self, answer: Answer) -> None:
        """What the work of `pending` led to."""
        self._working = False
        if not self.closed:
            self._queue(answer)

    def abandon(self) -> None:
        """The connection is gone: close its files, give back its buffer; an unfinished message changes nothing."""
        self.closed = True
        self._outgoing.clear()
        if self.pending is not None and self.pending.work is not None:
            self.pending.work()  # nobody has taken it away: it gives back what it holds
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
                "this listener asks for the key of its run: give it (SFIO_KEY_FILE, or key=)",
                fatal=True,
            )
        return self._operations.execute(request)

    def _welcome(self, body: memoryview) -> Answer:
        (nonce,) = message_bodies.unpack(message_bodies.HELLO, body)
        assert isinstance(nonce, bytes)
        identity, self._client_nonce = self._identity, nonce
        key = identity.key
        welcome = message_bodies.Welcome(
            limit_bytes=self._pool.buffer_bytes, wants_key=key is not None,
            nonce=identity.nonce, machine=identity.machine,
            proof=authentication.NO_PROOF if key is None
            else authentication.proof(key, "listener", nonce, identity.nonce),
        )  # fmt: skip
        return Answer(body=welcome.encode())

    def _take_proof(self, body: memoryview) -> Answer:
        (proof,) = message_bodies.unpack(message_bodies.KEY, body)
        assert isinstance(proof, bytes)
        key, nonce = self._identity.key, self._client_nonce
        if key is None or nonce is None:
            raise Malformed("a key that was not requested", fatal=True)
        if not compare_digest(
            proof, authentication.proof(key, "client", nonce, self._identity.nonce)
        ):
            raise Malformed("another key than that of this listener's run", fatal=True)
        self._trusted = True
        return Answer()

    def _answer(self, answer: Answer) -> None:
        """Queue an answer; the buffer stays held while data lie in it."""
        if answer.work is not None:
            self._working, self.pending = True, answer
            self.reader.release()
            return
        self._queue(answer)
        if not answer.data and not isinstance(answer.body, memoryview):
            self.reader.release()

    def _queue(self, answer: Answer) -> None:
        head = wire.encode_head(
            answer.kind, self.reader.sequence, answer.body, len(answer.data), checked=answer.checked
        )
        self._outgoing.append(memoryview(head + answer.body if len(answer.body) < 4096 else head))
        if len(answer.body) >= 4096:
            self._outgoing.append(memoryview(answer.body))
        if answer.data:
            self._outgoing.append(answer.data)
            if answer.checked:
                self._outgoing.append(memoryview(wire.TRAILER.pack(xxh3_64_intdigest(answer.data))))
