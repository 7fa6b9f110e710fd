"""Greedy per-lightpath wavelength assignment, the practice that liquid scheduling is held against: one path after
another.

Each takes the first round in which it fits; the rule says which wavelength of those that are free there.
"""

import random
from collections import Counter
from collections.abc import Sequence

GREEDY = ("first-fit", "random-fit", "most-used", "longest-first")
"""The lowest free wavelength; any free one; the one that most fibres of the round use already; lowest, longest paths
first."""

Colour = tuple[int, tuple[int, ...]]
"""Round, and wavelength of each link of the path."""


def greedy_rounds(
    paths: Sequence[Sequence[int]], wavelengths: int, converting: bool, rule: str, *, seed: int = 1
) -> list[Colour]:
    """Round and wavelengths of every path. Paths come in an order drawn from the seed (longest first: by length, then
    so).

    ``converting``: each link takes a wavelength of its own; else one is free on all of them. O(paths * rounds * W *
    length).
    """
    chance = random.Random(seed)
    order = list(range(len(paths)))
    chance.shuffle(order)
    if rule == "longest-first":
        order.sort(key=lambda i: -len(paths[i]))
    every = (1 << wavelengths) - 1
    free: list[dict[int, int]] = []  # a round's links -> wavelengths that are free, as bits
    used: list[Counter[int]] = []
    colours: list[Colour] = [(0, ())] * len(paths)
    for i in order:
        number, choices = 0, [0]
        while True:
            if number == len(free):
                free.append({})
                used.append(Counter())
            choices = [free[number].get(link, every) for link in paths[i]]
            if not converting:
                shared = every
                for choice in choices:
                    shared &= choice
                choices = [shared] * len(choices)
            if all(choices):
                break
            number += 1
        own = [_chosen(choice, rule, used[number], chance) for choice in choices]
        taken = tuple(own if converting else own[:1] * len(own))
        for link, wavelength in zip(paths[i], taken, strict=True):
            free[number][link] = free[number].get(link, every) & ~(1 << wavelength)
            used[number][wavelength] += 1
        colours[i] = (number, taken)
    return colours


def _chosen(choice: int, rule: str, used: Counter[int], chance: random.Random) -> int:
    if rule == "random-fit":
        return chance.choice([w for w, free in enumerate(f"{choice:b}"[::-1]) if free == "1"])
    popular = [w for w in used if choice >> w & 1] if rule == "most-used" else []
    return max([(choice & -choice).bit_length() - 1, *popular], key=lambda w: (used[w], -w))
