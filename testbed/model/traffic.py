"""Traffic: transfers, each a set of directed links, and what follows from them alone: loads, bottlenecks, liquid
throughput.

Kept as two integer arrays, so that a million transfers fit. Source: Gabrielyan 2007, section 3.4 (eq. 1 to 3).
"""

import itertools
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from testbed.errors import InputError, require_type
from topologies import lists_by_key

IntArray = npt.NDArray[np.int32]
OffsetArray = npt.NDArray[np.int64]
Link = tuple[str, str, int]
Route = Callable[[str, str], Sequence[Link]]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Traffic:
    """``links``: names, each used by some transfer. Transfer i uses ``indices[offsets[i]:offsets[i + 1]]``, in their
    order.

    ``ends``: (source, destination) of each transfer where known, else empty. ``symmetries``: permutations of the links
    (arrays of shape (links,)), the translations of a grid of ``symmetry_shape`` in order of their coordinates, each of
    which moves every link; empty where there are none. ``first_node`` and ``last_node``: per transfer a number of the
    node that its first link leads to and its last link leaves from (equal numbers, equal nodes); empty where unknown.
    ``parts``: equal parts of each message; a transfer is one, all messages' first parts come first, and so on.
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
        known: Iterable[str] | None = None,
    ) -> "Traffic":
        """From lists of links (any hashable names). InputError: no transfer, one without a link or with a link twice,
        and two links that are written alike.

        ``known``: names of the links that there are; another one is refused.

        >>> traffic = Traffic.from_transfers([["t1", "ab", "r1"], ["t2", "ab", "r2"]])
        >>> traffic.bottleneck_load, traffic.liquid_throughput
        (2, 1.0)
        """
        require_type(transfers, Iterable, "transfers", "a list of transfers, each a list of links")
        numbers: dict[Hashable, int] = {}
        allowed = None if known is None else set(known)
        offsets, indices = [0], list[int]()
        for i, transfer in enumerate(transfers):
            require_type(transfer, Iterable, f"transfer {i}", "a list of links")
            own = [numbers.setdefault(link, len(numbers)) for link in transfer]
            if not own:
                raise InputError(f"transfer {i} uses no link; name at least one")
            if len(set(own)) < len(own):
                raise InputError(f"transfer {i} names a link twice; a transfer is a set of links")
            indices += own
            offsets.append(len(indices))
        if len(offsets) == 1:
            raise InputError("traffic without a transfer; give at least one")
        names = tuple(map(str, numbers))
        if len(set(names)) < len(names):
            alike = next(name for name in names if names.count(name) > 1)
            raise InputError(f"two links are written alike, {alike!r}; give each link one name")
        unknown = [name for name in names if allowed is not None and name not in allowed]
        if unknown:
            raise InputError(f"traffic names link {unknown[0]!r}, which the network does not have")
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
        *others: Route,
    ) -> "Traffic":
        """One transfer a pair over its static path; ``route`` gives link ids (source, target, key), ``label`` their
        names. With ``others``, each route carries an equal part of every message.

        InputError for a pair whose path has no link (a node to itself on one processor).
        """
        numbers: dict[Link, int] = {}
        nodes: dict[str, int] = {}
        parts = 1 + len(others)
        count = len(pairs) * parts
        offsets, indices = np.zeros(count + 1, dtype=np.int64), list[int]()
        first, last = np.zeros(count, dtype=np.int32), np.zeros(count, dtype=np.int32)
        for i, (way, (source, sink)) in enumerate(itertools.product((route, *others), pairs)):
            path = way(source, sink)
            if not path:
                raise InputError(f"transfer {i} from {source} to {sink} uses no link; leave it out")
            indices += [numbers.setdefault(link, len(numbers)) for link in path]
            offsets[i + 1] = len(indices)
            first[i] = nodes.setdefault(path[0][1], len(nodes))
            last[i] = nodes.setdefault(path[-1][0], len(nodes))
        if not pairs:
            raise InputError("traffic without a transfer; give at least one")
        return cls(
            links=tuple(label(link) for link in numbers),
            offsets=offsets,
            indices=np.array(indices, dtype=np.int32),
            ends=[*pairs] * parts if others else pairs,
            first_node=first,
            last_node=last,
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
        """The names of one transfer's links."""
        return tuple(
            self.links[i] for i in self.indices[self.offsets[number] : self.offsets[number + 1]]
        )

    def paths(self) -> list[list[int]]:
        """Each transfer's links as numbers, for algorithms on small traffics."""
        flat, at = self.indices.tolist(), self.offsets.tolist()
        return [flat[a:b] for a, b in itertools.pairwise(at)]

    @cached_property
    def loads(self) -> npt.NDArray[np.int64]:
        """Transfers over each link, shape (links,) (Gabrielyan 2007, eq. 1)."""
        return np.bincount(self.indices, minlength=len(self.links)).astype(np.int64)

    @cached_property
    def bottleneck_load(self) -> int:
        """The duration of the traffic, in frames: the load of the most loaded link (Gabrielyan 2007, eq. 2)."""
        return int(self.loads.max())

    @cached_property
    def bottlenecks(self) -> tuple[int, ...]:
        """Links of that load."""
        return tuple(np.flatnonzero(self.loads == self.bottleneck_load).tolist())

    @cached_property
    def skeleton(self) -> tuple[int, ...]:
        """Transfers that use a bottleneck."""
        on = (self.loads == self.bottleneck_load)[self.indices]
        return tuple(np.unique(np.repeat(np.arange(len(self)), np.diff(self.offsets))[on]).tolist())

    @property
    def liquid_throughput(self) -> float:
        """Transfers over duration: how many links' worth of throughput the network can carry (Gabrielyan 2007, eq.
        3)."""
        return len(self) / self.bottleneck_load

    def congestion_graph(self) -> list[tuple[int, int]]:
        """Pairs of transfers (i < j) that share a link. Quadratic in the loads; for traffics of thousands."""
        users = lists_by_key((link, i) for i, path in enumerate(self.paths()) for link in path)
        return sorted(
            {(a, b) for own in users.values() for x, a in enumerate(own) for b in own[x + 1 :]}
        )
