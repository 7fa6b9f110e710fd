"""What a user asks of a run over several machines: which, how many, and where the nodes lie; pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from testbed.errors import InputError
from testbed.machines.placement import Placement, nodes_of_devices
from testbed.model.wiring import Wiring

MOST_LOCAL = 16
"""Machines that one machine stands for: each is a Dask worker, a switch daemon and a controller."""
START_S = 60.0
"""A machine that has not come up by then is named, and the run ends."""
UNDERLAY = "underlay"
UNDERLAY_MTU = 9000
Cut = Callable[[Wiring, Sequence[float]], Placement]
"""From a wiring and what each machine can carry to who holds what."""


@dataclass(frozen=True, kw_only=True)
class MachinesRequest:
    """``scheduler``: the address of a Dask scheduler whose workers are the machines, None: ``count`` machines here.

    ``underlay``: the machines' interface towards each other. ``start_s``: how long they may take to come up. ``place``: a document of
    ``placement_of``, None: the network is cut by what the machines say they can carry. ``clock_offsets_s``: of machines here.
    """

    count: int
    scheduler: str | None = None
    underlay: str = UNDERLAY
    underlay_mtu: int = UNDERLAY_MTU
    clock_offsets_s: tuple[float, ...] | None = None
    start_s: float = START_S
    place: str | None = None


def parse_machines(text: str) -> MachinesRequest:
    """``4`` or ``tcp://host:8786``. InputError for anything else.

    >>> parse_machines("2").count, parse_machines("tcp://h:8786").scheduler
    (2, 'tcp://h:8786')
    """
    if text.startswith(("tcp://", "tls://")):
        return MachinesRequest(count=0, scheduler=text)
    if text.isdecimal() and 1 <= int(text) <= MOST_LOCAL:
        return MachinesRequest(count=int(text))
    raise InputError(
        f"machines {text!r}: give 1 to {MOST_LOCAL} machines on this one, or a Dask scheduler, tcp://HOST:PORT"
    )


def placement_of(text: str, wiring: Wiring, machines: int) -> Placement:
    """From JSON, ``{"node": machine, ...}`` with machines from 0: every switch, and the hosts that do not lie with theirs.

    InputError where a node is unknown or a switch is missing.
    """
    try:
        document: Any = json.loads(text)
    except ValueError as error:
        raise InputError(f"place: not JSON ({error})") from None
    if not isinstance(document, dict) or not all(type(one) is int for one in document.values()):
        raise InputError('place: give an object, {"s1": 0, "s2": 1}: every switch and the number of its machine')
    known = {node.id for node in wiring.network.nodes}
    if unknown := sorted(set(document) - known):
        raise InputError(f"place: {wiring.network.name} has no node {unknown[0]}")
    return with_hosts(wiring, document, machines)


def with_hosts(wiring: Wiring, machine_of: dict[str, int], machines: int) -> Placement:
    """Hosts that are not placed lie with the switch (or host) at the other end of their first cable. InputError for a missing switch."""
    placed = dict(machine_of)
    if missing := [one.node for one in wiring.switches if one.node not in placed]:
        raise InputError(f"place: switch {missing[0]} lies on no machine; name all of them")
    node = nodes_of_devices(wiring)
    for cable in wiring.cables:
        a, b = node[cable.a], node[cable.b]
        if a in placed:
            placed.setdefault(b, placed[a])
        elif b in placed:
            placed.setdefault(a, placed[b])
    for one in wiring.hosts:
        placed.setdefault(one.node, 0)
    return Placement(machines=machines, machine_of=placed)


def cut_in_turn(wiring: Wiring, carries: Sequence[float]) -> Placement:
    """Switches in the order of the network, so many to each machine as it can carry of the whole; hosts with their switches."""
    total, at, placed = sum(carries), 0.0, {}
    bounds = []
    for one in carries:
        at += one / total * len(wiring.switches)
        bounds.append(round(at))
    for number, switch in enumerate(wiring.switches):
        placed[switch.node] = next(k for k, bound in enumerate(bounds) if number < bound or k == len(bounds) - 1)
    return with_hosts(wiring, placed, len(carries))
