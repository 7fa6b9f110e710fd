"""Traffics: sets of transfers, each of which uses a set of directed links.

The loads of the links, the bottlenecks and the liquid throughput follow from them (Gabrielyan 2007,
section 3.4, eq. 1 to 3). A traffic is stored in two integer arrays, so that a million transfers fit
into memory.
"""

import itertools
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from testbed.errors import InputError, require_type

IntArray = npt.NDArray[np.int32]
OffsetArray = npt.NDArray[np.int64]
Link = tuple[str, str, int]
Route = Callable[[str, str], Sequence[Link]]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Traffic:
    """A set of transfers.

    Transfer i uses the links ``indices[offsets[i]:offsets[i + 1]]`` in this order.

    Attributes:
        links: Names of the links. Each is used by at least one transfer.
        offsets: Where the links of each transfer begin in ``indices``. Shape (transfers + 1,).
        indices: Numbers of the links of all transfers.
        ends: Source and destination of each transfer if they are known, else empty.
        symmetries: Permutations of the links, arrays of shape (links,): the translations of a grid
            in the order of their coordinates. Each moves every link. Empty if there are none.
        symmetry_shape: Shape of the grid.
        first_node: For each transfer the number of the node to which its first link leads. Equal
            numbers are equal nodes. None if the nodes are not known.
        last_node: For each transfer the number of the node at which its last link begins, or None.
        parts: Number of equal parts into which each message is divided. A transfer is one part.
            The first parts of all messages come first, then all second parts, and so on.
    """

    links: tuple[str, ...]
    offsets: OffsetArray
    indices: IntArray
    ends: Sequence[tuple[str, str]] = field(default=(), repr=False)
    symmetries: tuple[IntArray, ...] = field(default=(), repr=False)
    symmetry_shape: tuple[int, ...] = ()
    first_node: IntArray | None = field(default=None, repr=False)
    last_node: IntArray | None = field(default=None, repr=False)
    parts: int = 1

    @classmethod
    def from_transfers(
        cls,
        transfers: Iterable[Iterable[Hashable]],
        *,
        link_names: Iterable[str] | None = None,
    ) -> "Traffic":
        """Return the traffic of these transfers.

        Args:
            transfers: The links of each transfer, by any hashable names.
            link_names: Names of all links that exist. None: every name is accepted.

        Raises:
            InputError: There is no transfer, a transfer has no link or a link twice, a link does
                not exist, or two different links have the same text.

        >>> traffic = Traffic.from_transfers([["t1", "ab", "r1"], ["t2", "ab", "r2"]])
        >>> traffic.bottleneck_load, traffic.liquid_throughput
        (2, 1.0)
        """
        require_type(transfers, Iterable, "transfers", "a list of transfers, each a list of links")
        numbers: dict[Hashable, int] = {}
        offsets = [0]
        indices: list[int] = []
        for i, transfer in enumerate(transfers):
            require_type(transfer, Iterable, f"transfer {i}", "a list of links")
            transfer_links = [numbers.setdefault(link, len(numbers)) for link in transfer]
            if not transfer_links:
                raise InputError(f"transfer {i} uses no link; name at least one")
            if len(set(transfer_links)) < len(transfer_links):
                raise InputError(f"transfer {i} names a link twice; a transfer is a set of links")
            indices += transfer_links
            offsets.append(len(indices))
        if len(offsets) == 1:
            raise InputError("traffic without a transfer; give at least one")
        names = tuple(map(str, numbers))
        if len(set(names)) < len(names):
            alike = next(name for name in names if names.count(name) > 1)
            raise InputError(f"two links are written alike, {alike!r}; give each link one name")
        if link_names is not None:
            allowed = set(link_names)
            unknown = [name for name in names if name not in allowed]
            if unknown:
                raise InputError(
                    f"traffic names link {unknown[0]!r}, which the network does not have"
                )
        return cls(
            links=names,
            offsets=np.array(offsets, dtype=np.int64),
            indices=np.array(indices, dtype=np.int32),
        )

    @classmethod
    def from_paths(
        cls,
        pairs: Sequence[tuple[str, str]],
        route: Route,
        label: Callable[[Link], str],
        *further_routes: Route,
    ) -> "Traffic":
        """Return the traffic with one transfer for each pair of nodes, over its static path.

        Args:
            pairs: Source and destination of each message.
            route: Returns the link ids (source, target, key) of the path between two nodes.
            label: Returns the name of a link.
            *further_routes: Further routes. Each route carries an equal part of every message.

        Raises:
            InputError: There is no pair, or the path of a pair has no link, as when source and
                destination are the same.
        """
        numbers: dict[Link, int] = {}
        nodes: dict[str, int] = {}
        parts = 1 + len(further_routes)
        count = len(pairs) * parts
        offsets = np.zeros(count + 1, dtype=np.int64)
        indices: list[int] = []
        first_node = np.zeros(count, dtype=np.int32)
        last_node = np.zeros(count, dtype=np.int32)
        routed_pairs = itertools.product((route, *further_routes), pairs)
        for i, (path_between, (source, sink)) in enumerate(routed_pairs):
            path = path_between(source, sink)
            if not path:
                raise InputError(f"transfer {i} from {source} to {sink} uses no link; leave it out")
            indices += [numbers.setdefault(link, len(numbers)) for link in path]
            offsets[i + 1] = len(indices)
            first_node[i] = nodes.setdefault(path[0][1], len(nodes))
            last_node[i] = nodes.setdefault(path[-1][0], len(nodes))
        if not pairs:
            raise InputError("traffic without a transfer; give at least one")
        ends = pairs
        if further_routes:
            ends = [*pairs] * parts
        return cls(
            links=tuple(label(link) for link in numbers),
            offsets=offsets,
            indices=np.array(indices, dtype=np.int32),
            ends=ends,
            first_node=first_node,
            last_node=last_node,
            parts=parts,
        )

    def __repr__(self) -> str:
        return (
            f"Traffic({len(self)} transfers over {len(self.links)} links, "
            f"bottleneck load {self.bottleneck_load})"
        )

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def transfer(self, number: int) -> tuple[str, ...]:
        """Return the names of a transfer's links."""
        start = self.offsets[number]
        stop = self.offsets[number + 1]
        return tuple(self.links[i] for i in self.indices[start:stop])

    def paths(self) -> list[list[int]]:
        """Return the numbers of each transfer's links, for algorithms on small traffics."""
        indices = self.indices.tolist()
        offsets = self.offsets.tolist()
        return [indices[start:stop] for start, stop in itertools.pairwise(offsets)]

    @cached_property
    def loads(self) -> npt.NDArray[np.int64]:
        """Number of transfers over each link, shape (links,) (Gabrielyan 2007, eq. 1)."""
        return np.bincount(self.indices, minlength=len(self.links)).astype(np.int64)

    @cached_property
    def bottleneck_load(self) -> int:
        """Load of the most loaded link, a lower bound of the frames (Gabrielyan 2007, eq. 2)."""
        return int(self.loads.max())

    @cached_property
    def bottlenecks(self) -> tuple[int, ...]:
        """Numbers of the links with the largest load."""
        return tuple(np.flatnonzero(self.loads == self.bottleneck_load).tolist())

    @cached_property
    def skeleton(self) -> tuple[int, ...]:
        """Numbers of the transfers that use a bottleneck."""
        is_bottleneck = self.loads == self.bottleneck_load
        transfer_of_index = np.repeat(np.arange(len(self)), np.diff(self.offsets))
        users = transfer_of_index[is_bottleneck[self.indices]]
        return tuple(np.unique(users).tolist())

    @property
    def liquid_throughput(self) -> float:
        """Largest possible throughput, in units of a link's (Gabrielyan 2007, eq. 3)."""
        return len(self) / self.bottleneck_load

    def congestion_graph(self) -> list[tuple[int, int]]:
        """Return the pairs of transfers (i < j) that share a link, sorted.

        The time is quadratic in the loads, which is fast enough for some thousand transfers.
        """
        users_by_link: dict[int, list[int]] = {}
        for i, path in enumerate(self.paths()):
            for link in path:
                users_by_link.setdefault(link, []).append(i)
        pairs: set[tuple[int, int]] = set()
        for users in users_by_link.values():
            pairs.update(itertools.combinations(users, 2))
        return sorted(pairs)
