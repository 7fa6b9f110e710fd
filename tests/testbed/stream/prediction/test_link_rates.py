"""Packets a second on each link, as predicted, against a stream in virtual time counted label by label."""

from __future__ import annotations

import numpy as np
import pytest

from testbed.faults.fault import Fault
from testbed.stream.plan import StreamParameters, StreamPlan
from testbed.stream.simulated import SimulatedStreamFabric
from tests.helpers.link_rates import link_rates
from tests.helpers.stream_plans import planned
from topologies import load_network

CUT = ("s1", "s2", 0)


def plan_of(*faults: Fault) -> StreamPlan:
    stream = StreamParameters(rate_pps=400)
    return planned(
        load_network("swiss-t1"), "s1", "s6", stream=stream, faults=faults, duration_s=6.0
    )


def counted(plan: StreamPlan, start_s: float, stop_s: float) -> dict[int, float]:
    """Packets a second that a stream in virtual time puts on each link, from the labels that it sent."""
    sent = SimulatedStreamFabric().run(plan).sent
    labels = sent.label[(sent.time_s >= start_s) & (sent.time_s < stop_s)]
    starts = np.array([path.start for path in plan.forward.paths])
    paths, packets = np.unique(
        np.searchsorted(starts, labels, side="right") - 1, return_counts=True
    )
    rates: dict[int, float] = {}
    for number, count in zip(paths.tolist(), packets.tolist(), strict=True):
        for link in plan.forward.paths[number].links:
            rates[link] = rates.get(link, 0.0) + count / (stop_s - start_s)
    return rates


def test_rates_at_rest_are_those_of_the_labels() -> None:
    plan = plan_of()
    predicted, found = link_rates([plan], [22]), counted(plan, 1, 5)
    for index, link in enumerate(plan.network.links):
        assert predicted[link.id] == pytest.approx(found.get(index, 0.0), rel=0.02)


def test_a_packet_counts_up_to_the_link_that_is_down() -> None:
    plan = plan_of()
    rest, down = link_rates([plan], [22]), link_rates([plan], [22], [CUT])
    assert down[CUT] == 0 < rest[CUT]
    lost = rest[CUT]
    into_sink = [link.id for link in plan.network.links if link.target == "s6"]
    assert sum(rest[i] for i in into_sink) - sum(down[i] for i in into_sink) == pytest.approx(
        lost, rel=0.01
    )


def test_two_streams_add_up() -> None:
    plan = plan_of()
    one, two = link_rates([plan], [22]), link_rates([plan, plan], [22, 44])
    assert all(two[link] >= one[link] for link in one)
    assert two[CUT] == pytest.approx(3 * one[CUT])
