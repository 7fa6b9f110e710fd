"""A process' side of the striped files: its connections to the listeners, its group, its order of transfers.
Connections are made when first needed and made again after a loss; open subfiles are then opened again."""

from __future__ import annotations

import json
import operator
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial, wraps
from hmac import compare_digest
from itertools import count
from typing import Any, Concatenate, NoReturn, ParamSpec, SupportsIndex, TypeVar, cast

from sfio_emu import authentication, message_bodies, wire
from sfio_emu.client.connection import Exchange, Link, Message, OpenKey, SmallCall
from sfio_emu.client.threads import Background, Guard, call_in_children
from sfio_emu.errors import PeerError, ProtocolError, SfioError, StaleFileError, UsageError
from sfio_emu.message_bodies import Opened, OpenFlag, Welcome
from sfio_emu.names import SubfileName
from sfio_emu.ports import Connections, Direction, FreeTurns, ProcessGroup, SoloGroup, Turns
from sfio_emu.settings import COUNTED, Settings, TransferCounters
from sfio_emu.wire import Kind

MANAGEMENT = Settings(check_data=True, window=64)
P = ParamSpec("P")
Result = TypeVar("Result")


def _in_turn(
    act: Callable[Concatenate[Session, P], Result],
) -> Callable[Concatenate[Session, P], Result]:
    """A method of a session that one thread at a time may be in."""

    @wraps(act)
    def take_turn(session: Session, /, *arguments: P.args, **named: P.kwargs) -> Result:
        with session.guard:
            return act(session, *arguments, **named)

    return take_turn


_unmarked = count(1)
Question = tuple[SubfileName, Kind, bytes]
"""A message about a subfile: its kind and body."""


class OpenSubfile:
    """A subfile as a file of this process has it open. `key`: its path, whether it is for reading only, and which file
    it was, by inode and identity (each opening's own where it had none, as inodes are used again): two files of one
    name have handles of their own."""

    def __init__(self, name: SubfileName, read_only: bool, opened: Opened) -> None:
        self.name, self.read_only, self.opened = name, read_only, opened
        identity = opened.layout.file_id if opened.layout else -next(_unmarked)
        self.key: OpenKey = name.path, read_only, opened.inode, identity

    def is_same(self, found: Opened) -> bool:
        """Whether it is still the subfile that was opened: by the identity and its place in the file, by the inode
        where there was no identity."""
        mine = self.opened.layout
        return found.layout == mine if mine and mine.file_id else found.inode == self.opened.inode


