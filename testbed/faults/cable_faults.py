"""Failures of whole cables between switches: permanent or transient, drawn at random, or of a machine's trace.

A cable is both links between two switches (with their parallels), and it fails in both directions; the cables of hosts
never do. The interconnect simulator takes its failures from here.
"""

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from testbed.errors import InputError
from testbed.faults.failure_traces import FailureTrace
from testbed.faults.fault import Fault
from topologies import Network

if TYPE_CHECKING:  # this and networkx take long to import; most runs draw no faults
    from numpy.random import Generator

MIN_OUTAGE_S = 1e-6
"""No outage of a trace is shorter in simulated time."""

Cable = tuple[str, str]
"""Two switches, the one that comes first in the network's order first."""


def cable_fault(cable: Cable, *, start_s: float = 0.0, stop_s: float = math.inf) -> Fault:
    """The cable goes down, both ways; permanently, where no end is given."""
    return Fault(link=(*cable, 0), start_s=start_s, stop_s=stop_s)


def switch_cables(network: Network) -> tuple[Cable, ...]:
    """Every pair of switches joined in both directions, once each, in the network's order."""
    order = network.node_index
    joined = {network.links[i].id[:2] for i in network.core}
    cables = {(a, b) for a, b in joined if order[a] < order[b] and (b, a) in joined}
    return tuple(sorted(cables, key=lambda cable: (order[cable[0]], order[cable[1]])))


def check_faults(network: Network, faults: Iterable[Fault]) -> tuple[Fault, ...]:
    """The faults by start, each on a cable of the network, overlapping faults of one cable joined into one.

    Raises InputError for a fault on a link that does not exist or belongs to a host, and for one that is not of the
    whole cable.
    """
    cables, order = set(switch_cables(network)), network.node_index
    by_cable: dict[Cable, list[Fault]] = {}
    for fault in faults:
        first, second = fault.ends
        where = f"fault on {first}-{second}"
        for end in fault.ends:
            if end not in order:
                raise InputError(f"{where}: {network.name} has no node {end!r}")
        cable = (first, second) if order[first] < order[second] else (second, first)
        if cable not in cables:
            near = [other for pair in cables if first in pair for other in pair if other != first]
            raise InputError(
                f"{where}: {network.name} has no such link between switches; "
                f"{first} is joined to {', '.join(sorted(near)) or 'no other switch'}"
            )
        if (fault.kind, fault.direction) != ("down", "both"):
            raise InputError(f"{where}: {fault.kind} {fault.direction}; here only whole cables go down")
        by_cable.setdefault(cable, []).append(fault)
    joined = [fault for cable, several in by_cable.items() for fault in _joined(cable, several)]
    return tuple(sorted(joined, key=lambda f: (f.start_s, *(order[end] for end in f.ends))))


def random_faults(
    network: Network,
    count: int,
    *,
    seed: int | Sequence[int],
    start_s: tuple[float, float] = (0.0, 0.0),
    duration_s: tuple[float, float] | None = None,
) -> tuple[Fault, ...]:
    """So many different cables, drawn evenly; each starts evenly within ``start_s`` and lasts evenly within
    ``duration_s`` (None: permanent). A set that would cut the switches apart if all were down at once is drawn again.

    Raises InputError where there are not so many cables, or no draw in 1000 leaves the network whole.
    """
    cables = switch_cables(network)
    if not 0 <= count <= len(cables):
        raise InputError(f"{count} faults: {network.name} has {len(cables)} links between switches")
    chance = _drawing(seed)
    for _ in range(1000):
        chosen = [cables[i] for i in sorted(chance.choice(len(cables), size=count, replace=False).tolist())]
        if leaves_connected(network, chosen, cables):
            return check_faults(network, [_drawn(cable, start_s, duration_s, chance) for cable in chosen])
    raise InputError(f"{count} faults: no draw in 1000 leaves the switches of {network.name} joined; give fewer")


def intermittent_faults(
    network: Network, count: int, *, seed: int | Sequence[int], duration_s: float
) -> tuple[Fault, ...]:
    """So many different cables that fail again and again: once in each of ten equal parts of the run, at a drawn moment
    of it, and for a tenth of the part. Drawn like ``random_faults``: the same seed draws the same cables.

    Raises InputError as ``random_faults``.
    """
    times, down_share = 10, 0.1
    chosen = [fault.ends for fault in random_faults(network, count, seed=seed)]
    chance, part = _drawing(seed), duration_s / times
    starts = chance.uniform(0.0, 1.0 - down_share, size=(len(chosen), times)) + range(times)
    found = [
        cable_fault((a, b), start_s=part * start, stop_s=part * (start + down_share))
        for (a, b), line in zip(chosen, starts.tolist(), strict=True)
        for start in line
    ]
    return check_faults(network, found)


