"""A simulation as a value: network, parameters, workload and faults by name; one row of figures a seed, and their verdict.

``run_seed`` is what a process runs for a seed; it needs nothing but its arguments.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from testbed.errors import InputError
from testbed.faults.cable_faults import check_faults, faults_from_trace
from testbed.faults.failure_traces import FailureTrace
from testbed.faults.fault import Fault
from testbed.faults.grammar import parse_cable_faults
from testbed.interconnect.deadlock import deadlock_cycle
from testbed.interconnect.engine_inputs import Recording
from testbed.interconnect.injection import InjectionProcess, Injections, build_injections
from testbed.interconnect.network_model import zero_load_ticks
from testbed.interconnect.parameters import TICKS_PER_S, SimulationParameters
from testbed.interconnect.patterns import build_pattern
from testbed.interconnect.results import NAC_EVENTS, Simulation, summarize
from testbed.interconnect.simulation import simulate
from testbed.interconnect.traffic_files import read_messages
from testbed.model.samples import half_width
from testbed.model.verdict import Check, Verdict
from topologies import Network
from topologies.json_types import Json, JsonObject

SAMPLES = 80
"""Moments at which a row says what lay in the network."""
NAC_DRAWN = 100_000
"""Events of NAC that are kept for a drawing."""


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """What ``testbed simulate`` runs for every seed."""

    network: Network
    parameters: SimulationParameters
    pattern: str = "uniform"
    traffic: Json | None = None
    """A traffic file's document of messages, instead of a pattern."""
    rate_per_s: float
    """Messages a second of every sender."""
    injection: str = "poisson"
    burst: int = 1
    in_phase: bool = False
    faults: str | None = None
    """Failures in the grammar of testbed/faults/grammar.py."""
    trace: FailureTrace | None = None
    """Failures of a machine besides, its span scaled to ``duration_s``; ``trace_permanent``: none of them is mended."""
    trace_permanent: bool = False
    timeline: int = 0
    """Rows carry so many of NAC's events."""
    duration_s: float
    """Messages are made for so long; those made after ``warm_up_s``, and before the last twentieth, are measured."""
    warm_up_s: float


def own_routing(network: Network) -> str:
    """The routing that the network names, in the simulator's words."""
    named = network.attributes.get("routing")
    known = {"dimension-order": "dor", "d-mod-k": "d-mod-k", "table": "table"}
    return known.get(named, "shortest-path") if isinstance(named, str) else "shortest-path"


def run_seed(experiment: Experiment, seed: int) -> JsonObject:
    """One run's row: figures of the measured messages, and the counts of all."""
    parameters = replace(experiment.parameters, seed=seed)
    injections = _messages(experiment, parameters, seed)
    faults = faults_of(experiment, seed)
    run = simulate(
        experiment.network, injections, parameters, faults,
        recording=Recording(nac_events=experiment.timeline or (NAC_DRAWN if parameters.deadlock == "nac" else 0)),
    )  # fmt: skip
    cycle = deadlock_cycle(experiment.network, run) if run.deadlocked else []
    end = experiment.duration_s * 0.95
    if experiment.traffic is None:
        summary = summarize(run, start_s=experiment.warm_up_s, end_s=max(end, experiment.warm_up_s))
    else:
        summary = summarize(run, start_s=0.0, end_s=run.stopped_tick / TICKS_PER_S + 1.0)
    return {
        "seed": seed,
        "load": experiment.rate_per_s / parameters.packets_per_s(1.0),
        **asdict(summary),
        "sent": run.sent,
        "received": run.received,
        "conserved": run.conserved,
        "deadlocked": run.deadlocked,
        "deadlocked_at_s": run.deadlocked_at_s,
        "stuck_packets": run.stuck.packets,
        "livelocked": run.livelocked,
        "stopped": run.stopped,
        "last_delivery_s": last_delivery_s(run),
        "packet_hops": run.packet_hops,
        "nac": dict(run.nac_counters),
        "ft_drb": dict(run.drb_counters),
        "faults": len(faults),
        "circle": cycle,
        "over_time": over_time(run),
        **({"nac_timeline": timeline_rows(experiment.network, run)} if experiment.timeline else {}),
        "latency_at_no_load_of_one_router_s": zero_load_ticks(parameters, 1, parameters.packet_bytes) / TICKS_PER_S,
    }


def over_time(run: Simulation) -> dict[str, list[float]]:
    """``time_s``: SAMPLES moments of the run; ``in_network``: packets that have left their source and are not there yet, ``waiting``:
    those that have not left it; ``nac_moves``: packets that NAC moved since the moment before."""
    ends = np.linspace(0, max(run.stopped_tick, int(run.delivered.max(initial=1))), SAMPLES + 1)[1:]
    moved = [NAC_EVENTS.index("moved"), NAC_EVENTS.index("recovery-moved")]
    moves = run.nac_timeline[np.isin(run.nac_timeline[:, 1], moved), 0] if len(run.nac_timeline) else np.zeros(0)

    def until(ticks: Any) -> Any:
        return np.searchsorted(np.sort(ticks[ticks >= 0]), ends, side="right")

    born, entered, delivered = until(run.born), until(run.entered), until(run.delivered)
    return {
        "time_s": (ends / TICKS_PER_S).round(9).tolist(),
        "in_network": (entered - delivered).tolist(),
        "waiting": (born - entered).tolist(),
        "nac_moves": np.diff(until(moves), prepend=0).tolist(),
    }


