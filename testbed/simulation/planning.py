"""Builds the plan of a simulation from options.

It resolves the network, its parameters and rates, and reads messages and failures from files.
"""

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

# A message of a traffic file, or a pattern's last message, can begin no later (seconds). Event keys
# of the engine have room for 21.9 s.
_MAX_DURATION_S = 18

# The default duration gives every sender about this many messages.
_MESSAGES_PER_SENDER = 1500

# Tolerance for a packet rate that was computed from the rate of the link.
_ROUNDING = 1e-9


def build_simulation(requested: SimulationOptions) -> SimulationPlan:
    """Return the plan for one rate, or for every load of ``loads``.

    Raises:
        InputError: An option is invalid, a file cannot be read, or a rate exceeds that of a link.
    """
    network = known_network(requested.network)
    if isinstance(requested.loads, str):
        loads = kinds.loads(requested.loads)
    else:
        loads = tuple(requested.loads or ())
    parameters = _parameters(requested, network)
    for load in loads:
        kinds.fraction.checked(load, "loads")
    rates = [parameters.packets_per_s(load) for load in loads] or [_rate(requested, parameters)]
    failures = split_faults(requested, network)
    experiments = []
    for rate in rates:
        experiments.append(_experiment(requested, rate, network, parameters, failures))
    seeds = tuple(range(requested.seed, requested.seed + requested.repetitions))
    sweep = tuple(experiments) if loads else ()
    return SimulationPlan(experiment=experiments[0], seeds=seeds, sweep=sweep)


def _parameters(requested: SimulationOptions, network: Network) -> SimulationParameters:
    """Return the parameters of routers and links, without a seed."""
    values = {field.name: getattr(requested, field.name) for field in fields(RouterOptions)}
    values["routing"] = requested.routing or own_routing(network)
    link_bps = values.pop("link_bps")
    if link_bps is not None:
        return SimulationParameters(**values, link_bps=link_bps)
    parameters = SimulationParameters(**values)
    if has_own_rates(requested.network, network):
        return with_capacities(network, parameters)
    return parameters


def _rate(requested: SimulationOptions, parameters: SimulationParameters) -> float:
    """Return the packets a second of every sender.

    Raises:
        InputError: The requested rate exceeds that of a link.
    """
    rate = requested.packet_rate_pps
    if rate is None:
        return parameters.packets_per_s(requested.load)
    link_rate = parameters.packets_per_s(1.0)
    if rate > link_rate * (1 + _ROUNDING):
        raise InputError(
            f"--packet-rate {rate:g}: give at most a full link, {link_rate:.6g} packets a second"
        )
    return rate


def _experiment(
    requested: SimulationOptions,
    rate: float,
    network: Network,
    parameters: SimulationParameters,
    failures: tuple[str | None, FailureTrace | None],
) -> Experiment:
    """Return the experiment at one rate.

    Args:
        requested: The options.
        rate: Packets a second of every sender.
        network: The network.
        parameters: Parameters of routers and links.
        failures: Failures as text, and the trace of failures.
    """
    faults, trace = failures
    traffic, timed = _read_traffic(
        requested.traffic, network, parameters, failing=bool(faults or trace)
    )
    last_s = None
    if traffic is not None and timed:
        last_s = max(message["time_s"] for message in traffic["messages"])
    duration_s, warm_up_s = _duration_and_warm_up(requested, rate, last_s)
    pattern = requested.pattern
    if isinstance(requested.traffic, str):
        pattern = requested.traffic
    return Experiment(
        network=network,
        parameters=parameters,
        pattern=pattern,
        traffic=traffic,
        rate_per_s=rate,
        injection=requested.injection,
        burst=requested.burst_length,
        in_phase=requested.synchronised,
        faults=faults,
        trace=trace,
        trace_permanent=requested.trace_permanent,
        duration_s=duration_s,
        warm_up_s=warm_up_s,
    )


