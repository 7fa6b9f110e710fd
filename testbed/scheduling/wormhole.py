"""The duration of a sending order on a wormhole network, in virtual time.

In a wormhole network a message acquires its links hop by hop, keeps them while it waits, and each
link is granted to the waiting messages in turn. Deadlocks are found, and reported as the cycle of
transfers that wait for each other.

The module also has the hardware remedies for the congestion of such networks (Gabrielyan 2007,
sections 3.1.2 and 3.2.1). Links are divided into virtual ones (``run_virtual_links``), or switches
store blocked messages (``run_queues``). In the latter case a link carries one message at a time,
first come, first served, and a switch has room for every message that waits. A message continues
over its next link as soon as its head has arrived (cut-through), or when all of it has (store and
forward).
"""

import heapq
import itertools
import random
from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from testbed.errors import InputError

# A link and the number of its virtual channel.
Channel = tuple[int, int]

# Time frames that a transfer waits, while it keeps links, before it releases them (remedy
# "timeout").
TIMEOUT = 4.0

# The pause before the next attempt doubles at most this number of times.
_MAX_DOUBLINGS = 8


@dataclass(frozen=True, kw_only=True)
class Wait:
    """One step of a deadlock.

    Attributes:
        transfer: The transfer that waits.
        link: The link that it waits for.
        holder: The transfer that keeps this link.
    """

    transfer: int
    link: int
    holder: int


@dataclass(frozen=True, kw_only=True)
class WormholeRun:
    """The result of a run. A transfer that is alone takes 1 time frame.

    Attributes:
        duration: Time frames until everything is carried, or until the deadlock.
        finished: Time at which each transfer was carried, or None.
        deadlock: A cycle of transfers, each of which waits for a link of the next; empty if there
            is none.
        retries: Number of times that a transfer released its links and began again.
        channels: Number of virtual channels per link; 1 without virtual channels.
    """

    duration: float
    finished: tuple[float | None, ...]
    deadlock: tuple[Wait, ...] = ()
    retries: int = 0
    channels: int = 1


def order_of(paths: Sequence[Sequence[int]], frames: Sequence[Sequence[int]]) -> list[int]:
    """Return the transfers frame by frame.

    Raises:
        InputError: The frames do not have every transfer exactly once.
    """
    order = list(itertools.chain(*frames))
    if sorted(order) != list(range(len(paths))):
        raise InputError("frames: every transfer must be in exactly one frame")
    return order


def run_wormhole(
    paths: Sequence[Sequence[int]],
    frames: Sequence[Sequence[int]],
    *,
    barrier: bool,
    remedy: Literal["none", "timeout", "virtual-channels"] = "none",
    seed: int = 1,
) -> WormholeRun:
    """Carry transfers over a wormhole network.

    All transfers request their first link at the same time, in the order of the frames, so a sender
    sends its transfers in turn. A transfer requests its next link as soon as it has the previous
    one. It waits in the link's queue (first come, first served) and keeps the links that it has.
    Once it has all its links, it sends for 1 time frame and then releases them. Requests take no
    time, but all transfers that request at the same time take one link each before any of them
    takes its next one. The cost is O(hops log hops), except with the remedy "timeout".

    Args:
        paths: The links of each transfer in the order in which it crosses them.
        frames: The transfers of each frame.
        barrier: Let the transfers of a frame request their links only when the previous frame is
            completely carried.
        remedy: "timeout": a transfer that has waited TIMEOUT time frames while it kept links
            releases them, and begins again after a random pause that doubles each time.
            "virtual-channels": links have as many channels as are needed to make a cycle of waiting
            transfers impossible (see ``virtual_channels``). Transfers that send over the same link
            share its rate evenly.
        seed: Seed of the random pauses.

    Raises:
        InputError: The frames do not have every transfer exactly once.
    """
    order = order_of(paths, frames)
    channels: Sequence[Sequence[Channel]]
    if remedy == "virtual-channels":
        channels = virtual_channels(paths)
    else:
        channels = _single_channels(paths)
    waves = [tuple(frame) for frame in frames] if barrier else [tuple(order)]
    timeout = TIMEOUT if remedy == "timeout" else None
    rng = random.Random(f"wormhole {seed}")
    return _Wormhole(channels, timeout, rng).run(waves)


