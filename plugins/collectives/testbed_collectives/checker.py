"""A referee of schedules: chunks by time over the links of a network. It imports no scheduler and no reader.

A chunk is unicast, from its source to its sink; it may go in fractions over several paths. What is checked, in this
order: links exist; nothing is sent from where it has not come before; every chunk arrives whole; no link carries more
in a slot than its capacity. Multicast, allgather and reductions are left out.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

from topologies.network import Network

TOLERANCE = 1e-3
"""Of volumes and capacities, relative: files round what they print."""


@dataclass(frozen=True, kw_only=True)
class Move:
    """``volume`` of a chunk (1: all of it) goes along ``nodes``. ``together``: over all links in ``slot``
    (cut-through), else over the first in ``slot``, the next in the slot after it, and so on. ``line`` of the file, 0
    where unknown."""

    chunk: Hashable
    nodes: tuple[str, ...]
    slot: int
    volume: float = 1.0
    together: bool = False
    line: int = 0

    @property
    def arrives(self) -> int:
        """The last slot in which it is under way."""
        return self.slot + (0 if self.together else len(self.nodes) - 2)


@dataclass(frozen=True, kw_only=True)
class Violation:
    """``kind``: link, order, delivery or capacity; ``line`` of the file, 0 where it is of no one line."""

    kind: str
    text: str
    line: int = 0


def check_moves(
    wanted: Mapping[Hashable, tuple[str, str]],
    moves: Sequence[Move],
    capacity_chunks: Mapping[tuple[str, str], float],
) -> list[Violation]:
    """Everything that is wrong, the first of each kind first. ``wanted``: chunk -> source, sink. ``capacity_chunks``:
    link -> chunks that it carries in a slot."""
    return [
        *_missing_links(moves, capacity_chunks),
        *_too_early(wanted, moves),
        *_undelivered(wanted, moves),
        *_overfull(moves, capacity_chunks),
    ]


def capacities(network: Network, chunk_bits: float, slot_s: float) -> dict[tuple[str, str], float]:
    """(node, next node) -> chunks a slot over all links between the two."""
    found: dict[tuple[str, str], float] = defaultdict(float)
    for link in network.links:
        found[link.source, link.target] += link.capacity_bps * slot_s / chunk_bits
    return dict(found)


def _missing_links(
    moves: Sequence[Move], known: Mapping[tuple[str, str], float]
) -> list[Violation]:
    return [
        Violation(
            kind="link",
            text=f"chunk {move.chunk} goes {a} to {b}, where no link leads",
            line=move.line,
        )
        for move in moves
        for a, b in itertools.pairwise(move.nodes)
        if (a, b) not in known
    ]


def _too_early(
    wanted: Mapping[Hashable, tuple[str, str]], moves: Sequence[Move]
) -> list[Violation]:
    """Where more of a chunk has left a node by a slot than had come before that slot."""
    by_chunk: dict[Hashable, list[Move]] = defaultdict(list)
    for move in moves:
        by_chunk[move.chunk].append(move)
    found = []
    for chunk, own in by_chunk.items():
        if chunk not in wanted:
            found.append(
                Violation(kind="order", text=f"chunk {chunk} is nobody's", line=own[0].line)
            )
            continue
        source = wanted[chunk][0]
        for move in own:
            at = move.nodes[0]
            came = sum(m.volume for m in own if m.nodes[-1] == at and m.arrives < move.slot) + (
                at == source
            )
            left = sum(m.volume for m in own if m.nodes[0] == at and m.slot <= move.slot)
            if left > came * (1 + TOLERANCE) + 1e-9:
                text = f"chunk {chunk}: {left:.6g} of it has left {at} by slot {move.slot}, where {came:.6g} had come"
                found.append(Violation(kind="order", text=text, line=move.line))
                break
    return found


def _undelivered(
    wanted: Mapping[Hashable, tuple[str, str]], moves: Sequence[Move]
) -> list[Violation]:
    arrived: dict[Hashable, float] = defaultdict(float)
    for move in moves:
        if move.chunk in wanted:
            sink = wanted[move.chunk][1]
            arrived[move.chunk] += move.volume * (
                (move.nodes[-1] == sink) - (move.nodes[0] == sink)
            )
    return [
        Violation(kind="delivery", text=f"chunk {chunk}: {arrived[chunk]:.6g} of it reaches {sink}")
        for chunk, (source, sink) in wanted.items()
        if source != sink and abs(arrived[chunk] - 1) > TOLERANCE
    ]


def _overfull(moves: Sequence[Move], known: Mapping[tuple[str, str], float]) -> list[Violation]:
    used: dict[tuple[tuple[str, str], int], float] = defaultdict(float)
    found, told = [], set()
    for move in moves:
        for hop, link in enumerate(itertools.pairwise(move.nodes)):
            slot = move.slot + (0 if move.together else hop)
            used[link, slot] += move.volume
            most = known.get(link)
            if (
                most is not None
                and used[link, slot] > most * (1 + TOLERANCE) + 1e-9
                and (link, slot) not in told
            ):
                told.add((link, slot))
                text = f"{link[0]} to {link[1]} carries {used[link, slot]:.6g} chunks in slot {slot}, {most:.6g} at most"
                found.append(Violation(kind="capacity", text=text, line=move.line))
    return found
