"""A run over two processors has the history of one: every message, every grant at its tick, and the moment of its
end."""

from __future__ import annotations

import os
import random
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed import simulation_plan
from testbed.faults.cable_faults import cable_fault
from testbed.interconnect.compiled import two_processors as module
from testbed.interconnect.engine_inputs import Recording
from testbed.interconnect.parameters import HOP_MODELS, HopModel, SimulationParameters
from testbed.interconnect.results import SimulationResult
from testbed.interconnect.simulation import simulate, two_processors
from testbed.interconnect.traffic.injection import (
    InjectionProcess,
    Injections,
    build_injections,
    build_pattern,
)
from testbed.results.parallel_seeds import run_seeds
from tests.helpers.drawn import drawn
from tests.helpers.unequal_links import with_drawn_capacities
from topologies import load_network

NETWORKS = (
    "torus:4x4",
    "torus:6x6",
    "torus:3x5",
    "mesh:4x4",
    "ring:8",
    "fat-tree:2,3",
    "fat-tree:4,2",
    "torus:3x3x3",
)
OF_GRIDS = ("minimal-adaptive", "valiant", "ugal", "dor", "dor", "shortest-path")
ENGINES = (None, two_processors)
GRANTS = Recording(grants=100_000)


def drawn_run(
    chance: random.Random, messages: int
) -> tuple[Any, Injections, SimulationParameters, HopModel]:
    """A network, messages and parameters that two processors share, and the model of a hop."""
    network = load_network(chance.choice(NETWORKS))
    grid = "shape" in network.attributes
    model = chance.choice(["booksim", "booksim", "thesis"])
    routing = chance.choice(OF_GRIDS if grid else ("d-mod-k", "shortest-path"))
    adaptive = routing in OF_GRIDS[:3]
    if adaptive:
        model = "booksim"
    avoidances = ["none", "virtual-channels", "bubble"] if routing == "dor" else ["none"]
    hop = replace(
        HOP_MODELS[model],
        lanes=chance.choice(["first", "in-turn"]),
        turnaround_s=chance.choice([0, 3e-7]),
    )
    if not hop.output_buffers:
        hop = replace(hop, release=chance.choice(["head", "tail"]))
    size = chance.choice([64, 512, 2048])
    parameters = SimulationParameters(
        model=model,
        routing=routing,
        deadlock=chance.choice(avoidances),
        packet_bytes=size,
        buffer_bytes=size * chance.choice([2, 2, 4]),
        switching=chance.choice(["cut-through", "cut-through", "store-and-forward"]),
        arbitration=chance.choice(["round-robin", "fifo"]),
        drain_s=chance.choice([2e-5, 0.01]),
        seed=chance.randrange(100),
    )
    hosts = len(network.hosts)
    rate = parameters.packets_per_s(chance.choice([0.02, 0.3, 0.9]))
    process = InjectionProcess(
        rate_per_s=rate, kind=chance.choice(["poisson", "periodic"]), in_phase=True
    )
    sent = build_injections(
        build_pattern("uniform", hosts),
        process,
        duration_s=messages / hosts / rate,
        seed=parameters.seed,
    )
    if chance.random() < 0.4:
        network = with_drawn_capacities(network, chance)
        parameters = replace(parameters, capacities=True)
    return network, sent, parameters, hop


def assert_same(one: SimulationResult, two: SimulationResult) -> None:
    assert (one.processors, two.processors) == (1, 2) and two.conserved
    for name in (
        field.name
        for field in fields(SimulationResult)
        if field.name not in ("processors", "digest")
    ):
        ours, theirs = getattr(two, name), getattr(one, name)
        if isinstance(theirs, np.ndarray):
            if name in (
                "held",
                "trace",
            ):  # the order in a queue of places, and of grants of one tick, is no result
                ours, theirs = (np.array(sorted(rows.tolist())) for rows in (ours, theirs))
            np.testing.assert_array_equal(ours, theirs, err_msg=name)
        else:
            assert ours == theirs, name


