"""Both engines of the interconnect simulator give the same history, on networks and parameters drawn at random.

SIMULATOR_CONFIGURATIONS=200 draws so many (12 otherwise), SIMULATOR_MESSAGES=4000 gives each so many messages (250
otherwise); SIMULATOR_FIRST=100 leaves out the first hundred, which an earlier run did.
"""

from __future__ import annotations

import os
import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fec.jit import as_records
from testbed.faults.cable_faults import cable_fault, random_faults, switch_cables
from testbed.interconnect import static_paths
from testbed.interconnect.compiled import compiled_run, kernel_loop
from testbed.interconnect.engine_inputs import Recording
from testbed.interconnect.options import FtDrbOptions, NacOptions
from testbed.interconnect.parameters import FLIT_CYCLE_S, HOP_MODELS, HopModel, SimulationParameters
from testbed.interconnect.results import SimulationResult
from testbed.interconnect.traffic.injection import (
    InjectionProcess,
    Injections,
    build_injections,
    build_pattern,
)
from tests.helpers.unequal_links import with_drawn_capacities
from tests.oracles.interconnect import simulate
from topologies import load_network

FIRST, CONFIGURATIONS = (
    int(os.environ.get("SIMULATOR_FIRST", "0")),
    int(os.environ.get("SIMULATOR_CONFIGURATIONS", "12")),
)
NETWORKS = (
    "torus:4x4", "torus:8x8", "ring:8", "mesh:4x4", "fat-tree:2,3", "fat-tree:4,2", "torus:3x5", "torus:3x3x3",
    "torus:6x6",
)  # fmt: skip
pytestmark = pytest.mark.scaled
MESSAGES = int(os.environ.get("SIMULATOR_MESSAGES", "250"))


def drawn_hop(chance: random.Random, model: str, seed: int) -> HopModel:
    """The model of a hop, or one with the other's buffers, release of slots, turnaround, order of lanes or dateline."""
    base = HOP_MODELS[model]
    apart = random.Random(1_000_000 + seed)
    turnaround_s = apart.choice([base.turnaround_s, base.turnaround_s, 0.0, 2.5 * FLIT_CYCLE_S])
    lanes, dateline = (
        apart.choice([base.lanes, "first", "in-turn"]),
        apart.choice([base.dateline, "crossing", "ring"]),
    )
    output_buffers, release = (
        chance.choice([None, True, False]),
        chance.choice([None, "head", "tail"]),
    )
    return replace(
        base,
        output_buffers=base.output_buffers if output_buffers is None else output_buffers,
        release=release or base.release,
        turnaround_s=turnaround_s,
        lanes=lanes,
        dateline=dateline,
    )


def drawn_parameters(
    chance: random.Random, network: str, seed: int
) -> tuple[SimulationParameters, HopModel]:
    """Parameters of the model "drawn", and that model of a hop."""
    tree, drb = network.startswith("fat"), chance.random() < 0.5
    routing = "ft-drb" if drb else chance.choice(["d-mod-k", "nca"]) if tree else "dor"
    deadlock = chance.choice(["none", "nac"])
    if not drb and chance.random() < 0.3:
        deadlock = "virtual-channels"
    model = chance.choice(["booksim", "thesis"])
    packet_bytes, buffer_bytes = chance.choice([2048, 512]), chance.choice([2048, 4096, 8192])
    arbitration = chance.choice(["round-robin", "fifo"])
    hop = drawn_hop(chance, model, seed)
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
            strict_slot=chance.random() < 0.3,
        ),
        ft_drb=FtDrbOptions(
            notifier=chance.choice(["router", "destination"]),
            link_up=chance.choice(["probe", "router"]),
            reuse_notifications=chance.random() < 0.5,
            notify_queued=chance.random() < 0.5,
            always=chance.random() < 0.7,
            hysteresis=chance.random() < 0.7,
            averaging=chance.choice([1, 8]),
            threshold=chance.choice([1.5, 2.0, 4.0]),
            first_paths=chance.choice([1, 1, 2]),
            marking=chance.choice(["ack", "clock", "hybrid"]),
            marking_s=1e-4,
            probe_every=7,
            notifications=2,
        ),
    )
    return with_drawn_letters(parameters, random.Random(seed + 10**6)), hop


def with_drawn_letters(
    parameters: SimulationParameters, chance: random.Random
) -> SimulationParameters:
    """The options that follow the document's letter where the defaults do not (docs/replication/ft_drb_deviations.md),
    each in three of ten."""
    nac = replace(parameters.nac, stop_output=chance.random() < 0.3 and not parameters.nac.slack)
    nac = replace(nac, identify_anew=chance.random() < 0.3 and nac.reserve)
    ft_drb = replace(
        parameters.ft_drb,
        ack_buffers="shared" if chance.random() < 0.3 else "own",
        probes="synthetic" if chance.random() < 0.3 else "message",
        header_bytes=16 if chance.random() < 0.3 else 0,
    )
    nac = replace(nac, ask_anew=chance.random() < 0.3)
    switching = chance.choice(["cut-through", "cut-through", "store-and-forward"])
    return replace(parameters, nac=nac, ft_drb=ft_drb, switching=switching)


