"""Mobile ad-hoc networks: nodes on a square or rectangle of area 1 that walk at random, a link where two are in range.

Source: Gabrielyan 2007, section 4.4 (Figures 60 and 61: 300 frames of 115 nodes, 150 of 120); the thesis gives neither
range nor step.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Unpack

from topologies.builder_values import (
    MAX_LINKS,
    MAX_NODES,
    Draft,
    LinkValues,
    check_size,
    integer,
    number,
)
from topologies.errors import TopologyError
from topologies.network import Network

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

DEFAULT_DEGREE = 6.1
MAX_FRAME = 1_000_000
MAX_ASPECT = 4
DENSE_NODES = 1000
"""Up to so many nodes all distances are taken at once: faster than to load scipy for its tree."""
MAX_WALK = 200_000_000
"""Bound of nodes times frames: some ten seconds of walking."""


@dataclass(frozen=True, kw_only=True)
class Walk:
    """The parameters of a random walk.

    ``degree`` is the mean number of neighbours that sets the range, unless ``range_units`` (in sides of the square) is
    given. Each frame moves each coordinate uniformly within +-``step``, reflected at the border, so that nodes stay
    spread uniformly. ``aspect``: width over height. Raises TopologyError for values out of bounds.
    """

    nodes: int = 115
    degree: float = DEFAULT_DEGREE
    range_units: float | None = None
    step: float = 0.02
    seed: int = 1
    aspect: float = 1.0

    def __post_init__(self) -> None:
        for name, low, high in (("nodes", 1, MAX_NODES // 2), ("seed", 0, 2**64 - 1)):
            object.__setattr__(
                self, name, integer(f"manet: {name}", getattr(self, name), low, high)
            )
        number("manet: step", self.step, 0, 1)
        number("manet: aspect", self.aspect, 1, MAX_ASPECT)
        if self.range_units is not None:
            number("manet: range", self.range_units, 0, 2)
        else:
            number("manet: degree", self.degree, 0, MAX_NODES)
        expected = (
            self.nodes
            * (self.nodes - 1)
            * fraction_in_range(min(self.radius, 1 / math.sqrt(self.aspect)), self.aspect)
        )
        check_size(2 * self.nodes, 2 * self.nodes + round(expected))

    @property
    def radius(self) -> float:
        """The range, in sides of the square."""
        if self.range_units is not None:
            return self.range_units
        return range_for_degree(self.nodes, self.degree, self.aspect)


def manet(walk: Walk | None = None, *, frame: int = 0, **links: Unpack[LinkValues]) -> Network:
    """One frame: switches n0, n1, ... with their positions, a host h0, h1, ... on each, links between those in range.

    The same walk gives the same frame, whether reached here or through ``manet_frames``. A frame may fall into parts
    without a path between them. O(frames * nodes + links).

    >>> net = manet(Walk(nodes=20, seed=3), frame=2)
    >>> len(net.switches), len(net.hosts)
    (20, 20)
    """
    return next(manet_frames(walk, count=1, first=frame, **links))


def manet_frames(
    walk: Walk | None = None, *, count: int, first: int = 0, **links: Unpack[LinkValues]
) -> Iterator[Network]:
    """``count`` successive frames from ``first``.

    >>> [network.attributes["frame"] for network in manet_frames(Walk(nodes=5), first=10, count=2)]
    [10, 11]
    """
    walk = walk or Walk()
    first = integer("manet: frame", first, 0, MAX_FRAME)
    count = integer("manet: the number of frames", count, 0, MAX_FRAME)
    if walk.nodes * (first + count - 1) > MAX_WALK:
        raise TopologyError(
            f"manet: frame {first + count - 1} of {walk.nodes} nodes is too long a walk;"
            f" stay below {MAX_WALK // walk.nodes} frames"
        )
    frames = zip(range(first, first + count), _positions(walk, first), strict=False)
    return (_network(walk, frame, positions, Draft(**links)) for frame, positions in frames)


def _network(walk: Walk, frame: int, positions: NDArray[np.float64], draft: Draft) -> Network:
    radius = walk.radius
    pairs = pairs_in_range(positions, radius)
    if 2 * len(pairs) + 2 * walk.nodes > MAX_LINKS:
        check_size(2 * walk.nodes, 2 * len(pairs) + 2 * walk.nodes)
    for i, (x, y) in enumerate(positions.tolist()):
        draft.switch(f"n{i}", (float(x), float(y)))
    for i, j in pairs.tolist():
        draft.cable(f"n{i}", f"n{j}")
    for i in range(walk.nodes):
        draft.host(f"h{i}")
        draft.cable(f"n{i}", f"h{i}")
    spread = f"range={radius:g}" if walk.range_units is not None else f"degree={walk.degree:g}"
    if walk.aspect != 1:
        spread += f",aspect={walk.aspect:g}"
    name = f"manet:nodes={walk.nodes},{spread},step={walk.step:g},seed={walk.seed},frame={frame}"
    return draft.network(name, frame=frame, range=radius)


def fraction_in_range(radius: float, aspect: float = 1.0) -> float:
    """The probability that two uniform points of a rectangle of area 1 lie within ``radius`` of each other, at most its
    height.

    The border is taken into account: pi r^2 - 4/3 (width + height) r^3 + r^4/2.

    >>> round(fraction_in_range(1.0), 4)
    0.9749
    """
    sides = math.sqrt(aspect) + 1 / math.sqrt(aspect)
    return math.pi * radius**2 - 4 / 3 * sides * radius**3 + radius**4 / 2


def range_for_degree(nodes: int, degree: float, aspect: float = 1.0) -> float:
    """The range at which ``nodes`` uniform points of a rectangle of area 1 have ``degree`` neighbours on average.

    Bisection to the last bit. Where a range of its height gives fewer, the default degree puts everyone in range;
    another one raises TopologyError.

    >>> round(range_for_degree(115, 6.1), 4)
    0.1387
    """
    if nodes < 2:
        return 0.0
    share, low, high = degree / (nodes - 1), 0.0, 1 / math.sqrt(aspect)
    if share > fraction_in_range(high, aspect) and degree == DEFAULT_DEGREE:
        return 1.5 * math.sqrt(aspect)
    if share > fraction_in_range(high, aspect):
        raise TopologyError(
            f"manet: degree {degree:g} is more than {nodes} nodes allow; lower it or give range="
        )
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if fraction_in_range(middle, aspect) < share else (low, middle)
    return high


def _positions(walk: Walk, first: int) -> Iterator[NDArray[np.float64]]:
    """Positions, shape (nodes, 2), frame by frame from ``first`` on; every frame draws from the one stream in order."""
    import numpy as np

    random = np.random.Generator(np.random.PCG64(walk.seed))
    sides = np.array([math.sqrt(walk.aspect), 1 / math.sqrt(walk.aspect)])
    at = random.random((walk.nodes, 2)) * sides
    for frame in itertools.count():
        if frame >= first:
            yield at
        at = np.abs(at + (2 * random.random((walk.nodes, 2)) - 1) * walk.step)
        at = sides - np.abs(sides - at)


def pairs_in_range(positions: NDArray[np.float64], radius: float) -> NDArray[np.int64]:
    """All (i, j), i < j, at most ``radius`` apart, in order: shape (pairs, 2).

    O(n^2) up to DENSE_NODES, a k-d tree in O(n log n + pairs) above.

    >>> import numpy as np
    >>> pairs_in_range(np.array([[0, 0], [0, 1], [5, 5]]), 1).tolist()
    [[0, 1]]
    """
    import numpy as np

    if len(positions) <= DENSE_NODES:
        x, y = positions[:, 0], positions[:, 1]
        near = (x[:, None] - x) ** 2 + (y[:, None] - y) ** 2 <= radius**2
        return np.argwhere(np.triu(near, 1)).astype(np.int64)
    from scipy.spatial import cKDTree

    pairs = cKDTree(positions).query_pairs(radius, output_type="ndarray").astype(np.int64)
    ordered: NDArray[np.int64] = pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]
    return ordered
