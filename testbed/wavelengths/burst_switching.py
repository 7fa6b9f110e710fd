"""Optical burst switching in virtual time: edge routers fill buffers with bursts, repeated liquid schedules or greedy
ones empty them.

A strategy is handed the arrivals and asked, slot by slot, what leaves; it holds no buffers and counts nothing.

Source: Gabrielyan 2007, 3.2.2 ("the filled buffers of the edge nodes are repeatedly emptied by applying liquid
scheduling").
"""

import functools
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
    """Which wavelengths of each fibre are taken in each slot, as bits.

    ``converting``: a path takes any wavelength on each fibre; else one on all of them.
    """

    def __init__(
        self, paths: Sequence[Sequence[int]], wavelengths: int, *, converting: bool
    ) -> None:
        self._paths, self._all, self._converting = paths, (1 << wavelengths) - 1, converting
        self._slots: defaultdict[int, dict[int, int]] = defaultdict(dict)

    def forget(self, slot: int) -> None:
        """The slot is over."""
        self._slots.pop(slot, None)

    def reserve(self, pair: int, slot: int, latest: float = math.inf) -> int | None:
        """Reserve the first slot from ``slot`` on, the lowest wavelength in it; None where none up to ``latest`` is
        free."""
        path = self._paths[pair]
        while slot <= latest:
            taken = self._slots[slot]
            masks = [taken.get(link, 0) for link in path]
            if not self._converting:
                masks = [functools.reduce(operator.or_, masks)] * len(path)
            if self._all not in masks:
                for link, mask in zip(path, masks, strict=True):
                    taken[link] = taken.get(link, 0) | (~mask & (mask + 1))
                return slot
            slot += 1
        return None


_CYCLE_STEPS, _ROLLING_STEPS = 1_000, 200
Burst = tuple[int, int]
"""(pair, slot in which it arrived)."""
Paths = Sequence[Sequence[int]]


