"""Mobile ad-hoc networks (MANETs): nodes that walk at random, with links between nodes in range.

The nodes are on a square or rectangle of area 1. Source: Gabrielyan 2007, section 4.4 (Figures 60
and 61: 300 frames of 115 nodes, 150 frames of 120). The thesis gives no range and no step.
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

# Mean number of neighbours of a node, if neither the degree nor the range is given.
DEFAULT_DEGREE = 6.1
# The largest number of a frame, and the largest number of frames.
MAX_FRAME = 1_000_000
# The largest width of the area over its height.
MAX_ASPECT = 4
# Up to this number of nodes all distances are computed at once, which is faster than loading scipy
# for its k-d tree.
DENSE_NODES = 1000
# Maximum of the number of nodes times the number of frames: about ten seconds of walking.
MAX_WALK = 200_000_000


@dataclass(frozen=True, kw_only=True)
class Walk:
    """The parameters of a random walk.

    In each frame, each coordinate of each node changes by a uniform random number between -``step``
    and +``step``. Nodes are reflected at the border, so that they stay uniformly distributed.

    Attributes:
        nodes: Number of nodes.
        degree: Mean number of neighbours, which sets the range unless ``range_units`` is given.
        range_units: Largest distance at which two nodes are linked, in sides of the unit square.
        step: Largest change of a coordinate in a frame, in sides of the unit square.
        seed: Seed of the random generator.
        aspect: Width of the area over its height.

    Raises:
        TopologyError: A value is out of bounds.
    """

    nodes: int = 115
    degree: float = DEFAULT_DEGREE
    range_units: float | None = None
    step: float = 0.02
    seed: int = 1
    aspect: float = 1.0

    def __post_init__(self) -> None:
        nodes = integer("manet: nodes", self.nodes, 1, MAX_NODES // 2)
        object.__setattr__(self, "nodes", nodes)
        seed = integer("manet: seed", self.seed, 0, 2**64 - 1)
        object.__setattr__(self, "seed", seed)
        number("manet: step", self.step, 0, 1)
        number("manet: aspect", self.aspect, 1, MAX_ASPECT)
        if self.range_units is not None:
            number("manet: range", self.range_units, 0, 2)
        else:
            number("manet: degree", self.degree, 0, MAX_NODES)
        height = 1 / math.sqrt(self.aspect)
        probability = fraction_in_range(min(self.radius, height), self.aspect)
        expected_links = self.nodes * (self.nodes - 1) * probability
        check_size(2 * self.nodes, 2 * self.nodes + round(expected_links))

    @property
    def radius(self) -> float:
        """The range, in sides of the unit square."""
        if self.range_units is not None:
            return self.range_units
        return range_for_degree(self.nodes, self.degree, self.aspect)


def manet(walk: Walk | None = None, *, frame: int = 0, **links: Unpack[LinkValues]) -> Network:
    """Return one frame of a random walk.

    The frame has switches n0, n1, ... with their positions, a host h0, h1, ... on each, and links
    between the switches in range. It may have parts without a path between them. The same walk
    gives the same frame, whether it is computed here or by ``manet_frames``. The time is
    O(frame * nodes + links).

    Args:
        walk: The parameters of the walk; the defaults of ``Walk`` if None.
        frame: Number of the frame, from 0.
        **links: Capacity and delay of all links.

    >>> net = manet(Walk(nodes=20, seed=3), frame=2)
    >>> len(net.switches), len(net.hosts)
    (20, 20)
    """
    return next(manet_frames(walk, count=1, first=frame, **links))


def manet_frames(
    walk: Walk | None = None, *, count: int, first: int = 0, **links: Unpack[LinkValues]
) -> Iterator[Network]:
    """Return an iterator of successive frames of a random walk.

    Args:
        walk: The parameters of the walk; the defaults of ``Walk`` if None.
        count: Number of frames.
        first: Number of the first frame.
        **links: Capacity and delay of all links.

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
    # A generator expression and no ``yield`` here, so that wrong values are refused at the call.
    frames = zip(range(first, first + count), _positions(walk, first), strict=False)
    return (_network(walk, frame, positions, Draft(**links)) for frame, positions in frames)


