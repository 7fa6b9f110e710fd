"""The interfaces that the library needs from outside.

These are the connections to listeners, the group of compute processes, and the order of transfers.
The library itself uses neither sockets nor the network. `SoloGroup` and `FreeTurns` are the
simplest implementations.
"""

import secrets
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from sfio_emu.errors import PeerError

Direction = Literal["write", "read"]


class Conversation(Protocol):
    """One side of a protocol, without any I/O.

    It offers bytes to send and memory to receive into. Whoever owns the socket transfers the bytes
    and reports how many were sent and received.
    """

    @property
    def finished(self) -> bool:
        """True if all messages are answered."""
        ...

    def outgoing(self) -> Sequence[memoryview]:
        """Return the bytes to send next; empty if there are none at present."""
        ...

    def sent(self, count: int) -> None:
        """Record that the first `count` bytes of `outgoing` were sent."""
        ...

    def incoming(self) -> Sequence[memoryview]:
        """Return the memory to receive into; empty if no bytes are expected."""
        ...

    def received(self, count: int) -> None:
        """Record that the first `count` bytes of `incoming` were filled."""
        ...


@dataclass(frozen=True, kw_only=True)
class Connection:
    """A byte stream to one listener.

    Attributes:
        host: The name of the I/O node.
        stream: The socket, or whatever `Connections.carry` transfers bytes with.
        key: The key that both sides must have; None if no key is required.
        nonce: 16 random bytes of this connection.
    """

    host: str
    stream: Any
    key: bytes | None = None
    nonce: bytes = field(default_factory=lambda: secrets.token_bytes(16))

    def close(self) -> None:
        """Close the stream."""
        self.stream.close()


class Connections(Protocol):
    """Makes connections, and transfers the bytes of several conversations at the same time."""

    @property
    def hosts(self) -> Sequence[str]:
        """The names of all I/O nodes, sorted."""
        ...

    def connect(self, host: str) -> Connection:
        """Connect to the listener of a host.

        Raises:
            ListenerLost: The listener does not answer within the time limit.
            UsageError: The host is unknown.
        """
        ...

    def carry(
        self, conversations: Sequence[tuple[Connection, Conversation]]
    ) -> Mapping[str, PeerError]:
        """Transfer bytes until each conversation is finished or broken.

        Returns:
            The errors of the broken conversations, by host. They do not end the other ones.
        """
        ...


class ProcessGroup(Protocol):
    """The compute processes of a parallel program."""

    @property
    def rank(self) -> int:
        """The number of this process, from 0."""
        ...

    @property
    def size(self) -> int:
        """The number of processes."""
        ...

    def barrier(self) -> None:
        """Return when every process has called `barrier`."""
        ...

    def all_gather(self, item: bytes) -> list[bytes]:
        """Return the items of all processes in the order of their ranks. Collective."""
        ...

    def fetch_add(self, counter: str, amount: int) -> int:
        """Add to a counter that all processes share. Any process may call this at any time.

        Args:
            counter: The name of the counter. A new counter is 0.
            amount: The number to add.

        Returns:
            The value before the addition.
        """
        ...


class Turns(Protocol):
    """The order of the transfers of a call: which run at the same time, and when each may begin."""

    def order(self, hosts: Sequence[str], direction: Direction) -> Sequence[Sequence[str]]:
        """Divide the hosts of a call into groups.

        The groups are served one after the other, the hosts of a group at the same time.
        """
        ...

    def acquire(
        self, host: str, size_bytes: int, direction: Direction
    ) -> AbstractContextManager[None]:
        """Return a context inside which the call transfers its data to or from the host.

        The acknowledgements are also sent inside the context.
        """
        ...


class SoloGroup:
    """The group of a program of one process."""

    rank = 0
    size = 1

    def __init__(self) -> None:
        self._counters: dict[str, int] = {}

    def barrier(self) -> None:
        """Return at once, because there is no other process."""

    def all_gather(self, item: bytes) -> list[bytes]:
        """Return the item of the only process."""
        return [item]

    def fetch_add(self, counter: str, amount: int) -> int:
        """Add to a counter, and return its value before the addition."""
        before = self._counters.get(counter, 0)
        self._counters[counter] = before + amount
        return before


class FreeTurns:
    """Transfers without an order: all hosts at the same time, at any time."""

    def order(self, hosts: Sequence[str], direction: Direction) -> Sequence[Sequence[str]]:
        """Return one group of all hosts."""
        return [list(hosts)]

    def acquire(
        self, host: str, size_bytes: int, direction: Direction
    ) -> AbstractContextManager[None]:
        """Return a context that can be entered at any time."""
        return nullcontext()
