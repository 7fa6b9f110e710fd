"""Packing of lightpaths into bins in which every fibre bears so many of them: frames bear one, rounds of converting
switches W.

``pack``: greedy first fit, then weighted ejection, which proves nothing; ``solve_packing``: CP-SAT, which may.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

_TABU = 7
"""A lightpath that was just placed is not ejected for so many steps."""


def pack(
    paths: Sequence[Sequence[int]],
    bins: int,
    capacity: int,
    *,
    seed: int = 1,
    steps: int = 20_000,
    go_on: Callable[[], bool] | None = None,
) -> list[int] | None:
    """The bin of every path such that each link is in at most ``capacity`` paths of a bin; None where none was found.

    ``paths``: the links (numbers from 0) of each path, each link once. The greedy pass takes paths by their most loaded
    link, then by summed load, longest first; then a random unplaced path goes where the paths that must leave weigh
    least (ties at random), whose weights rise by one. O(steps * bins * length). ``go_on`` is asked every 256 steps; it
    may end the search.

    >>> pack([(0, 1), (1, 2), (2, 0)], 2, 1) is None
    True
    >>> sorted(pack([(0, 1), (2, 3), (1, 2)], 2, 1))
    [0, 1, 1]
    """
    search = _Search(paths, bins, capacity, random.Random(seed))
    for path in search.order:
        search.place_if_free(path)
    return search.placed if search.eject(steps, go_on) else None


class _Search:
    """Bins as counters of their links; ``placed[path]`` is its bin, -1 while it has none."""

    def __init__(self, paths: Sequence[Sequence[int]], bins: int, capacity: int, chance: random.Random) -> None:
        self.paths, self.capacity, self.chance = [tuple(p) for p in paths], capacity, chance
        links = 1 + max((link for p in self.paths for link in p), default=-1)
        self.placed = [-1] * len(self.paths)
        self.occupants: list[list[list[int]]] = [[[] for _ in range(links)] for _ in range(bins)]
        self.full = [0] * bins  # bit l: link l bears its capacity in this bin
        self.masks = [sum(1 << link for link in set(p)) for p in self.paths]
        self.weights = [1] * len(self.paths)
        load = [0] * links
        for p in self.paths:
            for link in p:
                load[link] += 1
        rank = [(-max(load[x] for x in p), -sum(load[x] for x in p), -len(p)) for p in self.paths]
        self.order = sorted(range(len(self.paths)), key=lambda i: (rank[i], i))
        self.waiting: list[int] = []

    def place_if_free(self, path: int) -> None:
        mask = self.masks[path]
        for number, full in enumerate(self.full):
            if not full & mask:
                self._put(path, number)
                return
        self.waiting.append(path)

    def eject(self, steps: int, go_on: Callable[[], bool] | None) -> bool:
        """Whether every path has a bin in the end."""
        moved = [-_TABU] * len(self.paths)
        for step in range(steps):
            if not self.waiting:
                return True
            if go_on is not None and step % 256 == 255 and not go_on():
                return False
            k = self.chance.randrange(len(self.waiting))
            self.waiting[k], self.waiting[-1] = self.waiting[-1], self.waiting[k]
            path = self.waiting.pop()
            number, victims = self._cheapest(path, moved, step)
            for victim in victims:
                self._take(victim)
                self.weights[victim] += 1
                self.waiting.append(victim)
            self._put(path, number)
            moved[path] = step
        return not self.waiting

    def _cheapest(self, path: int, moved: list[int], step: int) -> tuple[int, tuple[int, ...]]:
        """The bin whose paths in the way weigh least, and those paths."""
        mask, best, ties = self.masks[path], -1, 0
        found: tuple[int, tuple[int, ...]] = (0, ())
        for number, full in enumerate(self.full):
            if not full & mask:
                return number, ()
            victims = self._in_the_way(path, number)
            cost = sum(self.weights[v] + (1000 if step - moved[v] < _TABU else 0) for v in victims)
            if best < 0 or cost < best:
                best, found, ties = cost, (number, victims), 1
            elif cost == best:
                ties += 1
                if self.chance.randrange(ties) == 0:
                    found = (number, victims)
        return found

    def _in_the_way(self, path: int, number: int) -> tuple[int, ...]:
        """Of every full link of the path, the lightest path in it that does not leave anyway."""
        victims: list[int] = []
        occupants = self.occupants[number]
        for link in self.paths[path]:
            there = occupants[link]
            if len(there) >= self.capacity and not any(v in victims for v in there):
                victims.append(min(there, key=lambda v: (self.weights[v], v)))
        return tuple(victims)

    def _put(self, path: int, number: int) -> None:
        self.placed[path] = number
        for link in self.paths[path]:
            there = self.occupants[number][link]
            there.append(path)
            if len(there) >= self.capacity:
                self.full[number] |= 1 << link

    def _take(self, path: int) -> None:
        number, self.placed[path] = self.placed[path], -1
        for link in self.paths[path]:
            there = self.occupants[number][link]
            there.remove(path)
            if len(there) < self.capacity:
                self.full[number] &= ~(1 << link)


MAX_VARIABLES = 60_000


@dataclass(frozen=True, kw_only=True)
class PackingAnswer:
    """``found``: with ``bins`` the bin of each path; ``impossible``: proved; ``unknown``: the time, or the size, was
    too much."""

    state: Literal["found", "impossible", "unknown"]
    bins: tuple[int, ...] = ()


def solve_packing(
    paths: Sequence[Sequence[int]], bins: int, capacity: int, *, time_limit_s: float, seed: int = 1
) -> PackingAnswer:
    """Whether paths (link numbers, each once) fit into so many bins, every link in at most ``capacity`` paths of a bin.

    Paths over one most loaded link are spread over the first bins in their order, which breaks the bins' symmetry. One
    worker, so that the same seed gives the same answer unless the time runs out.

    >>> solve_packing([(0, 1), (1, 2), (2, 0)], 2, 1, time_limit_s=10).state
    'impossible'
    """
    users: dict[int, list[int]] = {}
    for path, links in enumerate(paths):
        for link in links:
            users.setdefault(link, []).append(path)
    crowded = max(users.values(), key=len, default=[])
    if bins < 1 or len(crowded) > bins * capacity:
        return PackingAnswer(state="impossible" if paths else "found")
    if len(paths) * bins > MAX_VARIABLES:
        return PackingAnswer(state="unknown")
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    lies = [[model.new_bool_var("") for _ in range(bins)] for _ in paths]
    for own in lies:
        model.add_exactly_one(own)
    for listed in users.values():
        for number in range(bins) if len(listed) > capacity else ():
            model.add(sum(lies[path][number] for path in listed) <= capacity)
    for rank, path in enumerate(crowded):
        for number in range(rank + 1, bins):
            model.add(lies[path][number] == 0)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers, solver.parameters.random_seed = 1, seed
    solver.parameters.max_time_in_seconds = max(0.0, time_limit_s)
    status = solver.solve(model)
    if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        found = tuple(next(b for b in range(bins) if solver.boolean_value(own[b])) for own in lies)
        return PackingAnswer(state="found", bins=found)
    return PackingAnswer(state="impossible" if status == cp_model.INFEASIBLE else "unknown")
