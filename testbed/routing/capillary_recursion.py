"""The SCC-Dinkelbach recursion over exact integers: waves of independent pieces until every link's load is final.

Which links are full comes from a solver, in integers or in compiled floats; levels and demands are exact in both cases,
and a piece that the floats do not balance to zero is solved again in integers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from testbed.routing.pieces import IntegerSolver, Piece, PieceSolver, Split

COMPILE_FROM_LINKS = 3000
"""Links solved in integers by this process before it turns to numba, which takes about as long to import."""

ZERO = Fraction(0)
_solved_in_integers = 0


class DisconnectedError(Exception):
    """No links lead from the source to the sink."""


class MisjudgedError(Exception):
    """A piece's level is not below its parent's: floats have misjudged a cut above; all is to be solved in integers."""


@dataclass(frozen=True, kw_only=True)
class FinalLoads:
    """For each link the level (load over weight) at which it became final, and whether it is saturated or empty."""

    levels: tuple[Fraction, ...]
    saturated: tuple[bool, ...]

    @property
    def layer_levels(self) -> tuple[Fraction, ...]:
        """The levels at which links are saturated, highest first."""
        return tuple(sorted({v for v, full in zip(self.levels, self.saturated, strict=True) if full}, reverse=True))


@dataclass(frozen=True, kw_only=True)
class LinkArrays:
    """A network as numbers: ends of each link, and its capacity as an integer in a common unit."""

    nodes: int
    tail: Sequence[int]
    head: Sequence[int]
    weight: Sequence[int]


def final_loads(links: LinkArrays, source: int, sink: int, *, compiled: bool | None = None) -> FinalLoads:
    """Lexicographically least levels of one unit from ``source`` to ``sink``.

    ``compiled`` False keeps to plain integers, True to the kernel, None chooses by the work done so far: the answer is
    unique, so the choice shows in the time only. Source: 000, Section 4.2, in recursive form. A wave costs one maximum
    flow a piece; there are as many waves as the deepest chain of nested components. Raises DisconnectedError.
    """
    global _solved_in_integers
    if not links.tail:
        raise DisconnectedError
    if compiled is None:
        compiled = _solved_in_integers + len(links.tail) > COMPILE_FROM_LINKS
    if compiled:
        try:
            return _run(links, source, sink, compiled=True)
        except MisjudgedError:
            pass
    _solved_in_integers += len(links.tail)
    return _run(links, source, sink, compiled=False)


def _run(links: LinkArrays, source: int, sink: int, *, compiled: bool) -> FinalLoads:
    count = len(links.tail)
    levels, saturated, final = [ZERO] * count, [False] * count, [False] * count
    demand = [0] * links.nodes
    demand[source], demand[sink] = 1, -1
    whole = Piece(nodes=list(range(links.nodes)), demand=demand, denominator=1, bound=None, in_integers=not compiled)
    pieces, solvers = [whole], {not compiled: _solver(links, compiled=compiled)}
    while pieces:
        if pieces[-1].in_integers and True not in solvers:
            remaining = [0 if done else weight for done, weight in zip(final, links.weight, strict=True)]
            left = LinkArrays(nodes=links.nodes, tail=links.tail, head=links.head, weight=remaining)
            solvers[True] = _solver(left, compiled=False)
        following: list[Piece] = []
        finished: list[int] = []
        for in_integers, solver in solvers.items():
            group = [piece for piece in pieces if piece.in_integers == in_integers]
            for piece, split in zip(group, solver.split(group) if group else (), strict=True):
                settled = settle(piece, split, links)
                if settled is None or split is None:
                    following.append(_again(piece))
                    continue
                for link, full in zip(split.crossing, split.full, strict=True):
                    levels[link], saturated[link], final[link] = settled.level, full == 1, True
                finished += split.crossing
                following += settled.children
        for solver in solvers.values():
            solver.finish(finished)
        pieces = sorted(following, key=lambda piece: piece.in_integers)
    return FinalLoads(levels=tuple(levels), saturated=tuple(saturated))


def _solver(links: LinkArrays, *, compiled: bool) -> PieceSolver:
    if not compiled:
        return IntegerSolver(links.nodes, links.tail, links.head, links.weight)
    from testbed.routing.capillary_kernel import CompiledSolver

    return CompiledSolver(links.nodes, links.tail, links.head, links.weight)


def _again(piece: Piece) -> Piece:
    """The piece for another wave, in integers; where those do not balance either, the floats erred above it."""
    if piece.in_integers:
        raise DisconnectedError if piece.bound is None else MisjudgedError
    piece.in_integers = True
    return piece


@dataclass(frozen=True, kw_only=True)
class Settled:
    """A piece's exact level, and the pieces that are left inside its components."""

    level: Fraction
    children: list[Piece]


def settle(piece: Piece, split: Split | None, links: LinkArrays) -> Settled | None:
    """Exact level and remaining demands; None where the split does not balance exactly or its level is not below the bound.

    A component A sends out level * (weight of full links out of A less into A) = its demand: the smallest such A gives
    the level, and that every other component then balances to zero proves that the full links are full, the rest empty.
    """
    if split is None:
        return None
    change = dict.fromkeys(piece.nodes, 0)
    for link, full in zip(split.crossing, split.full, strict=True):
        if full:
            change[links.tail[link]] += links.weight[link]
            change[links.head[link]] -= links.weight[link]
    net = list(change.values())
    inside: list[list[int]] = [[] for _ in range(split.parts)]
    for at, label in enumerate(split.component):
        inside[label].append(at)
    senders = [part for part in inside if sum(net[at] for at in part)]
    if not senders:
        return None
    smallest = min(senders, key=len)
    ratio = Fraction(sum(piece.demand[at] for at in smallest), sum(net[at] for at in smallest))
    level = ratio / piece.denominator
    if level <= 0 or (piece.bound is not None and level >= piece.bound):
        return None
    children = _children(piece, inside, net, ratio, level)
    return None if children is None else Settled(level=level, children=children)


def _children(
    piece: Piece, inside: list[list[int]], net: list[int], ratio: Fraction, level: Fraction
) -> list[Piece] | None:
    """What is left to move within each component, exactly; None where it does not sum to zero."""
    scale, times = ratio.denominator, ratio.numerator
    denominator = piece.denominator * scale
    children = []
    for part in inside:
        rest = [piece.demand[at] * scale - times * net[at] for at in part]
        if sum(rest):
            return None
        if any(rest):
            divisor = math.gcd(denominator, *rest)
            children.append(
                Piece(
                    nodes=[piece.nodes[at] for at in part],
                    demand=[b // divisor for b in rest],
                    denominator=denominator // divisor,
                    bound=level,
                    in_integers=piece.in_integers,
                )
            )
    return children