def _network(walk: Walk, frame: int, positions: NDArray[np.float64], draft: Draft) -> Network:
    """Return the network of one frame.

    Args:
        walk: The parameters of the walk.
        frame: Number of the frame.
        positions: x and y of each node, shape (nodes, 2).
        draft: An empty draft with the values of the links.
    """
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
    if walk.range_units is None:
        density = f"degree={walk.degree:g}"
    else:
        density = f"range={radius:g}"
    if walk.aspect != 1:
        density += f",aspect={walk.aspect:g}"
    name = f"manet:nodes={walk.nodes},{density},step={walk.step:g},seed={walk.seed},frame={frame}"
    return draft.network(name, frame=frame, range=radius)


def fraction_in_range(radius: float, aspect: float = 1.0) -> float:
    """Return the probability that two uniform random points of a rectangle are in range.

    The rectangle has the area 1. The formula takes its border into account:
    pi r^2 - 4/3 (width + height) r^3 + r^4/2.

    Args:
        radius: The range; at most the height of the rectangle.
        aspect: Width of the rectangle over its height.

    >>> round(fraction_in_range(1.0), 4)
    0.9749
    """
    width_and_height = math.sqrt(aspect) + 1 / math.sqrt(aspect)
    return math.pi * radius**2 - 4 / 3 * width_and_height * radius**3 + radius**4 / 2


def range_for_degree(nodes: int, degree: float, aspect: float = 1.0) -> float:
    """Return the range at which uniform random nodes have a given mean number of neighbours.

    The range is found by bisection, exact to the last bit, up to the height of the area. If a range
    of the height gives fewer neighbours than the default degree, all nodes are put in range.

    Args:
        nodes: Number of nodes.
        degree: Mean number of neighbours.
        aspect: Width over height of the area, which is a rectangle of area 1.

    Raises:
        TopologyError: So few nodes cannot have this degree, and it is not the default.

    >>> round(range_for_degree(115, 6.1), 4)
    0.1387
    """
    if nodes < 2:
        return 0.0
    target = degree / (nodes - 1)
    low = 0.0
    high = 1 / math.sqrt(aspect)
    if target > fraction_in_range(high, aspect):
        if degree == DEFAULT_DEGREE:
            # Larger than the diagonal of the area.
            return 1.5 * math.sqrt(aspect)
        raise TopologyError(
            f"manet: degree {degree:g} is more than {nodes} nodes allow; lower it or give range="
        )
    # The loop ends when no float is left between the two bounds.
    while low < (middle := (low + high) / 2) < high:
        if fraction_in_range(middle, aspect) < target:
            low = middle
        else:
            high = middle
    return high


def _positions(walk: Walk, first: int) -> Iterator[NDArray[np.float64]]:
    """Yield the positions in each frame, shape (nodes, 2), without end.

    The frames before the first one are computed too: the random numbers are used in order, so that
    a frame does not depend on where the iteration begins.

    Args:
        walk: The parameters of the walk.
        first: Number of the first frame to yield.
    """
    import numpy as np

    rng = np.random.Generator(np.random.PCG64(walk.seed))
    sides = np.array([math.sqrt(walk.aspect), 1 / math.sqrt(walk.aspect)])
    positions = rng.random((walk.nodes, 2)) * sides
    for frame in itertools.count():
        if frame >= first:
            yield positions
        moved = positions + (2 * rng.random((walk.nodes, 2)) - 1) * walk.step
        # Reflect first at the lower borders, then at the upper ones.
        moved = np.abs(moved)
        positions = sides - np.abs(sides - moved)


def pairs_in_range(positions: NDArray[np.float64], radius: float) -> NDArray[np.int64]:
    """Return the pairs of nodes in range of each other.

    The time is O(n^2) up to DENSE_NODES nodes. Above, a k-d tree takes O(n log n + pairs).

    Args:
        positions: x and y of each node, shape (nodes, 2).
        radius: The largest distance of a pair.

    Returns:
        The indices (i, j) with i < j of each pair, in ascending order: shape (pairs, 2).

    >>> import numpy as np
    >>> pairs_in_range(np.array([[0, 0], [0, 1], [5, 5]]), 1).tolist()
    [[0, 1]]
    """
    import numpy as np

    if len(positions) <= DENSE_NODES:
        x = positions[:, 0]
        y = positions[:, 1]
        in_range = (x[:, None] - x) ** 2 + (y[:, None] - y) ** 2 <= radius**2
        return np.argwhere(np.triu(in_range, 1)).astype(np.int64)
    from scipy.spatial import cKDTree

    pairs = cKDTree(positions).query_pairs(radius, output_type="ndarray").astype(np.int64)
    ordered: NDArray[np.int64] = pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]
    return ordered
