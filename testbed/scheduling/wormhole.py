"""What an order of transfers takes on a wormhole network: links acquired hop by hop, kept while waiting, granted in
turn.

Virtual time. Deadlocks are found and reported as the cycle of transfers that wait for one another. Next to it stand the
hardware remedies for its contention (Gabrielyan 2007, 3.1.2 and 3.2.1): links parted into virtual ones
(``run_virtual_links``), and switches that store blocked messages (``run_queues``): there a link carries one message at
a time, first come, first served, and a switch has room for every message that waits; a message may go on over its next
link as soon as its head is there (cut-through) or when all of it is (store and forward).
"""

import heapq
import random
from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from testbed.errors import InputError

Channel = tuple[int, int]
"""(link, virtual channel)."""
TIMEOUT = 4.0
"""Time frames that a transfer waits, keeping links, before it frees them (remedy "timeout")."""


@dataclass(frozen=True, kw_only=True)
class Wait:
    """``transfer`` waits for ``link``, which ``holder`` keeps."""

    transfer: int
    link: int
    holder: int


@dataclass(frozen=True, kw_only=True)
class WormholeRun:
    """``duration``: time frames (one transfer alone takes 1) until all is carried, or until the deadlock. ``finished``:
    when each transfer was carried, None where it never was. ``deadlock``: a cycle, each waiting for the next one's
    link; empty where none. ``retries``: transfers that gave up waiting and began again. ``channels``: virtual channels
    a link, 1 without."""

    duration: float
    finished: tuple[float | None, ...]
    deadlock: tuple[Wait, ...] = ()
    retries: int = 0
    channels: int = 1


def order_of(paths: Sequence[Sequence[int]], frames: Sequence[Sequence[int]]) -> list[int]:
    """The transfers frame by frame. InputError where the frames do not hold each once."""
    order = [i for frame in frames for i in frame]
    if sorted(order) != list(range(len(paths))):
        raise InputError("frames: they must hold every transfer once")
    return order


def run_wormhole(
    paths: Sequence[Sequence[int]],
    frames: Sequence[Sequence[int]],
    *,
    barrier: bool,
    remedy: Literal["none", "timeout", "virtual-channels"] = "none",
    seed: int = 1,
) -> WormholeRun:
    """Carry the transfers; ``paths[i]``: the links of transfer i in the order in which it crosses them.

    All transfers of all ``frames`` ask for their first link at once, in that order, so that a sender sends them in
    turn; with ``barrier`` those of a frame ask when the whole frame before is through. A transfer asks for its next
    link as soon as it has the one before, waits in the link's queue (first come, first served) and keeps what it has;
    with all its links it sends for 1 time frame, then frees them all. Asking takes no time, but all who ask at one time
    take one link each before any takes its next.

    ``remedy``: "timeout": a transfer that has waited TIMEOUT time frames while it kept links frees them, and begins
    again after a random pause that doubles; "virtual-channels": as many channels a link as make waiting in a circle
    impossible (see ``virtual_channels``); transfers that send over the same link share its rate evenly. O(hops log
    hops) without it.
    """
    order = order_of(paths, frames)
    if remedy == "virtual-channels":
        channels = virtual_channels(paths)
    else:
        channels = tuple(tuple((link, 0) for link in path) for path in paths)
    waves = [tuple(frame) for frame in frames] if barrier else [tuple(order)]
    limit = TIMEOUT if remedy == "timeout" else None
    return _Wormhole(channels, limit, random.Random(f"wormhole {seed}")).run(waves)