def fewest_rounds(
    paths: Paths, wavelengths: int, *, converting: bool, seed: int = 1, steps: int = _CYCLE_STEPS
) -> list[list[list[int]]]:
    """Rounds of frames of indices into ``paths``, as few rounds as packing finds from the bound (load over W) upwards.

    A round has W frames of paths that share no link; with conversion one, in which every link has at most W paths. The
    fullest frames come first: any frame may be exchanged for one of another round.
    """
    load = Counter(link for path in paths for link in path)
    count, width = -(-max(load.values()) // wavelengths), 1 if converting else wavelengths
    while (
        placed := pack(paths, count * width, wavelengths // width, seed=seed, steps=steps)
    ) is None:
        count += 1
    frames: list[list[int]] = [[] for _ in range(count * width)]
    for path, number in enumerate(placed):
        frames[number].append(path)
    frames.sort(key=lambda frame: -len(frame))
    return [frames[k : k + width] for k in range(0, len(frames), width) if frames[k]]


class _Liquid:
    """``cycles``: rounds of each schedule."""

    def __init__(
        self, paths: Paths, wavelengths: int, *, converting: bool, known_after: int, seed: int
    ) -> None:
        self._paths, self._wavelengths, self._converting = paths, wavelengths, converting
        self._known_after, self._seed = known_after, seed
        self._waiting: deque[Burst] = deque()
        self._left: list[Burst] = []
        self._rounds: deque[list[Burst]] = deque()
        self.cycles: list[int] = []

    def arrive(self, pair: int, slot: int) -> bool:
        self._waiting.append((pair, slot))
        return True

    def _rounds_left(self, slot: int, steps: int) -> list[list[list[int]]]:
        """Rounds of frames of places in ``_left``, the bursts known by now that no schedule has sent."""
        while self._waiting and self._waiting[0][1] < slot - self._known_after:
            self._left.append(self._waiting.popleft())
        if not self._left:
            return []
        paths, seed = [self._paths[pair] for pair, _ in self._left], self._seed + len(self.cycles)
        rounds = fewest_rounds(
            paths, self._wavelengths, converting=self._converting, seed=seed, steps=steps
        )
        self.cycles.append(len(rounds))
        return rounds


class LiquidCycles(_Liquid):
    """Cycles as the thesis has them: the bursts known when a cycle begins are sent in a liquid schedule, then the next
    begins.

    The fullest frames go first; bursts of a pair in the order of their arrival.
    """

    def leaving(self, slot: int) -> Sequence[Burst]:
        if not self._rounds:
            lit = [
                [i for frame in frames for i in frame]
                for frames in self._rounds_left(slot, _CYCLE_STEPS)
            ]
            sent = [Counter(self._left[i][0] for i in own) for own in lit]
            self._rounds.extend(_take_oldest(self._left, own) for own in sent)
        return self._rounds.popleft() if self._rounds else ()


class RollingLiquid(_Liquid):
    """A liquid schedule of everything known is computed again in every slot; only its fullest frames are sent, and
    topped up.

    No burst waits for the end of a schedule that was made before it came. Topping up: of the bursts in later frames,
    those that still fit go too, oldest first.
    """

    def leaving(self, slot: int) -> Sequence[Burst]:
        rounds = self._rounds_left(slot, _ROLLING_STEPS)
        if not rounds:
            return ()
        paths = [self._paths[pair] for pair, _ in self._left]
        chosen = _topped_up(rounds[0], paths, capacity=self._wavelengths if self._converting else 1)
        return _take_oldest(self._left, Counter(self._left[i][0] for i in chosen))


def _topped_up(frames: Sequence[Sequence[int]], paths: Paths, *, capacity: int) -> list[int]:
    """The paths of the frames, and of all others those that still fit into one of them, in their order."""
    loads = [Counter(link for i in frame for link in paths[i]) for frame in frames]
    chosen = {i for frame in frames for i in frame}
    for i, path in enumerate(paths):
        if i not in chosen:
            for load in loads:
                if all(load[link] < capacity for link in path):
                    load.update(path)
                    chosen.add(i)
                    break
    return sorted(chosen)


class Greedy:
    """Every burst by itself, when it comes: first fit over slots, then wavelengths, all reservations made so far being
    known.

    ``drops``: only the first slot that can be had is tried, and the burst is lost where no wavelength is free in it
    (JET without buffers); else it waits for the first slot that has one, gaps between reservations included.
    """

    def __init__(
        self, paths: Paths, wavelengths: int, *, converting: bool, known_after: int, drops: bool
    ) -> None:
        self._lead, self._drops = 1 + known_after, drops
        self._reservations = Reservations(paths, wavelengths, converting=converting)
        self._departures: defaultdict[int, list[Burst]] = defaultdict(list)
        self.cycles: list[int] = []

    def arrive(self, pair: int, slot: int) -> bool:
        first = slot + self._lead
        chosen = self._reservations.reserve(pair, first, first if self._drops else math.inf)
        if chosen is not None:
            self._departures[chosen].append((pair, slot))
        return chosen is not None

    def leaving(self, slot: int) -> Sequence[Burst]:
        self._reservations.forget(slot)
        return self._departures.pop(slot, ())


Dispatcher = LiquidCycles | RollingLiquid | Greedy
"""A strategy. ``arrive``: a burst of that pair came in that slot; False where the strategy loses it. It leaves in slot
a + 1 + ``known_after`` at the earliest. ``leaving``: the bursts that are sent in this slot; called once a slot, before
the slot's arrivals. ``cycles``: rounds of each liquid schedule."""


def _take_oldest(bursts: list[Burst], required: Counter[int]) -> list[Burst]:
    """Take so many bursts of each pair out of the list, those that came first."""
    taken, left = [], []
    for burst in bursts:
        if required[burst[0]] > 0:
            required[burst[0]] -= 1
            taken.append(burst)
        else:
            left.append(burst)
    bursts[:] = left
    return taken


Strategy = Literal["liquid", "liquid-rolling", "greedy-defer", "greedy-drop"]
STRATEGIES: tuple[Strategy, ...] = get_args(Strategy)
"""Liquid schedules, each carried out to its end or begun again in every slot; each burst by itself, first fit: to the
earliest slot with a free wavelength, or to the next slot or lost."""


@dataclass(frozen=True, kw_only=True)
class BurstCloud:
    """Pairs of edge routers: ``paths`` the fibres (numbers) of each pair's lightpath, ``sources`` the router that
    sends."""

    paths: tuple[tuple[int, ...], ...]
    sources: tuple[int, ...]
    wavelengths: int
    switching: Switching

    @property
    def bottleneck_load(self) -> int:
        """Pairs over the most loaded fibre."""
        return max(Counter(link for path in self.paths for link in path).values())


def optical_cloud_of(network: Network, *, wavelengths: int, switching: Switching) -> BurstCloud:
    """Every ordered pair of the network's edge routers (end points where it has none), over its static routes."""
    ends = {end: i for i, end in enumerate(optical_end_points(network))}
    paths = lightpaths_between(network, all_to_all(network))
    return BurstCloud(
        paths=tuple(tuple(network.link_index[link] for link in path.links) for path in paths),
        sources=tuple(ends[path.source] for path in paths),
        wavelengths=wavelengths,
        switching=switching,
    )


@dataclass(frozen=True, kw_only=True)
class BurstTraffic:
    """Bursts of one slot each arrive at random (Poisson), equally many for every pair.

    ``load``: offered load of the most loaded fibre, 1 being all of its wavelengths in all slots. A burst that arrives
    in slot a can leave in slot a + 1 + ``signalling_slots`` at the earliest, whatever the strategy. ``buffer_bursts``:
    an edge router holds so many waiting bursts; more are lost. What happens in the first ``warm_up_slots`` is not
    counted.
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
                f"{self.slots} slots with a warm-up of {self.warm_up_slots}: nothing would be counted"
            )
        if self.buffer_bursts < 1 or self.signalling_slots < 0:
            raise InputError("give buffers of 1 burst or more and 0 or more slots of signalling")


@dataclass(frozen=True, kw_only=True)
class BurstResult:
    """What a strategy made of the traffic, after the warm-up. Delays in slots, from arrival to the last bit sent.

    ``offered`` = arrivals; ``carried`` = sent (of earlier arrivals too); ``blocked`` found no wavelength,
    ``overflowed`` no buffer. ``waiting``: bursts in all buffers, mean over slots; ``fullest``: most in one router.
    ``utilisation``: share of the most used fibre's wavelengths and slots. ``cycle_slots``: mean length of a liquid
    schedule, else None.
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
    """The traffic over the cloud under one strategy. The same seed gives the same arrivals to all of them.

    O(slots * bursts a slot * W * path length). Raises InputError for an unknown strategy.
    """
    if strategy not in STRATEGIES:
        raise InputError(f"strategy {strategy!r} is unknown; there are {', '.join(STRATEGIES)}")
    return _Simulation(cloud, traffic, dispatcher_of(cloud, traffic, strategy)).run()


def dispatcher_of(cloud: BurstCloud, traffic: BurstTraffic, strategy: Strategy) -> Dispatcher:
    """The strategy as a dispatcher, which is handed arrivals and requested departures."""
    converting, known_after = cloud.switching == "wixc", traffic.signalling_slots
    if strategy in ("liquid", "liquid-rolling"):
        kind = LiquidCycles if strategy == "liquid" else RollingLiquid
        return kind(
            cloud.paths,
            cloud.wavelengths,
            converting=converting,
            known_after=known_after,
            seed=traffic.seed,
        )
    drops = strategy == "greedy-drop"
    return Greedy(
        cloud.paths, cloud.wavelengths, converting=converting, known_after=known_after, drops=drops
    )


class _Simulation:
    """Slot by slot: what leaves goes at the slot's beginning, what arrives comes during it."""

    def __init__(self, cloud: BurstCloud, traffic: BurstTraffic, dispatcher: Dispatcher) -> None:
        self._cloud, self._traffic, self._dispatcher = cloud, traffic, dispatcher
        self._in_use = [0] * (1 + max(cloud.sources))
        self._used, self._counts = Counter[int](), Counter[str]()
        self._delays: list[float] = []
        self._waiting = self._fullest = 0

    def run(self) -> BurstResult:
        traffic = self._traffic
        for slot, pairs in enumerate(_arrivals(self._cloud, traffic)):
            counted = slot >= traffic.warm_up_slots
            self._send(slot, counted)
            for pair in pairs:
                self._take(pair, slot, counted)
            if counted:
                self._waiting += sum(self._in_use)
                self._fullest = max(self._fullest, *self._in_use)
        return self._result()

    def _send(self, slot: int, counted: bool) -> None:
        for pair, arrived in self._dispatcher.leaving(slot):
            self._in_use[self._cloud.sources[pair]] -= 1
            if counted:
                self._counts["carried"] += 1
                self._delays.append(
                    slot + 1 - (arrived + 0.5)
                )  # arrivals are spread evenly over their slot
                self._used.update(self._cloud.paths[pair])

    def _take(self, pair: int, slot: int, counted: bool) -> None:
        source = self._cloud.sources[pair]
        self._counts["offered"] += counted
        if self._in_use[source] >= self._traffic.buffer_bursts:
            self._counts["overflowed"] += counted
        elif self._dispatcher.arrive(pair, slot):
            self._in_use[source] += 1
        else:
            self._counts["blocked"] += counted

    def _result(self) -> BurstResult:
        slots = self._traffic.slots - self._traffic.warm_up_slots
        offered, lost = (
            self._counts["offered"],
            self._counts["overflowed"] + self._counts["blocked"],
        )
        cycles = self._dispatcher.cycles
        return BurstResult(
            **{
                name: self._counts[name] for name in ("offered", "carried", "blocked", "overflowed")
            },
            backlog=sum(self._in_use),
            throughput=self._counts["carried"] / offered if offered else 0.0,
            loss=lost / offered if offered else 0.0,
            mean_delay_slots=float(np.mean(self._delays)) if self._delays else None,
            p99_delay_slots=float(np.percentile(self._delays, 99)) if self._delays else None,
            waiting=self._waiting / slots,
            fullest=self._fullest,
            utilisation=max(self._used.values(), default=0) / (slots * self._cloud.wavelengths),
            cycle_slots=float(np.mean(cycles)) if cycles else None,
        )


def _arrivals(cloud: BurstCloud, traffic: BurstTraffic) -> Iterator[list[int]]:
    """Pairs of the bursts that come in each slot, in random order."""
    chance = np.random.default_rng(traffic.seed)
    mean = traffic.load * cloud.wavelengths / cloud.bottleneck_load
    pairs = np.arange(len(cloud.paths))
    for _ in range(traffic.slots):
        bursts = np.repeat(pairs, chance.poisson(mean, len(pairs)))
        chance.shuffle(bursts)
        yield bursts.tolist()