def _single_channels(paths: Sequence[Sequence[int]]) -> list[list[Channel]]:
    """Return the channels of each path if every link has only one."""
    channels = []
    for path in paths:
        channels.append([(link, 0) for link in path])
    return channels


class _Event(NamedTuple):
    """An event of the simulation; events are processed in the order of these fields.

    Attributes:
        time: Time in frames.
        step: Step within that time: requests at one time are served hop by hop.
        position: Position of the transfer in the sending order.
        kind: "asks" (for its next link), "finished" or "gives-up".
        transfer: The transfer.
        version: Version of the transfer's state. The event is outdated if the state has another.
    """

    time: float
    step: int
    position: int
    kind: str
    transfer: int
    version: int


class _Wormhole:
    """The state of one run.

    Args:
        channels: The channels of each transfer in the order in which it crosses them.
        timeout: Time after which a waiting transfer releases its links, or None.
        rng: Random generator of the pauses after a timeout.
        capacity: Number of transfers that can hold a channel at the same time.
    """

    def __init__(
        self,
        channels: Sequence[Sequence[Channel]],
        timeout: float | None,
        rng: random.Random,
        capacity: int = 1,
    ) -> None:
        transfers = len(channels)
        self._channels = channels
        self._timeout = timeout
        self._rng = rng
        self._capacity = capacity
        self._max_channel = 0
        for path in channels:
            for _, number in path:
                self._max_channel = max(self._max_channel, number)
        # Whether several transfers can send over a link at the same time.
        self._shared = capacity > 1 or self._max_channel > 0
        self._holders: dict[Channel, list[int]] = defaultdict(list)
        self._queues: dict[Channel, deque[int]] = {}
        # Number of channels that each transfer holds.
        self._hops = [0] * transfers
        # Part of each message that is left, and the rate and the time since which it is sent.
        self._remaining = [1.0] * transfers
        self._rate = [0.0] * transfers
        self._since = [0.0] * transfers
        self._version = [0] * transfers
        self._tries = [0] * transfers
        self._finished: list[float | None] = [None] * transfers
        # Transfers that send over each link, in the order in which they began.
        self._senders: dict[int, list[int]] = {}
        self._events: list[_Event] = []
        self._position = [0] * transfers
        self._step = 0
        self._now = 0.0
        self._retries = 0

    def run(self, waves: Sequence[Sequence[int]]) -> WormholeRun:
        """Carry the transfers, wave by wave, until the end or a deadlock."""
        for position, i in enumerate(itertools.chain(*waves)):
            self._position[i] = position
        for wave in waves:
            for i in wave:
                self._request(i)
            while self._events:
                self._next_event()
            if any(self._finished[i] is None for i in wave):
                return self._result(self._cycle(wave))
        return self._result(())

    def _result(self, deadlock: tuple[Wait, ...]) -> WormholeRun:
        return WormholeRun(
            duration=self._now,
            finished=tuple(self._finished),
            deadlock=deadlock,
            retries=self._retries,
            channels=self._capacity + self._max_channel,
        )

    def _next_event(self) -> None:
        """Process the next event, unless it is outdated."""
        event = heapq.heappop(self._events)
        if event.version != self._version[event.transfer]:
            return
        self._now = event.time
        self._step = event.step
        if event.kind == "finished":
            self._finish(event.transfer)
        elif event.kind == "gives-up":
            self._give_up(event.transfer)
        else:
            self._request(event.transfer)

    def _schedule(self, time: float, kind: str, i: int) -> None:
        step = self._step + 1 if time <= self._now else 0
        event = _Event(time, step, self._position[i], kind, i, self._version[i])
        heapq.heappush(self._events, event)

    def _request(self, i: int) -> None:
        """Request the next link of a transfer, or begin to send if it has all links.

        If the link is free, the transfer takes it, and requests the one after it behind all
        transfers that request now. Otherwise it waits.
        """
        path = self._channels[i]
        if self._hops[i] < len(path):
            channel = path[self._hops[i]]
            if len(self._holders[channel]) < self._capacity:
                self._grant(channel, i)
                return
            self._queues.setdefault(channel, deque()).append(i)
            if self._timeout is not None and self._hops[i]:
                self._schedule(self._now + self._timeout, "gives-up", i)
            return
        self._since[i] = self._now
        if not self._shared:
            self._schedule(self._now + self._remaining[i], "finished", i)
            return
        for link, _ in path:
            self._senders.setdefault(link, []).append(i)
        self._redistribute(i)

    def _grant(self, channel: Channel, i: int) -> None:
        self._holders[channel].append(i)
        self._hops[i] += 1
        self._version[i] += 1
        self._schedule(self._now, "asks", i)

    def _redistribute(self, changed: int) -> None:
        """Set the rates of all transfers that send over a link of the changed transfer.

        The rate of a transfer is an even share of its busiest link.
        """
        affected: dict[int, None] = {}
        for link, _ in self._channels[changed]:
            affected |= dict.fromkeys(self._senders.get(link, ()))
        for i in affected:
            rate = min(1.0 / len(self._senders[link]) for link, _ in self._channels[i])
            if rate != self._rate[i]:
                self._remaining[i] -= (self._now - self._since[i]) * self._rate[i]
                self._rate[i] = rate
                self._since[i] = self._now
                self._version[i] += 1
                remaining_s = max(self._remaining[i], 0.0) / rate
                self._schedule(self._now + remaining_s, "finished", i)

    def _finish(self, i: int) -> None:
        self._finished[i] = self._now
        self._version[i] += 1
        if self._shared:
            for link, _ in self._channels[i]:
                self._senders[link].remove(i)
            self._redistribute(i)
        self._release(i)

    def _give_up(self, i: int) -> None:
        """Release the links of a waiting transfer, and let it begin again after a pause."""
        self._queues[self._channels[i][self._hops[i]]].remove(i)
        self._version[i] += 1
        self._retries += 1
        self._tries[i] = min(self._tries[i] + 1, _MAX_DOUBLINGS)
        assert self._timeout is not None
        pause = self._rng.uniform(0.0, self._timeout * 2 ** self._tries[i])
        self._schedule(self._now + pause, "asks", i)
        self._release(i)

    def _release(self, i: int) -> None:
        """Release all links of a transfer, and grant each to the first transfer in its queue."""
        released = self._channels[i][: self._hops[i]]
        self._hops[i] = 0
        for channel in released:
            self._holders[channel].remove(i)
        for channel in released:
            queue = self._queues.get(channel)
            if queue and len(self._holders[channel]) < self._capacity:
                self._grant(channel, queue.popleft())

    def _cycle(self, wave: Sequence[int]) -> tuple[Wait, ...]:
        """Return a cycle of transfers that wait for each other.

        Begin with any waiting transfer, and follow the holders until one appears again.
        """
        waiting = [i for i in wave if self._finished[i] is None]
        i = next(i for i in waiting if self._hops[i] < len(self._channels[i]))
        steps_before: dict[int, int] = {}
        waits: list[Wait] = []
        while i not in steps_before:
            steps_before[i] = len(waits)
            channel = self._channels[i][self._hops[i]]
            holder = self._holders[channel][0]
            waits.append(Wait(transfer=i, link=channel[0], holder=holder))
            i = holder
        return tuple(waits[steps_before[i] :])


