"""Both engines of the interconnect simulator give the same history, on networks and parameters drawn at random.

SIMULATOR_CONFIGURATIONS=200 draws so many (12 otherwise).
"""

from __future__ import annotations

import os
import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from testbed.faults.cable_faults import random_faults
from testbed.interconnect.engine_inputs import Recording
from testbed.interconnect.injection import InjectionProcess, Injections, build_injections
from testbed.interconnect.parameters import HOP_MODELS, FtDrbOptions, HopModel, NacOptions, SimulationParameters
from testbed.interconnect.patterns import build_pattern
from testbed.interconnect.simulation import simulate
from topologies import load_network

CONFIGURATIONS = int(os.environ.get("SIMULATOR_CONFIGURATIONS", "12"))
NETWORKS = ("torus:4x4", "torus:8x8", "ring:8", "mesh:4x4", "fat-tree:2,3", "torus:3x5", "torus:3x3x3")
MESSAGES = 250


def drawn_hop(chance: random.Random, model: str) -> HopModel:
    """The model of a hop, or one with the other's buffers or release of slots."""
    base = HOP_MODELS[model]
    output_buffers, release = chance.choice([None, True, False]), chance.choice([None, "head", "tail"])
    return replace(
        base,
        output_buffers=base.output_buffers if output_buffers is None else output_buffers,
        release=release or base.release,
    )


def drawn_parameters(chance: random.Random, network: str, seed: int) -> tuple[SimulationParameters, HopModel]:
    """Parameters of the model "drawn", and that model of a hop."""
    tree, drb = network.startswith("fat"), chance.random() < 0.5
    routing = "ft-drb" if drb else "d-mod-k" if tree else "dor"
    deadlock = chance.choice(["none", "nac"])
    if not drb and chance.random() < 0.3:
        deadlock = "virtual-channels"
    model = chance.choice(["booksim", "thesis"])
    packet_bytes, buffer_bytes = chance.choice([2048, 512]), chance.choice([2048, 4096, 8192])
    arbitration = chance.choice(["round-robin", "fifo"])
    hop = drawn_hop(chance, model)
    parameters = SimulationParameters(
        model=model,
        routing=routing,
        deadlock=deadlock,
        packet_bytes=packet_bytes,
        buffer_bytes=buffer_bytes,
        arbitration=arbitration,
        drain_s=0.005,
        watchdog_s=0.001,
        seed=seed,
        nac=NacOptions(
            recovery_run=chance.random() < 0.8,
            reserve=chance.random() < 0.8,
            stop_local=chance.random() < 0.8,
            own_request=chance.random() < 0.8,
            slack=chance.choice([0, 0, 1]),
        ),
        ft_drb=FtDrbOptions(
            notifier=chance.choice(["router", "destination"]),
            link_up=chance.choice(["probe", "router"]),
            reuse_notifications=chance.random() < 0.5,
            notify_queued=chance.random() < 0.5,
            always=chance.random() < 0.3,
            marking=chance.choice(["ack", "clock", "hybrid"]),
            marking_s=1e-4,
            probe_every=7,
            notifications=2,
        ),
    )
    return parameters, hop


def drawn_messages(
    chance: random.Random, network: Any, parameters: SimulationParameters, seed: int
) -> tuple[Injections, float]:
    hosts = len(network.hosts)
    pattern = build_pattern(chance.choice(["uniform", "tornado"]), hosts, shape=network.attributes.get("shape"))
    rate = parameters.packets_per_s(chance.choice([0.02, 0.1, 0.3, 0.6, 0.9]))
    duration = MESSAGES / hosts / rate
    process = InjectionProcess(
        kind=chance.choice(["poisson", "periodic", "burst"]),
        rate_per_s=rate,
        burst_messages=5,
        in_phase=chance.random() < 0.5,
    )
    return build_injections(pattern, process, duration_s=duration, seed=seed), duration


@pytest.mark.parametrize("seed", range(CONFIGURATIONS))
def test_both_engines_give_the_same_history(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(seed)
    name = chance.choice(NETWORKS)
    network = load_network(name)
    parameters, hop = drawn_parameters(chance, name, seed)
    monkeypatch.setitem(HOP_MODELS, parameters.model, hop)
    injections, duration = drawn_messages(chance, network, parameters, seed)
    faults: tuple[Any, ...] = ()
    if parameters.routing == "ft-drb":
        count = chance.randint(0, 1 if name.startswith("ring") else 2)
        lasting = chance.choice([None, (0.0, duration)])
        faults = random_faults(network, count, seed=seed, start_s=(0.0, duration), duration_s=lasting)
    compiled, reference = (
        simulate(network, injections, parameters, faults, engine=engine, recording=Recording(grants=50_000))
        for engine in ("compiled", "reference")
    )
    for name in ("trace", "delivered", "entered", "hops", "carried", "nac_timeline"):
        assert np.array_equal(getattr(compiled, name), getattr(reference, name)), name
    for name in (
        "digest",
        "nac_counters",
        "drb_counters",
        "stopped",
        "stuck",
        "livelocked",
        "packet_hops",
        "acks",
        "made",
    ):
        assert getattr(compiled, name) == getattr(reference, name), name
    assert sorted(compiled.held) == sorted(reference.held)
    assert compiled.conserved and reference.conserved
