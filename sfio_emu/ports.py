"""What the library is given from outside: connections to listeners, the group of compute processes, the order of
transfers. It knows neither sockets nor the fabric; `SoloGroup` and `FreeTurns` are the plain cases."""

import secrets
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from sfio_emu.errors import PeerError

Direction = Literal["write", "read"]


class Conversation(Protocol):
    """One side of a protocol without any I/O: it offers bytes to send and places to receive into.

    `outgoing` gives the pieces to send next (empty: nothing now), `incoming` the places of the next bytes (empty: none
    awaited); `sent` and `received` say how many bytes of them were moved. `finished` when all is answered.
    """

    @property
    def finished(self) -> bool: ...
    def outgoing(self) -> Sequence[memoryview]: ...
    def sent(self, count: int) -> None: ...
    def incoming(self) -> Sequence[memoryview]: ...
    def received(self, count: int) -> None: ...


@dataclass(frozen=True, kw_only=True)
class Connection:
    """A byte stream to one listener; `nonce`: 16 random bytes of its own, `key`: what both sides must have (None: no
    key)."""

    host: str
    stream: Any
    key: bytes | None = None
    nonce: bytes = field(default_factory=lambda: secrets.token_bytes(16))

    def close(self) -> None:
        self.stream.close()


class Connections(Protocol):
    """Makes connections and moves the bytes of several conversations at the same time."""

    @property
    def hosts(self) -> Sequence[str]:
        """The names of all I/O nodes, sorted."""
        ...

    def connect(self, host: str) -> Connection:
        """A connection to the listener of `host`; raises `ListenerLost` within the time limit, `UsageError` if
        unknown."""
        ...

    def carry(
        self, conversations: Sequence[tuple[Connection, Conversation]]
    ) -> Mapping[str, PeerError]:
        """Move bytes until each conversation is finished or broken; what broke, by host (the others go on)."""
        ...


class ProcessGroup(Protocol):
    """The compute processes of a parallel program."""

    @property
    def rank(self) -> int: ...
    @property
    def size(self) -> int: ...
    def barrier(self) -> None: ...
    def all_gather(self, item: bytes) -> list[bytes]:
        """The items of all processes, that of rank i at place i; every process must call."""
        ...

    def fetch_add(self, counter: str, amount: int) -> int:
        """Add to a counter that all processes share, 0 when first named, and give what it was before; any may call."""
        ...


class Turns(Protocol):
    """The order of the transfers of a call: which hosts at the same time, and when each may flow."""

    def order(self, hosts: Sequence[str], direction: Direction) -> Sequence[Sequence[str]]:
        """The hosts of a call in groups: groups follow one another, the hosts of a group are served at once."""
        ...

    def acquire(
        self, host: str, size_bytes: int, direction: Direction
    ) -> AbstractContextManager[None]:
        """The data of this call to or from this host flow only inside the block (acknowledgements included)."""
        ...


class SoloGroup:
    """A program of one process."""

    rank = 0
    size = 1

    def __init__(self) -> None:
        self._counters: dict[str, int] = {}

    def barrier(self) -> None:
        """Return at once: there is no other process."""

    def all_gather(self, item: bytes) -> list[bytes]:
        return [item]

    def fetch_add(self, counter: str, amount: int) -> int:
        before = self._counters.get(counter, 0)
        self._counters[counter] = before + amount
        return before


class FreeTurns:
    """No order: all hosts at once, at any time."""

    def order(self, hosts: Sequence[str], direction: Direction) -> Sequence[Sequence[str]]:
        return [list(hosts)]

    def acquire(
        self, host: str, size_bytes: int, direction: Direction
    ) -> AbstractContextManager[None]:
        return nullcontext()
