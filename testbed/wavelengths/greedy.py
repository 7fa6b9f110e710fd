"""Greedy wavelength assignment: one lightpath after another, without a schedule.

This is the practice with which liquid scheduling is compared. Each path takes the first round in
which it fits. The rule decides which of the wavelengths that are free there it takes.
"""

import functools
import operator
import random
from collections import Counter
from collections.abc import Sequence

# The rules. "first-fit" takes the lowest free wavelength, "random-fit" a random free one, and
# "most-used" the free one that is used on the largest number of fibres in the round.
# "longest-first" assigns the longest paths first, and takes the lowest free wavelength.
GREEDY = ("first-fit", "random-fit", "most-used", "longest-first")

# The index of a round, and the wavelength of each link of a path.
Colour = tuple[int, tuple[int, ...]]


def greedy_rounds(
    paths: Sequence[Sequence[int]], wavelengths: int, converting: bool, rule: str, *, seed: int = 1
) -> list[Colour]:
    """Assign a round and wavelengths to every path.

    The order of the paths is random; with "longest-first" they are sorted by length, and the order
    of equally long ones is random. The time is O(paths * rounds * W * length).

    Args:
        paths: The links of each path, as indices.
        wavelengths: Number of wavelengths of each fibre (W).
        converting: Whether a path may have a different wavelength on each link.
        rule: One of GREEDY.
        seed: Seed of the random order, and of random-fit.

    Returns:
        The round and the wavelengths of each path.
    """
    rng = random.Random(seed)
    order = list(range(len(paths)))
    rng.shuffle(order)
    if rule == "longest-first":
        order.sort(key=lambda i: -len(paths[i]))
    all_free = (1 << wavelengths) - 1
    # For each round, the free wavelengths of each link as bits, and how often each one is used.
    free: list[dict[int, int]] = []
    used: list[Counter[int]] = []
    colours: list[Colour] = [(0, ())] * len(paths)
    for i in order:
        number = 0
        while True:
            if number == len(free):
                free.append({})
                used.append(Counter())
            choices = [free[number].get(link, all_free) for link in paths[i]]
            if not converting:
                free_on_all = functools.reduce(operator.and_, choices, all_free)
                choices = [free_on_all] * len(choices)
            if all(choices):
                break
            number += 1
        chosen = [_choose(choice, rule, used[number], rng) for choice in choices]
        if not converting:
            # random-fit chooses for each link; one wavelength counts for all of them.
            chosen = chosen[:1] * len(chosen)
        for link, wavelength in zip(paths[i], chosen, strict=True):
            free[number][link] = free[number].get(link, all_free) & ~(1 << wavelength)
            used[number][wavelength] += 1
        colours[i] = (number, tuple(chosen))
    return colours


def _choose(free: int, rule: str, used: Counter[int], rng: random.Random) -> int:
    """Choose one of the free wavelengths.

    Args:
        free: Bit w is set if wavelength w is free.
        rule: One of GREEDY.
        used: Number of fibres that use each wavelength in the round.
        rng: The random generator.
    """
    if rule == "random-fit":
        return rng.choice([w for w in range(free.bit_length()) if free >> w & 1])
    lowest = (free & -free).bit_length() - 1
    if rule == "most-used":
        candidates = [w for w in used if free >> w & 1]
        # Of equally used wavelengths, max takes the first one, which is the lowest.
        return max(sorted({lowest, *candidates}), key=used.__getitem__)
    return lowest
