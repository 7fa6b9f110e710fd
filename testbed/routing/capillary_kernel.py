"""The capillary recursion's steps compiled by numba, for all pieces of a wave in one call.

Imported only when a network is large enough to need it; what it returns is checked exactly by its caller.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from testbed.routing import flow_steps
from testbed.routing.flow_steps import (
    MET,
    PUSHABLE,
    Residual,
    build_residual,
    cut_share,
    drop_final_arcs,
    first_share,
    index_arcs,
    label_components,
    list_crossing,
    push_flow,
    spread_levels,
)
from testbed.routing.pieces import Piece, Split

DISCONNECTED = -1
PUSH_TOLERANCE = 1e-13  # of a link's capacity: less than this is rounding, not room for flow
LEAST_NEED = 1e-12  # of the piece's load: less than this is met
FINAL_TOLERANCE = 1e-9  # of a link's capacity: full or empty within this is taken for full or empty, then checked

STEPS: tuple[Callable[..., Any], ...] = (
    flow_steps.is_open,
    flow_steps.push_path,
    flow_steps.drain_node,
    flow_steps.close_component,
    flow_steps.forget_visits,
    flow_steps.add_arc,
    drop_final_arcs,
    first_share,
    cut_share,
    spread_levels,
    push_flow,
    label_components,
    list_crossing,
)
"""The steps that compiled code calls, inner ones first."""


def keep_flow(graph: Residual, low: Any, high: Any, load: Any) -> None:
    """Start from the flow that the wave before left, cut to the capacities of this load; what that leaves unmet is need."""
    for at in range(low, high):
        node = graph.order[at]
        graph.need[node] = graph.demand[node]
    for at in range(low, high):
        node = graph.order[at]
        for arc in range(graph.first[node], graph.last[node]):
            if graph.arc_out[arc]:
                link = graph.arc_link[arc]
                graph.capacity[link] = load * graph.weight[link]
                graph.flow[link] = min(graph.flow[link], graph.capacity[link])
                graph.need[node] -= graph.flow[link]
                graph.need[graph.arc_node[arc]] += graph.flow[link]


def solve_piece(graph: Residual, low: Any, high: Any) -> Any:
    """Least greatest load of the piece by cuts (Dinkelbach) and augmentation; the number of components, or DISCONNECTED."""
    drop_final_arcs(graph, low, high)
    demand, weight = first_share(graph, low, high)
    if weight == 0:
        return DISCONNECTED
    load = 0.0
    while demand / weight > load:
        load = demand / weight
        least = LEAST_NEED * load
        keep_flow(graph, low, high, load)
        found = spread_levels(graph, low, high, PUSH_TOLERANCE, least)
        while found == PUSHABLE:
            push_flow(graph, low, high, PUSH_TOLERANCE, least)
            found = spread_levels(graph, low, high, PUSH_TOLERANCE, least)
        if found == MET:
            break
        demand, weight = cut_share(graph, low, high)
        if weight == 0:
            return DISCONNECTED
    return label_components(graph, low, high, FINAL_TOLERANCE)


def solve_wave(graph: Residual, bounds: Any, counts: Any, crossing: Any, full: Any, crossing_bounds: Any) -> None:
    """Solve every piece: piece i is ``order[bounds[i]:bounds[i + 1]]``, its crossing links likewise in ``crossing``."""
    found = 0
    for piece in range(len(counts)):
        counts[piece] = solve_piece(graph, bounds[piece], bounds[piece + 1])
        if counts[piece] > 0:
            found = list_crossing(graph, bounds[piece], bounds[piece + 1], crossing, full, found)
        crossing_bounds[piece + 1] = found


def use_cache_directory() -> None:
    """Have numba keep compiled code in the user's cache directory; the source tree may be read-only."""
    if "numba" not in sys.modules:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        os.environ.setdefault("NUMBA_CACHE_DIR", str(Path(base) / "parallel-communications-testbed" / "numba"))


_compiled: list[tuple[Callable[..., None], Callable[..., None]]] = []


def compiled_steps() -> tuple[Callable[..., None], Callable[..., None]]:
    """``solve_wave`` and ``index_arcs`` compiled: read from the cache, or made now (some seconds) and kept there."""
    if not _compiled:
        use_cache_directory()
        import numba
        from numba.extending import register_jitable

        for step in (*STEPS, keep_flow, solve_piece):
            register_jitable(step)
        try:
            _compiled.append((numba.njit(cache=True)(solve_wave), numba.njit(cache=True)(index_arcs)))
        except RuntimeError:  # numba's "no locator available": no directory can be written, compile for this process
            _compiled.append((numba.njit(solve_wave), numba.njit(index_arcs)))
    return _compiled[0]


class CompiledSolver:
    """Splits pieces in floats; holds the flow between waves, so that a piece starts from what its parent found."""

    def __init__(self, nodes: int, tail: Sequence[int], head: Sequence[int], weight: Sequence[int]) -> None:
        links, largest = len(tail), max(weight)
        self._graph = build_residual(nodes, links, lambda n: np.zeros(n, dtype=np.int32), np.zeros)
        self._graph.weight[:] = [w / largest for w in weight]
        self._crossing, self._full = np.zeros(links, dtype=np.int32), np.zeros(links, dtype=np.int32)
        self._solve_wave, index = compiled_steps()
        index(self._graph, np.array(tail, dtype=np.int32), np.array(head, dtype=np.int32))

    def finish(self, links: Sequence[int]) -> None:
        """The load of these links is final: they leave the network."""
        self._graph.weight[np.array(links, dtype=np.int64)] = 0

    def split(self, pieces: Sequence[Piece]) -> list[Split | None]:
        """Components and crossing links of each piece (to be checked); None where no links lead to where flow is wanted."""
        bounds = np.zeros(len(pieces) + 1, dtype=np.int32)
        np.cumsum([len(piece.nodes) for piece in pieces], out=bounds[1:])
        nodes = np.array([node for piece in pieces for node in piece.nodes], dtype=np.int32)
        self._graph.order[: len(nodes)] = nodes
        self._graph.demand[nodes] = [b / piece.denominator for piece in pieces for b in piece.demand]
        counts, crossing_bounds = np.zeros(len(pieces), dtype=np.int32), np.zeros(len(pieces) + 1, dtype=np.int32)
        self._solve_wave(self._graph, bounds, counts, self._crossing, self._full, crossing_bounds)
        component = self._graph.component[nodes].tolist()
        crossing, full = self._crossing[: crossing_bounds[-1]].tolist(), self._full[: crossing_bounds[-1]].tolist()
        found: list[Split | None] = []
        for piece, count in enumerate(counts.tolist()):
            part = slice(crossing_bounds[piece], crossing_bounds[piece + 1])
            split = Split(count, component[bounds[piece] : bounds[piece + 1]], crossing[part], full[part])
            found.append(split if count > 0 else None)
        return found
