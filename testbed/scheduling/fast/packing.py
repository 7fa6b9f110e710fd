"""Packing of paths into bins, in each of which every link can have a limited number of paths.

Bins are time frames, in which a link has one transfer, or the rounds of wavelength-converting
switches, in which a fibre has W lightpaths. ``pack`` uses first fit and weighted ejection, and
proves nothing if it fails. ``solve_packing`` uses CP-SAT, which can prove that no packing exists.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Literal

import numpy as np

from testbed.jit import compiled_entry
from testbed.scheduling.fast.class_ejection import ClassNeeds, place_units
from topologies import lists_by_key

# Largest number of variables (paths times bins) of a CP-SAT model.
MAX_VARIABLES = 60_000

PLACE_UNITS = compiled_entry(place_units)


def pack(
    paths: Sequence[Sequence[int]], bins: int, capacity: int, *, seed: int = 1, steps: int = 20_000
) -> list[int] | None:
    """Pack paths into bins by first fit and weighted ejection.

    Equal paths are units of one class, bins are its frames, and links are its resources (see
    ``class_ejection``). The cost is O(steps * bins * length of a path).

    Args:
        paths: The links of each path, numbered from 0, each link once.
        bins: Number of bins.
        capacity: Largest number of paths of a bin over the same link.
        seed: Seed of the random choices.
        steps: Largest number of ejection steps.

    Returns:
        The bin of every path, or None if no packing was found.

    >>> pack([(0, 1), (1, 2), (2, 0)], 2, 1) is None
    True
    >>> sorted(pack([(0, 1), (2, 3), (1, 2)], 2, 1))
    [0, 1, 1]
    """
    members = lists_by_key((tuple(path), i) for i, path in enumerate(paths))
    resources = np.array(list(chain.from_iterable(members)), dtype=np.int64)
    needs = ClassNeeds(
        resource_starts=np.cumsum([0, *map(len, members)], dtype=np.int64),
        resources=resources,
        demand=np.array([len(equal_paths) for equal_paths in members.values()], dtype=np.int64),
        cap=np.full(1 + max(resources, default=-1), capacity, dtype=np.int64),
    )
    bin_of_unit = np.zeros(len(paths), dtype=np.int64)
    if PLACE_UNITS(needs, bins, steps, seed, bin_of_unit):
        return None
    bin_of = [0] * len(paths)
    # Units are sorted by class, so they are in the order of the members of all classes.
    units = chain.from_iterable(members.values())
    for path_number, bin_number in zip(units, bin_of_unit.tolist(), strict=True):
        bin_of[path_number] = bin_number
    return bin_of


@dataclass(frozen=True, kw_only=True)
class PackingAnswer:
    """The result of CP-SAT.

    Attributes:
        state: "found"; "impossible" if no packing exists (proved); "unknown" if the time ran out or
            the model would be too large.
        bins: The bin of each path, if a packing was found.
    """

    state: Literal["found", "impossible", "unknown"]
    bins: tuple[int, ...] = ()


def solve_packing(
    paths: Sequence[Sequence[int]], bins: int, capacity: int, *, time_limit_s: float, seed: int = 1
) -> PackingAnswer:
    """Decide by CP-SAT whether paths fit into bins.

    Bins are interchangeable. To break this symmetry, the paths over a link with the most paths are
    only allowed in the first bins, in their order. The solver has one worker, so that the same seed
    gives the same answer unless the time runs out.

    Args:
        paths: The links of each path, each link once.
        bins: Number of bins.
        capacity: Largest number of paths of a bin over the same link.
        time_limit_s: Time limit in seconds.
        seed: Seed of the solver.

    >>> solve_packing([(0, 1), (1, 2), (2, 0)], 2, 1, time_limit_s=10).state
    'impossible'
    """
    paths_over: dict[int, list[int]] = {}
    for path, links in enumerate(paths):
        for link in links:
            paths_over.setdefault(link, []).append(path)
    crowded = max(paths_over.values(), key=len, default=[])
    if bins < 1 or len(crowded) > bins * capacity:
        return PackingAnswer(state="impossible" if paths else "found")
    if len(paths) * bins > MAX_VARIABLES:
        return PackingAnswer(state="unknown")
    # Imported only if needed, because the solver takes long to import.
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    is_in = _add_packing(model, len(paths), paths_over, bins, capacity)
    for rank, path in enumerate(crowded):
        for number in range(rank + 1, bins):
            model.add(is_in[path][number] == 0)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = seed
    solver.parameters.max_time_in_seconds = max(0.0, time_limit_s)
    status = solver.solve(model)
    if status == cp_model.INFEASIBLE:
        return PackingAnswer(state="impossible")
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return PackingAnswer(state="unknown")
    bin_of = []
    for bins_of_path in is_in:
        bin_of.append([solver.boolean_value(variable) for variable in bins_of_path].index(True))
    return PackingAnswer(state="found", bins=tuple(bin_of))


def _add_packing(
    model: Any, paths: int, paths_over: Mapping[int, Sequence[int]], bins: int, capacity: int
) -> list[list[Any]]:
    """Add a packing to a CP-SAT model.

    Args:
        model: The ``CpModel``.
        paths: Number of paths.
        paths_over: The paths over each link.
        bins: Number of bins.
        capacity: Largest number of paths of a bin over the same link.

    Returns:
        The variables: for each path and each bin, whether the path is in the bin.
    """
    is_in = []
    for _ in range(paths):
        is_in.append([model.new_bool_var("") for _ in range(bins)])
    for bins_of_path in is_in:
        model.add_exactly_one(bins_of_path)
    for users in paths_over.values():
        if len(users) > capacity:
            for number in range(bins):
                model.add(sum(is_in[path][number] for path in users) <= capacity)
    return is_in
