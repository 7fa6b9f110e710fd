"""Failures of cables between switches: permanent or transient, scheduled, random, or from an availability trace.

A cable fails in both directions; the cables of hosts never do.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from testbed.errors import InputError
from testbed.faults.failure_traces import FailureTrace
from topologies import Network

Cable = tuple[str, str]
"""Two switches, the one that comes first in the network's order first."""


@dataclass(frozen=True, kw_only=True)
class LinkFault:
    """Both directions between two switches are down from ``down_s`` until ``up_s`` (None: for ever), simulated seconds."""

    first: str
    second: str
    down_s: float = 0.0
    up_s: float | None = None

    def __post_init__(self) -> None:
        if not (math.isfinite(self.down_s) and self.down_s >= 0):
            raise InputError(f"fault on {self.label}: it begins at {self.down_s} s; give 0 or later")
        if self.up_s is not None and not self.up_s > self.down_s:
            raise InputError(f"fault on {self.label}: it ends at {self.up_s} s, not after it began at {self.down_s} s")

    @property
    def cable(self) -> Cable:
        return self.first, self.second

    @property
    def label(self) -> str:
        return f"{self.first}-{self.second}"


def switch_cables(network: Network) -> tuple[Cable, ...]:
    """Every pair of switches joined in both directions, once each, in the network's order."""
    order = network.node_index
    switches = {switch.id for switch in network.switches}
    joined = {(link.source, link.target) for link in network.links}
    cables = {(a, b) for a, b in joined if a in switches and b in switches and order[a] < order[b] and (b, a) in joined}
    return tuple(sorted(cables, key=lambda cable: (order[cable[0]], order[cable[1]])))


def check_faults(network: Network, faults: Iterable[LinkFault]) -> tuple[LinkFault, ...]:
    """The faults by start, each on a cable of the network, overlapping faults of one cable joined into one.

    Raises InputError for a fault on a link that does not exist, or one that belongs to a host.
    """
    cables, order = set(switch_cables(network)), network.node_index
    by_cable: dict[Cable, list[LinkFault]] = {}
    for fault in faults:
        for end in fault.cable:
            if end not in order:
                raise InputError(f"fault on {fault.label}: {network.name} has no node {end!r}")
        cable = fault.cable if order[fault.first] < order[fault.second] else (fault.second, fault.first)
        if cable not in cables:
            near = [other for pair in cables if fault.first in pair for other in pair if other != fault.first]
            raise InputError(
                f"fault on {fault.label}: {network.name} has no such link between switches; "
                f"{fault.first} is joined to {', '.join(sorted(near)) or 'no other switch'}"
            )
        by_cable.setdefault(cable, []).append(fault)
    joined = [fault for cable, several in by_cable.items() for fault in _joined(cable, several)]
    return tuple(sorted(joined, key=lambda f: (f.down_s, order[f.first], order[f.second])))


def random_faults(
    network: Network,
    count: int,
    *,
    seed: int | Sequence[int],
    start_s: tuple[float, float] = (0.0, 0.0),
    duration_s: tuple[float, float] | None = None,
) -> tuple[LinkFault, ...]:
    """So many different cables, drawn evenly; each starts evenly within ``start_s`` and lasts evenly within ``duration_s``
    (None: permanent). A set that would cut the switches apart if all were down at once is drawn anew.

    Raises InputError where there are not so many cables, or no draw in 1000 leaves the network whole.
    """
    cables = switch_cables(network)
    if not 0 <= count <= len(cables):
        raise InputError(f"{count} faults: {network.name} has {len(cables)} links between switches")
    chance = np.random.default_rng(seed)
    for _ in range(1000):
        chosen = [cables[i] for i in sorted(chance.choice(len(cables), size=count, replace=False).tolist())]
        if leaves_whole(network, chosen):
            return check_faults(network, [_drawn(cable, start_s, duration_s, chance) for cable in chosen])
    raise InputError(f"{count} faults: no draw in 1000 leaves the switches of {network.name} joined; give fewer")


