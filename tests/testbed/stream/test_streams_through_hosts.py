"""A stream whose ways part at a host, lead through hosts or over cables between hosts: one outcome on both fabrics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from testbed.errors import InvalidRunError
from testbed.faults.fault import Fault
from testbed.stream.judgement.analysis import Analysis
from testbed.stream.judgement.verdict import invalid_reason, judge
from testbed.stream.plan import StreamParameters, StreamPlan
from testbed.stream.simulated import SimulatedStreamFabric
from tests.helpers.stream_plans import planned
from topologies.network import Link, Network, Node

NETWORKS = {
    "a host on two switches, two routers behind one": (
        "a-x r-x q-x r-y q-y b-y a-y",
        "a",
        "b",
        "q r",
    ),
    "three routers without a switch": ("p-r1 r1-r2 r2-r3 r1-r3 r3-t", "p", "t", "r1 r2 r3"),
    "a mesh of hosts": ("a-b a-c b-c", "a", "b", ""),
    "a mesh of hosts of which one forwards": ("a-b a-c b-c", "a", "b", "c"),
}

BOTH_KINDS = (
    "a host on two switches, two routers behind one",
    "a mesh of hosts of which one forwards",
)
"""`make test` streams over these on switches, `make soak` over all."""


def plan_of(name: str) -> StreamPlan:
    """Half of the labels, or a quarter, is lost for a second on each of two cables."""
    cables, source, sink, forwarding = NETWORKS[name]
    pairs = [tuple(one.split("-")) for one in cables.split()]
    nodes = [
        Node(id=n, kind="switch")
        if n in "xy"
        else Node(id=n, kind="host", attributes={"forwarding": n in forwarding.split()})
        for n in dict.fromkeys(end for pair in pairs for end in pair)
    ]
    links = tuple(Link(source=s, target=t) for a, b in pairs for s, t in ((a, b), (b, a)))
    network = Network(name=name, nodes=tuple(nodes), links=links)
    stream = StreamParameters(rate_pps=250.0, playback_s=0.6)
    plan = planned(network, source, sink, duration_s=6.0, stream=stream, faults=())
    loaded = [i for i in plan.forward.loaded if plan.forward.load(i) < 1] or list(
        plan.forward.loaded
    )
    faults = tuple(
        Fault(link=network.links[i].id, kind=kind, start_s=at, stop_s=at + 1.2)
        for i, kind, at in zip(
            (loaded[0], loaded[-1]), ("down", "blackhole"), (1.0, 3.4), strict=True
        )
    )
    return replace(plan, faults=faults)


def failed_checks(name: str) -> list[str]:
    """Of a run on switches and hosts."""
    from testbed.stream.emulated.fabric import EmulatedStreamFabric

    plan = plan_of(name)
    found = EmulatedStreamFabric().run(plan)
    reason = invalid_reason(Analysis(plan, found))
    if reason is not None:
        raise InvalidRunError(reason)
    return [check.name for check in judge(Analysis(plan, found)).checks if not check.passed]


@pytest.mark.parametrize("name", NETWORKS)
def test_the_simulator_loses_what_the_plan_says(name: str) -> None:
    plan = plan_of(name)
    run = SimulatedStreamFabric().run(plan)
    assert judge(Analysis(plan, run)).passed


@pytest.mark.emulation
@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=[] if n == BOTH_KINDS[0] else [pytest.mark.soak]) for n in NETWORKS],
)
def test_hosts_and_switches_lose_what_the_plan_says(
    name: str, sandboxed: Callable[..., Any]
) -> None:
    assert sandboxed(failed_checks, name) == []
