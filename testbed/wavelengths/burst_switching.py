"""Simulates optical burst switching in virtual time.

Bursts wait in the buffers of edge routers until a strategy sends them: repeated liquid schedules,
or greedy reservations. The simulation calls the strategy for each burst that arrives, and asks it
in each slot which bursts leave. The simulation keeps the buffers and the counters.

Source: Gabrielyan 2007, 3.2.2 ("the filled buffers of the edge nodes are repeatedly emptied by
applying liquid scheduling").
"""

import functools
import itertools
import math
import operator
from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from testbed.errors import InputError
from testbed.scheduling.fast.packing import pack
from testbed.wavelengths.assignment import all_to_all, lightpaths_between, optical_end_points
from testbed.wavelengths.plan import Switching
from topologies import Network


class Reservations:
    """The wavelengths of each fibre that are reserved in each slot.

    Args:
        paths: The fibres of each pair's lightpath, as indices.
        wavelengths: Number of wavelengths of each fibre.
        converting: Whether a path may have a different wavelength on each fibre.
    """

    def __init__(
        self, paths: Sequence[Sequence[int]], wavelengths: int, *, converting: bool
    ) -> None:
        self._paths = paths
        # Sets of wavelengths are stored as bits.
        self._all_wavelengths = (1 << wavelengths) - 1
        self._converting = converting
        self._reserved: defaultdict[int, dict[int, int]] = defaultdict(dict)

    def forget(self, slot: int) -> None:
        """Remove the reservations of a past slot."""
        self._reserved.pop(slot, None)

    def reserve(self, pair: int, slot: int, latest: float = math.inf) -> int | None:
        """Reserve the lowest free wavelength along a lightpath, in the first possible slot.

        Args:
            pair: Index of the pair.
            slot: First slot to try.
            latest: Last slot to try, by default without limit.

        Returns:
            The slot, or None if no slot up to ``latest`` has a free wavelength.
        """
        path = self._paths[pair]
        while slot <= latest:
            reserved = self._reserved[slot]
            masks = [reserved.get(link, 0) for link in path]
            if not self._converting:
                reserved_on_any = functools.reduce(operator.or_, masks)
                masks = [reserved_on_any] * len(path)
            if self._all_wavelengths not in masks:
                for link, mask in zip(path, masks, strict=True):
                    lowest_free = ~mask & (mask + 1)
                    reserved[link] = reserved.get(link, 0) | lowest_free
                return slot
            slot += 1
        return None


# Number of steps of the search (``pack``) for each schedule. A rolling schedule is computed in
# every slot, and therefore with fewer steps.
_CYCLE_STEPS = 1_000
_ROLLING_STEPS = 200
# The pair of a burst, and the slot in which it arrived.
Burst = tuple[int, int]
Paths = Sequence[Sequence[int]]