class _Wormhole:
    """The state of one run. Events: (time, step within that time, place in the order, kind, transfer, version), in that
    order."""

    def __init__(
        self,
        channels: Sequence[Sequence[Channel]],
        timeout: float | None,
        chance: random.Random,
        room: int = 1,
    ) -> None:
        """``room``: how many may hold a channel at once."""
        self.channels, self.timeout, self.chance, self.room = channels, timeout, chance, room
        self.shared = room > 1 or any(number for path in channels for _, number in path)
        self.holders: dict[Channel, list[int]] = defaultdict(list)
        self.queues: dict[Channel, deque[int]] = {}
        self.occupied = [0] * len(channels)
        self.left = [1.0] * len(channels)
        self.rate = [0.0] * len(channels)
        self.since = [0.0] * len(channels)
        self.version = [0] * len(channels)
        self.tries = [0] * len(channels)
        self.finished: list[float | None] = [None] * len(channels)
        self.senders: dict[
            int, list[int]
        ] = {}  # transfers that send over each link, in the order they began
        self.events: list[tuple[float, int, int, str, int, int]] = []
        self.place = [0] * len(channels)
        self.step = 0
        self.now = 0.0
        self.retries = 0

    def run(self, waves: Sequence[Sequence[int]]) -> WormholeRun:
        for place, i in enumerate(i for wave in waves for i in wave):
            self.place[i] = place
        for wave in waves:
            for i in wave:
                self._ask(i)
            while self.events:
                self._next_event()
            if any(self.finished[i] is None for i in wave):
                return self._result(self._circle(wave))
        return self._result(())

    def _result(self, deadlock: tuple[Wait, ...]) -> WormholeRun:
        channels = self.room + max(
            (number for path in self.channels for _, number in path), default=0
        )
        return WormholeRun(
            duration=self.now,
            finished=tuple(self.finished),
            deadlock=deadlock,
            retries=self.retries,
            channels=channels,
        )

    def _next_event(self) -> None:
        time, step, _, kind, i, version = heapq.heappop(self.events)
        if version != self.version[i]:
            return
        self.now, self.step = time, step
        {"finished": self._finish, "gives-up": self._give_up, "asks": self._ask}[kind](i)

    def _at(self, time: float, kind: str, i: int) -> None:
        step = self.step + 1 if time <= self.now else 0
        heapq.heappush(self.events, (time, step, self.place[i], kind, i, self.version[i]))

    def _ask(self, i: int) -> None:
        """Take the next link and ask for the one after it behind all who ask now; or wait; or send, with all links."""
        path = self.channels[i]
        if self.occupied[i] < len(path):
            channel = path[self.occupied[i]]
            if len(self.holders[channel]) == self.room:
                self.queues.setdefault(channel, deque()).append(i)
                if self.timeout is not None and self.occupied[i]:
                    self._at(self.now + self.timeout, "gives-up", i)
            else:
                self._grant(channel, i)
            return
        self.since[i] = self.now
        if not self.shared:
            self._at(self.now + self.left[i], "finished", i)
            return
        for link, _ in path:
            self.senders.setdefault(link, []).append(i)
        self._redistribute(i)

    def _grant(self, channel: Channel, i: int) -> None:
        self.holders[channel].append(i)
        self.occupied[i] += 1
        self.version[i] += 1
        self._at(self.now, "asks", i)

    def _redistribute(self, changed: int) -> None:
        """Rates of all that send over a link of the changed transfer: an even share of their busiest link."""
        met = dict.fromkeys(
            j for link, _ in self.channels[changed] for j in self.senders.get(link, ())
        )
        for j in met:
            rate = min(1.0 / len(self.senders[link]) for link, _ in self.channels[j])
            if rate != self.rate[j]:
                self.left[j] -= (self.now - self.since[j]) * self.rate[j]
                self.rate[j], self.since[j] = rate, self.now
                self.version[j] += 1
                self._at(self.now + max(self.left[j], 0.0) / rate, "finished", j)

    def _finish(self, i: int) -> None:
        self.finished[i] = self.now
        self.version[i] += 1
        if self.shared:
            for link, _ in self.channels[i]:
                self.senders[link].remove(i)
            self._redistribute(i)
        self._free(i)

    def _give_up(self, i: int) -> None:
        self.queues[self.channels[i][self.occupied[i]]].remove(i)
        self.version[i] += 1
        self.retries += 1
        self.tries[i] = min(self.tries[i] + 1, 8)
        assert self.timeout is not None
        self._at(self.now + self.chance.uniform(0.0, self.timeout * 2 ** self.tries[i]), "asks", i)
        self._free(i)

    def _free(self, i: int) -> None:
        """Free all links of a transfer, each for the first in its queue."""
        freed = self.channels[i][: self.occupied[i]]
        self.occupied[i] = 0
        for channel in freed:
            self.holders[channel].remove(i)
        for channel in freed:
            queue = self.queues.get(channel)
            if queue and len(self.holders[channel]) < self.room:
                self._grant(channel, queue.popleft())

    def _circle(self, wave: Sequence[int]) -> tuple[Wait, ...]:
        """Follow who waits for whom from any transfer left until one comes again."""
        at = next(
            i for i in wave if self.finished[i] is None and self.occupied[i] < len(self.channels[i])
        )
        met: dict[int, int] = {}
        waits: list[Wait] = []
        while at not in met:
            met[at] = len(waits)
            channel = self.channels[at][self.occupied[at]]
            waits.append(Wait(transfer=at, link=channel[0], holder=self.holders[channel][0]))
            at = self.holders[channel][0]
        return tuple(waits[met[at] :])


