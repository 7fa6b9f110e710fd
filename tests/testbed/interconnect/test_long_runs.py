"""Runs longer than an event's key has room for: they go on in stretches, and nobody can tell by what they did."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from testbed.errors import InputError
from testbed.faults.cable_faults import cable_fault, random_faults
from testbed.faults.fault import Fault
from testbed.interconnect.compiled import compiled_run
from testbed.interconnect.engine_inputs import Recording
from testbed.interconnect.options import FtDrbOptions
from testbed.interconnect.parameters import SimulationParameters
from testbed.interconnect.traffic.injection import InjectionProcess, build_injections, build_pattern
from tests.helpers.injected_messages import messages
from tests.oracles.interconnect import simulate
from topologies import load_network

THESIS = SimulationParameters(model="thesis", routing="ft-drb", deadlock="nac")
STRETCH_S = (1 << compiled_run.DIGEST_BITS) / 1e11


@pytest.mark.parametrize(
    ("network", "options", "load"),
    [
        ("ring:8", {"deadlock": "nac", "routing": "dor"}, 0.9),
        ("mesh:3x3", {"ft_drb": FtDrbOptions(marking="clock", probing="clock", link_up="router")}, 0.6),
        ("torus:4x4", {"routing": "dor", "deadlock": "none"}, 0.5),
        ("torus:4x4", {"model": "booksim", "routing": "dor", "deadlock": "virtual-channels"}, 0.5),
    ],
)  # fmt: skip
def test_a_run_in_stretches_is_the_same_as_in_one_piece(
    network: str, options: dict[str, object], load: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Five boundaries of stretches fall among packets, timers, recovery signals and failures under way."""
    parameters = replace(THESIS, drain_s=0.05, seed=3, **options)  # type: ignore[arg-type]
    built = load_network(network)
    process = InjectionProcess(rate_per_s=parameters.packets_per_s(load))
    sent = build_injections(
        build_pattern("uniform", len(built.hosts)), process, duration_s=5 * STRETCH_S, seed=3
    )
    faults: list[Fault] = []
    if parameters.routing == "ft-drb":
        faults += random_faults(
            built, 2, seed=3, start_s=(0.0, 4 * STRETCH_S), duration_s=(STRETCH_S / 2, STRETCH_S)
        )
        faults.append(
            cable_fault((built.switches[0].id, built.switches[1].id), start_s=4 * STRETCH_S)
        )
    recording = Recording(grants=2_000_000)
    whole = simulate(built, sent, parameters, faults, recording=recording)
    monkeypatch.setattr(compiled_run, "STRETCH", 1)
    parts = simulate(built, sent, parameters, faults, recording=recording)
    assert whole.digest == parts.digest and whole.stopped == parts.stopped
    assert whole.packet_hops > 10_000 and whole.drb_counters == parts.drb_counters
    assert (whole.nac_counters, whole.stopped_tick) == (parts.nac_counters, parts.stopped_tick)
    for name in (
        "entered",
        "delivered",
        "hops",
        "escapes",
        "diverted",
        "carried",
        "nac_timeline",
        "trace",
    ):
        np.testing.assert_array_equal(getattr(whole, name), getattr(parts, name), err_msg=name)


@pytest.mark.parametrize("engine", ["compiled", "reference"])
def test_messages_and_failures_of_a_hundred_seconds_are_met(engine: str) -> None:
    """Twenty messages, one each five seconds; the cable on their way is dead from 33 s to 51 s."""
    sent = messages(*[(5.0 * k, 0, 1) for k in range(20)])
    dead = [cable_fault(("s0", "s1"), start_s=33.0, stop_s=51.0)]
    run = simulate(
        load_network("ring:5"), sent, replace(THESIS, routing="ft-drb"), dead, engine=engine
    )
    assert run.received == run.sent == 20 and run.stopped == "finished"
    assert np.nonzero(run.hops > 2)[0].tolist() == [7, 8, 9, 10]
    assert np.all(run.latencies_s() < 1e-4)
    last = 95.0 * run.ticks_per_s
    assert last < run.stopped_tick < last + 1e-4 * run.ticks_per_s


def test_a_run_longer_than_can_be_is_refused() -> None:
    with pytest.raises(InputError, match="at most 1000 s"):
        simulate(load_network("ring:5"), messages((1001.0, 0, 1)), THESIS)