def faults_from_trace(
    network: Network,
    trace: FailureTrace,
    *,
    simulated_s: float,
    seed: int | Sequence[int],
    permanent: bool = False,
) -> tuple[Fault, ...]:
    """A trace's failures on links of the network, its whole span scaled to ``simulated_s``.

    A component keeps its cable throughout: the components share out the cables in a drawn order, round and round if
    they are more. An outage shorter than a microsecond when scaled lasts that long; one without a repair, or all with
    ``permanent``, lasts permanently. Where permanent faults would cut the network apart, the later ones move to the
    next cable that leaves it whole (so every failure of the trace happens).
    """
    if trace.span_s <= 0:
        raise InputError(f"trace of {trace.system}: all its rows are of one moment; it cannot be scaled")
    cables = switch_cables(network)
    order = [cables[i] for i in _drawing(seed).permutation(len(cables)).tolist()]
    components = list(dict.fromkeys(failure.component for failure in trace.failures))
    place = {component: k % len(order) for k, component in enumerate(components)}
    scale = simulated_s / trace.span_s
    faults: list[Fault] = []
    gone: set[Cable] = set()
    for failure in trace.failures:
        start = (failure.start_s - trace.start_s) * scale
        stop = math.inf
        if not permanent and failure.end_s is not None:
            stop = max(failure.end_s * scale - trace.start_s * scale, start + MIN_OUTAGE_S)
        k = place[failure.component]
        if stop == math.inf and order[k] not in gone:
            k = _next_that_may_go(network, order, gone, k)
            gone.add(order[k])
        faults.append(cable_fault(order[k], start_s=start, stop_s=stop))
    return check_faults(network, faults)


def leaves_connected(network: Network, failed: Iterable[Cable], cables: Sequence[Cable] = ()) -> bool:
    """Whether the switches are still joined to one another without these cables; ``cables``: all, where known."""
    import networkx as nx

    gone = {frozenset(cable) for cable in failed}
    left = nx.Graph(cable for cable in cables or switch_cables(network) if frozenset(cable) not in gone)
    left.add_nodes_from(switch.id for switch in network.switches)
    return bool(nx.is_connected(left))


def _next_that_may_go(network: Network, order: Sequence[Cable], gone: set[Cable], first: int) -> int:
    for j in range(first, first + len(order)):
        cable = order[j % len(order)]
        if cable not in gone and leaves_connected(network, gone | {cable}, order):
            return j % len(order)
    raise InputError(
        f"trace: its {len(gone) + 1} permanent failures would cut the switches of {network.name} apart; "
        "take a larger network"
    )


def _drawing(seed: int | Sequence[int]) -> "Generator":
    from numpy.random import default_rng

    return default_rng(seed)


def _drawn(
    cable: Cable, start_s: tuple[float, float], duration_s: tuple[float, float] | None, chance: "Generator"
) -> Fault:
    start = float(chance.uniform(*start_s))
    stop = math.inf if duration_s is None else start + max(float(chance.uniform(*duration_s)), 1e-9)
    return cable_fault(cable, start_s=start, stop_s=stop)


def _joined(cable: Cable, faults: list[Fault]) -> list[Fault]:
    """The faults of one cable, with those that overlap or touch made one."""
    whole: list[Fault] = []
    for fault in sorted(faults, key=lambda f: f.start_s):
        if whole and fault.start_s <= whole[-1].stop_s:
            whole[-1] = replace(whole[-1], stop_s=max(whole[-1].stop_s, fault.stop_s))
        else:
            whole.append(replace(fault, link=(*cable, 0)))
    return whole


SHAPES = ("line", "square", "L", "U")
_WALKS = {
    "line": ((0, 1),),
    "square": ((1, 0), (0, 1), (-1, 0), (0, -1)),
    "L": ((0, -1), (1, 0)),
    "U": ((0, -1), (1, 0), (0, 1)),
}


def shape_walk(shape: str, size: int) -> tuple[tuple[int, int], ...]:
    """The points of the walk, from (0, 0): each leg of the shape is ``size`` steps long.

    >>> shape_walk("L", 2)
    ((0, 0), (0, -1), (0, -2), (1, -2), (2, -2))
    """
    if shape not in _WALKS:
        raise InputError(f"fault shape {shape!r} is unknown; give one of {', '.join(SHAPES)}")
    if size < 1:
        raise InputError(f"fault shape {shape}: legs of {size} links; give 1 or more")
    points = [(0, 0)]
    for dx, dy in _WALKS[shape]:
        for _ in range(size):
            points.append((points[-1][0] + dx, points[-1][1] + dy))
    return tuple(points)


def shape_faults(network: Network, shape: str, *, size: int, seed: int | Sequence[int] = 1) -> tuple[Fault, ...]:
    """The permanent faults of a shape whose walk starts at a place that the seed draws.

    Raises InputError for a network that is no 2-D torus, and a shape that does not fit in it.
    """
    sizes = network.attributes.get("shape")
    if not (isinstance(sizes, list) and len(sizes) == 2 and network.attributes.get("wraps") is True):
        raise InputError(f"fault shape {shape}: {network.name} is no 2-D torus; take one, as torus:8x8")
    if size >= min(sizes):
        raise InputError(f"fault shape {shape}: legs of {size} links do not fit in {network.name}; give fewer")
    chance = _drawing(seed)
    x0, y0 = int(chance.integers(sizes[0])), int(chance.integers(sizes[1]))
    walk = [f"s{(x0 + x) % sizes[0]}_{(y0 + y) % sizes[1]}" for x, y in shape_walk(shape, size)]
    return check_faults(network, [cable_fault(pair) for pair in itertools.pairwise(walk)])
