"""CP-SAT on the packing of lightpaths into bins: finds one, or proves that there is none."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

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