@pytest.mark.scaled
@drawn(40)
@given(st.integers(0, 10**6))
def test_drawn_runs_have_the_same_history(seed: int) -> None:
    with pytest.MonkeyPatch.context() as patched:
        network, sent, parameters, hop = drawn_run(random.Random(seed), 200)
        patched.setitem(HOP_MODELS, parameters.model, hop)
        if len(sent):
            assert_same(
                *(
                    simulate(network, sent, parameters, recording=GRANTS, engine=engine)
                    for engine in ENGINES
                )
            )


def uniform(
    name: str, load: float, duration_s: float, **options: Any
) -> tuple[Any, Injections, SimulationParameters]:
    network, parameters = load_network(name), SimulationParameters(**options)
    pattern = build_pattern("uniform", len(network.hosts), shape=network.attributes["shape"])
    process = InjectionProcess(rate_per_s=parameters.packets_per_s(load))
    return network, build_injections(pattern, process, duration_s=duration_s, seed=1), parameters


@pytest.mark.parametrize("model", ["booksim", "thesis"])
def test_on_one_processor_alone_the_halves_give_way_to_each_other(model: str) -> None:
    run = uniform("torus:8x8", 0.2, 2e-4, model=model)
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        assert_same(*(simulate(*run, recording=GRANTS, engine=engine) for engine in ENGINES))
    finally:
        os.sched_setaffinity(0, allowed)


def test_more_events_than_there_is_room_for_go_over_one_processor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = uniform("torus:12x12", 0.9, 1e-4)
    monkeypatch.setattr(module, "EVENTS", 8)
    one, two = (simulate(*run, engine=engine) for engine in ENGINES)
    assert two.processors == one.processors == 1 and two.digest == one.digest


def test_an_error_of_a_half_ends_both(monkeypatch: pytest.MonkeyPatch) -> None:
    run, entry = uniform("torus:4x4", 0.5, 1e-4), module.RUN_HALF

    def fails(*arguments: Any) -> int:
        if arguments[-1] == 1:
            raise MemoryError("no room")
        return int(entry(*arguments))

    monkeypatch.setattr(module, "RUN_HALF", fails)
    with pytest.raises(MemoryError, match="no room"):
        simulate(*run, engine=two_processors)


@pytest.mark.parametrize(
    "options",
    [
        {"deadlock": "nac"},
        {"deadlock": "disha", "routing": "minimal-adaptive"},
        {"routing": "ft-drb"},
        {"model": "thesis", "routing": "minimal-adaptive"},
        {"model": "thesis", "router_delay_s": 1e-15},
    ],
)
def test_what_two_cannot_share_goes_over_one(options: dict[str, Any]) -> None:
    network, sent, parameters = uniform("torus:4x4", 0.1, 1e-4, **options)
    assert simulate(network, sent, parameters, engine=two_processors).processors == 1


def test_failures_go_over_one_processor() -> None:
    network, sent, parameters = uniform("torus:4x4", 0.1, 1e-4, routing="minimal-adaptive")
    assert simulate(network, sent, parameters, engine=two_processors).processors == 2
    dead = [cable_fault((network.switches[0].id, network.switches[1].id))]
    assert simulate(network, sent, parameters, dead, engine=two_processors).processors == 1


def test_a_large_run_is_shared_and_others_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    shared: list[int] = []

    def share(inputs: Any, *, least: float) -> Any:
        found = two_processors(inputs, least=least)
        shared.append(found.processors)
        return found

    monkeypatch.setattr("testbed.interconnect.simulation.two_processors", share)
    for network, load, processors in (
        ("torus:32x32", 0.2, 2),
        ("torus:32x32", 0.05, 1),
        ("torus:4x4", 0.9, 1),
    ):
        plan = simulation_plan(network, load=load, duration_s=2e-5, warm_up_s=0.0).experiment
        assert run_seeds(plan, [1], processes=2) == run_seeds(plan, [1], processes=1)
        assert shared.pop() == processors and not shared
