"""Traffics with symmetries (tori): orbits of transfers under a group of link permutations, scheduled once for all their
images.

If a base frame holds a set of transfers, its images under the group are frames too: so a schedule of one representative
an orbit, each in a base frame and moved by an element of the group, is a schedule of all.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from testbed.model.traffic import IntArray, Traffic

MAX_WASTE = 0.03
"""Groups are left out whose order does not divide the bottleneck's load nearly enough."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Orbits:
    """Representatives as units: their links (offsets, indices), the order of the greedy start.

    ``images``: shape (group, units), the transfer that each element carries the representative to. ``quotient``: shape
    (group, group), the number of the element k * g^-1 (the group is abelian and moves every link).
    """

    group: tuple[IntArray, ...]
    offsets: npt.NDArray[np.int64]
    indices: IntArray
    order: npt.NDArray[np.int64]
    images: npt.NDArray[np.int64]
    quotient: npt.NDArray[np.int64]

    @classmethod
    def of(cls, traffic: Traffic, group: Sequence[IntArray]) -> Orbits | None:
        """None where the traffic is not carried into itself, or some transfer stays where it is."""
        keys = _link_sums(traffic, traffic.indices)
        order = np.argsort(keys, kind="stable")
        images = []
        for permutation in group:
            moved = _link_sums(traffic, permutation[traffic.indices])
            places = np.argsort(moved, kind="stable")
            if (keys[order] != moved[places]).any():
                return None
            image = np.empty_like(order)
            image[places] = (
                order  # of parts on the same links, each is carried to the part of its number
            )
            images.append(image)
        carried = np.stack(images)
        chosen = np.flatnonzero(carried.min(axis=0) == np.arange(len(traffic)))
        if len(chosen) * len(group) != len(traffic):
            return None
        lengths = np.diff(traffic.offsets)[chosen]
        parts = [traffic.indices[traffic.offsets[i] : traffic.offsets[i + 1]] for i in chosen]
        return cls(
            group=tuple(group),
            offsets=np.cumsum([0, *lengths], dtype=np.int64),
            indices=np.concatenate(parts),
            order=np.argsort(-lengths, kind="stable").astype(np.int64),
            images=carried[:, chosen],
            quotient=_quotients(group),
        )

    def spread(self, position: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
        """Frames of all transfers from the representatives' positions (base frame * group + element).

        A representative moved by g stands in the base frame; moved by k it stands in that frame's image under k * g^-1.
        """
        size = len(self.group)
        frame_of = np.full(self.images.size, -1, dtype=np.int32)
        for k in range(size):
            frame_of[self.images[k]] = position // size * size + self.quotient[k, position % size]
        return frame_of


def subgroups(traffic: Traffic) -> Iterator[tuple[IntArray, ...]]:
    """Subgroups of the translations by multiples of divisors of each side, those first that divide the bottleneck's
    load."""
    shape, bound = traffic.symmetry_shape, traffic.bottleneck_load
    strides = [[d for d in range(1, side + 1) if side % d == 0] for side in shape]
    found = []
    for steps in itertools.product(*strides):
        order = math.prod(side // step for side, step in zip(shape, steps, strict=True))
        length = -(-bound // order) * order
        if order > 1 and length <= bound * (1 + MAX_WASTE):
            found.append((length, -order, steps))
    for _, _, steps in sorted(found):
        yield tuple(
            traffic.symmetries[int(np.ravel_multi_index(place, shape))]
            for place in itertools.product(
                *(range(0, side, step) for side, step in zip(shape, steps, strict=True))
            )
        )


def _link_sums(traffic: Traffic, indices: IntArray) -> npt.NDArray[np.uint64]:
    """One number for each transfer's set of links; two sets have the same with a chance of 2^-64 (the checker would
    tell)."""
    names = np.random.default_rng(len(traffic.links)).integers(
        0, 1 << 63, size=len(traffic.links), dtype=np.uint64
    )
    sums: npt.NDArray[np.uint64] = np.add.reduceat(names[indices], traffic.offsets[:-1])
    return sums


def _quotients(group: Sequence[IntArray]) -> npt.NDArray[np.int64]:
    number = {int(permutation[0]): i for i, permutation in enumerate(group)}
    inverse_of_first = [int(np.flatnonzero(permutation == 0)[0]) for permutation in group]
    return np.array(
        [[number[int(k[inverse])] for inverse in inverse_of_first] for k in group], dtype=np.int64
    )