def virtual_channels(paths: Sequence[Sequence[int]]) -> tuple[tuple[Channel, ...], ...]:
    """The channels of each path: (link, 0) first, and one number higher whenever the path goes against one order of all
    links. (number, place in the order) only ever rises, so no circle of waiting is possible. The order follows the
    paths but for what closes a circle: a ring needs 2 channels, a path without circles 1.
    """
    place = {link: at for at, link in enumerate(_links_in_order(paths))}
    found = []
    for path in paths:
        number = 0
        channels: list[Channel] = []
        for at, link in enumerate(path):
            number += at > 0 and place[link] < place[path[at - 1]]
            channels.append((link, number))
        found.append(tuple(channels))
    return tuple(found)


def _links_in_order(paths: Sequence[Sequence[int]]) -> list[int]:
    """All links by depth-first search along the paths, those requested later behind."""
    import networkx as nx  # only this remedy needs it

    following = nx.DiGraph()
    for path in paths:
        nx.add_path(following, path)
    return list(nx.dfs_postorder_nodes(following))[::-1]


def run_queues(
    paths: Sequence[Sequence[int]], frames: Sequence[Sequence[int]], *, stored_fraction: float
) -> tuple[float, ...]:
    """When each transfer has arrived. ``stored_fraction``: of a message, how much must be in a switch before it goes
    on: 0 cut-through, 1 store and forward of whole messages, 1 / n in n packets (which then keep together).

    All transfers of all ``frames`` wait at their first link from the beginning, in that order. O(hops log hops). Raises
    InputError for frames that do not hold every transfer once, or a fraction outside 0 to 1.

    >>> run_queues([[0, 1, 2]], [[0]], stored_fraction=1.0), run_queues([[0, 1, 2]], [[0]], stored_fraction=0.0)
    ((3.0,), (1.0,))
    """
    order = order_of(paths, frames)
    if not 0 <= stored_fraction <= 1:
        raise InputError(f"stored fraction {stored_fraction:g}: give 0 to 1")
    free_at: dict[int, float] = {}
    arrived = [0.0] * len(paths)
    # (time at which it may begin on the link, hops so far, place in the order, transfer): links serve in this order.
    events = [(0.0, 0, place, i) for place, i in enumerate(order)]
    heapq.heapify(events)
    queues: dict[int, deque[tuple[int, int, int]]] = {}
    while events:
        time, hop, place, i = heapq.heappop(events)
        if hop < 0:
            waiting = queues[i]
            hop, place, i = waiting.popleft()
        else:
            waiting = queues.setdefault(paths[i][hop], deque())
            if waiting or free_at.get(paths[i][hop], 0.0) > time:
                if not waiting:
                    heapq.heappush(events, (free_at[paths[i][hop]], -1, place, paths[i][hop]))
                waiting.append((hop, place, i))
                continue
        link = paths[i][hop]
        free_at[link] = time + 1.0
        if waiting:
            heapq.heappush(events, (time + 1.0, -1, place, link))
        if hop + 1 < len(paths[i]):
            heapq.heappush(events, (time + stored_fraction, hop + 1, place, i))
        else:
            arrived[i] = time + 1.0
    return tuple(arrived)


def run_virtual_links(
    paths: Sequence[Sequence[int]], frames: Sequence[Sequence[int]], *, number: int
) -> WormholeRun:
    """``run_wormhole`` without barriers, each link parted into ``number`` virtual ones: so many messages hold it at
    once, whichever part is free, and share its rate evenly. With 1 it is ``run_wormhole``. InputError for less, or
    frames that miss a transfer.
    """
    order = order_of(paths, frames)
    if number < 1:
        raise InputError(f"{number} virtual links a link: give 1 or more")
    channels = [[(link, 0) for link in path] for path in paths]
    return _Wormhole(channels, None, random.Random(0), room=number).run([tuple(order)])