class Session:
    """Connections, process group, order of transfers and settings, shared by the files of a process.

    For any number of threads: `guard` lets their calls take turns. A child of fork makes connections of its own when it
    first needs them; its parent's stay the parent's (`generation`: how many forks lie between).
    `links`: the live connections by host; whoever calls in the middle of a call (a handler of a signal, the finalizer
    of a file) has other ones until that goes on. `counters`: the sums over all calls; `forgotten`: open subfiles whose
    file is collected or was closed meanwhile, to be closed by the next opening; `begun`: requests that are to be
    carried out.
    """

    def __init__(
        self,
        connections: Connections,
        group: ProcessGroup | None = None,
        turns: Turns | None = None,
        settings: Settings | None = None,
    ) -> None:
        if not callable(getattr(connections, "connect", None)):
            raise UsageError(
                f"connections of type {type(connections).__name__}: give a TcpConnections"
            )
        if group is not None and not callable(getattr(group, "all_gather", None)):
            raise UsageError(
                f"a group of type {type(group).__name__}: give a process group, or None"
            )
        if settings is not None and not isinstance(settings, Settings):
            raise UsageError(
                f"settings of type {type(settings).__name__}: give a Settings, or None"
            )
        self.connections = connections
        self.guard = Guard()
        call_in_children(self._begin_child)
        self.generation = 0
        self.group: ProcessGroup = group if group is not None else SoloGroup()
        self.turns: Turns = turns if turns is not None else FreeTurns()
        self.settings = settings if settings is not None else Settings()
        self.counters = TransferCounters()
        self.forgotten: list[Sequence[OpenSubfile]] = []
        self.begun: deque[Any] = deque()
        self._background: Background | None = None
        self.links: dict[str, Link] = {}
        self._outer_links: tuple[dict[str, Link], ...] = ()  # of the calls that are under way
        self._errors = Counter(dict.fromkeys(COUNTED, 0))

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a session belongs to its process: make one in the other (of SFIO_LISTENERS, or listeners=)"
        )

    def link(self, host: str) -> Link:
        """The live connection to `host`, made now if need be; raises `ListenerLost`, `ProtocolError`."""
        return self.links.get(host) or self._connected(
            host
        )  # the usual case takes no turn: calls have theirs already

    @_in_turn
    def _connected(self, host: str) -> Link:
        link = self.links.get(host)
        if link is None:
            link = self.links[host] = Link(connection=self.connections.connect(host))
            try:
                self._greet(host, link)
            except BaseException:  # interrupted too
                self._disconnect(host)
                raise
        return link

    def _greet(self, host: str, link: Link) -> None:
        """Learn what the listener takes; both sides prove that they have the key, where there is one."""
        nonce, key = link.connection.nonce, link.connection.key
        listener = SubfileName(host=host, path="")
        welcome = self.ask(listener, Kind.HELLO, message_bodies.HELLO.pack(nonce), Welcome.decode)
        if not wire.MIN_LIMIT <= welcome.limit_bytes <= wire.MAX_LIMIT:
            raise ProtocolError(
                host, f"its listener offers messages of {welcome.limit_bytes} bytes"
            )
        if key is None and welcome.wants_key:
            raise ProtocolError(
                host,
                "its listener asks for the key of its run: name its file in SFIO_KEY_FILE, or give key=",
            )
        if key is not None:
            if not compare_digest(
                welcome.proof, authentication.proof(key, "listener", nonce, welcome.nonce)
            ):
                raise ProtocolError(
                    host,
                    "its listener does not have the key of this run: another run's, or a stranger",
                )
            self.ask(
                listener, Kind.KEY, authentication.proof(key, "client", nonce, welcome.nonce), bytes
            )
        link.limit_bytes, link.machine = welcome.limit_bytes, welcome.machine

    def handle(self, subfile: OpenSubfile) -> int:
        """The handle of an open subfile on the live connection, opened again after a loss; raises `StaleFileError`
        where its name is another file's then."""
        link = self.link(subfile.name.host)
        handle = link.handles.get(subfile.key)
        if handle is None:
            flags = OpenFlag.READ_ONLY if subfile.read_only else OpenFlag(0)
            opened = self.ask(
                subfile.name,
                Kind.OPEN,
                message_bodies.encode_open(subfile.name.path, flags),
                Opened.decode,
            )
            if not subfile.is_same(opened):
                self._close_handles([(subfile.name, opened.handle)])
                raise StaleFileError(subfile.name.host, subfile.name.path)
            handle = link.handles[subfile.key] = opened.handle
        return handle

    @_in_turn
    def open(
        self, subfiles: Sequence[SubfileName], flags: OpenFlag = OpenFlag.CREATE
    ) -> list[OpenSubfile]:
        """Open subfiles, all at once; each is to be released. Raises the first fault, after which none is open, and
        what was made is gone."""
        while self.forgotten and not self._outer_links:
            self.release(self.forgotten.pop())
        answers = self.ask_each(
            [(one, Kind.OPEN, message_bodies.encode_open(one.path, flags)) for one in subfiles],
            Opened.decode,
        )
        opened = []
        for name, answer in zip(subfiles, answers, strict=True):
            if isinstance(answer, PeerError):
                continue
            one = OpenSubfile(name, bool(flags & OpenFlag.READ_ONLY), answer)
            opened.append(one)
            link = self.links.get(name.host)
            if answer.handle and link is not None:
                if link.handles.setdefault(one.key, answer.handle) != answer.handle:
                    self._close_handles([(name, answer.handle)])
                link.users[one.key] = link.users.get(one.key, 0) + 1
        if len(opened) < len(answers):
            self.unmake(opened)
            self.release(opened)
        answered(answers)
        return opened

    @_in_turn
    def unmake(self, subfiles: Iterable[OpenSubfile]) -> None:
        """Delete what the opening of these subfiles made, with the folders made for it, as far as all are empty still
        and can be reached."""
        made = [(one, self.links.get(one.name.host)) for one in subfiles if one.opened.created]
        self.ask_each(
            [
                (one.name, Kind.UNMAKE, message_bodies.HANDLE.pack(link.handles[one.key]))
                for one, link in made
                if link is not None and one.key in link.handles
            ],
            bytes,
        )

    @_in_turn
    def release(self, subfiles: Iterable[OpenSubfile]) -> SfioError | None:
        """Count one file less that uses each subfile, and close those that no other uses; the first fault. A lost
        connection has closed its own already."""
        if self._outer_links:
            self.forgotten.append(list(subfiles))
            return None
        unused: list[tuple[SubfileName, int]] = []
        for one in subfiles:
            link = self.links.get(one.name.host)
            if link is None or one.key not in link.handles:
                continue
            link.users[one.key] = link.users.get(one.key, 1) - 1
            if link.users[one.key] <= 0:
                del link.users[one.key]
                unused.append((one.name, link.handles.pop(one.key)))
        return next(
            (answer for answer in self._close_handles(unused) if isinstance(answer, PeerError)),
            None,
        )

    def _close_handles(
        self, handles: Iterable[tuple[SubfileName, int]]
    ) -> Sequence[bytes | PeerError]:
        return self.ask_each(
            [(name, Kind.CLOSE, message_bodies.HANDLE.pack(handle)) for name, handle in handles],
            bytes,
        )

    @_in_turn
    def ask_each(
        self, questions: Sequence[Question], answer: Callable[[memoryview], Result]
    ) -> list[Result | PeerError]:
        """One message about each subfile, over all hosts at once; what `answer` reads in the body of each answer, or
        what failed."""
        results: dict[int, Result | PeerError] = {}
        messages: dict[str, list[Message]] = {}
        for number, (subfile, kind, body) in enumerate(questions):

            def finish(body: memoryview, number: int = number) -> None:
                results[number] = answer(body)

            try:
                self.link(subfile.host)
            except PeerError as fault:
                results[number] = fault
            else:
                failed = partial(results.__setitem__, number)
                message = Message(kind, body, finish=finish, failed=failed, path=subfile.path)
                messages.setdefault(subfile.host, []).append(message)
        faults = self._exchange(
            {host: iter(items) for host, items in messages.items()}, self.counters, MANAGEMENT
        )
        by_host = {fault.host: fault for fault in faults}
        return [
            results[n] if n in results else by_host[place.host]
            for n, (place, _, _) in enumerate(questions)
        ]

    def ask(
        self, subfile: SubfileName, kind: Kind, body: bytes, answer: Callable[[memoryview], Result]
    ) -> Result:
        """One message about a subfile to its listener, and what `answer` reads in the body of its answer."""
        return answered(self.ask_each([(subfile, kind, body)], answer))[0]

    @_in_turn
    def transfer(
        self,
        messages: Mapping[str, Callable[[], Iterator[Message]]],
        sizes: Mapping[str, int],
        direction: Direction,
        counters: TransferCounters,
        settings: Settings,
    ) -> list[PeerError]:
        """Move the data of one call, host by host as the turns have it; what went wrong (the other hosts are
        served)."""
        faults: list[PeerError] = []
        for hosts in self.turns.order(list(messages), direction):
            with ExitStack() as turn:
                for host in hosts:
                    turn.enter_context(self.turns.acquire(host, sizes[host], direction))
                faults += self._exchange(
                    {host: messages[host]() for host in hosts}, counters, settings
                )
        return faults

    def _exchange(
        self,
        messages: Mapping[str, Iterator[Message]],
        counters: TransferCounters,
        settings: Settings,
    ) -> list[PeerError]:
        """Send the messages of all hosts at once and take their answers; what went wrong, in the order of hosts."""
        return self.converse({
            host: Exchange(host, self.links[host], items, settings=settings, counters=counters)
            for host, items in messages.items()
        })  # fmt: skip

    def converse(self, conversations: Mapping[str, Exchange | SmallCall]) -> list[PeerError]:
        """Carry out conversations with hosts that are connected, by whoever has the turn; what went wrong, in the order
        of hosts."""
        links, outer, complete = self.links, self._outer_links, False
        broken: Mapping[str, PeerError] = {}
        carried = [(links[host].connection, conversations[host]) for host in conversations]
        try:
            self._outer_links, self.links = (*outer, links), {}
            broken = self.connections.carry(carried)
            complete = True
        finally:
            others, self.links, self._outer_links = (
                self.links,
                links,
                outer,
            )  # no call, where a signal could come
            for link in others.values():
                link.connection.close()
            if not complete:  # interrupted: nobody knows where the streams stand
                for host in conversations:
                    self._disconnect(host)
        faults: list[PeerError] = []
        for host, conversation in conversations.items():
            if host in broken:
                self._disconnect(host)
                faults.append(broken[host])
            else:
                links[host].next_sequence = conversation.next_sequence
                if conversation.failure is not None:
                    faults.append(conversation.failure)
        return faults

    def _disconnect(self, host: str) -> None:
        link = self.links.pop(host, None)
        if link is not None:
            link.connection.close()

    @_in_turn
    def take_errors(self) -> dict[str, int]:
        """Failed calls on all I/O nodes, whoever made them, by name; reset there. `rejected`: messages refused.

        Raises `PeerError` where a node does not answer; what the others answered is kept for the next call.
        """
        listeners = [SubfileName(host=host, path="") for host in self.connections.hosts]
        answered(self.ask_each([(one, Kind.ERRORS, b"") for one in listeners], self._add_errors))
        counts, self._errors = self._errors, Counter(dict.fromkeys(COUNTED, 0))
        return dict(counts)

    def _add_errors(self, body: memoryview) -> None:
        found = message_bodies.unpack(message_bodies.ERRORS_ANSWER, body)
        self._errors.update(dict(zip(COUNTED, found, strict=True)))

    def agree(self, what: str, same: Sequence[object], fault: Exception | None) -> None:
        """Let all processes of the group learn how a collective step went: what each does, with which arguments, its
        fault.

        Every process must call. Raises in all of them where one has failed (its own fault there, `PeerError` in the
        others) or where `what` or `same` differ (`UsageError`).
        """
        said = str(fault) if isinstance(fault, SfioError) else f"{type(fault).__name__}: {fault}"
        mine = json.dumps(
            [what, list(same), None if fault is None else said], default=_plain
        ).encode()
        items = self.group.all_gather(mine)
        answers = [json.loads(item) for item in items]
        for rank, (their_what, their_same, _) in enumerate(answers):
            if their_what != what or their_same != answers[self.group.rank][1]:
                raise UsageError(
                    f"process {rank} calls {their_what} with {their_same} where process {self.group.rank} calls {what}"
                    f" with {answers[self.group.rank][1]}: a collective call must be the same in all processes"
                )
        if fault is not None:
            raise fault
        for rank, (_, _, their_fault) in enumerate(answers):
            if their_fault is not None:
                raise PeerError(f"process {rank}", f"its {what} failed: {their_fault}")

    @contextmanager
    def agreed(self, what: str, same: Sequence[object]) -> Iterator[None]:
        """Around the part of each process in a collective call: `agree` on how it went."""
        fault: Exception | None = None
        try:
            yield
        except Exception as error:  # noqa: BLE001 - whatever it is, the others wait; raised by `agree`
            fault = error
        self.agree(what, same, fault)

    def close(self) -> None:
        """Close the connections."""
        with self.guard:
            self._forget_connections()

    def in_background(self, act: Callable[[], None]) -> None:
        """Have this done by the session's own thread, behind what it was given before."""
        with self.guard:
            self._background = self._background or Background(1, "sfio requests")
            self._background.submit(act)

    def _begin_child(self) -> None:
        self.guard = Guard()
        self.generation += 1
        self.begun, self._background = deque(), None
        for links in (*self._outer_links, self.links):
            self.links = links
            self._forget_connections()
        self._outer_links = ()

    def _forget_connections(self) -> None:
        for host in list(self.links):
            self._disconnect(host)


def answered(answers: Sequence[Result | PeerError]) -> list[Result]:
    """What was answered; raises the first fault."""
    for answer in answers:
        if isinstance(answer, PeerError):
            raise answer
    return cast(list[Result], answers)


def _plain(value: object) -> int | str:
    """What JSON does not know, such as the numbers of numpy (and its arrays, which only look like numbers)."""
    with suppress(TypeError):
        if isinstance(value, SupportsIndex):
            return operator.index(value)
    return repr(value)