def virtual_channels(paths: Sequence[Sequence[int]]) -> tuple[tuple[Channel, ...], ...]:
    """Return the channels of each path that make a deadlock impossible.

    All links have one common order. A path begins with channel 0, and uses the next higher channel
    whenever it goes against this order. Since the pair (channel, position of the link in the order)
    only rises along a path, no cycle of waiting transfers is possible. The order follows the paths
    as far as they have no cycle: a ring needs 2 channels, paths without cycles need 1.
    """
    position = {link: i for i, link in enumerate(_links_in_order(paths))}
    channels_of_paths = []
    for path in paths:
        number = 0
        channels: list[Channel] = []
        for i, link in enumerate(path):
            if i > 0 and position[link] < position[path[i - 1]]:
                number += 1
            channels.append((link, number))
        channels_of_paths.append(tuple(channels))
    return tuple(channels_of_paths)


def _links_in_order(paths: Sequence[Sequence[int]]) -> list[int]:
    """Return all links in topological order as far as the paths have no cycle."""
    import networkx as nx  # Imported here, because only this remedy needs it.

    next_links = nx.DiGraph()
    for path in paths:
        nx.add_path(next_links, path)
    return list(nx.dfs_postorder_nodes(next_links))[::-1]


class _Arrival(NamedTuple):
    """A message at a link; links serve messages in the order of these fields.

    Attributes:
        time: Earliest time at which the message can begin on the link, or at which the link is
            free.
        hop: Number of links that the message has crossed; -1 if the link is free and serves the
            first message of its queue.
        position: Position of the transfer in the sending order.
        number: Number of the transfer, or of the link if ``hop`` is -1.
    """

    time: float
    hop: int
    position: int
    number: int


