"""When each node makes a message, and for whom: Poisson, periodic and burst injection, as sorted arrays.

A traffic is fixed before a simulation starts, so that two engines, and two routings, meet the very same messages. For
whom is a destination pattern (Zarza 2011, Table 5.1) or a collective, scatter or gather. Nodes are numbers 0..n-1:
positions in ``network.hosts``; on a torus the first coordinate is the most significant.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from testbed.arrays import FloatArray, IntArray
from testbed.errors import InputError


@dataclass(frozen=True, kw_only=True)
class DestinationPattern:
    """Where each node sends. ``choices[s]`` lists the destinations of node s: none (it is silent), one (always the
    same) or many. Of many, ``in_turn`` takes one after another, otherwise each message draws one.
    """

    name: str
    choices: tuple[tuple[int, ...], ...]
    in_turn: bool = False

    def __post_init__(self) -> None:
        nodes = len(self.choices)
        for source, there in enumerate(self.choices):
            if there and not 0 <= min(there) <= max(there) < nodes:
                wrong = next(d for d in there if not 0 <= d < nodes)
                raise InputError(
                    f"pattern {self.name}: node {source} sends to {wrong}; there are {nodes} nodes"
                )

    @property
    def senders(self) -> tuple[int, ...]:
        """The nodes that are not silent."""
        return tuple(s for s, there in enumerate(self.choices) if there)


PERMUTATIONS: dict[str, Callable[[int, int], int]] = {
    "bit-reversal": lambda i, n: n - 1 - i,
    "shuffle": lambda i, n: (i - 1) % n,
    "butterfly": lambda i, n: {0: n - 1, n - 1: 0}.get(i, i),
    "transpose": lambda i, n: (i + n // 2) % n,
    "complement": lambda i, n: i,
}
"""By name: which of the source's n bits is bit i of the destination; of the complement the other one."""
PATTERNS = ("uniform", *PERMUTATIONS, "tornado", "scatter", "gather")