def fewest_rounds(
    paths: Paths, wavelengths: int, *, converting: bool, seed: int = 1, steps: int = _CYCLE_STEPS
) -> list[list[list[int]]]:
    """Divide paths into as few rounds as the search finds.

    A round consists of W frames, one per wavelength. The paths of a frame share no link. With
    conversion, a round is one frame, in which at most W paths share a link. The search (``pack``)
    begins with the lower bound on the number of rounds: the load of the most loaded link over W,
    rounded up. Any W frames can form a round. The frames with the most paths form the
    first rounds.

    Args:
        paths: The links of each path.
        wavelengths: Number of wavelengths of each fibre (W).
        converting: Whether a path may have a different wavelength on each link.
        seed: Seed of the search.
        steps: Number of steps for each number of rounds.

    Returns:
        For each round and each of its frames, the indices of the paths.
    """
    load: Counter[int] = Counter()
    for path in paths:
        load.update(path)
    rounds = -(-max(load.values()) // wavelengths)
    frames_per_round = 1 if converting else wavelengths
    capacity = wavelengths // frames_per_round
    while True:
        frame_of_path = pack(paths, rounds * frames_per_round, capacity, seed=seed, steps=steps)
        if frame_of_path is not None:
            break
        rounds += 1
    frames: list[list[int]] = [[] for _ in range(rounds * frames_per_round)]
    for i, number in enumerate(frame_of_path):
        frames[number].append(i)
    frames.sort(key=len, reverse=True)
    # If the first frame of a round is empty, all frames after it are empty too.
    return [
        frames[begin : begin + frames_per_round]
        for begin in range(0, len(frames), frames_per_round)
        if frames[begin]
    ]


class _Liquid:
    """The common part of the strategies with liquid schedules.

    Args:
        paths: The fibres of each pair's lightpath.
        wavelengths: Number of wavelengths of each fibre.
        converting: Whether a path may have a different wavelength on each fibre.
        known_after: Signalling delay, in slots. A burst that arrives in slot a can leave in slot
            a + 1 + ``known_after`` at the earliest.
        seed: Seed of the schedules.

    Attributes:
        cycles: Number of rounds of each schedule so far.
    """

    def __init__(
        self, paths: Paths, wavelengths: int, *, converting: bool, known_after: int, seed: int
    ) -> None:
        self._paths = paths
        self._wavelengths = wavelengths
        self._converting = converting
        self._known_after = known_after
        self._seed = seed
        # Bursts that the scheduler does not know yet, and bursts that it has not scheduled yet.
        self._unknown: deque[Burst] = deque()
        self._pending: list[Burst] = []
        self.cycles: list[int] = []

    def arrive(self, pair: int, slot: int) -> bool:
        """Accept a burst; the strategy never loses one."""
        self._unknown.append((pair, slot))
        return True

    def _schedule(self, slot: int, steps: int) -> list[list[list[int]]]:
        """Return the rounds of a new schedule, of all pending bursts that are known in this slot.

        Args:
            slot: The slot.
            steps: Number of steps of the search.

        Returns:
            For each round and each of its frames, the indices of bursts in ``_pending``.
        """
        while self._unknown and self._unknown[0][1] < slot - self._known_after:
            self._pending.append(self._unknown.popleft())
        if not self._pending:
            return []
        rounds = fewest_rounds(
            self._pending_paths(),
            self._wavelengths,
            converting=self._converting,
            # Each schedule has another seed.
            seed=self._seed + len(self.cycles),
            steps=steps,
        )
        self.cycles.append(len(rounds))
        return rounds

    def _pending_paths(self) -> list[Sequence[int]]:
        return [self._paths[pair] for pair, _ in self._pending]


class LiquidCycles(_Liquid):
    """Liquid schedules in cycles, as in the thesis.

    The bursts that are known when a cycle begins are sent by a liquid schedule; then the next cycle
    begins. The fullest frames come first. Bursts of a pair are sent in the order of their arrival.
    """

    def __init__(
        self, paths: Paths, wavelengths: int, *, converting: bool, known_after: int, seed: int
    ) -> None:
        super().__init__(
            paths, wavelengths, converting=converting, known_after=known_after, seed=seed
        )
        # The bursts of the rounds of the current cycle that are still to be sent.
        self._rounds: deque[list[Burst]] = deque()

    def leaving(self, slot: int) -> Sequence[Burst]:
        """Return the bursts that leave in a slot."""
        if not self._rounds:
            pairs_by_round = []
            for frames in self._schedule(slot, _CYCLE_STEPS):
                indices = itertools.chain.from_iterable(frames)
                pairs_by_round.append(Counter(self._pending[i][0] for i in indices))
            # Removing bursts changes the indices, so all rounds have been counted before.
            for count_by_pair in pairs_by_round:
                self._rounds.append(_take_oldest(self._pending, count_by_pair))
        return self._rounds.popleft() if self._rounds else ()


class RollingLiquid(_Liquid):
    """A new liquid schedule in every slot, of which only the first round is sent.

    No burst waits for the end of a schedule that was computed before it arrived. The round consists
    of the fullest frames. It is filled up with bursts of later rounds that still fit, the oldest
    first.
    """

    def leaving(self, slot: int) -> Sequence[Burst]:
        """Return the bursts that leave in a slot."""
        rounds = self._schedule(slot, _ROLLING_STEPS)
        if not rounds:
            return ()
        capacity = self._wavelengths if self._converting else 1
        indices = _filled_up(rounds[0], self._pending_paths(), capacity=capacity)
        count_by_pair = Counter(self._pending[i][0] for i in indices)
        return _take_oldest(self._pending, count_by_pair)


def _filled_up(frames: Sequence[Sequence[int]], paths: Paths, *, capacity: int) -> list[int]:
    """Add paths to the frames of a round as long as they fit.

    Args:
        frames: The indices of the paths in each frame.
        paths: The links of all paths, in the order in which they are tried.
        capacity: Number of paths over a link in a frame.

    Returns:
        The indices of all paths in the round.
    """
    loads: list[Counter[int]] = []
    chosen: set[int] = set()
    for frame in frames:
        load: Counter[int] = Counter()
        for i in frame:
            load.update(paths[i])
        loads.append(load)
        chosen.update(frame)
    for i, path in enumerate(paths):
        if i in chosen:
            continue
        for load in loads:
            if all(load[link] < capacity for link in path):
                load.update(path)
                chosen.add(i)
                break
    return sorted(chosen)


class Greedy:
    """Reserves a slot and wavelengths for each burst when it arrives, by first fit.

    Each reservation takes all earlier ones into account.

    Args:
        paths: The fibres of each pair's lightpath.
        wavelengths: Number of wavelengths of each fibre.
        converting: Whether a path may have a different wavelength on each fibre.
        known_after: Signalling delay, in slots. A burst that arrives in slot a can leave in slot
            a + 1 + ``known_after`` at the earliest.
        drops: Whether a burst is lost if no wavelength is free in the first possible slot (JET
            without buffers). Otherwise it waits for the first slot with a free wavelength, gaps
            between reservations included.

    Attributes:
        cycles: Always empty; see ``Dispatcher``.
    """

    def __init__(
        self, paths: Paths, wavelengths: int, *, converting: bool, known_after: int, drops: bool
    ) -> None:
        self._lead_slots = 1 + known_after
        self._drops = drops
        self._reservations = Reservations(paths, wavelengths, converting=converting)
        self._departures: defaultdict[int, list[Burst]] = defaultdict(list)
        self.cycles: list[int] = []

    def arrive(self, pair: int, slot: int) -> bool:
        """Reserve a slot for a burst, and return whether that was possible."""
        first = slot + self._lead_slots
        latest = first if self._drops else math.inf
        departure = self._reservations.reserve(pair, first, latest)
        if departure is None:
            return False
        self._departures[departure].append((pair, slot))
        return True

    def leaving(self, slot: int) -> Sequence[Burst]:
        """Return the bursts that leave in a slot."""
        self._reservations.forget(slot)
        return self._departures.pop(slot, ())


# A strategy. ``arrive`` is called for each burst with its pair and slot, and returns False if the
# strategy loses the burst. A burst that arrives in slot a leaves in slot a + 1 + known_after at the
# earliest. ``leaving`` returns the bursts that are sent in a slot; it is called once in each slot,
# before the arrivals of the slot. ``cycles`` has the number of rounds of each liquid schedule.
Dispatcher = LiquidCycles | RollingLiquid | Greedy


def _take_oldest(bursts: list[Burst], count_by_pair: Counter[int]) -> list[Burst]:
    """Remove the oldest bursts of each pair from a list, and return them.

    Args:
        bursts: The list, in the order of arrival.
        count_by_pair: Number of bursts of each pair to remove. The function counts it down.
    """
    taken = []
    remaining = []
    for burst in bursts:
        pair, _ = burst
        if count_by_pair[pair] > 0:
            count_by_pair[pair] -= 1
            taken.append(burst)
        else:
            remaining.append(burst)
    bursts[:] = remaining
    return taken


# "liquid" carries out each liquid schedule to its end; "liquid-rolling" computes one in each slot.
# The greedy strategies treat each burst by itself: "greedy-defer" sends it in the earliest slot
# with a free wavelength; "greedy-drop" sends it in the next slot or loses it.
Strategy = Literal["liquid", "liquid-rolling", "greedy-defer", "greedy-drop"]
STRATEGIES: tuple[Strategy, ...] = get_args(Strategy)


@dataclass(frozen=True, kw_only=True)
class BurstCloud:
    """An optical cloud with one lightpath for each pair of edge routers.

    Attributes:
        paths: The fibres of each pair's lightpath, as indices of links.
        sources: The index of the edge router that sends, for each pair.
        wavelengths: Number of wavelengths of each fibre.
        switching: "wixc" if cross-connects can change the wavelength of a lightpath, else "wsxc".
    """

    paths: tuple[tuple[int, ...], ...]
    sources: tuple[int, ...]
    wavelengths: int
    switching: Switching

    @property
    def bottleneck_load(self) -> int:
        """The number of pairs over the most loaded fibre."""
        load = Counter(itertools.chain.from_iterable(self.paths))
        return max(load.values())


def optical_cloud_of(network: Network, *, wavelengths: int, switching: Switching) -> BurstCloud:
    """Return the cloud of all ordered pairs of a network's edge routers, over its static routes.

    If the network has no edge routers, its end points are taken.

    Args:
        network: The network.
        wavelengths: Number of wavelengths of each fibre.
        switching: "wixc" if cross-connects can change the wavelength of a lightpath, else "wsxc".
    """
    index_of_end = {end: i for i, end in enumerate(optical_end_points(network))}
    paths = []
    sources = []
    for lightpath in lightpaths_between(network, all_to_all(network)):
        paths.append(tuple(network.link_index[link] for link in lightpath.links))
        sources.append(index_of_end[lightpath.source])
    return BurstCloud(
        paths=tuple(paths),
        sources=tuple(sources),
        wavelengths=wavelengths,
        switching=switching,
    )


@dataclass(frozen=True, kw_only=True)
class BurstTraffic:
    """Bursts that arrive as a Poisson process, with the same rate for every pair.

    Each burst lasts one slot.

    Attributes:
        load: Offered load of the most loaded fibre. At 1, the bursts would occupy all of its
            wavelengths in all slots.
        slots: Number of slots.
        warm_up_slots: Number of slots at the beginning that are not counted.
        signalling_slots: A burst that arrives in slot a can leave in slot
            a + 1 + ``signalling_slots`` at the earliest, whatever the strategy.
        buffer_bursts: Size of an edge router's buffer, in bursts. Bursts that do not fit are lost.
        seed: Seed of the arrivals.

    Raises:
        InputError: A value is out of range.
    """

    load: float
    slots: int = 2000
    warm_up_slots: int = 200
    signalling_slots: int = 1
    buffer_bursts: int = 400
    seed: int = 1

    def __post_init__(self) -> None:
        if not 0 < self.load <= 10:
            raise InputError(
                f"load {self.load}: give more than 0, 1 being what the bottleneck can carry"
            )
        if not 0 <= self.warm_up_slots < self.slots:
            raise InputError(
                f"{self.slots} slots with a warm-up of {self.warm_up_slots}: nothing would be"
                " counted"
            )
        if self.buffer_bursts < 1 or self.signalling_slots < 0:
            raise InputError("give buffers of 1 burst or more and 0 or more slots of signalling")


@dataclass(frozen=True, kw_only=True)
class BurstResult:
    """The results of a strategy after the warm-up. Delays are in slots.

    A delay lasts from the arrival of a burst until its last bit has been sent.

    Attributes:
        offered: Bursts that arrived.
        carried: Bursts that were sent, those that arrived earlier included.
        blocked: Bursts that were lost because no wavelength was free.
        overflowed: Bursts that were lost because a buffer was full.
        backlog: Bursts in all buffers at the end.
        throughput: ``carried`` over ``offered``.
        loss: Lost bursts over ``offered``.
        mean_delay_slots: Mean delay, or None if no burst was sent.
        p99_delay_slots: 99th percentile of the delay, or None if no burst was sent.
        waiting: Mean number of bursts in all buffers.
        fullest: Largest number of bursts in one buffer.
        utilisation: Fraction of the wavelengths and slots of the most used fibre that carry bursts.
        cycle_slots: Mean length of a liquid schedule, or None if there is none.
    """

    offered: int
    carried: int
    blocked: int
    overflowed: int
    backlog: int
    throughput: float
    loss: float
    mean_delay_slots: float | None
    p99_delay_slots: float | None
    waiting: float
    fullest: int
    utilisation: float
    cycle_slots: float | None


def simulate_bursts(cloud: BurstCloud, traffic: BurstTraffic, strategy: Strategy) -> BurstResult:
    """Simulate the traffic over a cloud under one strategy.

    With the same seed, all strategies get the same arrivals. The time is O(slots * bursts in a slot
    * W * length of a path).

    Raises:
        InputError: The strategy is unknown.
    """
    if strategy not in STRATEGIES:
        raise InputError(f"strategy {strategy!r} is unknown; there are {', '.join(STRATEGIES)}")
    return _Simulation(cloud, traffic, dispatcher_of(cloud, traffic, strategy)).run()


def dispatcher_of(cloud: BurstCloud, traffic: BurstTraffic, strategy: Strategy) -> Dispatcher:
    """Return a new dispatcher for a strategy."""
    converting = cloud.switching == "wixc"
    known_after = traffic.signalling_slots
    if strategy in ("liquid", "liquid-rolling"):
        dispatcher_class = LiquidCycles if strategy == "liquid" else RollingLiquid
        return dispatcher_class(
            cloud.paths,
            cloud.wavelengths,
            converting=converting,
            known_after=known_after,
            seed=traffic.seed,
        )
    return Greedy(
        cloud.paths,
        cloud.wavelengths,
        converting=converting,
        known_after=known_after,
        drops=strategy == "greedy-drop",
    )


class _Simulation:
    """One simulation. In each slot, bursts leave first; then the arrivals of the slot come."""

    def __init__(self, cloud: BurstCloud, traffic: BurstTraffic, dispatcher: Dispatcher) -> None:
        self._cloud = cloud
        self._traffic = traffic
        self._dispatcher = dispatcher
        # The number of bursts in the buffer of each router.
        self._in_buffer = [0] * (1 + max(cloud.sources))
        # The counters below leave out the warm-up.
        self._bursts_on_fibre: Counter[int] = Counter()
        self._delays: list[float] = []
        self._offered = 0
        self._blocked = 0
        self._overflowed = 0
        self._waiting_sum = 0
        self._fullest = 0

    def run(self) -> BurstResult:
        """Simulate all slots, and return the results."""
        for slot, pairs in enumerate(_arrivals(self._cloud, self._traffic)):
            is_counted = slot >= self._traffic.warm_up_slots
            self._send(slot, is_counted)
            for pair in pairs:
                self._accept(pair, slot, is_counted)
            if is_counted:
                self._waiting_sum += sum(self._in_buffer)
                self._fullest = max(self._fullest, *self._in_buffer)
        return self._result()

    def _send(self, slot: int, is_counted: bool) -> None:
        """Send the bursts that leave in a slot."""
        for pair, arrival_slot in self._dispatcher.leaving(slot):
            self._in_buffer[self._cloud.sources[pair]] -= 1
            if is_counted:
                # Arrivals are spread evenly over their slot: half a slot on average.
                self._delays.append(slot + 1 - (arrival_slot + 0.5))
                self._bursts_on_fibre.update(self._cloud.paths[pair])

    def _accept(self, pair: int, slot: int, is_counted: bool) -> None:
        """Put a burst that has arrived into the buffer of its router, or lose it."""
        source = self._cloud.sources[pair]
        is_full = self._in_buffer[source] >= self._traffic.buffer_bursts
        # A burst without a buffer is not offered to the strategy.
        is_accepted = not is_full and self._dispatcher.arrive(pair, slot)
        if is_accepted:
            self._in_buffer[source] += 1
        if is_counted:
            self._offered += 1
            if is_full:
                self._overflowed += 1
            elif not is_accepted:
                self._blocked += 1

    def _result(self) -> BurstResult:
        slots = self._traffic.slots - self._traffic.warm_up_slots
        carried = len(self._delays)
        throughput = 0.0
        loss = 0.0
        if self._offered:
            throughput = carried / self._offered
            loss = (self._overflowed + self._blocked) / self._offered
        mean_delay: float | None = None
        p99_delay: float | None = None
        if self._delays:
            mean_delay = float(np.mean(self._delays))
            p99_delay = float(np.percentile(self._delays, 99))
        cycles = self._dispatcher.cycles
        max_bursts = max(self._bursts_on_fibre.values(), default=0)
        return BurstResult(
            offered=self._offered,
            carried=carried,
            blocked=self._blocked,
            overflowed=self._overflowed,
            backlog=sum(self._in_buffer),
            throughput=throughput,
            loss=loss,
            mean_delay_slots=mean_delay,
            p99_delay_slots=p99_delay,
            waiting=self._waiting_sum / slots,
            fullest=self._fullest,
            utilisation=max_bursts / (slots * self._cloud.wavelengths),
            cycle_slots=float(np.mean(cycles)) if cycles else None,
        )


def _arrivals(cloud: BurstCloud, traffic: BurstTraffic) -> Iterator[list[int]]:
    """Yield the pairs of the bursts that arrive in each slot, in random order."""
    rng = np.random.default_rng(traffic.seed)
    mean = traffic.load * cloud.wavelengths / cloud.bottleneck_load
    pairs = np.arange(len(cloud.paths))
    for _ in range(traffic.slots):
        bursts = np.repeat(pairs, rng.poisson(mean, len(pairs)))
        rng.shuffle(bursts)
        yield bursts.tolist()
