"""``testbed doctor --compile``: everything that is compiled for this machine at its first use, compiled ahead.

Each task runs one algorithm on something small; what it compiles is kept (see ``fec.jit``). After a change of code only
what changed is compiled again.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from multiprocessing import get_context


def compile_all() -> Iterator[tuple[str, float]]:
    """(what, seconds) of each task, as it ends; as many at a time as there are processors."""
    with ProcessPoolExecutor(len(os.sched_getaffinity(0)), mp_context=get_context("spawn")) as pool:
        seconds = {pool.submit(_timed, name): name for name in TASKS}
        for ended in as_completed(seconds):
            yield seconds[ended], ended.result()


def _timed(name: str) -> float:
    began = time.monotonic()
    TASKS[name]()
    return time.monotonic() - began


def _codes() -> None:
    import fec
    from fec.redundancy.label_layout import best_layout

    if "numba" in fec.available_engines():
        code = fec.ReedSolomonCode(source_packets=4, engine="numba")
        code.parity([bytes(64)] * 4, 4, 6)
    quarters = tuple((((k * 16384, (k + 1) * 16384),), 1) for k in range(4))
    best_layout(quarters, 20, 0.05)


def _routes() -> None:
    from testbed.routing.capillary.kernel import capillary_loads
    from testbed.routing.capillary.recursion import LinkArrays, final_loads
    from topologies import load_network

    capillary_loads(load_network("torus:4x4"), [("s0_0", "s2_2")])
    final_loads(LinkArrays(nodes=3, tail=[0, 0, 1], head=[1, 2, 2], weight=[1, 1, 1]), 0, 2)


def _schedules() -> None:
    from testbed.conformance.schedulers import traffics
    from testbed.scheduling.fast.portfolio import liquid_schedule
    from testbed.scheduling.traffic.patterns import all_to_all
    from topologies import load_network

    for traffic in (*traffics().values(), all_to_all(load_network("torus:3x3"))):
        liquid_schedule(traffic, time_limit_s=2.0)


def _router_simulator(routing: str) -> None:
    from testbed import run, simulation_plan

    run(simulation_plan("torus:3x3", 0.1, routing=routing, duration_s=0.0001), "simulator")


def _states_of_nac() -> None:
    from testbed.interconnect.model_checking.exploration import explore
    from testbed.interconnect.model_checking.small_networks import one_way_ring
    from testbed.interconnect.model_checking.transition_system import NacTransitionSystem, Rules

    explore(NacTransitionSystem(one_way_ring(3, (2,)), Rules()), most_states=100)


def _striped_files() -> None:
    """A fragment list over two subfiles, by the calls of a striped file: memory and what arrives may be read-only."""
    import numpy as np

    from sfio_emu.layout.piece_builder import pieces_of
    from sfio_emu.layout.requests import make_requests
    from sfio_emu.layout.striping import Layout

    layout, memory = Layout(stripe_unit=20, subfiles=2), np.zeros(4000, dtype=np.uint8)
    every_other = np.arange(100) * 40
    for piece in pieces_of(make_requests(every_other, every_other, np.full(100, 30)), layout, 0, merge=True):
        stream = np.empty(piece.size, dtype=np.uint8)
        for writeable in (True, False):
            given, arrived = memory.copy(), stream.copy()
            given.flags.writeable = arrived.flags.writeable = writeable
            piece.gather(given, stream)
            piece.scatter(memory, arrived)


# The longest come first: all processors are busy until shortly before the end.
TASKS: dict[str, Callable[[], None]] = {
    "router simulator, FT-DRB": partial(_router_simulator, "ft-drb"),
    "router simulator": partial(_router_simulator, "dor"),
    "liquid schedules": _schedules,
    "codes and block sizes": _codes,
    "capillary routes": _routes,
    "states of NAC": _states_of_nac,
    "striped files": _striped_files,
}
