"""Both engines where links fail and work again under load: what is notified, what is woken, what asks anew."""

from __future__ import annotations

import numpy as np
import pytest

from testbed.faults.cable_faults import cable_fault
from testbed.interconnect.injection import Injections
from testbed.interconnect.parameters import SimulationParameters
from testbed.interconnect.simulation import simulate
from topologies import load_network

THESIS = SimulationParameters(model="thesis", routing="ft-drb", deadlock="nac")
ENGINES = ("compiled", "reference")


def messages(*rows: tuple[float, int, int]) -> Injections:
    """(seconds, source, destination)."""
    return Injections(
        time_ps=np.array([round(t * 1e12) for t, _, _ in rows], dtype=np.int64),
        source=np.array([s for _, s, _ in rows], dtype=np.int32),
        destination=np.array([d for _, _, d in rows], dtype=np.int32),
    )


@pytest.mark.parametrize("engine", ENGINES)
def test_a_notification_that_meets_a_dead_link_still_names_the_cable_that_failed(engine: str) -> None:
    """Messages from s0_0 to s2_2 go by s2_1, whose notices go back by s0_1, by dimension order: both ways meet a dead cable.

    The rival: the notice is renamed where it escapes itself, and the source never learns which of its cables is dead.
    """
    network = load_network("torus:8x8")
    sent = messages(*[(k * 1e-4, 0, 18) for k in range(20)])
    dead = [cable_fault(("s2_1", "s2_2")), cable_fault(("s0_1", "s1_1"))]
    run = simulate(network, sent, THESIS, dead, engine=engine)
    assert run.received == run.sent
    assert run.drb_counters["notifications"] == 5 and run.drb_counters["marked_permanent"] == 1
    assert run.drb_counters["sent_alternative"] == 15
