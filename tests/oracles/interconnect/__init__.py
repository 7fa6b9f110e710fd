"""The router simulator once more, written apart with objects to be read: what the compiled engine is held against.

It shares the inputs (``testbed.interconnect.engine_inputs``) and nothing of the compiled engine nor of its FT-DRB.
"""

from __future__ import annotations

from collections.abc import Sequence

from testbed.faults.fault import Fault
from testbed.interconnect import simulation
from testbed.interconnect.engine_inputs import Recording
from testbed.interconnect.network_model import NetworkModel
from testbed.interconnect.parameters import SimulationParameters
from testbed.interconnect.results import SimulationResult
from testbed.interconnect.traffic.injection import Injections
from topologies import Network

ENGINES = ("compiled", "reference")


def simulate(
    network: Network | NetworkModel,
    injections: Injections,
    parameters: SimulationParameters,
    faults: Sequence[Fault] = (),
    *,
    engine: str = "compiled",
    recording: Recording | None = None,
) -> SimulationResult:
    """``testbed.interconnect.simulation.simulate`` by either engine."""
    from tests.oracles.interconnect.reference_run import run_reference

    chosen = {"compiled": None, "reference": run_reference}[engine]
    return simulation.simulate(
        network, injections, parameters, faults, engine=chosen, recording=recording
    )
