"""The interconnect simulator: zero-load latencies, BookSim2's anchors, deadlocks and NAC, bad input."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from testbed.errors import InputError
from testbed.faults.cable_faults import cable_fault
from testbed.faults.grammar import parse_cable_faults
from testbed.interconnect.compiled.compiled_run import LOOP, read_outcome
from testbed.interconnect.compiled.kernel_state import build_state, build_tables
from testbed.interconnect.engine_inputs import EngineInputs, Recording, build_inputs
from testbed.interconnect.network_model import build_model, zero_load_ticks
from testbed.interconnect.options import NacOptions
from testbed.interconnect.parameters import SimulationParameters
from testbed.interconnect.results import EngineResult, SimulationResult, summarize
from testbed.interconnect.simulation import read_messages
from testbed.interconnect.traffic.injection import (
    InjectionProcess,
    build_injections,
    build_pattern,
    burst_at,
    merge,
)
from tests.helpers.injected_messages import messages
from tests.oracles.interconnect import simulate
from tests.oracles.interconnect.reference_engine import ReferenceEngine
from tests.oracles.interconnect.reference_parts import Buffer, Packet
from tests.oracles.interconnect.reference_run import run_reference
from topologies import load_network

CYCLE_S = 256e-9
BOOKSIM = SimulationParameters(deadlock="virtual-channels")
THESIS = SimulationParameters(model="thesis")
ANCHORS = {
    ("uniform", 0.05): 56.53, ("uniform", 0.1): 60.60, ("transpose", 0.05): 56.82, ("transpose", 0.1): 62.88,
    ("bit-reversal", 0.05): 58.02, ("bit-reversal", 0.1): 67.68, ("shuffle", 0.05): 56.56, ("shuffle", 0.1): 62.44,
    ("complement", 0.05): 55.94, ("complement", 0.1): 59.68, ("tornado", 0.05): 71.03, ("tornado", 0.1): 89.17,
    ("uniform", 0.0041): 53.33, ("transpose", 0.0041): 53.30, ("bit-reversal", 0.0041): 53.14,
    ("shuffle", 0.0041): 53.53, ("complement", 0.0041): 52.88, ("tornado", 0.0041): 61.72,
    ("uniform", 0.3): 91.84, ("complement", 0.3): 105.8,
    ("uniform", 0.2): 72.73, ("complement", 0.2): 72.72, ("shuffle", 0.2): 107.1, ("transpose", 0.2): 110.1,
}  # fmt: skip
RING_ANCHORS = {0.0041: 49.45, 0.05: 54.46, 0.1: 63.36, 0.2: 139.0}
"""Tornado on a ring of eight; at 0.2 the mean of 16 runs of the rebuilt program (126 to 151), since the one published
value, 157.9, is outside all of them (``booksim_values.json``)."""


def run_pattern(
    name: str,
    pattern: str,
    rate_per_s: float,
    duration_s: float,
    parameters: SimulationParameters,
    seed: int = 1,
    **more: Any,
) -> SimulationResult:
    network = load_network(name)
    made = build_pattern(
        pattern,
        len(network.hosts),
        shape=network.attributes.get("shape"),
        to_itself=parameters.hop.to_itself,
    )
    injections = build_injections(
        made, InjectionProcess(rate_per_s=rate_per_s), duration_s=duration_s, seed=seed
    )
    return simulate(network, injections, replace(parameters, seed=seed), **more)


@pytest.mark.parametrize("engine", ["compiled", "reference"])
@pytest.mark.parametrize("destination, routers", [(0, 1), (1, 2), (3, 4), (8, 2), (27, 7)])
def test_a_lone_packet_takes_33_and_4_cycles_a_router(
    destination: int, routers: int, engine: str
) -> None:
    run = simulate(
        load_network("torus:8x8"), messages((0.0, 0, destination)), BOOKSIM, engine=engine
    )
    assert run.hops[0] == routers
    assert run.latencies_s()[0] == pytest.approx((33 + 4 * routers) * CYCLE_S)


@pytest.mark.parametrize("engine", ["compiled", "reference"])
@pytest.mark.parametrize(
    "name, destination, behind",
    [("ring:8", 2, 33), ("mesh:3x3", 2, 32)],
    ids=["one channel: a cycle of turnaround", "two channels: none"],
)
def test_a_packet_follows_another_as_its_virtual_channel_allows(
    name: str, destination: int, behind: int, engine: str
) -> None:
    """On a ring both packets belong to the lower half of two channels, which is one; a mesh lets the second have the
    other."""
    run = simulate(
        load_network(name),
        messages((0.0, 0, destination), (0.0, 0, destination)),
        BOOKSIM,
        engine=engine,
    )
    first, second = np.sort(run.latencies_s()) / CYCLE_S
    assert first == pytest.approx(33 + 4 * 3)
    assert second - first == pytest.approx(behind)


def test_each_dimension_draws_which_way_round_where_both_are_as_long() -> None:
    table = build_model(load_network("torus:8x8"), BOOKSIM).routes.next_link
    ways = {(int(v[0, 8 * 4 + 4]), int(v[8 * 4, 8 * 4 + 4])) for v in table}
    assert len(ways) == 4, "0,0 to 4,4: two ways in each of the dimensions"


@pytest.mark.parametrize("engine", ["compiled", "reference"])
def test_the_thesis_hop_takes_8_7_us_for_three_links(engine: str) -> None:
    run = simulate(load_network("ring:8"), messages((0.0, 0, 3)), THESIS, engine=engine)
    assert run.latencies_s()[0] == pytest.approx(8.7e-6)


@pytest.mark.parametrize("engine", ["compiled", "reference"])
@pytest.mark.parametrize("size", [2048, 1000])
def test_a_stored_packet_takes_its_time_at_every_stop(size: int, engine: str) -> None:
    """On five links (two of them hosts'), and in four routers; a packet of 1000 B is sixteen flits."""
    parameters = replace(THESIS, switching="store-and-forward", router_delay_s=4e-7)
    lone = replace(messages((0.0, 0, 3)), size_bytes=np.array([size]))
    run = simulate(load_network("ring:8"), lone, parameters, engine=engine)
    assert run.latencies_s()[0] == pytest.approx(
        4 * 4e-7 + 5 * {2048: 8.192e-6, 1000: 4.096e-6}[size]
    )
    if size == 2048:
        assert run.delivered[0] == zero_load_ticks(parameters, 4, size)


@pytest.mark.parametrize("pattern, rate", ANCHORS)
def test_latencies_are_those_of_booksim2(pattern: str, rate: float) -> None:
    means = []
    for seed in (1, 2):
        run = run_pattern("torus:8x8", pattern, BOOKSIM.packets_per_s(rate), 0.03, BOOKSIM, seed)
        assert run.received == run.sent
        means.append(summarize(run, start_s=0.003, end_s=0.029).mean_latency_s or 0.0)
    cycles = sum(means) / len(means) / CYCLE_S
    assert cycles == pytest.approx(ANCHORS[pattern, rate], rel=0.03)


@pytest.mark.parametrize("rate", RING_ANCHORS)
def test_latencies_on_a_ring_are_those_of_booksim2(rate: float) -> None:
    duration = 20_000 / 8 / BOOKSIM.packets_per_s(rate)
    means = []
    for seed in (1, 2, 3):
        run = run_pattern("ring:8", "tornado", BOOKSIM.packets_per_s(rate), duration, BOOKSIM, seed)
        means.append(
            summarize(run, start_s=0.2 * duration, end_s=0.95 * duration).mean_latency_s or 0.0
        )
    assert sum(means) / len(means) / CYCLE_S == pytest.approx(
        RING_ANCHORS[rate], rel=0.05 if rate > 0.1 else 0.03
    )


def test_patterns_saturate_in_booksims_order() -> None:
    """At a load that all but uniform and complement cannot bear, throughput ranks as saturation does."""
    accepted = {}
    for pattern in ("uniform", "complement", "shuffle", "transpose", "bit-reversal", "tornado"):
        run = run_pattern("torus:8x8", pattern, BOOKSIM.packets_per_s(0.5), 0.01, BOOKSIM)
        accepted[pattern] = summarize(run, start_s=0.002, end_s=0.01).throughput
    assert accepted["uniform"] >= accepted["complement"] - 0.02
    assert min(accepted["uniform"], accepted["complement"]) > max(
        accepted["shuffle"], accepted["transpose"]
    )
    assert (
        min(accepted["shuffle"], accepted["transpose"])
        > max(accepted["bit-reversal"], accepted["tornado"]) - 0.02
    )


@pytest.mark.parametrize("rate, duration", [(500.0, 1.0), (10_000.0, 0.3)])
def test_a_ring_at_low_rates_does_not_deadlock(rate: float, duration: float) -> None:
    run = run_pattern("ring:8", "tornado", rate, duration, THESIS)
    assert run.received == run.sent and not run.deadlocked


def deadlocked_inputs() -> EngineInputs:
    """A burst on a ring of eight that stays stuck for ever: 48 packets in the network, 32 at their sources."""
    network = load_network("ring:8")
    burst = burst_at(build_pattern("tornado", 8), time_s=0.0, messages=10)
    return build_inputs(build_model(network, THESIS), burst, THESIS, (), Recording())


def as_simulation(inputs: EngineInputs, outcome: EngineResult) -> SimulationResult:
    known = {name: getattr(inputs.messages, name) for name in ("born", "source", "destination")}
    return SimulationResult(**vars(outcome), **known)


def test_a_packet_cut_out_of_a_buffer_of_the_compiled_engine_is_missed() -> None:
    inputs = deadlocked_inputs()
    state = build_state(inputs, ack_pool=0, heap=1 << 14)
    LOOP(
        build_tables(inputs.model), inputs.options, state, None, inputs.messages.born, inputs.cables
    )
    whole = as_simulation(inputs, read_outcome(inputs, state, None))
    assert whole.conserved and len(whole.held) == 80 - whole.received
    queue = int(np.nonzero(state.queues["occupied"] > 1)[0][0])
    state.queues["head"][queue] = state.packets["next"][state.queues["head"][queue]]
    state.queues["occupied"][queue] -= 1
    assert not as_simulation(inputs, read_outcome(inputs, state, None)).conserved


def test_packets_lost_or_repeated_by_the_reference_engine_are_detected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    inputs = deadlocked_inputs()
    assert as_simulation(inputs, run_reference(inputs)).conserved
    join, deliver = ReferenceEngine.join, ReferenceEngine.deliver

    def lose_one(engine: ReferenceEngine, buffer: Buffer, packet: Packet) -> None:
        if packet.number != 33:
            join(engine, buffer, packet)

    def deliver_twice(engine: ReferenceEngine, packet: Packet, tick: int) -> None:
        deliver(engine, packet, tick)
        deliver(engine, packet, tick)

    with monkeypatch.context() as lossy:
        lossy.setattr(ReferenceEngine, "join", lose_one)
        assert not as_simulation(inputs, run_reference(inputs)).conserved
    monkeypatch.setattr(ReferenceEngine, "deliver", deliver_twice)
    assert not as_simulation(inputs, run_reference(inputs)).conserved


@pytest.mark.parametrize("seed", range(1, 6))
def test_a_ring_at_34000_a_second_deadlocks_and_nac_delivers_everything(seed: int) -> None:
    bare = run_pattern("ring:8", "tornado", 34_000.0, 0.1, THESIS, seed)
    assert bare.deadlocked and bare.deadlocked_at_s is not None and bare.deadlocked_at_s < 0.1
    assert bare.stuck.packets == 48 and bare.conserved
    saved = run_pattern("ring:8", "tornado", 34_000.0, 0.1, replace(THESIS, deadlock="nac"), seed)
    assert saved.received == saved.sent and not saved.deadlocked
    assert saved.nac_counters["moved"] > 0 and saved.nac_counters["recovery_moved"] > 0


@pytest.mark.parametrize("engine", ["compiled", "reference"])
def test_a_burst_leaves_48_packets_for_ever_and_none_with_nac(engine: str) -> None:
    pattern = build_pattern("tornado", 8)
    calm = build_injections(pattern, InjectionProcess(rate_per_s=500.0), duration_s=0.02, seed=1)
    late = messages((0.0205, 0, 3))
    injections = merge([calm, burst_at(pattern, time_s=0.012, messages=10), late])
    bare = simulate(load_network("ring:8"), injections, THESIS, engine=engine)
    assert bare.deadlocked and bare.stuck.packets == 48
    saved = simulate(
        load_network("ring:8"), injections, replace(THESIS, deadlock="nac"), engine=engine
    )
    assert saved.received == saved.sent
    assert saved.latencies_s()[-1] == pytest.approx(8.7e-6), (
        "after the burst latency is that of an empty network again"
    )


def test_nac_keeps_a_torus_at_four_fifths_of_its_links_alive() -> None:
    parameters = replace(THESIS, deadlock="nac")
    for seed in (1, 2):
        run = run_pattern("torus:8x8", "uniform", 0.8 * 122_070, 0.006, parameters, seed)
        assert run.received == run.sent and not run.deadlocked and run.nac_counters["moved"] > 0
    assert run_pattern("torus:8x8", "uniform", 0.8 * 122_070, 0.006, THESIS).deadlocked


def test_identification_goes_round_a_ring_in_eight_control_times() -> None:
    pattern = build_pattern("tornado", 8)
    run = simulate(
        load_network("ring:8"),
        burst_at(pattern, time_s=0.0, messages=10),
        replace(THESIS, deadlock="nac"),
        engine="reference",
    )
    blocked = {row[3]: row[0] for row in run.nac_timeline[::-1].tolist() if row[1] == 5}
    found = next(row for row in run.nac_timeline.tolist() if row[1] == 0)
    last = max(blocked.values())
    control = NacOptions().control_s * 1e11
    assert control <= found[0] - min(blocked.values()) and found[0] - last <= 8 * control + 1


def test_routing_by_dateline_needs_no_avoidance() -> None:
    run = run_pattern(
        "ring:8", "tornado", 60_000.0, 0.01, replace(THESIS, deadlock="virtual-channels")
    )
    assert run.received == run.sent


def test_ft_drb_without_failures_is_as_fast_as_dimension_order() -> None:
    dor = run_pattern("torus:4x4", "uniform", 2000.0, 0.02, THESIS)
    drb = run_pattern("torus:4x4", "uniform", 2000.0, 0.02, replace(THESIS, routing="ft-drb"))
    assert drb.received == drb.sent and drb.drb_counters["escapes"] == 0
    assert np.array_equal(drb.hops, dor.hops)
    assert drb.latencies_s().mean() == pytest.approx(dor.latencies_s().mean(), rel=0.005)


def test_ft_drb_brings_every_packet_round_a_dead_link() -> None:
    network = load_network("torus:4x4")
    pattern = build_pattern("uniform", 16)
    injections = build_injections(
        pattern, InjectionProcess(rate_per_s=5000.0), duration_s=0.02, seed=1
    )
    faults = [
        cable_fault(("s0_0", "s0_1"), start_s=0.005),
        cable_fault(("s1_1", "s2_1"), start_s=0.004, stop_s=0.01),
    ]
    parameters = replace(THESIS, routing="ft-drb", deadlock="nac")
    run = simulate(network, injections, parameters, faults)
    assert run.received == run.sent and run.livelocked == 0
    assert run.drb_counters["escapes"] > 0 and run.drb_counters["marked_permanent"] > 0
    still = simulate(network, injections, replace(THESIS, deadlock="nac"), faults)
    assert still.received < still.sent, "dimension order waits for ever at a dead link"


def test_the_same_seed_gives_the_same_run_and_another_does_not() -> None:
    runs = [
        run_pattern("torus:4x4", "uniform", 12_207.0, 0.01, BOOKSIM, seed) for seed in (1, 1, 2)
    ]
    assert runs[0].digest == runs[1].digest != runs[2].digest


def test_a_schedule_holds_its_paths_frame_after_frame() -> None:
    network = load_network("ring:4")
    document = {
        "frames": [
            [["h0", "h1"], ["h2", "h3"]],
            [{"source": "h1", "destination": "h2", "bytes": 3000}],
        ]
    }
    injections = read_messages(document, network, THESIS)
    assert injections.size_bytes is not None and injections.size_bytes.tolist() == [
        2048,
        2048,
        2048,
        952,
    ]
    run = simulate(network, injections, THESIS)
    assert run.received == 4 and run.delivered[:2].max() <= run.born[2]


@pytest.mark.parametrize(
    "given, says",
    [
        ({"packet_bytes": 8192}, "larger than a buffer"),
        ({"deadlock": "virtual-channels", "virtual_channels": 1}, "2 or more"),
        ({"deadlock": "nac", "virtual_channels": 2}, "needs none"),
        ({"model": "opnet"}, "booksim, thesis"),
        ({"switching": "wormhole"}, "cut-through, store-and-forward"),
        ({"router_delay_s": 0.0}, "router_delay_s"),
        ({"link_bps": 0.0}, "bits a second"),
    ],
)
def test_parameters_that_make_no_simulation_are_refused(given: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        SimulationParameters(**given)


def test_a_network_without_dimension_order_or_dateline_is_refused() -> None:
    lone = messages((0.0, 0, 1))
    with pytest.raises(InputError, match="dimension order"):
        simulate(load_network("fat-tree:2,3"), lone, SimulationParameters(routing="dor"))
    with pytest.raises(InputError, match="dateline"):
        simulate(
            load_network("swiss-t1"),
            lone,
            SimulationParameters(routing="shortest-path", deadlock="virtual-channels"),
        )


def test_a_fault_on_a_link_that_is_not_there_is_refused() -> None:
    network = load_network("torus:4x4")
    with pytest.raises(InputError, match="no such link"):
        parse_cable_faults("s0_0-s2_2", network, seed=1, duration_s=1.0)
    with pytest.raises(InputError, match="seconds"):
        parse_cable_faults("s0_0-s0_1@soon", network, seed=1, duration_s=1.0)
    assert len(parse_cable_faults("random:3", network, seed=1, duration_s=1.0)) == 3
