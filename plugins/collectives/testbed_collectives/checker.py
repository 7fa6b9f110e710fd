"""Checks schedules: chunks that move over the links of a network, slot by slot.

The module is a referee, and imports neither a scheduler nor a reader. A chunk is sent from its
source to its sink, possibly in parts over several paths. The checks, in this order:

- All links exist.
- No node sends a part of a chunk before it has it.
- Every chunk arrives completely.
- No link carries more than its capacity in a slot.

Multicast, allgather and reductions are not supported.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from topologies.network import Network

# Relative tolerance of volumes and capacities. Files have rounded numbers.
TOLERANCE = 1e-3
# Absolute tolerance, for rounding errors of sums.
_ROUNDING = 1e-9

# Two neighbouring nodes.
NodePair = tuple[str, str]


@dataclass(frozen=True, kw_only=True)
class Move:
    """The movement of a part of a chunk along a path.

    Attributes:
        chunk: The chunk.
        nodes: The nodes of the path.
        slot: The slot of the first link.
        volume: The part of the chunk; 1 is all of it.
        together: Whether it crosses all links in this slot (cut-through). Otherwise it crosses each
            link one slot after the previous one.
        line: Line of the file, or 0 if it is unknown.
    """

    chunk: Hashable
    nodes: tuple[str, ...]
    slot: int
    volume: float = 1.0
    together: bool = False
    line: int = 0

    @property
    def arrives(self) -> int:
        """The last slot in which the part is in transit."""
        if self.together:
            return self.slot
        return self.slot + len(self.nodes) - 2

    def hops(self) -> Iterator[tuple[NodePair, int]]:
        """Yield each link, as its two nodes, with the slot in which the part crosses it."""
        for hop, nodes in enumerate(itertools.pairwise(self.nodes)):
            yield nodes, self.slot if self.together else self.slot + hop


@dataclass(frozen=True, kw_only=True)
class TimedChunks:
    """A schedule of chunks.

    Attributes:
        wanted: Source and sink of each chunk.
        moves: The movements, in the order of the file.
        chunk_bits: Size of a chunk in bits.
        slot_s: Duration of a slot in seconds. Size and duration are 1 if slots are time frames, in
            which a link of 1 bit/s carries one chunk.
    """

    wanted: Mapping[Hashable, NodePair]
    moves: Sequence[Move]
    chunk_bits: float = 1.0
    slot_s: float = 1.0


@dataclass(frozen=True, kw_only=True)
class Violation:
    """A violation of a rule.

    Attributes:
        kind: The rule: "link", "order", "delivery" or "capacity".
        text: Description for people.
        line: Line of the file, or 0 if it concerns no single line.
    """

    kind: str
    text: str
    line: int = 0


def check_moves(
    wanted: Mapping[Hashable, NodePair],
    moves: Sequence[Move],
    capacity_chunks: Mapping[NodePair, float],
) -> list[Violation]:
    """Return all violations, in the order of the rules.

    Args:
        wanted: Source and sink of each chunk.
        moves: The movements.
        capacity_chunks: The number of chunks that each link carries in a slot.
    """
    return [
        *_missing_links(moves, capacity_chunks),
        *_early_sends(wanted, moves),
        *_undelivered_chunks(wanted, moves),
        *_overloaded_links(moves, capacity_chunks),
    ]


def capacities(network: Network, chunk_bits: float, slot_s: float) -> dict[NodePair, float]:
    """Return the number of chunks that all links between two nodes carry in a slot."""
    chunks: dict[NodePair, float] = defaultdict(float)
    for link in network.links:
        chunks[link.source, link.target] += link.capacity_bps * slot_s / chunk_bits
    return dict(chunks)


def _missing_links(
    moves: Sequence[Move], capacity_chunks: Mapping[NodePair, float]
) -> list[Violation]:
    violations = []
    for move in moves:
        for source, target in itertools.pairwise(move.nodes):
            if (source, target) not in capacity_chunks:
                text = f"chunk {move.chunk} goes {source} to {target}, where no link leads"
                violations.append(Violation(kind="link", text=text, line=move.line))
    return violations


def _early_sends(wanted: Mapping[Hashable, NodePair], moves: Sequence[Move]) -> list[Violation]:
    """Return for each chunk the first movement of more than its start node has of the chunk.

    A movement of a chunk that is not in ``wanted`` is a violation too.
    """
    moves_of_chunk: dict[Hashable, list[Move]] = defaultdict(list)
    for move in moves:
        moves_of_chunk[move.chunk].append(move)
    violations = []
    for chunk, chunk_moves in moves_of_chunk.items():
        if chunk in wanted:
            source, _ = wanted[chunk]
            violations += _early_send(source, chunk_moves)
        else:
            text = f"chunk {chunk} is nobody's"
            violations.append(Violation(kind="order", text=text, line=chunk_moves[0].line))
    return violations


def _early_send(source: str, chunk_moves: Sequence[Move]) -> list[Violation]:
    """Return the first early movement of a chunk, or nothing.

    Args:
        source: The node that has the complete chunk at the beginning.
        chunk_moves: All movements of the chunk.
    """
    for move in chunk_moves:
        node = move.nodes[0]
        arrived = sum(
            other.volume
            for other in chunk_moves
            if other.nodes[-1] == node and other.arrives < move.slot
        )
        if node == source:
            arrived += 1
        sent = sum(
            other.volume
            for other in chunk_moves
            if other.nodes[0] == node and other.slot <= move.slot
        )
        if sent > arrived * (1 + TOLERANCE) + _ROUNDING:
            text = (
                f"chunk {move.chunk}: {sent:.6g} of it has left {node} by slot {move.slot}, "
                f"where {arrived:.6g} had come"
            )
            return [Violation(kind="order", text=text, line=move.line)]
    return []


def _undelivered_chunks(
    wanted: Mapping[Hashable, NodePair], moves: Sequence[Move]
) -> list[Violation]:
    """Return the chunks whose volume at the sink is not 1 in the end."""
    delivered: dict[Hashable, float] = defaultdict(float)
    for move in moves:
        if move.chunk not in wanted:
            continue
        _, sink = wanted[move.chunk]
        arrives = move.nodes[-1] == sink
        leaves = move.nodes[0] == sink
        if arrives and not leaves:
            delivered[move.chunk] += move.volume
        elif leaves and not arrives:
            delivered[move.chunk] -= move.volume
    violations = []
    for chunk, (source, sink) in wanted.items():
        if source != sink and abs(delivered[chunk] - 1) > TOLERANCE:
            text = f"chunk {chunk}: {delivered[chunk]:.6g} of it reaches {sink}"
            violations.append(Violation(kind="delivery", text=text))
    return violations


def _overloaded_links(
    moves: Sequence[Move], capacity_chunks: Mapping[NodePair, float]
) -> list[Violation]:
    """Return each link and slot with too much traffic, at the first movement that is too much."""
    used: dict[tuple[NodePair, int], float] = defaultdict(float)
    reported = set()
    violations = []
    for move in moves:
        for nodes, slot in move.hops():
            load = used[nodes, slot] + move.volume
            used[nodes, slot] = load
            capacity = capacity_chunks.get(nodes)
            if capacity is None or (nodes, slot) in reported:
                continue
            if load > capacity * (1 + TOLERANCE) + _ROUNDING:
                reported.add((nodes, slot))
                text = (
                    f"{nodes[0]} to {nodes[1]} carries {load:.6g} chunks in slot {slot}, "
                    f"{capacity:.6g} at most"
                )
                violations.append(Violation(kind="capacity", text=text, line=move.line))
    return violations