def build_pattern(
    name: str,
    nodes: int,
    *,
    shape: Sequence[int] | None = None,
    root: int = 0,
    to_itself: bool = False,
) -> DestinationPattern:
    """The pattern of that name over so many nodes.

    ``shape``: the torus's sizes (tornado only; a ring of ``nodes`` where None). ``root``: whom scatter and gather
    belong to. ``to_itself``: whether a node whose own number is drawn or computed sends to itself (as BookSim2 does)
    or is silent (default). Raises InputError for an unknown pattern, and for one that needs a power of two.

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
        everyone = tuple(range(nodes))
        choices = (
            everyone if to_itself else everyone[:s] + everyone[s + 1 :] for s in range(nodes)
        )
        return DestinationPattern(name=name, choices=tuple(choices))
    if name in ("scatter", "gather"):
        return _collective(name, nodes, root)
    raise InputError(f"pattern {name!r} is unknown; give one of {', '.join(PATTERNS)}")


def only_in_row(pattern: DestinationPattern, members: Sequence[int]) -> DestinationPattern:
    """The pattern with all nodes silent that are not among the members."""
    inside = frozenset(members)
    choices = tuple(there if s in inside else () for s, there in enumerate(pattern.choices))
    return DestinationPattern(name=pattern.name, choices=choices, in_turn=pattern.in_turn)


def tornado_in_one_row(shape: Sequence[int], row: int) -> DestinationPattern:
    """Tornado along the first dimension of a 2-D torus, in the row of that second coordinate; all other nodes silent.

    The routing cycle of Zarza 2011, 5.4.1: a ring of ``shape[0]`` nodes. Raises InputError where there is no such row.

    >>> [s for s in tornado_in_one_row((4, 4), 1).senders]
    [1, 5, 9, 13]
    """
    if len(shape) != 2 or not 0 <= row < shape[1]:
        raise InputError(
            f"a row {row} in a torus of shape {'x'.join(map(str, shape))}: give a row of a 2-D torus"
        )
    width, height = shape
    offset = math.ceil(width / 2) - 1
    choices: list[tuple[int, ...]] = [()] * (width * height)
    for x in range(width):
        if offset:
            choices[x * height + row] = ((x + offset) % width * height + row,)
    return DestinationPattern(name="tornado-row", choices=tuple(choices))


def row_members(shape: Sequence[int], row: int) -> tuple[int, ...]:
    """The nodes of that row of a 2-D torus (second coordinate), by their first coordinate."""
    return tuple(x * shape[1] + row for x in range(shape[0]))


def _permutation(name: str, nodes: int) -> list[int]:
    """The destination of each node.

    >>> _permutation("bit-reversal", 16)[0b0001], _permutation("shuffle", 16)[0b1001]
    (8, 3)
    >>> _permutation("butterfly", 16)[0b1000], _permutation("transpose", 16)[0b0111]
    (1, 13)
    """
    bits = _bits(name, nodes)
    of = [PERMUTATIONS[name](i, bits) for i in range(bits)]
    inverted = nodes - 1 if name == "complement" else 0
    return [
        inverted ^ sum((source >> of[i] & 1) << i for i in range(bits)) for source in range(nodes)
    ]


def _bits(name: str, nodes: int) -> int:
    bits = nodes.bit_length() - 1
    if nodes != 1 << bits:
        raise InputError(
            f"pattern {name}: it permutes the bits of a node's number, and {nodes} nodes are no power of two; "
            f"take {1 << bits} or {2 << bits} nodes, or uniform"
        )
    if name == "transpose" and bits % 2:
        raise InputError(
            f"pattern transpose: it swaps two halves of {bits} bits; take {nodes // 2} or {nodes * 2} nodes"
        )
    return bits


def _tornado(shape: tuple[int, ...], nodes: int) -> list[int]:
    """Each coordinate goes ceil(k/2) - 1 further round its ring."""
    if math.prod(shape) != nodes:
        raise InputError(
            f"pattern tornado: the shape {'x'.join(map(str, shape))} has not {nodes} nodes"
        )
    place = np.unravel_index(np.arange(nodes), shape)
    goal = [(at + math.ceil(size / 2) - 1) % size for at, size in zip(place, shape, strict=True)]
    table: list[int] = np.ravel_multi_index(goal, shape).tolist()
    return table


def _fixed(name: str, table: Sequence[int], to_itself: bool) -> DestinationPattern:
    choices = tuple((d,) if to_itself or d != s else () for s, d in enumerate(table))
    return DestinationPattern(name=name, choices=choices)


def _collective(name: str, nodes: int, root: int) -> DestinationPattern:
    if not 0 <= root < nodes:
        raise InputError(f"pattern {name}: the root {root} is none of the nodes 0..{nodes - 1}")
    others = tuple(d for d in range(nodes) if d != root)
    if name == "scatter":
        choices = tuple(others if s == root else () for s in range(nodes))
        return DestinationPattern(name=name, choices=choices, in_turn=True)
    return DestinationPattern(
        name=name, choices=tuple(() if s == root else (root,) for s in range(nodes))
    )


PROCESSES = ("poisson", "periodic", "burst")
PS_PER_S = 10**12


@dataclass(frozen=True, kw_only=True, eq=False)
class Injections:
    """Messages in order of time, ties by source. Arrays of one length: ``time_ps`` (int64, picoseconds), ``source`` and
    ``destination`` (int32, node numbers), ``size_bytes`` (int64; None: each as long as a packet).
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
    """``kind`` poisson, periodic or burst; ``rate_per_s`` messages a second of every sender, on average.

    Periodic: the senders share the period evenly out of phase, or with ``in_phase`` all start at 0. Burst:
    ``burst_messages`` at one moment, then nothing until the mean is kept; ``in_phase`` all senders at once, else each
    at a moment of its own in the first period. Raises InputError for a rate below 0.
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
    """Every message that the pattern's senders make before ``duration_s``; the same seed gives the same messages.

    Each sender draws from a generator of its own (seeded by seed and node), so that silencing one leaves the others'
    messages as they are. O(messages log messages).
    """
    if duration_s <= 0:
        raise InputError(f"injection: a duration of {duration_s} s; give one above 0")
    parts: list[Injections] = []
    seeds = [seed] if isinstance(seed, int) else list(seed)
    senders = pattern.senders
    for rank, source in enumerate(senders):
        chance = np.random.default_rng([*seeds, source])
        times = _times(process, duration_s, chance, rank / len(senders))
        there = np.asarray(pattern.choices[source], dtype=np.int32)
        picked = (
            np.arange(len(times)) % len(there)
            if pattern.in_turn
            else chance.integers(len(there), size=len(times))
        )
        own = np.full(len(times), source, dtype=np.int32)
        parts.append(Injections(time_ps=times, source=own, destination=there[picked]))
    return merge(parts)


def merge(parts: Iterable[Injections]) -> Injections:
    """Several traffics as one, sorted by time, then source; messages of one moment and source keep their order.

    Raises InputError for parts whose messages have sizes of their own.
    """
    listed = list(parts)
    if any(part.size_bytes is not None for part in listed):
        raise InputError(
            "injections: messages with sizes of their own cannot be merged; give one traffic"
        )
    if not listed:
        return Injections(
            time_ps=np.empty(0, np.int64),
            source=np.empty(0, np.int32),
            destination=np.empty(0, np.int32),
        )
    time = np.concatenate([part.time_ps for part in listed])
    source = np.concatenate([part.source for part in listed])
    order = np.lexsort((source, time))
    destination = np.concatenate([part.destination for part in listed])
    return Injections(time_ps=time[order], source=source[order], destination=destination[order])


def burst_at(pattern: DestinationPattern, *, time_s: float, messages: int) -> Injections:
    """One burst: every sender makes so many messages at that moment (a deadlock-prone situation, as in Zarza 2011,
    5.5.1)."""
    if time_s < 0 or messages < 1:
        raise InputError(f"burst: {messages} messages at {time_s} s; give 1 or more at 0 or later")
    source = np.repeat(np.asarray(pattern.senders, dtype=np.int32), messages)
    there = [
        pattern.choices[s][k % len(pattern.choices[s])]
        for s in pattern.senders
        for k in range(messages)
    ]
    time = np.full(len(source), round(time_s * PS_PER_S), dtype=np.int64)
    return merge(
        [Injections(time_ps=time, source=source, destination=np.asarray(there, dtype=np.int32))]
    )


def _times(
    process: InjectionProcess, duration_s: float, chance: np.random.Generator, phase: float
) -> IntArray:
    """Picoseconds, sorted, all below the duration; ``phase`` in 0..1 is the sender's share of a period."""
    end = round(duration_s * PS_PER_S)
    if process.rate_per_s == 0:
        return np.empty(0, dtype=np.int64)
    gap = PS_PER_S / process.rate_per_s
    if process.kind == "poisson":
        times = _poisson(gap, end, chance)
    else:
        period = gap * (process.burst_messages if process.kind == "burst" else 1)
        first = (
            0.0
            if process.in_phase
            else period * (chance.random() if process.kind == "burst" else phase)
        )
        times = np.arange(first, end, period)
        if process.kind == "burst":
            times = np.repeat(times, process.burst_messages)
    whole = times.astype(np.int64)
    return whole[whole < end]


def _poisson(gap: float, end: int, chance: np.random.Generator) -> FloatArray:
    drawn = np.empty(0)
    last = 0.0
    while last < end:
        more = last + np.cumsum(chance.exponential(gap, size=64 + int(1.1 * (end - last) / gap)))
        drawn = np.concatenate([drawn, more])
        last = float(more[-1])
    return drawn[drawn < end]
