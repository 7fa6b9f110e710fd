"""The compiled engine's tables of fixed size: what is too much for them is said, and nothing goes on with what was
overwritten."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from testbed.errors import InputError
from testbed.interconnect.compiled import (
    compiled_run,
    ft_drb_hooks,
    kernel_events,
    kernel_loop,
    kernel_records,
    kernel_state,
)
from testbed.interconnect.compiled.kernel_records import (
    IDENTIFICATIONS,
    MAX_RANK,
    POOL_FULL,
    RING_FULL,
    RUNNING,
)
from testbed.interconnect.compiled.nac import detection, identification, recovery
from testbed.interconnect.engine_inputs import Recording, build_inputs
from testbed.interconnect.network_model import build_model
from testbed.interconnect.parameters import SimulationParameters
from testbed.interconnect.results import EngineResult
from testbed.interconnect.traffic.injection import build_pattern, burst_at
from tests.helpers.injected_messages import messages
from topologies import load_network

THESIS = SimulationParameters(model="thesis", deadlock="nac")


def with_fields(tables: Any) -> Any:
    """The same memory, its records' fields as attributes: compiled code reads them so, and numpy on request."""
    arrays = {name: getattr(tables, name) for name in tables._fields}
    named = {
        name: a.view(np.recarray)
        for name, a in arrays.items()
        if isinstance(a, np.ndarray) and a.dtype.names is not None
    }
    return tables._replace(**named)


def run_uncompiled(monkeypatch: pytest.MonkeyPatch, ring: int) -> EngineResult:
    """A burst on a ring of eight, by the compiled engine's own steps in Python, with room for so many identification
    packets."""
    network = load_network("ring:8")
    inputs = build_inputs(
        build_model(network, THESIS),
        burst_at(build_pattern("tornado", 8), time_s=0.0, messages=10),
        THESIS,
        (),
        Recording(),
    )

    def loop(tables: Any, options: Any, state: Any, *rest: Any) -> None:
        kernel_loop.run_events(with_fields(tables), options, with_fields(state), *rest)

    monkeypatch.setattr(compiled_run, "LOOP", loop)
    numbers = SimpleNamespace(**vars(kernel_records) | {"ID_MASK": ring - 1})
    for room in (detection, identification, kernel_events):
        monkeypatch.setattr(room, "kr", numbers)
    push = kernel_events.push
    for room in (detection, recovery, kernel_events):  # numpy's numbers are too short for keys
        monkeypatch.setattr(room, "push", lambda s, *key: push(s, *map(int, key)))
    return compiled_run.run_compiled(inputs)


def test_a_full_ring_of_identification_packets_stops_the_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All eight routers begin to identify at once, and each packet is repeated up to seven times: 64 are kept, 8 under
    way."""
    enough = run_uncompiled(monkeypatch, 1 << 10)
    assert enough.stopped == "finished" and enough.deliveries == 80
    assert enough.nac_counters["identified"] > 0
    for ring in (8, 32):
        full = run_uncompiled(monkeypatch, ring)
        assert full.stopped == "too many identification packets or notices", ring
        assert full.deliveries < 80


def test_notices_that_would_take_each_others_place_stop_the_run() -> None:
    network = load_network("ring:8")
    parameters = replace(THESIS, routing="ft-drb")
    inputs = build_inputs(
        build_model(network, parameters), messages((0.0, 0, 1)), parameters, (), Recording()
    )
    state = kernel_state.build_state(inputs, ack_pool=8, heap=16)
    state.packets["number"][:3] = (5, 6, 5 + IDENTIFICATIONS)
    for packet, status in ((0, RUNNING), (1, RUNNING), (2, RING_FULL)):
        ft_drb_hooks.send_later(with_fields(state), packet, 7)
        assert state.run["status"][0] == status
    assert state.notices[5] == 0 and POOL_FULL != RING_FULL


def test_switch_with_more_buffers_than_queue_numbers_is_refused() -> None:
    """The rival: the number of the last ones would wrap round, and round robin would serve other buffers."""
    model = build_model(load_network("ring:8"), THESIS)

    def of_rank(rank: int) -> Any:
        ranks = np.array(model.queues.rank, dtype=np.int32)
        ranks[-1] = rank
        return kernel_state._queues(replace(model, queues=replace(model.queues, rank=ranks)))

    assert of_rank(MAX_RANK)["rank"].max() == MAX_RANK
    with pytest.raises(InputError, match=f"ring:8: a switch with more than {MAX_RANK} buffers"):
        of_rank(MAX_RANK + 1)
