"""A traffic over chosen paths: how many units of each pair take which of its paths, so that the fullest link carries
few.

The paths and their weights come from elsewhere, from a multicommodity flow for instance, whose parts of units are made
whole here.
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import TypeVar

Path = tuple[Hashable, ...]
"""Names of links in their order; any hashable ones."""
C = TypeVar("C", bound=Hashable)


def whole_paths(
    units: Mapping[C, int], paths: Mapping[C, Sequence[tuple[Path, float]]], moves: int = 20_000
) -> dict[C, list[Path]]:
    """Class -> as many paths as it has units. ``paths[c]``: (path, weight), weights of sum 1.

    Largest remainders first; then, one after another, a unit on a fullest link goes over another path of its class
    where that has no link as full, until no such move is left or ``moves`` were made.

    >>> two = {"ab": [(("up",), 0.5), (("down",), 0.5)]}
    >>> sorted(whole_paths({"ab": 4}, two)["ab"])
    [('down',), ('down',), ('up',), ('up',)]
    """
    chosen = {name: _apportioned(count, [w for _, w in paths[name]]) for name, count in units.items()}
    load: dict[Hashable, int] = {}
    users: dict[Hashable, set[tuple[C, int]]] = {}
    for name, counts in chosen.items():
        for at, (path, _) in enumerate(paths[name]):
            for link in path:
                load[link] = load.get(link, 0) + counts[at]
                users.setdefault(link, set()).add((name, at))
    for _ in range(moves):
        if not _move_one(chosen, paths, load, users):
            break
    return {
        name: [path for (path, _), count in zip(paths[name], counts, strict=True) for _ in range(count)]
        for name, counts in chosen.items()
    }


def _apportioned(count: int, weights: Sequence[float]) -> list[int]:
    """Whole numbers of that sum in the proportions of the weights: largest remainders (Hamilton's method)."""
    exact = [count * weight / sum(weights) for weight in weights]
    whole = [int(value) for value in exact]
    order = sorted(range(len(weights)), key=lambda k: (whole[k] - exact[k], k))
    for k in order[: count - sum(whole)]:
        whole[k] += 1
    return whole


def _move_one(
    chosen: Mapping[C, list[int]],
    paths: Mapping[C, Sequence[tuple[Path, float]]],
    load: dict[Hashable, int],
    users: Mapping[Hashable, set[tuple[C, int]]],
) -> bool:
    """Take a unit off a fullest link, to where no link becomes as full; False where no unit can."""
    greatest = max(load.values(), default=0)
    for full in sorted((link for link, own in load.items() if own == greatest), key=str):
        for name, at in sorted(users[full], key=str):
            if not chosen[name][at]:
                continue
            here = set(paths[name][at][0])
            for other, (path, _) in enumerate(paths[name]):
                if full not in path and all(load[link] + 1 < greatest for link in path if link not in here):
                    chosen[name][at] -= 1
                    chosen[name][other] += 1
                    for link in here:
                        load[link] -= 1
                    for link in path:
                        load[link] += 1
                    return True
    return False