def faults_of(experiment: Experiment, seed: int) -> tuple[Fault, ...]:
    """Failures in words and of the trace; InputError as they raise it."""
    network, trace, lasting = experiment.network, experiment.trace, experiment.duration_s
    found = parse_cable_faults(experiment.faults, network, seed=seed, duration_s=lasting)
    if trace is None:
        return found
    of_trace = faults_from_trace(
        network, trace, simulated_s=lasting, seed=[seed, 7], permanent=experiment.trace_permanent
    )
    return check_faults(network, [*found, *of_trace])


def timeline_rows(network: Network, run: Simulation) -> list[tuple[float, str, str, str]]:
    """What NAC did: (seconds, event, router, its input as "from-to"), in order."""
    switches = [switch.id for switch in network.switches]
    links = [f"{link.source}-{link.target}" for link in network.links]
    return [
        (int(tick) / run.ticks_per_s, NAC_EVENTS[int(event)], switches[int(router)], links[int(link)])
        for tick, event, router, link in run.nac_timeline
    ]


def last_delivery_s(run: Simulation) -> float | None:
    """When the last message arrived; None: none did."""
    return float(run.delivered.max()) / run.ticks_per_s if run.received else None


def _messages(experiment: Experiment, parameters: SimulationParameters, seed: int) -> Injections:
    network = experiment.network
    if experiment.traffic is not None:
        return read_messages(experiment.traffic, network, parameters)
    shape = network.attributes.get("shape")
    pattern = build_pattern(
        experiment.pattern,
        len(network.hosts),
        shape=shape if isinstance(shape, list) else None,
        to_itself=parameters.hop.to_itself,
    )
    process = InjectionProcess(
        kind=experiment.injection,
        rate_per_s=experiment.rate_per_s,
        burst_messages=experiment.burst,
        in_phase=experiment.in_phase,
    )
    return build_injections(pattern, process, duration_s=experiment.duration_s, seed=seed)


@dataclass(frozen=True, kw_only=True)
class SimulationPlan:
    """An experiment, and the seeds with which it is run, each once."""

    experiment: Experiment
    seeds: tuple[int, ...] = (1,)

    def __post_init__(self) -> None:
        if not self.seeds or min(self.seeds) < 0:
            raise InputError(f"seeds {self.seeds}: give one or more, 0 or more each")


def simulation_document(experiment: Experiment, rows: Sequence[Json], verdict: Verdict) -> JsonObject:
    """What ``testbed simulate --json`` prints, but for what its files are called: means over the seeds with half their 95 %
    confidence intervals, and every seed's row."""
    latency, latency_half = _mean(rows, "mean_latency_s")
    network_latency, network_half = _mean(rows, "network_latency_s")
    throughput, throughput_half = _mean(rows, "throughput")
    return {
        "network": experiment.network.name,
        "pattern": experiment.pattern,
        "model": experiment.parameters.model,
        "routing": experiment.parameters.routing,
        "deadlock_avoidance": experiment.parameters.deadlock,
        "rate_packets_per_s": experiment.rate_per_s,
        "duration_s": experiment.duration_s,
        "warm_up_s": experiment.warm_up_s,
        "mean_latency_s": latency,
        "mean_latency_interval_s": latency_half,
        "network_latency_s": network_latency,
        "network_latency_interval_s": network_half,
        "throughput": throughput,
        "throughput_interval": throughput_half,
        "trace": None,
        "sent": sum(row["sent"] for row in rows),
        "received": sum(row["received"] for row in rows),
        "deadlocked": any(row["deadlocked"] for row in rows),
        "packet_hops": sum(row["packet_hops"] for row in rows),
        "per_seed": list(rows),
        "verdict": dict(verdict.to_json()),
    }


def _mean(rows: Sequence[Json], name: str) -> tuple[float | None, float | None]:
    """Mean over seeds and half its 95 % confidence interval (None where there is none)."""
    values = [row[name] for row in rows if row[name] is not None]
    if not values:
        return None, None
    return statistics.fmean(values), half_width(values) if len(values) > 1 else None


def judge_runs(rows: Sequence[Json]) -> Verdict:
    """Every message made is delivered (conservation), nothing deadlocks, no packet circles; of no message, or, at some load,
    none that was measured between warm-up and end, a run cannot tell."""
    sent, received = sum(row["sent"] for row in rows), sum(row["received"] for row in rows)
    stuck = [row["seed"] for row in rows if row["deadlocked"]]
    circling = sum(row["livelocked"] for row in rows)
    late = sum(row["sent"] - row["received"] for row in rows if row["stopped"] == "out-of-time")
    loads = {row["load"] for row in rows}
    measured = min((sum(row["measured"] for row in rows if row["load"] == load) for load in loads), default=0)
    conserved = Check.equal(
        "sent = received", float(sent), float(received), key="conservation",
        detail=f"{late} still under way when the time to drain was over" if late else "",
    )  # fmt: skip
    deadlocks = Check.equal(
        "runs that deadlock", 0.0, float(len(stuck)), key="deadlocks",
        detail=f"seeds {', '.join(map(str, stuck[:10]))}" if stuck else "",
    )  # fmt: skip
    checks = (
        conserved.of(measured) if conserved.passed else conserved,
        deadlocks.of(sent),
        Check.equal("packets beyond the hop cap", 0.0, float(circling), key="hop-cap").of(sent),
    )
    return Verdict(checks=checks)
