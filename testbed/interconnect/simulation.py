"""One run of the interconnect simulator: network, messages, parameters and faults in; what became of every message out.

``simulate`` is the way in for commands and experiments.
"""

from collections.abc import Callable, Sequence

from testbed.errors import InputError
from testbed.faults.cable_faults import check_faults
from testbed.faults.fault import Fault
from testbed.interconnect.engine_inputs import EngineInputs, Recording, build_inputs
from testbed.interconnect.network_model import NetworkModel, build_model
from testbed.interconnect.options import MAX_S
from testbed.interconnect.parameters import SimulationParameters
from testbed.interconnect.results import EngineResult, SimulationResult
from testbed.interconnect.traffic.injection import Injections
from topologies import Network


def simulate(
    network: Network | NetworkModel,
    injections: Injections,
    parameters: SimulationParameters,
    faults: Sequence[Fault] = (),
    *,
    engine: Callable[[EngineInputs], EngineResult] | None = None,
    recording: Recording | None = None,
) -> SimulationResult:
    """Run until every message is delivered, nothing moves any more, or ``drain_s`` after the last message.

    ``engine``: another one than the compiled (None), which a test holds against it. ``recording``: how much of the
    history is kept (None: ``Recording()``). A ``NetworkModel`` made before spares its making. Raises InputError for
    messages of unknown hosts, too late or too long, and what ``build_model`` refuses.
    """
    model = network if isinstance(network, NetworkModel) else build_model(network, parameters, dead_from_start(faults))
    _check_messages(model, injections, parameters)
    _check_dead(model, parameters, faults)
    inputs = build_inputs(model, injections, parameters, check_faults(model.network, faults), recording or Recording())
    outcome = (engine or _compiled)(inputs)
    return SimulationResult(
        **vars(outcome),
        born=inputs.messages.born,
        source=inputs.messages.source,
        destination=inputs.messages.destination,
    )


def _compiled(inputs: EngineInputs) -> EngineResult:
    from testbed.interconnect.compiled.compiled_run import run_compiled  # numba

    return run_compiled(inputs)


def dead_from_start(faults: Sequence[Fault]) -> frozenset[frozenset[str]]:
    """The cables that fail at 0 and stay dead: an adaptive routing's tables do without them."""
    return frozenset(frozenset(fault.ends) for fault in faults if fault.start_s <= 0 and fault.stop_s >= MAX_S)


def _check_dead(model: NetworkModel, parameters: SimulationParameters, faults: Sequence[Fault]) -> None:
    if not model.relation.all_lanes:
        return
    dead = dead_from_start(faults)
    if len(dead) < len(faults):
        raise InputError(
            f"--routing {parameters.routing}: its tables know failures from 0 to the end only; give @0, or use ft-drb"
        )
    if dead != model.dead:
        raise InputError("a model made for other dead cables than those of the run; build it with the same")


def _check_messages(model: NetworkModel, injections: Injections, parameters: SimulationParameters) -> None:
    hosts, sizes = model.layout.hosts, injections.size_bytes
    for name, ends in (("source", injections.source), ("destination", injections.destination)):
        if len(ends) and not (ends.min() >= 0 and ends.max() < hosts):
            raise InputError(f"messages: a {name} that is none of the hosts 0..{hosts - 1} of {model.network.name}")
    if len(injections) and injections.time_ps[-1] / 1e12 + parameters.drain_s > MAX_S + 1:
        raise InputError(
            f"messages: the last at {injections.time_ps[-1] / 1e12:g} s; give at most {MAX_S:g} s with drain_s"
        )
    if sizes is not None and len(sizes) and not 1 <= sizes.min() <= sizes.max() <= parameters.packet_bytes:
        raise InputError(f"messages: sizes must be 1 to packet_bytes ({parameters.packet_bytes}) bytes")
