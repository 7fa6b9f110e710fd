"""Traffics with symmetries (tori), scheduled by orbits.

An orbit is the set of the images of a transfer under a group of permutations of the links. If a set
of transfers can share a frame, so can its images under any element of the group. Therefore it is
enough to schedule one representative of each orbit: each is moved by an element of the group and
put into a base frame, and the images of the base frames are a schedule of all transfers.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from testbed.model.traffic import IntArray, Traffic

# A schedule by orbits has a multiple of the group's order as its number of frames. A group is
# omitted if this exceeds the bottleneck load by more than this part.
MAX_WASTE = 0.03


@dataclass(frozen=True, kw_only=True, eq=False)
class Orbits:
    """The orbits of a traffic. The units that are scheduled are their representatives.

    Attributes:
        group: The permutations of the links. The group is abelian, and each permutation except the
            identity moves every link.
        offsets: Start of each representative's links in ``indices``.
        indices: The links of the representatives.
        order: Order in which the representatives are placed first.
        images: Transfer to which each element carries each representative, shape (group, units).
        quotient: Number of the element k * g^-1, for each k (rows) and g (columns).
    """

    group: tuple[IntArray, ...]
    offsets: npt.NDArray[np.int64]
    indices: IntArray
    order: npt.NDArray[np.int64]
    images: npt.NDArray[np.int64]
    quotient: npt.NDArray[np.int64]

    @classmethod
    def of(cls, traffic: Traffic, group: Sequence[IntArray]) -> Orbits | None:
        """Return the orbits of a traffic.

        Returns:
            None if the group does not carry the traffic into itself, or an element of the group
            leaves a transfer unchanged.
        """
        images = _images(traffic, group)
        if images is None:
            return None
        is_representative = images.min(axis=0) == np.arange(len(traffic))
        representatives = np.flatnonzero(is_representative)
        if len(representatives) * len(group) != len(traffic):
            return None
        lengths = np.diff(traffic.offsets)[representatives]
        links = []
        for i in representatives:
            links.append(traffic.indices[traffic.offsets[i] : traffic.offsets[i + 1]])
        return cls(
            group=tuple(group),
            offsets=np.cumsum([0, *lengths], dtype=np.int64),
            indices=np.concatenate(links),
            order=np.argsort(-lengths, kind="stable").astype(np.int64),
            images=images[:, representatives],
            quotient=_quotients(group),
        )

    def spread(self, position: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
        """Return the frames of all transfers.

        A representative that was moved by g is in the base frame. Moved by k, it is in the image of
        that frame under k * g^-1.

        Args:
            position: Position of each representative: base frame * size of the group + element.
        """
        size = len(self.group)
        base_frame = position // size
        element = position % size
        frame_of = np.full(self.images.size, -1, dtype=np.int32)
        for k in range(size):
            frame_of[self.images[k]] = base_frame * size + self.quotient[k, element]
        return frame_of


def _images(traffic: Traffic, group: Sequence[IntArray]) -> npt.NDArray[np.int64] | None:
    """Return the transfer to which each permutation carries each transfer.

    Returns:
        Shape (group, transfers); None if the image of a transfer is not in the traffic.
    """
    keys = _link_sums(traffic, traffic.indices)
    order = np.argsort(keys, kind="stable")
    images = []
    for permutation in group:
        moved_keys = _link_sums(traffic, permutation[traffic.indices])
        moved_order = np.argsort(moved_keys, kind="stable")
        if (keys[order] != moved_keys[moved_order]).any():
            return None
        image = np.empty_like(order)
        # Parts of a message with the same links have equal keys. The stable sort carries each to
        # the part with the same number.
        image[moved_order] = order
        images.append(image)
    return np.stack(images)


def subgroups(traffic: Traffic) -> Iterator[tuple[IntArray, ...]]:
    """Yield groups of translations by multiples of divisors of each side.

    Groups whose order divides the bottleneck load come first.
    """
    shape = traffic.symmetry_shape
    bound = traffic.bottleneck_load
    candidates = []
    for steps in itertools.product(*[_divisors(side) for side in shape]):
        order = math.prod(side // step for side, step in zip(shape, steps, strict=True))
        length = -(-bound // order) * order
        if order > 1 and length <= bound * (1 + MAX_WASTE):
            candidates.append((length, -order, steps))
    for _, _, steps in sorted(candidates):
        ranges = [range(0, side, step) for side, step in zip(shape, steps, strict=True)]
        group = []
        for translation in itertools.product(*ranges):
            group.append(traffic.symmetries[int(np.ravel_multi_index(translation, shape))])
        yield tuple(group)


def _divisors(number: int) -> list[int]:
    return [d for d in range(1, number + 1) if number % d == 0]


def _link_sums(traffic: Traffic, indices: IntArray) -> npt.NDArray[np.uint64]:
    """Return a number for each transfer that depends on its set of links only.

    Two different sets have the same number with a probability of 2^-64. The checker would then
    reject the schedule.

    Args:
        traffic: The traffic.
        indices: The links of the transfers, in place of those of the traffic.
    """
    rng = np.random.default_rng(len(traffic.links))
    link_keys = rng.integers(0, 1 << 63, size=len(traffic.links), dtype=np.uint64)
    sums: npt.NDArray[np.uint64] = np.add.reduceat(link_keys[indices], traffic.offsets[:-1])
    return sums


def _quotients(group: Sequence[IntArray]) -> npt.NDArray[np.int64]:
    """Return the number of the element k * g^-1, for each k (rows) and g (columns).

    An element is identified by the image of link 0, because no other element has the same.
    """
    number = {int(permutation[0]): i for i, permutation in enumerate(group)}
    # The link that each element carries to link 0.
    origins = [int(np.flatnonzero(permutation == 0)[0]) for permutation in group]
    quotients = np.zeros((len(group), len(group)), dtype=np.int64)
    for row, permutation in enumerate(group):
        for column, origin in enumerate(origins):
            quotients[row, column] = number[int(permutation[origin])]
    return quotients
