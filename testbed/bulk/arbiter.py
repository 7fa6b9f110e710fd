"""The circuit arbiter: transfers acquire the links of their paths one after another.

A transfer holds its links while it waits for the next one. A wormhole network shares its links in
this way: first come, first served on every link. The arbiter has no I/O and no clock. It detects a
cycle of transfers that wait for each other when the cycle closes.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from testbed.errors import InputError
from topologies import LinkId

Key = int
Line = LinkId


@dataclass(frozen=True, kw_only=True)
class Deadlock:
    """A cycle of transfers that wait for each other.

    Attributes:
        waiting: The transfers of the cycle.
        links: ``waiting[i]`` waits for ``links[i]``, which ``waiting[i + 1]`` holds.
    """

    waiting: tuple[Key, ...]
    links: tuple[Line, ...]


@dataclass(frozen=True, kw_only=True)
class ArbiterResult:
    """The effects of a call.

    Attributes:
        granted: Transfers that now hold all their links, in the order in which they acquired them.
        deadlocks: Cycles that closed.
    """

    granted: tuple[Key, ...] = ()
    deadlocks: tuple[Deadlock, ...] = ()


class CircuitArbiter:
    """The holder and the queue of each link. Keys name transfers; any hashable value names a link.

    A link is granted in the order in which transfers reached it. Every call takes time proportional
    to the number of links that change their holder, plus the length of the chain of waiting
    transfers if one begins to wait.

    >>> arbiter = CircuitArbiter()
    >>> arbiter.request("a", ["x", "y"]).granted, arbiter.request("b", ["z", "y"]).granted
    (('a',), ())
    >>> arbiter.release("a").granted
    ('b',)
    """

    def __init__(self) -> None:
        self._paths: dict[Key, tuple[Line, ...]] = {}
        self._occupied: dict[Key, int] = {}
        self._holder: dict[Line, Key] = {}
        self._queues: dict[Line, deque[Key]] = {}

    def request(self, key: Key, path: Sequence[Line]) -> ArbiterResult:
        """Begin to acquire the links of a path, in order.

        Raises:
            InputError: The transfer holds or waits for links already, or the path is empty or
                contains a link twice, so that the transfer would wait for itself.
        """
        if key in self._paths:
            raise InputError(f"transfer {key} has already requested its links; release them first")
        if not path or len(set(path)) != len(path):
            raise InputError(f"transfer {key}: its path is empty or takes a link twice")
        self._paths[key] = tuple(path)
        self._occupied[key] = 0
        return self._advance([key])

    def release(self, key: Key) -> ArbiterResult:
        """Release the links of a transfer, and leave the queue in which it waits.

        Raises:
            InputError: The transfer holds no link and waits for none.
        """
        if key not in self._paths:
            raise InputError(f"transfer {key} holds no link and waits for none")
        path = self._paths.pop(key)
        occupied = self._occupied.pop(key)
        if occupied < len(path):
            self._queues[path[occupied]].remove(key)
        next_holders = []
        for link in path[:occupied]:
            queue = self._queues.get(link)
            if queue:
                next_holder = queue.popleft()
                self._holder[link] = next_holder
                self._occupied[next_holder] += 1
                next_holders.append(next_holder)
            else:
                del self._holder[link]
        return self._advance(next_holders)

    def holds_all(self, key: Key) -> bool:
        """Return whether the transfer holds every link of its path."""
        return key in self._paths and self._occupied[key] == len(self._paths[key])

    def holder(self, link: Line) -> Key | None:
        """Return the transfer that holds the link, or None."""
        return self._holder.get(link)

    def waits_for(self, key: Key) -> Line | None:
        """Return the link that the transfer waits for, or None."""
        if key not in self._paths or self.holds_all(key):
            return None
        return self._paths[key][self._occupied[key]]

    @property
    def idle(self) -> bool:
        """No transfer holds a link or waits for one."""
        return not self._paths

    def _advance(self, keys: Sequence[Key]) -> ArbiterResult:
        """Let transfers acquire free links until each holds all of its path, or must wait."""
        granted = []
        deadlocks = []
        for key in keys:
            path = self._paths[key]
            while self._occupied[key] < len(path) and path[self._occupied[key]] not in self._holder:
                self._holder[path[self._occupied[key]]] = key
                self._occupied[key] += 1
            if self._occupied[key] == len(path):
                granted.append(key)
                continue
            self._queues.setdefault(path[self._occupied[key]], deque()).append(key)
            deadlock = self._deadlock(key)
            if deadlock is not None:
                deadlocks.append(deadlock)
        return ArbiterResult(granted=tuple(granted), deadlocks=tuple(deadlocks))

    def _deadlock(self, key: Key) -> Deadlock | None:
        """Return the cycle that begins at a waiting transfer, or None.

        A transfer waits for one link, and a link has one holder, so the chain ends or closes.
        """
        waiting: list[Key] = []
        links: list[Line] = []
        current = key
        while (link := self.waits_for(current)) is not None:
            waiting.append(current)
            links.append(link)
            holder = self._holder.get(link)
            if holder == key:
                return Deadlock(waiting=tuple(waiting), links=tuple(links))
            if holder is None or holder in waiting:
                # The link was just released, or the chain ends in a cycle that was reported
                # earlier.
                return None
            current = holder
        return None
