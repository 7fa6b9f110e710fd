"""Optical burst switching in virtual time: edge routers fill buffers with bursts, repeated liquid schedules or greedy
ones empty them.

Source: Gabrielyan 2007, 3.2.2 ("the filled buffers of the edge nodes are repeatedly emptied by applying liquid
scheduling").
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from testbed.errors import InputError
from testbed.wavelengths.assignment import all_to_all, lightpaths_between, optical_end_points
from testbed.wavelengths.burst_strategies import Dispatcher, Greedy, LiquidCycles, RollingLiquid
from testbed.wavelengths.plan import Switching
from topologies.network import Network

Strategy = Literal["liquid", "liquid-rolling", "greedy-defer", "greedy-drop"]
STRATEGIES: tuple[Strategy, ...] = ("liquid", "liquid-rolling", "greedy-defer", "greedy-drop")
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
            raise InputError(f"load {self.load}: give more than 0, 1 being what the bottleneck can carry")
        if not 0 <= self.warm_up_slots < self.slots:
            raise InputError(f"{self.slots} slots with a warm-up of {self.warm_up_slots}: nothing would be counted")
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
        return kind(cloud.paths, cloud.wavelengths, converting=converting, known_after=known_after, seed=traffic.seed)
    drops = strategy == "greedy-drop"
    return Greedy(cloud.paths, cloud.wavelengths, converting=converting, known_after=known_after, drops=drops)


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
                self._delays.append(slot + 1 - (arrived + 0.5))  # arrivals are spread evenly over their slot
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
        offered, lost = self._counts["offered"], self._counts["overflowed"] + self._counts["blocked"]
        cycles = self._dispatcher.cycles
        return BurstResult(
            **{name: self._counts[name] for name in ("offered", "carried", "blocked", "overflowed")},
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
