"""The SCC-Dinkelbach recursion over exact integers: waves of independent pieces until every link's load is final.

Which links are full comes from a solver, in integers or in compiled floats; levels and demands are exact in both cases,
and a piece that the floats do not balance to zero is solved again in integers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from testbed.routing.capillary.pieces import IntegerSolver, Piece, Split

if TYPE_CHECKING:
    from testbed.routing.capillary.kernel import CompiledSolver

COMPILE_FROM_LINKS = 3000
"""Links solved in integers by this process before it turns to numba, which takes about as long to import."""

_solved_in_integers = 0


class DisconnectedError(Exception):
    """No links lead from the source to the sink."""


class MisjudgedError(Exception):
    """A piece's level is not below its parent's: floats have misjudged a cut above; all is to be solved in integers."""


@dataclass(frozen=True, kw_only=True)
class FinalLoads:
    """The levels (load over weight) at which links are saturated, highest first, and each link's share in them.

    Link i became final at ``levels[rank[i]]`` (``len(levels)``: it never carries anything), saturated or empty.
    """

    levels: tuple[Fraction, ...]
    rank: tuple[int, ...]
    saturated: tuple[bool, ...]


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
    unique, so the choice shows in the time only. Source: Gabrielyan 2007, section 4.2, in recursive form. A wave costs
    one maximum flow a piece; there are as many waves as the deepest chain of nested components. Raises
    DisconnectedError.
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
    demand = [0] * links.nodes
    demand[source], demand[sink] = 1, -1
    whole = Piece(nodes=list(range(links.nodes)), demand=demand, denominator=1, bound=None, in_integers=not compiled)
    recursion = _Recursion(links)
    pieces = [whole]
    while pieces:
        in_floats = recursion.advance([piece for piece in pieces if not piece.in_integers], in_integers=False)
        pieces = in_floats + recursion.advance([piece for piece in pieces if piece.in_integers], in_integers=True)
    return recursion.final_loads()


class _Recursion:
    """What is final so far, and the solvers that know it."""

    def __init__(self, links: LinkArrays) -> None:
        self._links = links
        self._solvers: dict[bool, IntegerSolver | CompiledSolver] = {}
        self._level_number: dict[Fraction, int] = {}
        self._final = [-1] * len(links.tail)  # the number of its level, a link
        self._saturated = [False] * len(links.tail)

    def advance(self, pieces: list[Piece], *, in_integers: bool) -> list[Piece]:
        """Split the pieces, which share no node; what is left of them for the next wave."""
        following: list[Piece] = []
        if not pieces:
            return following
        finished: list[int] = []
        for piece, split in zip(pieces, self._solver(in_integers).split(pieces), strict=True):
            settled = settle(piece, split, self._links)
            if settled is None or split is None:
                following.append(_again(piece))
                continue
            level, children = settled
            number = self._level_number.setdefault(level, len(self._level_number))
            for link, full in zip(split.crossing, split.full, strict=True):
                self._final[link], self._saturated[link] = number, full == 1
            finished += split.crossing
            following += children
        for solver in self._solvers.values():
            solver.finish(finished)
        return following

    def _solver(self, in_integers: bool) -> IntegerSolver | CompiledSolver:
        if in_integers not in self._solvers:
            links = self._links
            weight = [w if number < 0 else 0 for number, w in zip(self._final, links.weight, strict=True)]
            if in_integers:
                self._solvers[True] = IntegerSolver(links.nodes, links.tail, links.head, weight)
            else:
                from testbed.routing.capillary.kernel import CompiledSolver

                self._solvers[False] = CompiledSolver(links.nodes, links.tail, links.head, weight)
        return self._solvers[in_integers]

    def final_loads(self) -> FinalLoads:
        """Once no pieces are left."""
        levels = sorted(self._level_number, reverse=True)
        rank = [0] * len(levels) + [len(levels)]  # by number; the last, -1, for links that no piece made final
        for at, level in enumerate(levels):
            rank[self._level_number[level]] = at
        ranks = tuple(rank[number] for number in self._final)
        return FinalLoads(levels=tuple(levels), rank=ranks, saturated=tuple(self._saturated))


def _again(piece: Piece) -> Piece:
    """The piece for another wave, in integers; where those do not balance either, the floats erred above it."""
    if piece.in_integers:
        raise DisconnectedError if piece.bound is None else MisjudgedError
    return replace(piece, in_integers=True)


def settle(piece: Piece, split: Split | None, links: LinkArrays) -> tuple[Fraction, list[Piece]] | None:
    """A piece's exact level and what is left inside its components; None where the split does not balance exactly or
    its level is not below the bound.

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
    return None if children is None else (level, children)


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
