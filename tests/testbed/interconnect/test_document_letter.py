"""The options that follow the document's letter where the defaults do not (docs/replication/ft_drb_deviations.md), in
both engines."""

from __future__ import annotations

from dataclasses import replace

import pytest

from testbed.errors import InputError
from testbed.faults.cable_faults import cable_fault, random_faults
from testbed.interconnect.network_model import build_model
from testbed.interconnect.options import FtDrbOptions, NacOptions
from testbed.interconnect.parameters import SimulationParameters
from testbed.interconnect.results import NAC_EVENTS, SimulationResult
from testbed.interconnect.traffic.injection import (
    InjectionProcess,
    Injections,
    build_injections,
    build_pattern,
)
from tests.helpers.injected_messages import messages
from tests.oracles.interconnect import simulate
from tests.oracles.interconnect.ft_drb_routing import FtDrbRouting
from tests.oracles.interconnect.reference_parts import Packet
from topologies import load_network

THESIS = SimulationParameters(model="thesis", routing="ft-drb", deadlock="nac")
ENGINES = ("compiled", "reference")


def one_after_the_other(nodes: int, apart_tf: float, each: int, control_s: float) -> Injections:
    """Bursts half-way round a ring, each host's a little later than the last one's: the cycle closes at one router."""
    return messages(
        *[
            (h * apart_tf * control_s, h, (h + nodes // 2) % nodes)
            for h in range(nodes)
            for _ in range(each)
        ]
    )


def moved_after_tf(run: SimulationResult, control_s: float) -> list[float]:
    """When routers moved a packet, in t_f after the input that closed the cycle was blocked."""
    ticks, kinds = run.nac_timeline[:, 0] / (run.ticks_per_s * control_s), run.nac_timeline[:, 1]
    blocked, moved, recovered = (
        kinds == NAC_EVENTS.index(name) for name in ("blocked", "moved", "recovery-moved")
    )
    first = ticks[moved][0]
    return [float(t - ticks[blocked & (ticks <= first)].max()) for t in (first, *ticks[recovered])]


@pytest.mark.parametrize("engine", ENGINES)
def test_routers_take_turns_if_they_identify_again_unlike_recorded_cycles(
    engine: str,
) -> None:
    """Equations 4.8 and 4.9 on a ring of eight: n t_f and n - 1 signals, against n t_f at each of n routers and n - 1
    signals."""
    nodes, network = 8, load_network("ring:8")
    for anew, last in ((False, 2 * nodes - 1), (True, nodes * nodes + nodes - 1)):
        nac = NacOptions(identify_anew=anew, retry_s=2e-3)
        parameters = replace(THESIS, routing="dor", buffer_bytes=2048, nac=nac)
        run = simulate(
            network, one_after_the_other(nodes, 13, 3, nac.control_s), parameters, engine=engine
        )
        moves = moved_after_tf(run, nac.control_s)
        assert run.received == run.sent
        assert moves[0] == pytest.approx(nodes, abs=0.1) and moves[nodes - 1] == pytest.approx(
            last, abs=0.1
        )


@pytest.mark.parametrize("engine", ENGINES)
def test_synthetic_probe_finds_repaired_links_and_enters_no_failed_one(
    engine: str,
) -> None:
    """s2_1-s2_2 is dead for the first 5 of 10 ms: after five notifications messages go round; one in ten probes."""
    network = load_network("torus:8x8")
    sent = messages(*[(k * 1e-4, 0, 18) for k in range(100)])
    dead = [cable_fault(("s2_1", "s2_2"), start_s=0.0, stop_s=5e-3)]
    runs = {
        probes: simulate(
            network,
            sent,
            replace(THESIS, ft_drb=FtDrbOptions(probe_every=10, probes=probes)),
            dead,
            engine=engine,
        )
        for probes in ("message", "synthetic")
    }
    for run in runs.values():
        assert run.received == run.sent and run.drb_counters["cleared"] == 1
        assert run.drb_counters["sent_direct"] > 30
    assert (runs["message"].escapes > 0).sum() > (runs["synthetic"].escapes > 0).sum() == 5
    assert runs["synthetic"].drb_counters["probes"] > 0
    assert runs["synthetic"].drb_counters["notifications"] > 5, (
        "probes that meet the dead link are notified of it"
    )


def test_acks_in_shared_buffers_wait_with_messages_and_nac_frees_them() -> None:
    network = load_network("ring:8")
    process = InjectionProcess(rate_per_s=THESIS.packets_per_s(0.9), kind="burst", burst_messages=5)
    sent = build_injections(build_pattern("uniform", 8), process, duration_s=0.0008, seed=1)
    shared = replace(THESIS, ft_drb=FtDrbOptions(ack_buffers="shared"))
    assert (
        build_model(network, shared).layout.lanes == build_model(network, THESIS).layout.lanes - 1
    )
    runs = [simulate(network, sent, shared, engine=engine) for engine in ENGINES]
    for run in runs:
        assert run.received == run.sent and run.nac_counters["moved"] > 0
        assert (run.stuck.packets, run.stuck.at_sources) == (0, 0)
    assert runs[0].digest == runs[1].digest != simulate(network, sent, THESIS).digest
    assert simulate(network, sent, replace(shared, deadlock="none")).deadlocked


def test_options_that_would_never_let_a_packet_pass_are_refused() -> None:
    for options in ({"stop_output": True, "slack": 1}, {"identify_anew": True, "reserve": False}):
        with pytest.raises(InputError, match="nac: "):
            NacOptions(**options)
    with pytest.raises(InputError, match="larger than the slot that it shares"):
        replace(THESIS, packet_bytes=512, ft_drb=FtDrbOptions(ack_bytes=600, ack_buffers="shared"))
    for name in ("probes", "ack_buffers"):
        with pytest.raises(InputError, match=f"{name} .both.: choose from"):
            FtDrbOptions(**{name: "both"})


@pytest.mark.parametrize(
    "kind", [pytest.param("permanent", marks=pytest.mark.soak), "intermittent"]
)
def test_notices_that_mark_a_cable_name_one_direction(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The document's notices name a port, ours a cable: a source would mark it for both directions only if told of
    both.

    The rival: notices of a cable come from either end as often, and of five nearly all would name both.
    """
    network, duration = load_network("torus:8x8"), 0.05 if kind == "permanent" else 0.08
    told: dict[tuple[int, int], list[int]] = {}
    notify = FtDrbRouting.notify_source

    def watched(routing: FtDrbRouting, packet: Packet, link: int) -> None:
        acks = routing.acks
        notify(routing, packet, link)
        if routing.acks > acks:
            told.setdefault((packet.source, int(routing.links.cable[link])), []).append(link)

    monkeypatch.setattr(FtDrbRouting, "notify_source", watched)
    faults = random_faults(network, 12, seed=1)
    if kind == "intermittent":
        faults = tuple(
            replace(fault, start_s=k * duration / 10, stop_s=(k + 0.5) * duration / 10)
            for fault in faults
            for k in range(10)
        )
    parameters = SimulationParameters(
        model="thesis", routing="ft-drb", deadlock="nac", packet_bytes=512, buffer_bytes=8192
    )
    sent = build_injections(
        build_pattern("uniform", 64),
        InjectionProcess(rate_per_s=400.0),
        duration_s=duration,
        seed=1,
    )
    simulate(network, sent, parameters, faults, engine="reference")
    marking = [links[:5] for links in told.values() if len(links) >= 5]
    assert len(marking) > 15
    assert sum(len(set(links)) > 1 for links in marking) <= 0.05 * len(marking)
