"""Streams in virtual time whose playback buffer has no room for parity after a burst: N is that of the bursts where all
labels meet them, and under the failures of a machine's trace what it was."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fec.redundancy.block_size import fec_block_size
from fec.redundancy.loss_bursts import BurstChain, burst_block_size
from testbed.faults.failure_traces import KNOWN_STATISTICS, generate_trace
from testbed.faults.grammar import parse_fault_list
from testbed.stream import endpoints
from testbed.stream.plan import StreamParameters, StreamPlan
from testbed.stream.simulated import SimulatedStreamFabric
from tests.helpers.stream_plans import planned
from topologies import Link, Network, Node, load_network

SHORT = StreamParameters(playback_s=0.1)
M = SHORT.source_packets


def behind_one_link() -> Network:
    """Every label crosses a->b."""
    ends = [("a", "b"), ("b", "e")]
    links = [
        Link(source=x, target=y, capacity_bps=1e8, delay_s=0.015)
        for one in ends
        for x, y in (one, one[::-1])
    ]
    return Network(
        name="behind one link",
        nodes=tuple(Node(id=n, kind="switch") for n in "abe"),
        links=tuple(links),
    )


def under(words: str, duration_s: float, stream: StreamParameters = SHORT) -> StreamPlan:
    network = behind_one_link()
    return planned(
        network,
        "a",
        "e",
        faults=parse_fault_list(words, network),
        duration_s=duration_s,
        stream=stream,
    )


@pytest.mark.parametrize(
    ("p", "r", "duration_s"),
    [pytest.param(0.001, 0.1, 30.0, marks=pytest.mark.soak), (0.01, 0.5, 15.0)],
)
def test_n_of_a_stream_is_that_of_the_bursts_on_its_link(
    p: float, r: float, duration_s: float
) -> None:
    needed = burst_block_size(M, BurstChain(p / (p + r), 1 / r, 1.0), 1e-5)
    bursts = f"a->b@0.5-{duration_s - 0.5} ge:p={p},r={r}"
    run = SimulatedStreamFabric().run(under(bursts, duration_s))
    sizes = run.initial_block_size[len(run.initial_block_size) // 2 :]
    assert 0.8 * needed - 1 <= np.median(sizes) <= 1.4 * needed + 1, (needed, np.median(sizes))
    mean = fec_block_size(M, round(p / (p + r), 4), 1e-5)
    rival = SimulatedStreamFabric().run(under(bursts, duration_s, replace(SHORT, block_size=mean)))
    lost, of_rival = (int(np.isnan(one.blocks.complete_s).sum()) for one in (run, rival))
    assert of_rival > 3 * lost + 3, (lost, of_rival)


def sizes_of(plan: StreamPlan) -> list[int]:
    return SimulatedStreamFabric().run(plan).initial_block_size.tolist()


@pytest.mark.parametrize("machine", ["lanl-12", pytest.param("lanl-18", marks=pytest.mark.long)])
def test_failures_of_a_machines_trace_are_answered_as_before(
    machine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace, network = (
        generate_trace(KNOWN_STATISTICS[machine], seed=3),
        load_network("swiss-t1:delay_s=0.01"),
    )
    quiet = planned(network, "s1", "s6", stream=SHORT)
    cables = [network.links[i].label for i in quiet.forward.loaded]
    scale, words = 8.0 / trace.span_s, []
    for number, one in enumerate(trace.failures):
        start_s = 1.0 + scale * (one.start_s - trace.start_s)
        words.append(f"{cables[number % len(cables)]}@{start_s:.3f}-{start_s + 0.3:.3f} down")
    plan = replace(quiet, faults=parse_fault_list(",".join(words), network), duration_s=12.0)
    now = sizes_of(plan)
    real: Any = endpoints.BlockSizeController
    monkeypatch.setattr(
        endpoints, "BlockSizeController", lambda parameters, policy, _: real(parameters, policy)
    )
    assert now == sizes_of(plan) and max(now) > 24


def test_n_of_bursts_is_what_the_route_carries_at_most() -> None:
    words = "a->b@0.5-3.5 ge:p=0.004,r=0.05"
    assert max(sizes_of(under(words, 4.0))) > 100
    assert max(sizes_of(under(words, 4.0, replace(SHORT, most_overhead=1.0)))) <= 2 * M