def _duration_and_warm_up(
    requested: SimulationOptions, rate: float, last_s: float | None
) -> tuple[float, float]:
    """Return the duration and the warm-up, as requested or by default.

    Args:
        requested: The options.
        rate: Packets a second of every sender.
        last_s: Time of the last message of another program's traffic, all of which is measured
            by default; None for other traffic.

    Raises:
        InputError: The warm-up is not shorter than the duration, or the duration is too long.
    """
    duration_s = requested.duration_s
    if duration_s is None:
        if last_s is not None:
            duration_s = max(1e-6, 1.1 * last_s)
        else:
            duration_s = min(1.0, max(_MESSAGES_PER_SENDER / rate, 1e-4))
    warm_up_s = requested.warm_up_s
    if warm_up_s is None:
        warm_up_s = duration_s / 5 if last_s is None else 0.0
    too_long = duration_s > _MAX_DURATION_S and last_s is None
    if warm_up_s >= duration_s or too_long:
        raise InputError(
            f"--duration {duration_s:g}, --warm-up {warm_up_s:g}: give a duration up to "
            f"{_MAX_DURATION_S} s, longer than the warm-up"
        )
    return duration_s, warm_up_s


def split_faults(
    requested: SimulationOptions, network: Network
) -> tuple[str | None, FailureTrace | None]:
    """Return the failures as text, and the trace of failures read from its file.

    Raises:
        InputError: There are two traces, a file cannot be read or has an invalid row, or a fault of
            a file is not the failure of a cable.
    """
    text = requested.faults
    if text is None or no_faults(text):
        text = ""
    if text and is_file(text):
        return ",".join(map(_fault_to_text, read_faults(text, network))) or None, None
    faults = []
    traces = []
    for entry in text.split(","):
        if entry.strip().startswith("trace:"):
            traces.append(entry.strip().removeprefix("trace:"))
        elif entry.strip():
            faults.append(entry)
    faults_text = ",".join(faults) or None
    if len(traces) > 1:
        raise InputError(f"--faults {requested.faults!r}: {len(traces)} traces; give one")
    if not traces:
        return faults_text, None
    trace = read_trace(
        Path(traces[0]),
        system=requested.trace_system,
        rule=requested.trace_rule,
        skip_bad_rows=requested.trace_skip_bad_rows,
    )
    return faults_text, trace


def _fault_to_text(fault: Fault) -> str:
    """Return a fault of a file in the grammar of faults.

    Raises:
        InputError: The fault is more than a cable that fails in both directions.
    """
    if fault.kind != "down" or fault.direction != "both":
        raise InputError(
            f"--faults: {label_of(fault.link)} {fault.kind}: cables are down, both ways, or "
            "work here"
        )
    stop = "" if fault.permanent else repr(fault.stop_s)
    return f"{link_text(fault.link)}@{fault.start_s!r}-{stop}"


def _read_traffic(
    requested: Json | str | None,
    network: Network,
    parameters: SimulationParameters,
    *,
    failing: bool,
) -> tuple[Json | None, bool]:
    """Return the document of messages, and whether its times were computed on this network.

    Times are computed for traffic of another program, whose messages wait for each other.

    Args:
        requested: A file, a document, or None.
        network: The network.
        parameters: Parameters of routers and links.
        failing: Whether links fail, so that times cannot be computed.

    Raises:
        InputError: The file is invalid.
    """
    if not isinstance(requested, str):
        return requested, False
    where = f"--traffic {requested}"
    traffic_format = find_format(TRAFFIC_FORMATS, requested)
    if traffic_format is not None:
        if failing:
            raise InputError(f"{where}: starts are found without failures; leave them out")
        return traffic_format.read(requested, network, parameters), True
    document = read_json(requested, where, hint="give a JSON file")
    if not isinstance(document, dict):
        raise InputError(f'{where}: give an object with "messages", "transfers" or "frames"')
    refuse_unknown(document, "messages", where)
    numbers = plain_numbers(document)
    assert isinstance(numbers, dict)
    return numbers, False
