"""The state of a process that uses striped files.

It has the connections to the listeners, the process group, and the order of transfers. Connections
are made when they are first needed, and again after they were lost. Open subfiles are then opened
again.
"""

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

# Settings for all messages but reads and writes. They are small, so that many may be in transit.
MANAGEMENT = Settings(check_data=True, window=64)

P = ParamSpec("P")
Result = TypeVar("Result")


def _in_turn(
    method: Callable[Concatenate[Session, P], Result],
) -> Callable[Concatenate[Session, P], Result]:
    """Decorate a method of a session so that only one thread at a time runs it."""

    @wraps(method)
    def take_turn(session: Session, /, *arguments: P.args, **named: P.kwargs) -> Result:
        with session.guard:
            return method(session, *arguments, **named)

    return take_turn


# Numbers for open subfiles without an identity.
_unmarked = count(1)

# A message about a subfile: the subfile, the kind of message, and the body.
Question = tuple[SubfileName, Kind, bytes]


class OpenSubfile:
    """A subfile that a file of this process has open.

    Attributes:
        name: The name of the subfile.
        read_only: Whether it is open for reading only.
        opened: The answer of the listener when it was first opened.
        key: Its identification in this process: path, read-only, inode number and identity. Two
            different files that had the name one after the other have different keys. A subfile
            without an identity gets a number of its own every time it is opened, because inode
            numbers are used again.
    """

    def __init__(self, name: SubfileName, read_only: bool, opened: Opened) -> None:
        self.name = name
        self.read_only = read_only
        self.opened = opened
        identity = opened.layout.file_id if opened.layout else -next(_unmarked)
        self.key: OpenKey = name.path, read_only, opened.inode, identity

    def is_same(self, answer: Opened) -> bool:
        """Return whether an answer to OPEN is about the subfile that was opened before.

        Identity and layout decide. If the subfile had no identity, the inode number decides.
        """
        layout = self.opened.layout
        if layout and layout.file_id:
            return answer.layout == layout
        return answer.inode == self.opened.inode