def run_queues(
    paths: Sequence[Sequence[int]], frames: Sequence[Sequence[int]], *, stored_fraction: float
) -> tuple[float, ...]:
    """Return the arrival time of each transfer in a network whose switches store messages.

    All transfers wait at their first link from the beginning, in the order of the frames. The cost
    is O(hops log hops).

    Args:
        paths: The links of each transfer in the order in which it crosses them.
        frames: The transfers of each frame.
        stored_fraction: Part of a message that must be in a switch before the message continues: 0
            for cut-through, 1 for store and forward of complete messages, 1 / n for n packets
            (which then stay together).

    Raises:
        InputError: The frames do not have every transfer exactly once, or the fraction is outside 0
            to 1.

    >>> run_queues([[0, 1, 2]], [[0]], stored_fraction=1.0)
    (3.0,)
    >>> run_queues([[0, 1, 2]], [[0]], stored_fraction=0.0)
    (1.0,)
    """
    order = order_of(paths, frames)
    if not 0 <= stored_fraction <= 1:
        raise InputError(f"stored fraction {stored_fraction:g}: give 0 to 1")
    free_at: dict[int, float] = {}
    arrived = [0.0] * len(paths)
    events = [_Arrival(0.0, 0, position, i) for position, i in enumerate(order)]
    heapq.heapify(events)
    # Waiting messages of each link: hop, position and transfer.
    queues: dict[int, deque[tuple[int, int, int]]] = {}
    while events:
        time, hop, position, i = heapq.heappop(events)
        if hop < 0:
            queue = queues[i]
            hop, position, i = queue.popleft()
        else:
            link = paths[i][hop]
            queue = queues.setdefault(link, deque())
            if queue or free_at.get(link, 0.0) > time:
                if not queue:
                    heapq.heappush(events, _Arrival(free_at[link], -1, position, link))
                queue.append((hop, position, i))
                continue
        link = paths[i][hop]
        free_at[link] = time + 1.0
        if queue:
            heapq.heappush(events, _Arrival(time + 1.0, -1, position, link))
        if hop + 1 < len(paths[i]):
            heapq.heappush(events, _Arrival(time + stored_fraction, hop + 1, position, i))
        else:
            arrived[i] = time + 1.0
    return tuple(arrived)


def run_virtual_links(
    paths: Sequence[Sequence[int]], frames: Sequence[Sequence[int]], *, number: int
) -> WormholeRun:
    """Run ``run_wormhole`` without barriers, with each link divided into virtual links.

    Up to ``number`` messages hold a link at the same time and share its rate evenly. With 1 this is
    ``run_wormhole``.

    Args:
        paths: The links of each transfer in the order in which it crosses them.
        frames: The transfers of each frame.
        number: Number of virtual links of each link.

    Raises:
        InputError: The number is below 1, or the frames do not have every transfer exactly once.
    """
    order = order_of(paths, frames)
    if number < 1:
        raise InputError(f"{number} virtual links per link: give 1 or more")
    # Nothing is random without timeouts.
    rng = random.Random(0)
    return _Wormhole(_single_channels(paths), None, rng, capacity=number).run([tuple(order)])
