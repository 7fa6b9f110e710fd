"""``testbed doctor --compile``: compiles all code ahead that is usually compiled at its first use.

Each task runs one algorithm on a small input, and ``fec.jit`` stores the compiled code. After a
change of the source only the changed parts are compiled again. ``make kernels`` runs the same tasks
and builds a library of the compiled code (``tools/build_kernels.py``).
"""

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any


def compile_all() -> Iterator[tuple[str, float]]:
    """Run the tasks, and yield the name and the duration in seconds of each when it ends."""
    for name, task in TASKS.items():
        began_s = time.monotonic()
        task()
        yield name, time.monotonic() - began_s


def _codes() -> None:
    from fec.redundancy.label_layout import best_layout

    quarters = tuple((((k * 16384, (k + 1) * 16384),), 1) for k in range(4))
    best_layout(quarters, 20, 0.05)


def _routes() -> None:
    from testbed.routing.capillary.kernel import FloatRouter
    from testbed.routing.capillary.route import final_loads
    from testbed.routing.flows.end_points import LinkArrays
    from topologies import load_network

    FloatRouter(load_network("torus:4x4")).loads("s0_0", "s2_2")
    final_loads(
        LinkArrays(nodes=3, tail=[0, 0, 1], head=[1, 2, 2], weight=[1, 1, 1]), 0, 2, compiled=True
    )


def _schedules() -> None:
    import numpy as np

    from testbed.conformance.schedulers import traffics
    from testbed.scheduling.fast.packing import pack
    from testbed.scheduling.fast.portfolio import liquid_schedule
    from testbed.scheduling.fast.searches import EJECT, PLACE
    from testbed.scheduling.fast.steps import LinkSets, seeded_state
    from testbed.scheduling.fast.symmetry import Orbits, subgroups
    from testbed.scheduling.fast.unit_ejection import unit_table
    from testbed.scheduling.traffic.patterns import all_to_all
    from topologies import load_network

    torus = all_to_all(load_network("torus:3x3"))
    for traffic in (*traffics().values(), torus):
        liquid_schedule(traffic, time_limit_s=2.0)
    pack([(0, 1), (1, 2)], 2, 1)
    group = next(iter(subgroups(torus)))
    orbits = Orbits.of(torus, group)
    if orbits is not None:
        sets = LinkSets(orbits.offsets, orbits.indices, len(torus.links))
        table = unit_table(sets, np.stack(group).astype(np.int64), 5, seeded_state(1))
        EJECT(table, PLACE(table, orbits.order), 20)


def _router_simulator(network: str = "torus:3x3", **options: Any) -> None:
    import testbed
    from testbed.interconnect.simulation import run_seed

    plan = testbed.simulation_plan(network, duration_s=1e-5, warm_up_s=0.0, **options)
    run_seed(plan.experiment, 1)


def _states_of_nac() -> None:
    from testbed.interconnect.model_checking.exploration import explore
    from testbed.interconnect.model_checking.small_networks import one_way_ring
    from testbed.interconnect.model_checking.transition_system import NacTransitionSystem, Rules

    explore(NacTransitionSystem(one_way_ring(3, (2,)), Rules()), most_states=100)


def _striped_files() -> None:
    # The import compiles the module's functions, or reads them.
    import sfio_emu.layout.kernels  # noqa: F401


# The tasks by the name under which they are printed.
TASKS: dict[str, Callable[[], None]] = {
    "router simulator, FT-DRB": partial(_router_simulator, routing="ft-drb"),
    "router simulator, NAC": partial(_router_simulator, deadlock="nac"),
    "router simulator": partial(_router_simulator, deadlock="virtual-channels"),
    "liquid schedules": _schedules,
    "orders of labels": _codes,
    "capillary routes": _routes,
    "states of NAC": _states_of_nac,
    "striped files": _striped_files,
}