def drawn_messages(
    chance: random.Random, network: Any, parameters: SimulationParameters, seed: int
) -> tuple[Injections, float]:
    hosts = len(network.hosts)
    pattern = build_pattern(
        chance.choice(["uniform", "tornado"]), hosts, shape=network.attributes.get("shape")
    )
    rate = parameters.packets_per_s(chance.choice([0.02, 0.1, 0.3, 0.6, 0.9]))
    duration = MESSAGES / hosts / rate
    process = InjectionProcess(
        kind=chance.choice(["poisson", "periodic", "burst"]),
        rate_per_s=rate,
        burst_messages=5,
        in_phase=chance.random() < 0.5,
    )
    return build_injections(pattern, process, duration_s=duration, seed=seed), duration


def drawn_faults(
    chance: random.Random, network: Any, duration: float, seed: int
) -> tuple[Any, ...]:
    """None, or up to a tenth of the cables (one of a ring's): for ever, for a while, or each several times
    (intermittent)."""
    cables = len(switch_cables(network))
    most = 1 if network.attributes.get("family") == "ring" else max(1, cables // 10)
    count = chance.randint(0, most)
    kind = chance.choice(["permanent", "transient", "intermittent"])
    if kind != "intermittent":
        lasting = None if kind == "permanent" else (0.0, duration)
        return random_faults(network, count, seed=seed, start_s=(0.0, duration), duration_s=lasting)
    ends = [fault.ends for fault in random_faults(network, count, seed=seed)]
    starts = [(a, b, (k + chance.random()) * duration / 4) for a, b in ends for k in range(4)]
    return tuple(
        cable_fault((a, b), start_s=start, stop_s=start + duration / 20) for a, b, start in starts
    )


def check_every_message(run: SimulationResult) -> None:
    """Conservation, told by the numbers of messages: each delivered once, or in exactly one buffer, or not made yet."""
    numbers = np.arange(len(run.born))
    delivered, held = numbers[run.delivered >= 0], np.sort(run.held)
    assert len(np.unique(held)) == len(held) and not np.intersect1d(held, delivered).size
    assert np.array_equal(np.sort(np.concatenate([delivered, held])), np.arange(run.made))
    assert run.deliveries == len(delivered) and run.packet_hops >= run.hops[delivered].sum()
    if run.received == run.sent and run.stopped == "finished":
        assert (run.stuck.packets, run.stuck.at_sources) == (0, 0), (
            "packets wait though nothing happens any more"
        )


@pytest.mark.parametrize("seed", range(FIRST, CONFIGURATIONS))
def test_both_engines_give_the_same_history(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(seed)
    name = chance.choice(NETWORKS)
    network = load_network(name)
    parameters, hop = drawn_parameters(chance, name, seed)
    monkeypatch.setitem(HOP_MODELS, parameters.model, hop)
    if seed % 2:  # routes by coordinates, as on large networks
        monkeypatch.setattr(static_paths, "LARGE", 0)
    injections, duration = drawn_messages(chance, network, parameters, seed)
    if seed % 3 == 2:
        network = with_drawn_capacities(network, random.Random(2_000_000 + seed))
        parameters = replace(parameters, capacities=True)
    faults: tuple[Any, ...] = ()
    if parameters.routing == "ft-drb":
        faults = drawn_faults(chance, network, duration, seed)
    compiled, reference = (
        simulate(
            network,
            injections,
            parameters,
            faults,
            engine=engine,
            recording=Recording(grants=50_000),
        )
        for engine in ("compiled", "reference")
    )
    for name in (
        "trace",
        "delivered",
        "entered",
        "hops",
        "carried",
        "nac_timeline",
        "escapes",
        "diverted",
    ):
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
    for run in (compiled, reference):
        assert run.conserved
        check_every_message(run)


@pytest.mark.parametrize(
    ("routing", "rate", "cut"),
    [
        pytest.param("dor", 1.0, False, marks=pytest.mark.long),
        pytest.param("ft-drb", 0.9, False, marks=pytest.mark.long),
        ("ft-drb", 0.3, True),
    ],
)
def test_the_steps_run_in_python_as_they_are(
    routing: str, rate: float, cut: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with NUMBA_DISABLE_JIT=1: numbers that do not fit where they come from are no reason to stop, nor to warn."""
    monkeypatch.setattr(
        compiled_run, "LOOP", lambda *tables: kernel_loop.run_events(*map(as_records, tables))
    )
    network, parameters = (
        load_network("torus:6x6"),
        SimulationParameters(model="thesis", routing=routing, deadlock="nac"),
    )
    process = InjectionProcess(rate_per_s=parameters.packets_per_s(rate))
    injections = build_injections(
        build_pattern("uniform", 36, shape=[6, 6]), process, duration_s=1.2e-4, seed=1
    )
    faults = (
        [cable_fault(("s0_0", "s0_1"), start_s=0), cable_fault(("s1_1", "s2_1"), start_s=0)]
        if cut
        else []
    )
    plain, reference = (
        simulate(network, injections, parameters, faults, engine=engine)
        for engine in ("compiled", "reference")
    )
    assert plain.digest == reference.digest and plain.nac_counters == reference.nac_counters
    assert cut == (plain.drb_counters["escapes"] > 10 if plain.drb_counters else False)
    assert (cut or plain.nac_counters["identification_packets"] > 10) and plain.deliveries == len(
        injections
    )