def faults_from_trace(
    network: Network,
    trace: FailureTrace,
    *,
    simulated_s: float,
    seed: int | Sequence[int],
    permanent: bool = False,
    shortest_s: float = 1e-6,
) -> tuple[LinkFault, ...]:
    """A trace's failures on links of the network, its whole span scaled to ``simulated_s``.

    A component keeps its cable throughout: the components share out the cables in a drawn order, round and round if they
    are more. An outage shorter than ``shortest_s`` when scaled lasts that long; one without a repair, or all with
    ``permanent``, lasts for ever. Where permanent faults would cut the network apart, the later ones move to the next
    cable that leaves it whole (so every failure of the trace happens).
    """
    if trace.span_s <= 0:
        raise InputError(f"trace of {trace.system}: all its rows are of one moment; it cannot be scaled")
    cables = switch_cables(network)
    order = [cables[i] for i in np.random.default_rng(seed).permutation(len(cables)).tolist()]
    components = list(dict.fromkeys(failure.component for failure in trace.failures))
    place = {component: k % len(order) for k, component in enumerate(components)}
    scale = simulated_s / trace.span_s
    faults: list[LinkFault] = []
    gone: set[Cable] = set()
    for failure in trace.failures:
        down = (failure.start_s - trace.start_s) * scale
        lasting = permanent or failure.end_s is None
        up = None if lasting else max((failure.end_s or 0.0) * scale - trace.start_s * scale, down + shortest_s)
        k = place[failure.component]
        if lasting and order[k] not in gone:
            k = _next_that_may_go(network, order, gone, k)
            gone.add(order[k])
        faults.append(LinkFault(first=order[k][0], second=order[k][1], down_s=down, up_s=up))
    return check_faults(network, faults)


def leaves_whole(network: Network, failed: Iterable[Cable]) -> bool:
    """Whether the switches are still joined to one another without these cables."""
    neighbours = _neighbours(switch_cables(network), set(failed))
    ids = [switch.id for switch in network.switches]
    reached, waiting = {ids[0]}, [ids[0]]
    while waiting:
        for there in neighbours.get(waiting.pop(), ()):
            if there not in reached:
                reached.add(there)
                waiting.append(there)
    return len(reached) == len(ids)


def _neighbours(cables: Iterable[Cable], failed: set[Cable]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for a, b in cables:
        if (a, b) not in failed and (b, a) not in failed:
            found.setdefault(a, []).append(b)
            found.setdefault(b, []).append(a)
    return found


def _next_that_may_go(network: Network, order: Sequence[Cable], gone: set[Cable], first: int) -> int:
    for j in range(first, first + len(order)):
        cable = order[j % len(order)]
        if cable not in gone and leaves_whole(network, gone | {cable}):
            return j % len(order)
    raise InputError(
        f"trace: its {len(gone) + 1} permanent failures would cut the switches of {network.name} apart; "
        "take a larger network"
    )


def _drawn(
    cable: Cable, start_s: tuple[float, float], duration_s: tuple[float, float] | None, chance: Any
) -> LinkFault:
    down = float(chance.uniform(*start_s))
    up = None if duration_s is None else down + max(float(chance.uniform(*duration_s)), 1e-9)
    return LinkFault(first=cable[0], second=cable[1], down_s=down, up_s=up)


def _joined(cable: Cable, faults: list[LinkFault]) -> list[LinkFault]:
    """The faults of one cable, with those that overlap or touch made one."""
    whole: list[LinkFault] = []
    for fault in sorted(faults, key=lambda f: f.down_s):
        down, up = fault.down_s, fault.up_s
        if whole and (whole[-1].up_s is None or down <= (whole[-1].up_s or 0.0)):
            last = whole.pop()
            down = last.down_s
            up = None if up is None or last.up_s is None else max(up, last.up_s)
        whole.append(LinkFault(first=cable[0], second=cable[1], down_s=down, up_s=up))
    return whole
