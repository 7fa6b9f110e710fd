"""From options to the plan: the network, its parameters and rates, messages and failures of files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from testbed.errors import InputError
from testbed.faults.failure_traces import FailureTrace
from testbed.faults.grammar import no_faults
from testbed.interconnect.experiment import own_routing
from testbed.interconnect.parameters import SimulationParameters
from testbed.interconnect.plan import Experiment, SimulationPlan
from testbed.model.file_formats import TRAFFIC_FORMATS, find_format
from testbed.model.json_values import read_json
from testbed.model.naming.networks import known_network
from testbed.model.options import kinds
from testbed.model.schemas import refuse_unknown
from testbed.results.trace_files import read_trace
from testbed.simulation.options import SimulationOptions
from topologies import Network


def build_simulation(asked: SimulationOptions) -> SimulationPlan:
    """The plan of one rate, or of every one of ``rates``. Raises InputError for what makes no simulation, a file
    that cannot be read and a rate beyond a link's."""
    network = known_network(asked.network)
    rates = kinds.rates(asked.rates) if isinstance(asked.rates, str) else tuple(asked.rates or ())
    unseeded = {one.name: getattr(asked, one.name) for one in fields(SimulationParameters) if one.name != "seed"}
    parameters = SimulationParameters(**unseeded | {"routing": asked.routing or own_routing(network)})
    for rate in rates or (asked.rate,):
        _check_rate(rate, asked.rate_unit, parameters)
    faults, trace = split_faults(asked)
    experiments = [_experiment(replace(asked, rate=rate), network, parameters, faults, trace) for rate in rates]
    first = experiments[0] if experiments else _experiment(asked, network, parameters, faults, trace)
    seeds = tuple(range(asked.seed, asked.seed + asked.seeds))
    return SimulationPlan(experiment=first, seeds=seeds, sweep=tuple(experiments))


def _check_rate(rate: float, unit: str, parameters: SimulationParameters) -> None:
    if unit == "fraction" and not 0 < rate <= 1:
        raise InputError(
            f"--rate {rate:g}: a fraction of a link; give more than 0, at most 1, or --rate-unit packets/s"
        )
    link = parameters.packets_per_s(1.0)
    if unit == "packets/s" and not 0 < rate <= link * (1 + 1e-9):
        raise InputError(f"--rate {rate:g} packets/s: more than 0, and at most a full link, {link:.6g} packets/s")


def _experiment(
    asked: SimulationOptions, network: Network, parameters: SimulationParameters, faults: str | None, trace: Any
) -> Experiment:
    rate = parameters.packets_per_s(asked.rate) if asked.rate_unit == "fraction" else asked.rate
    traffic, timed = _read_traffic(asked.traffic, network, parameters, failing=bool(faults or trace))
    duration, warm_up = asked.duration_s, asked.warm_up_s
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
        pattern=asked.traffic if isinstance(asked.traffic, str) else asked.pattern,
        traffic=traffic,
        rate_per_s=rate,
        injection=asked.injection,
        burst=asked.burst,
        in_phase=asked.in_phase,
        faults=faults,
        trace=trace,
        trace_permanent=asked.trace_permanent,
        timeline=asked.timeline,
        duration_s=duration,
        warm_up_s=warm_up,
    )


def split_faults(asked: SimulationOptions) -> tuple[str | None, FailureTrace | None]:
    """The failures in words, and the trace read from its file. InputError for a second trace, a file that cannot be
    read and a broken row (by its number)."""
    named = "" if asked.faults is None or no_faults(asked.faults) else asked.faults
    words = [word for word in named.split(",") if word.strip()]
    files = [word.strip().removeprefix("trace:") for word in words if word.strip().startswith("trace:")]
    rest = ",".join(word for word in words if not word.strip().startswith("trace:")) or None
    if len(files) + (asked.trace is not None) > 1:
        raise InputError(f"--faults {asked.faults!r}: {len(files)} traces; give one")
    if not files:
        return rest, asked.trace
    return rest, read_trace(
        Path(files[0]), system=asked.trace_system, rule=asked.trace_rule, skip_bad_rows=asked.skip_bad_rows
    )


def _read_traffic(
    asked: Mapping[str, Any] | str | None, network: Network, parameters: SimulationParameters, *, failing: bool
) -> tuple[Mapping[str, Any] | None, bool]:
    """The messages; whether they are another program's, whose starts were found on this network."""
    if not isinstance(asked, str):
        return asked, False
    where = f"--traffic {asked}"
    if (other := find_format(TRAFFIC_FORMATS, asked)) is not None:
        if failing:
            raise InputError(f"{where}: starts are found without failures; leave them out")
        return other.read(asked, network, parameters), True
    document = read_json(asked, where, mend="give a JSON file")
    if not isinstance(document, dict):
        raise InputError(f'{where}: give an object with "messages", "transfers" or "frames"')
    refuse_unknown(document, "messages", where)
    return document, False
