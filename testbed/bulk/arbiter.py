"""The circuit arbiter: transfers acquire the links of their paths one after another, and hold what they have while they
wait.

This is how a wormhole network shares its links: first come, first served on every link. No I/O, no clock; a cycle of
transfers that wait for each other is found at the moment it closes.
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
    """Transfers that wait for each other in a circle: ``waiting[i]`` wants ``links[i]``, which ``waiting[i + 1]``
    holds."""

    waiting: tuple[Key, ...]
    links: tuple[Line, ...]


@dataclass(frozen=True, kw_only=True)
class ArbiterResult:
    """What a call led to: transfers that now hold all their links, in the order they got there, and circles that
    closed."""

    granted: tuple[Key, ...] = ()
    deadlocks: tuple[Deadlock, ...] = ()


class CircuitArbiter:
    """Who holds which link, and who waits for it; keys name transfers, any hashable names a link.

    A link goes to those who requested it in the order in which they came to it. Every call takes time proportional to
    the links that change hands, plus the length of the chain of waiting transfers where one begins to wait.

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
        """Begin to acquire the links of the path, in its order.

        Raises InputError for a key that holds or waits already, an empty path, and a path that takes a link twice (it
        would wait for itself).
        """
        if key in self._paths:
            raise InputError(f"transfer {key} has already requested its links; release them first")
        if not path or len(set(path)) != len(path):
            raise InputError(f"transfer {key}: its path is empty or takes a link twice")
        self._paths[key] = tuple(path)
        self._occupied[key] = 0
        return self._advance([key])

    def release(self, key: Key) -> ArbiterResult:
        """Give back whatever the transfer holds, and its place where it waits; InputError for one that is not here."""
        if key not in self._paths:
            raise InputError(f"transfer {key} holds no link and waits for none")
        path, occupied = self._paths.pop(key), self._occupied.pop(key)
        if occupied < len(path):
            self._queues[path[occupied]].remove(key)
        heirs = []
        for link in path[:occupied]:
            queue = self._queues.get(link)
            if queue:
                heir = queue.popleft()
                self._holder[link] = heir
                self._occupied[heir] += 1
                heirs.append(heir)
            else:
                del self._holder[link]
        return self._advance(heirs)

    def holds_all(self, key: Key) -> bool:
        """Whether the transfer holds every link of its path."""
        return key in self._paths and self._occupied[key] == len(self._paths[key])

    def holder(self, link: Line) -> Key | None:
        """Who holds the link."""
        return self._holder.get(link)

    def waits_for(self, key: Key) -> Line | None:
        """The link that the transfer waits for, None where it waits for none."""
        if key not in self._paths or self.holds_all(key):
            return None
        return self._paths[key][self._occupied[key]]

    @property
    def idle(self) -> bool:
        """Whether nobody holds or waits for anything."""
        return not self._paths

    def _advance(self, keys: Sequence[Key]) -> ArbiterResult:
        granted, deadlocks = [], []
        for key in keys:
            path = self._paths[key]
            while self._occupied[key] < len(path) and path[self._occupied[key]] not in self._holder:
                self._holder[path[self._occupied[key]]] = key
                self._occupied[key] += 1
            if self._occupied[key] == len(path):
                granted.append(key)
                continue
            self._queues.setdefault(path[self._occupied[key]], deque()).append(key)
            circle = self._circle(key)
            if circle is not None:
                deadlocks.append(circle)
        return ArbiterResult(granted=tuple(granted), deadlocks=tuple(deadlocks))

    def _circle(self, key: Key) -> Deadlock | None:
        """Follow who waits for whom. A transfer waits for one link, and that has one holder: the chain ends or
        closes."""
        waiting: list[Key] = []
        links: list[Line] = []
        at = key
        while (link := self.waits_for(at)) is not None:
            waiting.append(at)
            links.append(link)
            holder = self._holder.get(link)
            if holder == key:
                return Deadlock(waiting=tuple(waiting), links=tuple(links))
            if holder is None or holder in waiting:
                return None  # one that is about to move on, or an older circle, reported when it closed
            at = holder
        return None
