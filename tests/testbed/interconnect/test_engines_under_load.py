"""Both engines where links fail and work again under load: what is notified, what is woken, what asks anew."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from testbed.errors import InputError
from testbed.faults.cable_faults import cable_fault, random_faults
from testbed.interconnect.network_model import build_model
from testbed.interconnect.options import FtDrbOptions, NacOptions
from testbed.interconnect.parameters import SimulationParameters
from testbed.interconnect.traffic.injection import (
    InjectionProcess,
    build_injections,
    build_pattern,
    burst_at,
)
from tests.helpers.injected_messages import messages
from tests.oracles.interconnect import simulate
from tests.oracles.interconnect.nac import Nac
from topologies import load_network

pytestmark = pytest.mark.scaled
SOAK = "SIMULATOR_CONFIGURATIONS" in os.environ
"""``make soak`` runs every case; elsewhere the slow ones would take a minute of two processors."""
THESIS = SimulationParameters(model="thesis", routing="ft-drb", deadlock="nac")
ENGINES = ("compiled", "reference")


@pytest.mark.parametrize("engine", ENGINES)
def test_notification_at_a_failed_link_still_names_the_failed_cable(
    engine: str,
) -> None:
    """Messages from s0_0 to s2_2 go by s2_1, whose notices go back by s0_1, by dimension order: both ways meet a dead
    cable.

    The rival: the notice is renamed where it escapes itself, and the source never learns which of its cables is dead.
    """
    network = load_network("torus:8x8")
    sent = messages(*[(k * 1e-4, 0, 18) for k in range(20)])
    dead = [cable_fault(("s2_1", "s2_2")), cable_fault(("s0_1", "s1_1"))]
    run = simulate(network, sent, THESIS, dead, engine=engine)
    assert run.received == run.sent
    assert run.drb_counters["notifications"] == 5 and run.drb_counters["marked_permanent"] == 1
    assert run.drb_counters["sent_alternative"] == 15


@pytest.mark.parametrize("seed", range(1, 9 if SOAK else 2))
def test_nothing_waits_for_ever_on_an_idle_channel(seed: int) -> None:
    """NAC's throttle holds ACKs of a router's hosts back, too; when it opens, they ask again, in both engines at that
    tick."""
    network = load_network("ring:8")
    parameters = replace(THESIS, seed=seed)
    process = InjectionProcess(
        rate_per_s=parameters.packets_per_s(0.9), kind="burst", burst_messages=5
    )
    sent = build_injections(build_pattern("uniform", 8), process, duration_s=0.001, seed=seed)
    runs = [simulate(network, sent, parameters, engine=engine) for engine in ENGINES]
    for run in runs:
        assert run.received == run.sent and run.nac_counters["moved"] > 0
        assert (run.stuck.packets, run.stuck.at_sources) == (0, 0)
    assert runs[0].digest == runs[1].digest


@pytest.mark.parametrize(
    ("seed", "engine"), [(11, "compiled"), (13, "compiled"), *([(13, "reference")] if SOAK else [])]
)
def test_nac_frees_the_network_when_links_are_repaired_under_load(seed: int, engine: str) -> None:
    network = load_network("torus:8x8")
    parameters = replace(THESIS, seed=seed)
    process = InjectionProcess(
        kind="burst", rate_per_s=parameters.packets_per_s(0.9), burst_messages=10, in_phase=True
    )
    duration = 0.0006
    pattern = build_pattern("tornado", 64, shape=[8, 8])
    sent = build_injections(pattern, process, duration_s=duration, seed=seed)
    faults = random_faults(
        network, 12, seed=seed, start_s=(0.0, duration), duration_s=(0.0, 0.1 * duration)
    )
    run = simulate(network, sent, parameters, faults, engine=engine)
    assert run.received == run.sent and not run.deadlocked


def test_nac_finds_cycles_of_more_than_256_routers() -> None:
    """Identification packets name up to 512 inputs; with room for 256 a ring of 257 stays stuck for ever."""
    network = load_network("ring:257")
    parameters = replace(THESIS, routing="dor", drain_s=0.002)
    sent = burst_at(build_pattern("tornado", 257), time_s=0.0, messages=10)
    stuck = simulate(network, sent, replace(parameters, deadlock="none"))
    assert stuck.deadlocked
    saved = simulate(network, sent, parameters)
    assert saved.nac_counters["identified"] > 0 and saved.packet_hops > 2 * stuck.packet_hops
    with pytest.raises(InputError, match="rings of 513 routers"):
        build_model(load_network("ring:513"), parameters)


@pytest.mark.parametrize("engine", ENGINES)
def test_header_bytes_of_ft_drb_take_time_in_whole_flits(engine: str) -> None:
    network, lone = load_network("torus:4x4"), messages((0.0, 0, 1))
    plain, longer = (
        simulate(
            network, lone, replace(THESIS, ft_drb=FtDrbOptions(header_bytes=size)), engine=engine
        ).delivered[0]
        for size in (0, 16)
    )
    assert longer - plain == THESIS.serialization_ticks(64)


def test_a_strict_avoidance_buffer_never_holds_parts_of_two_packets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without ``strict_slot`` every fifth move comes in behind a tail that is still leaving."""
    network = load_network("ring:8")
    process = InjectionProcess(rate_per_s=34_000.0)
    sent = build_injections(build_pattern("tornado", 8), process, duration_s=0.0015, seed=1)
    move = Nac.move
    behind_tails: dict[bool, list[bool]] = {False: [], True: []}

    def watched_move(nac: Nac, link: int, path: tuple[int, ...], place: int, number: int) -> None:
        leaving = nac.engine.read_until[nac.avoidance_of(link).reader] > nac.engine.now
        behind_tails[bool(nac.options.strict_slot)].append(leaving)
        move(nac, link, path, place, number)

    monkeypatch.setattr(Nac, "move", watched_move)
    for strict in (False, True):
        parameters = replace(THESIS, routing="dor", nac=NacOptions(strict_slot=strict))
        run = simulate(network, sent, parameters, engine="reference")
        assert run.received == run.sent
        assert run.digest == simulate(network, sent, parameters).digest
    assert sum(behind_tails[False]) > len(behind_tails[False]) / 10 > 0
    assert behind_tails[True] and not any(behind_tails[True])
