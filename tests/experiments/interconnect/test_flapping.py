"""NAC where cables fail and work again every few packet times: runs that stand still for ever, in both engines, and
what frees them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from experiments.interconnect.deadlock.nac_exhaustive import (
    drawn_load,
    drawn_parameters,
    measure_batch,
)
from tests.helpers.study_rows import published
from tests.oracles.interconnect import simulate
from topologies import load_network


@pytest.mark.parametrize("engine", ["compiled", "reference"])
@pytest.mark.parametrize(
    ("seed", "number", "arrived"), [pytest.param(8, 125, 44, marks=pytest.mark.long), (12, 108, 35)]
)
def test_nac_deadlocks_where_cables_flap_and_heads_that_ask_anew_free_it(
    engine: str, seed: int, number: int, arrived: int
) -> None:
    """Two of the drawn runs, one of each model of a hop: two routers have a packet aside each, their inputs ask for
    each other, and no slot is kept for either."""
    rng = np.random.default_rng([seed, number])
    parameters = drawn_parameters(rng)
    sent, faults = drawn_load(rng, "mesh:2x3", parameters)
    network = load_network("mesh:2x3")
    stuck = simulate(network, sent, parameters, faults, engine=engine)
    assert stuck.deadlocked and stuck.stopped == "no-progress" and stuck.received == arrived
    assert stuck.stopped_tick > max(fault.stop_s for fault in faults) * stuck.ticks_per_s
    assert any((b, a) in stuck.stuck.waits for a, b in stuck.stuck.waits)
    freed = simulate(
        network,
        sent,
        replace(parameters, nac=replace(parameters.nac, ask_anew=True)),
        faults,
        engine=engine,
    )
    assert freed.received == freed.sent == 1200 and freed.stopped == "finished"


@pytest.mark.parametrize("engine", ["compiled", "reference"])
def test_heads_ask_anew_when_a_cable_fails_too(engine: str) -> None:
    """This drawn run stood still for ever while heads asked anew only when a cable worked again."""
    rng = np.random.default_rng([17, 192])
    parameters = drawn_parameters(rng)
    sent, faults = drawn_load(rng, "mesh:2x3", parameters)
    parameters = replace(parameters, nac=replace(parameters.nac, ask_anew=True))
    run = simulate(load_network("mesh:2x3"), sent, parameters, faults, engine=engine)
    assert run.received == run.sent == 1200 and run.stopped == "finished"


def test_a_batch_counts_what_was_published() -> None:
    """Twenty-five of a published batch's 250 runs, counted again, are within what the batch has."""
    row = next(
        row for row in published("interconnect_nac_exhaustive") if row.get("part") == "timed"
    )
    some = measure_batch(row["network"], row["seed"], 25, ask_anew=False)
    assert (some["runs"], some["messages"], some["bare"]) == (25, 30_000, 5)
    assert all(0 <= some[name] <= row[name] for name in some)
