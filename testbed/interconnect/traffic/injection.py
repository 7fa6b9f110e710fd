"""Traffic: the time, source and destination of every message, as sorted arrays.

Injection is Poisson, periodic or in bursts. Destinations follow a pattern (Zarza 2011, Table 5.1)
or a collective operation, scatter or gather.

Traffic is generated before a simulation starts, so that both engines, and all routings, get exactly
the same messages. Nodes are numbers 0..n-1: positions in ``network.hosts``. On a torus the first
coordinate is the most significant.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from testbed.arrays import FloatArray, IntArray
from testbed.errors import InputError


@dataclass(frozen=True, kw_only=True)
class DestinationPattern:
    """The destinations of each node.

    Attributes:
        name: Name of the pattern.
        choices: ``choices[s]`` are the destinations of node s. It is silent if there is none.
        in_turn: Whether a node sends to its destinations one after another. Otherwise each message
            draws one.
    """

    name: str
    choices: tuple[tuple[int, ...], ...]
    in_turn: bool = False

    def __post_init__(self) -> None:
        nodes = len(self.choices)
        for source, destinations in enumerate(self.choices):
            # min and max are fast: a uniform pattern has nodes^2 choices.
            if destinations and (min(destinations) < 0 or max(destinations) >= nodes):
                wrong = next(d for d in destinations if not 0 <= d < nodes)
                raise InputError(
                    f"pattern {self.name}: node {source} sends to {wrong}; there are {nodes} nodes"
                )

    @property
    def senders(self) -> tuple[int, ...]:
        """The nodes that are not silent."""
        return tuple(s for s, destinations in enumerate(self.choices) if destinations)


# The functions below return which of the source's n bits is bit i of the destination.


def _bit_reversal(i: int, n: int) -> int:
    return n - 1 - i


def _shuffle(i: int, n: int) -> int:
    return (i - 1) % n


def _butterfly(i: int, n: int) -> int:
    swapped = {0: n - 1, n - 1: 0}
    return swapped.get(i, i)


def _transpose(i: int, n: int) -> int:
    return (i + n // 2) % n


def _complement(i: int, _n: int) -> int:
    return i


# Permutations of bits by name. The complement then inverts all bits.
PERMUTATIONS: dict[str, Callable[[int, int], int]] = {
    "bit-reversal": _bit_reversal,
    "shuffle": _shuffle,
    "butterfly": _butterfly,
    "transpose": _transpose,
    "complement": _complement,
}
PATTERNS = ("uniform", *PERMUTATIONS, "tornado", "scatter", "gather")


def build_pattern(
    name: str,
    nodes: int,
    *,
    shape: Sequence[int] | None = None,
    root: int = 0,
    to_itself: bool = False,
) -> DestinationPattern:
    """Return the pattern of this name.

    Args:
        name: A name of PATTERNS.
        nodes: Number of nodes.
        shape: Sides of the torus (tornado only); None: a ring of ``nodes``.
        root: The root of scatter and gather.
        to_itself: Whether a node sends to itself (as BookSim2 does) if its own number is drawn or
            computed. Otherwise it is silent, or does not draw its own number.

    Raises:
        InputError: The pattern is unknown, or needs another number of nodes.

    >>> build_pattern("complement", 4).choices
    ((3,), (2,), (1,), (0,))
    """
    if nodes < 2:
        raise InputError(
            f"pattern {name}: {nodes} hosts have nobody to send to; choose a network with 2 or more"
        )
    if name in PERMUTATIONS:
        return _fixed(name, _permutation(name, nodes), to_itself)
    if name == "tornado":
        return _fixed(name, _tornado(tuple(shape or (nodes,)), nodes), to_itself)
    if name == "uniform":
        all_nodes = tuple(range(nodes))
        if to_itself:
            return DestinationPattern(name=name, choices=(all_nodes,) * nodes)
        choices = tuple(all_nodes[:s] + all_nodes[s + 1 :] for s in range(nodes))
        return DestinationPattern(name=name, choices=choices)
    if name in ("scatter", "gather"):
        return _collective(name, nodes, root)
    raise InputError(f"pattern {name!r} is unknown; give one of {', '.join(PATTERNS)}")


def only_in_row(pattern: DestinationPattern, members: Sequence[int]) -> DestinationPattern:
    """Return the pattern with all nodes silent except the members."""
    senders = frozenset(members)
    choices = tuple(
        destinations if source in senders else ()
        for source, destinations in enumerate(pattern.choices)
    )
    return DestinationPattern(name=pattern.name, choices=choices, in_turn=pattern.in_turn)


def tornado_in_one_row(shape: Sequence[int], row: int) -> DestinationPattern:
    """Return tornado traffic along the first dimension of a 2-D torus, in one row.

    All other nodes are silent. This is the routing cycle of Zarza 2011, section 5.4.1: a ring of
    ``shape[0]`` nodes.

    Args:
        shape: Sides of the torus.
        row: Second coordinate of the row's nodes.

    Raises:
        InputError: There is no such row.

    >>> [s for s in tornado_in_one_row((4, 4), 1).senders]
    [1, 5, 9, 13]
    """
    if len(shape) != 2 or not 0 <= row < shape[1]:
        raise InputError(
            f"a row {row} in a torus of shape {'x'.join(map(str, shape))}: give a row of a 2-D "
            "torus"
        )
    width, height = shape
    offset = math.ceil(width / 2) - 1
    choices: list[tuple[int, ...]] = [()] * (width * height)
    for x in range(width):
        if offset:
            choices[x * height + row] = ((x + offset) % width * height + row,)
    return DestinationPattern(name="tornado-row", choices=tuple(choices))


def row_members(shape: Sequence[int], row: int) -> tuple[int, ...]:
    """Return the nodes of a row of a 2-D torus, by their first coordinate."""
    return tuple(x * shape[1] + row for x in range(shape[0]))


def _permutation(name: str, nodes: int) -> list[int]:
    """Return the destination of each node.

    >>> _permutation("bit-reversal", 16)[0b0001], _permutation("shuffle", 16)[0b1001]
    (8, 3)
    >>> _permutation("butterfly", 16)[0b1000], _permutation("transpose", 16)[0b0111]
    (1, 13)
    """
    bits = _bits(name, nodes)
    source_bit = [PERMUTATIONS[name](i, bits) for i in range(bits)]
    inverted_bits = nodes - 1 if name == "complement" else 0
    table = []
    for source in range(nodes):
        permuted = sum((source >> source_bit[i] & 1) << i for i in range(bits))
        table.append(inverted_bits ^ permuted)
    return table


def _bits(name: str, nodes: int) -> int:
    """Return the number of bits of a node's number.

    Raises:
        InputError: The number of nodes is no power of two, or is odd for a transposition.
    """
    bits = nodes.bit_length() - 1
    if nodes != 1 << bits:
        raise InputError(
            f"pattern {name}: it permutes the bits of a node's number, and {nodes} nodes are no "
            "power of two; "
            f"take {1 << bits} or {2 << bits} nodes, or uniform"
        )
    if name == "transpose" and bits % 2:
        raise InputError(
            f"pattern transpose: it swaps two halves of {bits} bits; take {nodes // 2} or "
            f"{nodes * 2} nodes"
        )
    return bits


def _tornado(shape: tuple[int, ...], nodes: int) -> list[int]:
    """Return destinations that are ceil(k/2) - 1 further round the ring in each dimension."""
    if math.prod(shape) != nodes:
        raise InputError(
            f"pattern tornado: the shape {'x'.join(map(str, shape))} has not {nodes} nodes"
        )
    coordinates = np.unravel_index(np.arange(nodes), shape)
    goal = []
    for coordinate, size in zip(coordinates, shape, strict=True):
        goal.append((coordinate + math.ceil(size / 2) - 1) % size)
    table: list[int] = np.ravel_multi_index(tuple(goal), shape).tolist()
    return table


def _fixed(name: str, table: Sequence[int], to_itself: bool) -> DestinationPattern:
    """Return a pattern with one destination per node."""
    choices: list[tuple[int, ...]] = []
    for source, destination in enumerate(table):
        if destination == source and not to_itself:
            choices.append(())
        else:
            choices.append((destination,))
    return DestinationPattern(name=name, choices=tuple(choices))


def _collective(name: str, nodes: int, root: int) -> DestinationPattern:
    """Return the pattern of a scatter or gather."""
    if not 0 <= root < nodes:
        raise InputError(f"pattern {name}: the root {root} is none of the nodes 0..{nodes - 1}")
    if name == "scatter":
        choices: list[tuple[int, ...]] = [()] * nodes
        choices[root] = tuple(d for d in range(nodes) if d != root)
        return DestinationPattern(name=name, choices=tuple(choices), in_turn=True)
    choices = [(root,)] * nodes
    choices[root] = ()
    return DestinationPattern(name=name, choices=tuple(choices))


PROCESSES = ("poisson", "periodic", "burst")
PS_PER_S = 10**12


@dataclass(frozen=True, kw_only=True, eq=False)
class Injections:
    """Messages in order of time; those of one moment in order of their source.

    Attributes:
        time_ps: Time of each message (int64, picoseconds).
        source: Number of its source node (int32).
        destination: Number of its destination node (int32).
        size_bytes: Its size (int64); None: each message is as long as a packet.

    Raises:
        InputError: The arrays have different lengths, or times are not sorted or negative.
    """

    time_ps: IntArray
    source: IntArray
    destination: IntArray
    size_bytes: IntArray | None = None

    def __post_init__(self) -> None:
        if not self.time_ps.shape == self.source.shape == self.destination.shape:
            raise InputError("injections: times, sources and destinations must be of one length")
        if self.size_bytes is not None and len(self.size_bytes) != len(self.time_ps):
            raise InputError(
                f"messages: {len(self.size_bytes)} sizes for {len(self.time_ps)} messages"
            )
        if len(self.time_ps) and (self.time_ps[0] < 0 or bool((np.diff(self.time_ps) < 0).any())):
            raise InputError("injections: times must be sorted and none before 0")

    def __len__(self) -> int:
        return len(self.time_ps)


@dataclass(frozen=True, kw_only=True)
class InjectionProcess:
    """The times at which senders generate messages.

    Attributes:
        kind: "poisson"; "periodic"; or "burst": ``burst_messages`` at one moment, then nothing
            until the mean rate is met.
        rate_per_s: Mean number of messages per second of every sender.
        burst_messages: Messages per burst.
        in_phase: Whether all senders start at 0. Otherwise the starts of periodic senders are
            spread evenly over the period, and each sender of bursts starts at a random moment of
            the first period.

    Raises:
        InputError: A value is invalid, for instance a negative rate.
    """

    kind: str = "poisson"
    rate_per_s: float
    burst_messages: int = 1
    in_phase: bool = False

    def __post_init__(self) -> None:
        if self.kind not in PROCESSES:
            raise InputError(
                f"injection {self.kind!r} is unknown; give one of {', '.join(PROCESSES)}"
            )
        if not 0 <= self.rate_per_s < PS_PER_S:
            raise InputError(
                f"injection: a rate of {self.rate_per_s} messages a second; give 0 or more"
            )
        if self.burst_messages < 1:
            raise InputError(
                f"injection: a burst of {self.burst_messages} messages; give 1 or more"
            )


def build_injections(
    pattern: DestinationPattern,
    process: InjectionProcess,
    *,
    duration_s: float,
    seed: int | Sequence[int],
) -> Injections:
    """Return every message that the senders generate before ``duration_s``.

    The same seed gives the same messages. Each sender has its own random generator (seeded by seed
    and node), so that silencing one does not change the messages of the others. The cost is
    O(messages log messages).
    """
    if duration_s <= 0:
        raise InputError(f"injection: a duration of {duration_s} s; give one above 0")
    parts: list[Injections] = []
    seeds = [seed] if isinstance(seed, int) else list(seed)
    senders = pattern.senders
    for rank, source in enumerate(senders):
        rng = np.random.default_rng([*seeds, source])
        times = _times(process, duration_s, rng, rank / len(senders))
        choices = np.asarray(pattern.choices[source], dtype=np.int32)
        if pattern.in_turn:
            chosen = np.arange(len(times)) % len(choices)
        else:
            chosen = rng.integers(len(choices), size=len(times))
        sources = np.full(len(times), source, dtype=np.int32)
        parts.append(Injections(time_ps=times, source=sources, destination=choices[chosen]))
    return merge(parts)


def merge(parts: Iterable[Injections]) -> Injections:
    """Merge several traffics into one, sorted by time, then source.

    Messages of one moment and source keep their order.

    Raises:
        InputError: Messages have sizes.
    """
    traffics = list(parts)
    if any(part.size_bytes is not None for part in traffics):
        raise InputError(
            "injections: messages with sizes of their own cannot be merged; give one traffic"
        )
    if not traffics:
        return Injections(
            time_ps=np.empty(0, np.int64),
            source=np.empty(0, np.int32),
            destination=np.empty(0, np.int32),
        )
    time = np.concatenate([part.time_ps for part in traffics])
    source = np.concatenate([part.source for part in traffics])
    order = np.lexsort((source, time))
    destination = np.concatenate([part.destination for part in traffics])
    return Injections(time_ps=time[order], source=source[order], destination=destination[order])


def burst_at(pattern: DestinationPattern, *, time_s: float, messages: int) -> Injections:
    """Return one burst, in which every sender generates this number of messages at one moment.

    It makes a situation prone to deadlock, as in Zarza 2011, section 5.5.1.
    """
    if time_s < 0 or messages < 1:
        raise InputError(f"burst: {messages} messages at {time_s} s; give 1 or more at 0 or later")
    source = np.repeat(np.asarray(pattern.senders, dtype=np.int32), messages)
    destinations: list[int] = []
    for sender in pattern.senders:
        choices = pattern.choices[sender]
        destinations += [choices[k % len(choices)] for k in range(messages)]
    time = np.full(len(source), round(time_s * PS_PER_S), dtype=np.int64)
    destination = np.asarray(destinations, dtype=np.int32)
    return merge([Injections(time_ps=time, source=source, destination=destination)])


def _times(
    process: InjectionProcess, duration_s: float, rng: np.random.Generator, phase: float
) -> IntArray:
    """Return sorted times in picoseconds, all before the end of the duration.

    Args:
        process: The process.
        duration_s: The duration.
        rng: Random generator of the sender.
        phase: Start of a periodic sender, as a fraction of the period.
    """
    end_ps = round(duration_s * PS_PER_S)
    if process.rate_per_s == 0:
        return np.empty(0, dtype=np.int64)
    gap_ps = PS_PER_S / process.rate_per_s
    if process.kind == "poisson":
        times = _poisson(gap_ps, end_ps, rng)
    elif process.kind == "burst":
        period_ps = gap_ps * process.burst_messages
        first_ps = 0.0 if process.in_phase else period_ps * rng.random()
        times = np.repeat(np.arange(first_ps, end_ps, period_ps), process.burst_messages)
    else:
        first_ps = 0.0 if process.in_phase else gap_ps * phase
        times = np.arange(first_ps, end_ps, gap_ps)
    times_ps = times.astype(np.int64)
    return times_ps[times_ps < end_ps]


def _poisson(gap_ps: float, end_ps: int, rng: np.random.Generator) -> FloatArray:
    """Return the times of a Poisson process with this mean gap.

    Gaps are drawn in batches that are likely to reach the end.
    """
    times = np.empty(0)
    last_ps = 0.0
    while last_ps < end_ps:
        batch = 64 + int(1.1 * (end_ps - last_ps) / gap_ps)
        more = last_ps + np.cumsum(rng.exponential(gap_ps, size=batch))
        times = np.concatenate([times, more])
        last_ps = float(more[-1])
    return times[times < end_ps]