class Session:
    """Connections, process group, order of transfers and settings, shared by a process's files.

    Any number of threads may use a session; their calls take turns. A child of fork makes
    connections of its own when it first needs them; the parent's connections remain the parent's.

    A call can interrupt another one in the same thread, in a signal handler or in the finalizer of
    a file. It gets connections of its own, which are closed when the outer call continues.

    Args:
        connections: Makes the connections.
        group: The processes of the program; by default this process alone.
        turns: The order of transfers; by default there is none.
        settings: The settings of files that have none of their own.

    Attributes:
        guard: The lock by which threads take turns.
        generation: The number of forks between the process that made the session and this one.
        counters: The sums over all calls.
        links: The connections, by host.
        forgotten: Open subfiles of files that were collected, or closed inside another call. The
            next opening closes them.
        queued_requests: Non-blocking requests that wait to be carried out.
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
        self.queued_requests: deque[Any] = deque()
        self._background: Background | None = None
        self.links: dict[str, Link] = {}

        # The connections of the calls that are interrupted by the present one.
        self._outer_links: tuple[dict[str, Link], ...] = ()

        # Failed system calls that listeners have reported and the program has not yet taken.
        self._errors = Counter(dict.fromkeys(COUNTED, 0))

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a session belongs to its process: make one in the other "
            "(of SFIO_LISTENERS, or listeners=)"
        )

    def link(self, host: str) -> Link:
        """Return the connection to a host, after making it if necessary.

        It takes no turn if the connection exists, because the callers have theirs already.

        Raises:
            ListenerLost: The listener does not answer.
            ProtocolError: The listener has another protocol version or key.
        """
        return self.links.get(host) or self._connected(host)

    @_in_turn
    def _connected(self, host: str) -> Link:
        link = self.links.get(host)
        if link is None:
            link = Link(connection=self.connections.connect(host))
            self.links[host] = link
            try:
                self._greet(host, link)
            except BaseException:
                # This includes KeyboardInterrupt. A link must not remain half initialised.
                self._disconnect(host)
                raise
        return link

    def _greet(self, host: str, link: Link) -> None:
        """Exchange limits with the listener, and prove to each other that both have the key."""
        nonce = link.connection.nonce
        key = link.connection.key
        listener = SubfileName(host=host, path="")
        welcome = self.ask(listener, Kind.HELLO, message_bodies.HELLO.pack(nonce), Welcome.decode)
        if not wire.MIN_LIMIT <= welcome.limit_bytes <= wire.MAX_LIMIT:
            raise ProtocolError(
                host, f"its listener offers messages of {welcome.limit_bytes} bytes"
            )
        if key is None and welcome.wants_key:
            raise ProtocolError(
                host,
                "its listener requires the key of its run: "
                "name its file in SFIO_KEY_FILE, or give key=",
            )
        if key is not None:
            expected = authentication.proof(key, "listener", nonce, welcome.nonce)
            if not compare_digest(welcome.proof, expected):
                raise ProtocolError(
                    host,
                    "its listener does not have the key of this run: another run's, or a stranger",
                )
            proof = authentication.proof(key, "client", nonce, welcome.nonce)
            self.ask(listener, Kind.KEY, proof, bytes)
        link.limit_bytes = welcome.limit_bytes
        link.machine = welcome.machine

    def handle(self, subfile: OpenSubfile) -> int:
        """Return the handle of an open subfile, after opening it again if the connection was lost.

        Raises:
            StaleFileError: Its name belongs to another file now.
        """
        link = self.link(subfile.name.host)
        handle = link.handles.get(subfile.key)
        if handle is None:
            flags = OpenFlag.READ_ONLY if subfile.read_only else OpenFlag(0)
            body = message_bodies.encode_open(subfile.name.path, flags)
            opened = self.ask(subfile.name, Kind.OPEN, body, Opened.decode)
            if not subfile.is_same(opened):
                self._close_handles([(subfile.name, opened.handle)])
                raise StaleFileError(subfile.name.host, subfile.name.path)
            handle = opened.handle
            link.handles[subfile.key] = handle
        return handle

    @_in_turn
    def open(
        self, subfiles: Sequence[SubfileName], flags: OpenFlag = OpenFlag.CREATE
    ) -> list[OpenSubfile]:
        """Open subfiles on all hosts at once. The caller must `release` them.

        Raises:
            PeerError: The first error. No subfile is open then, and created ones are deleted.
        """
        while self.forgotten and not self._outer_links:
            self.release(self.forgotten.pop())
        questions = []
        for subfile in subfiles:
            body = message_bodies.encode_open(subfile.path, flags)
            questions.append((subfile, Kind.OPEN, body))
        answers = self.ask_each(questions, Opened.decode)
        opened = []
        for name, answer in zip(subfiles, answers, strict=True):
            if isinstance(answer, PeerError):
                continue
            open_subfile = OpenSubfile(name, bool(flags & OpenFlag.READ_ONLY), answer)
            opened.append(open_subfile)
            self._note_user(open_subfile)
        if len(opened) < len(answers):
            self.unmake(opened)
            self.release(opened)
        answered(answers)
        return opened

    def _note_user(self, subfile: OpenSubfile) -> None:
        """Count one more file that uses a subfile which was just opened.

        If the subfile was open already, its former handle is used, and the new one is closed.
        """
        link = self.links.get(subfile.name.host)
        handle = subfile.opened.handle
        if not handle or link is None:
            return
        if link.handles.setdefault(subfile.key, handle) != handle:
            self._close_handles([(subfile.name, handle)])
        link.users[subfile.key] = link.users.get(subfile.key, 0) + 1

    @_in_turn
    def unmake(self, subfiles: Iterable[OpenSubfile]) -> None:
        """Delete those of the subfiles that were created when they were opened.

        Folders that were created for them are deleted, too. Subfiles that are not empty any more,
        or cannot be reached, remain.
        """
        questions = []
        for subfile in subfiles:
            link = self.links.get(subfile.name.host)
            if subfile.opened.created and link is not None and subfile.key in link.handles:
                body = message_bodies.HANDLE.pack(link.handles[subfile.key])
                questions.append((subfile.name, Kind.UNMAKE, body))
        self.ask_each(questions, bytes)

    @_in_turn
    def release(self, subfiles: Iterable[OpenSubfile]) -> SfioError | None:
        """Count one file less that uses each subfile, and close those that no other file uses.

        A listener closes the subfiles of a lost connection itself. Inside another call, the
        subfiles are only noted for the next opening.

        Returns:
            The first error, or None.
        """
        if self._outer_links:
            self.forgotten.append(list(subfiles))
            return None
        unused: list[tuple[SubfileName, int]] = []
        for subfile in subfiles:
            link = self.links.get(subfile.name.host)
            if link is None or subfile.key not in link.handles:
                continue
            link.users[subfile.key] = link.users.get(subfile.key, 1) - 1
            if link.users[subfile.key] <= 0:
                del link.users[subfile.key]
                unused.append((subfile.name, link.handles.pop(subfile.key)))
        for answer in self._close_handles(unused):
            if isinstance(answer, PeerError):
                return answer
        return None

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
        """Send one message about each subfile, to all hosts at once.

        Args:
            questions: The messages.
            answer: Decodes the body of an answer.

        Returns:
            The decoded answer to each message, or the error.
        """
        results: dict[int, Result | PeerError] = {}
        messages: dict[str, list[Message]] = {}

        def decode(number: int, body: memoryview) -> None:
            results[number] = answer(body)

        for number, (subfile, kind, body) in enumerate(questions):
            try:
                self.link(subfile.host)
            except PeerError as fault:
                results[number] = fault
                continue
            message = Message(
                kind,
                body,
                finish=partial(decode, number),
                failed=partial(results.__setitem__, number),
                path=subfile.path,
            )
            messages.setdefault(subfile.host, []).append(message)
        faults = self._exchange(
            {host: iter(items) for host, items in messages.items()}, self.counters, MANAGEMENT
        )
        # A message without a result was lost with its connection.
        fault_by_host = {fault.host: fault for fault in faults}
        return [
            results[number] if number in results else fault_by_host[subfile.host]
            for number, (subfile, _, _) in enumerate(questions)
        ]

    def ask(
        self, subfile: SubfileName, kind: Kind, body: bytes, answer: Callable[[memoryview], Result]
    ) -> Result:
        """Send one message about a subfile to its listener.

        Args:
            subfile: The subfile.
            kind: The kind of message.
            body: The body of the message.
            answer: Decodes the body of the answer.

        Returns:
            The decoded answer.

        Raises:
            PeerError: The listener reports a failure, or cannot be reached.
        """
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
        """Transfer the data of one call, in the order of the session's turns.

        Args:
            messages: The messages to each host.
            sizes: The number of data bytes of each host.
            direction: Whether the call reads or writes.
            counters: Where the transfer is counted.
            settings: The settings of the file.

        Returns:
            The errors. They do not prevent the transfers of other hosts.
        """
        faults: list[PeerError] = []
        for hosts in self.turns.order(list(messages), direction):
            with ExitStack() as turn:
                for host in hosts:
                    turn.enter_context(self.turns.acquire(host, sizes[host], direction))
                messages_of_turn = {host: messages[host]() for host in hosts}
                faults += self._exchange(messages_of_turn, counters, settings)
        return faults

    def _exchange(
        self,
        messages: Mapping[str, Iterator[Message]],
        counters: TransferCounters,
        settings: Settings,
    ) -> list[PeerError]:
        """Send messages to all hosts at once, take their answers, and return the errors."""
        exchanges = {}
        for host, items in messages.items():
            exchanges[host] = Exchange(
                host, self.links[host], items, settings=settings, counters=counters
            )
        return self.converse(exchanges)

    def converse(self, conversations: Mapping[str, Exchange | SmallCall]) -> list[PeerError]:
        """Carry out conversations with connected hosts. The calling thread has the turn.

        Returns:
            The errors, in the order of the hosts.
        """
        links = self.links
        outer_links = self._outer_links
        complete = False
        broken: Mapping[str, PeerError] = {}
        carried = [(links[host].connection, conversations[host]) for host in conversations]
        try:
            self._outer_links = (*outer_links, links)
            self.links = {}
            broken = self.connections.carry(carried)
            complete = True
        finally:
            # A signal handler can run only where a function is called or a loop goes on, so that
            # none can see the links while these three assignments are only partly done.
            links_of_inner_calls = self.links
            self.links = links
            self._outer_links = outer_links
            for link in links_of_inner_calls.values():
                link.connection.close()
            if not complete:
                # The call was interrupted. The position in the byte streams is unknown.
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
        """Return and reset the error counters of all I/O nodes.

        Returns:
            The number of failed system calls by name, requested by any client, and `rejected`, the
            number of refused messages.

        Raises:
            PeerError: A node does not answer. The counts of the others are part of the next result.
        """
        listeners = [SubfileName(host=host, path="") for host in self.connections.hosts]
        questions = [(listener, Kind.ERRORS, b"") for listener in listeners]
        answered(self.ask_each(questions, self._add_errors))
        counts = self._errors
        self._errors = Counter(dict.fromkeys(COUNTED, 0))
        return dict(counts)

    def _add_errors(self, body: memoryview) -> None:
        counts = message_bodies.unpack(message_bodies.ERRORS_ANSWER, body)
        self._errors.update(dict(zip(COUNTED, counts, strict=True)))

    def agree(self, step: str, arguments: Sequence[object], fault: Exception | None) -> None:
        """Tell all processes of the group how a collective step went. Collective.

        Args:
            step: The name of the step, for errors.
            arguments: The arguments that must be the same in all processes.
            fault: The error of this process, or None.

        Raises:
            Exception: `fault`, in the process where it happened.
            PeerError: The step failed in another process.
            UsageError: Another process called another step, or gave other arguments.
        """
        description = None
        if isinstance(fault, SfioError):
            description = str(fault)
        elif fault is not None:
            description = f"{type(fault).__name__}: {fault}"
        item = json.dumps([step, list(arguments), description], default=_plain).encode()
        answers = [json.loads(answer) for answer in self.group.all_gather(item)]
        # The arguments are compared as JSON gives them back, for instance tuples as lists.
        my_arguments = answers[self.group.rank][1]
        for rank, (their_step, their_arguments, _) in enumerate(answers):
            if their_step != step or their_arguments != my_arguments:
                raise UsageError(
                    f"process {rank} calls {their_step} with {their_arguments} "
                    f"where process {self.group.rank} calls {step} with {my_arguments}: "
                    "a collective call must be the same in all processes"
                )
        if fault is not None:
            raise fault
        for rank, (_, _, their_fault) in enumerate(answers):
            if their_fault is not None:
                raise PeerError(f"process {rank}", f"its {step} failed: {their_fault}")

    @contextmanager
    def agreed(self, step: str, arguments: Sequence[object]) -> Iterator[None]:
        """Run the part of this process in a collective call, then `agree` on how it went.

        Args:
            step: As in `agree`.
            arguments: As in `agree`.
        """
        fault: Exception | None = None
        try:
            yield
        except Exception as error:  # noqa: BLE001
            # Whatever the error is, the other processes wait. `agree` raises it.
            fault = error
        self.agree(step, arguments, fault)

    def close(self) -> None:
        """Close the connections."""
        with self.guard:
            self._forget_connections()

    def in_background(self, task: Callable[[], None]) -> None:
        """Run a task in the session's own thread, after the tasks submitted earlier."""
        with self.guard:
            self._background = self._background or Background(1, "sfio requests")
            self._background.submit(task)

    def _begin_child(self) -> None:
        """Give up what belongs to the parent, in a child of fork."""
        self.guard = Guard()
        self.generation += 1
        self.queued_requests = deque()
        self._background = None
        for links in (*self._outer_links, self.links):
            self.links = links
            self._forget_connections()
        self._outer_links = ()

    def _forget_connections(self) -> None:
        for host in list(self.links):
            self._disconnect(host)


def answered(answers: Sequence[Result | PeerError]) -> list[Result]:
    """Return the answers of `Session.ask_each`, or raise the first error in them."""
    for answer in answers:
        if isinstance(answer, PeerError):
            raise answer
    return cast(list[Result], answers)


def _plain(value: object) -> int | str:
    """Convert a value that JSON does not know.

    Numbers of numpy become int. Arrays of numpy also have `__index__`, but calling it fails.
    """
    with suppress(TypeError):
        if isinstance(value, SupportsIndex):
            return operator.index(value)
    return repr(value)
