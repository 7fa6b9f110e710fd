"""From options to the plan: the network, its parameters and rates, messages and failures of files."""

from dataclasses import fields
from pathlib import Path

from testbed.errors import InputError
from testbed.faults.failure_traces import FailureTrace
from testbed.faults.fault import Fault
from testbed.faults.grammar import no_faults
from testbed.faults.reading import read_faults
from testbed.interconnect.options import RouterOptions
from testbed.interconnect.parameters import SimulationParameters
from testbed.interconnect.plan import Experiment, SimulationPlan
from testbed.interconnect.simulation import own_routing
from testbed.interconnect.transmission import with_capacities
from testbed.model.file_formats import TRAFFIC_FORMATS, find_format
from testbed.model.json_values import is_file, read_json
from testbed.model.naming.names import has_own_rates, known_network, link_text
from testbed.model.options import kinds
from testbed.model.options.quantities import plain_numbers
from testbed.model.schemas import refuse_unknown
from testbed.results.trace_files import read_trace
from testbed.simulation.options import SimulationOptions
from topologies import Json, Network, label_of


def build_simulation(requested: SimulationOptions) -> SimulationPlan:
    """The plan of one rate, or of every one of ``rates``. Raises InputError for what makes no simulation, a file
    that cannot be read and a rate beyond a link's."""
    network = known_network(requested.network)
    loads = (
        kinds.loads(requested.loads)
        if isinstance(requested.loads, str)
        else tuple(requested.loads or ())
    )
    parameters = _parameters(requested, network)
    for load in loads:
        kinds.fraction.checked(load, "loads")
    rates = [parameters.packets_per_s(load) for load in loads] or [_rate(requested, parameters)]
    failing = split_faults(requested, network)
    experiments = tuple(
        _experiment(requested, rate, network, parameters, failing) for rate in rates
    )
    seeds = tuple(range(requested.seed, requested.seed + requested.repetitions))
    return SimulationPlan(
        experiment=experiments[0], seeds=seeds, sweep=experiments if loads else ()
    )


def _parameters(requested: SimulationOptions, network: Network) -> SimulationParameters:
    """Return the parameters of routers and links, without a seed."""
    values = {one.name: getattr(requested, one.name) for one in fields(RouterOptions)}
    values["routing"] = requested.routing or own_routing(network)
    link_bps = values.pop("link_bps")
    if link_bps is not None:
        return SimulationParameters(**values, link_bps=link_bps)
    parameters = SimulationParameters(**values)
    if has_own_rates(requested.network, network):
        return with_capacities(network, parameters)
    return parameters


def _rate(requested: SimulationOptions, parameters: SimulationParameters) -> float:
    """Packets a second of every sender."""
    rate, link = requested.packet_rate_pps, parameters.packets_per_s(1.0)
    if rate is not None and rate > link * (1 + 1e-9):
        raise InputError(
            f"--packet-rate {rate:g}: give at most a full link, {link:.6g} packets a second"
        )
    return parameters.packets_per_s(requested.load) if rate is None else rate


def _experiment(
    requested: SimulationOptions,
    rate: float,
    network: Network,
    parameters: SimulationParameters,
    failing: tuple[str | None, FailureTrace | None],
) -> Experiment:
    faults, trace = failing
    traffic, timed = _read_traffic(
        requested.traffic, network, parameters, failing=bool(faults or trace)
    )
    duration, warm_up = requested.duration_s, requested.warm_up_s
    if traffic is not None and timed:  # all of it is measured unless options say otherwise
        last = max(message["time_s"] for message in traffic["messages"])
        duration = max(1e-6, 1.1 * last) if duration is None else duration
        warm_up = 0.0 if warm_up is None else warm_up
    duration = min(1.0, max(1500 / rate, 1e-4)) if duration is None else duration
    warm_up = duration / 5 if warm_up is None else warm_up
    if warm_up >= duration or (duration > 18 and not timed):
        raise InputError(
            f"--duration {duration:g}, --warm-up {warm_up:g}: give a duration up to 18 s, longer than the warm-up"
        )
    return Experiment(
        network=network,
        parameters=parameters,
        pattern=requested.traffic if isinstance(requested.traffic, str) else requested.pattern,
        traffic=traffic,
        rate_per_s=rate,
        injection=requested.injection,
        burst=requested.burst_length,
        in_phase=requested.synchronised,
        faults=faults,
        trace=trace,
        trace_permanent=requested.trace_permanent,
        duration_s=duration,
        warm_up_s=warm_up,
    )


def split_faults(
    requested: SimulationOptions, network: Network
) -> tuple[str | None, FailureTrace | None]:
    """The failures in words, and the trace read from its file. InputError for a second trace, a file that cannot be
    read, a broken row (by its number) and a fault of a file that is more than a cable that is down."""
    named = "" if requested.faults is None or no_faults(requested.faults) else requested.faults
    if named and is_file(named):
        return ",".join(map(_of_cable, read_faults(named, network))) or None, None
    words = [word for word in named.split(",") if word.strip()]
    files = [
        word.strip().removeprefix("trace:") for word in words if word.strip().startswith("trace:")
    ]
    rest = ",".join(word for word in words if not word.strip().startswith("trace:")) or None
    if len(files) > 1:
        raise InputError(f"--faults {requested.faults!r}: {len(files)} traces; give one")
    if not files:
        return rest, None
    return rest, read_trace(
        Path(files[0]),
        system=requested.trace_system,
        rule=requested.trace_rule,
        skip_bad_rows=requested.trace_skip_bad_rows,
    )


def _of_cable(fault: Fault) -> str:
    """A fault of a file in words. InputError for what the simulator, whose cables work or not, does not have."""
    if fault.kind != "down" or fault.direction != "both":
        raise InputError(
            f"--faults: {label_of(fault.link)} {fault.kind}: cables are down, both ways, or work here"
        )
    return f"{link_text(fault.link)}@{fault.start_s!r}-" + (
        "" if fault.permanent else repr(fault.stop_s)
    )


def _read_traffic(
    requested: Json | str | None,
    network: Network,
    parameters: SimulationParameters,
    *,
    failing: bool,
) -> tuple[Json | None, bool]:
    """The messages; whether they are another program's, whose starts were found on this network."""
    if not isinstance(requested, str):
        return requested, False
    where = f"--traffic {requested}"
    if (other := find_format(TRAFFIC_FORMATS, requested)) is not None:
        if failing:
            raise InputError(f"{where}: starts are found without failures; leave them out")
        return other.read(requested, network, parameters), True
    document = read_json(requested, where, hint="give a JSON file")
    if not isinstance(document, dict):
        raise InputError(f'{where}: give an object with "messages", "transfers" or "frames"')
    refuse_unknown(document, "messages", where)
    numbers = plain_numbers(document)
    assert isinstance(numbers, dict)
    return numbers, False
