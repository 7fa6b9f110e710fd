"""A simulation as a value: network, parameters, workload and faults by name; one row of figures a seed, and their verdict.

``run_seed`` is what a process runs for a seed; it needs nothing but its arguments.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from testbed.errors import InputError
from testbed.model.verdict import Check, Verdict
from testbed.simulator.network_model import zero_load_ticks
from testbed.simulator.parameters import TICKS_PER_S, SimulationParameters
from testbed.simulator.results import Simulation, summarize
from testbed.simulator.simulation import simulate
from testbed.simulator.traffic_files import read_messages
from testbed.workloads.injection import InjectionProcess, Injections, build_injections
from testbed.workloads.link_faults import LinkFault, check_faults, random_faults
from testbed.workloads.patterns import build_pattern
from topologies import Network


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """``rate_per_s``: messages a second of every sender. ``faults``: "a-b@down-up,c-d", "random:N" or None. ``traffic``: a document of
    messages instead of a pattern. Messages are made for ``duration_s``; those after ``warm_up_s`` (and before the last
    twentieth) are measured."""

    network: Network
    parameters: SimulationParameters
    pattern: str = "uniform"
    traffic: Mapping[str, Any] | None = None
    rate_per_s: float
    injection: str = "poisson"
    burst: int = 1
    in_phase: bool = False
    faults: str | None = None
    duration_s: float
    warm_up_s: float
    engine: str = "compiled"


def own_routing(network: Network) -> str:
    """The routing that the network names, in the simulator's words."""
    named = network.attributes.get("routing")
    known = {"dimension-order": "dor", "d-mod-k": "d-mod-k", "table": "table"}
    return known.get(named, "shortest-path") if isinstance(named, str) else "shortest-path"


def parse_faults(network: Network, words: str | None, *, seed: int) -> tuple[LinkFault, ...]:
    """``s0_0-s0_1@0.1-0.2`` (down from, up at; seconds), ``s0_0-s0_1`` (from the start, for ever), comma between; or ``random:N``."""
    if not words:
        return ()
    if words.startswith("random:"):
        count = words.removeprefix("random:")
        if not count.isdigit():
            raise InputError(f"--faults {words}: give random:N with a whole number N")
        return random_faults(network, int(count), seed=[seed, 3])
    faults = []
    for word in words.split(","):
        cable, _, times = word.strip().partition("@")
        first, dash, second = cable.partition("-")
        down, _, up = times.partition("-")
        try:
            fault = LinkFault(first=first, second=second, down_s=float(down or 0), up_s=float(up) if up else None)
        except ValueError:
            fault = None
        if fault is None or not dash:
            raise InputError(f"--faults {word!r}: give it as s0_0-s0_1 or s0_0-s0_1@0.1-0.2 (seconds)")
        faults.append(fault)
    return check_faults(network, faults)


def run_seed(experiment: Experiment, seed: int) -> dict[str, Any]:
    """One run's row: figures of the measured messages, and the counts of all."""
    parameters = replace(experiment.parameters, seed=seed)
    injections, sizes = _messages(experiment, parameters, seed)
    faults = parse_faults(experiment.network, experiment.faults, seed=seed)
    run = simulate(experiment.network, injections, parameters, faults, engine=experiment.engine, sizes_bytes=sizes)
    end = experiment.duration_s * 0.95
    if experiment.traffic is None:
        summary = summarize(run, start_s=experiment.warm_up_s, end_s=max(end, experiment.warm_up_s))
    else:
        summary = summarize(run, start_s=0.0, end_s=run.stopped_tick / TICKS_PER_S + 1.0)
    return {
        "seed": seed,
        "mean_latency_s": summary.mean_latency_s,
        "network_latency_s": summary.network_latency_s,
        "destination_mean_latency_s": summary.destination_mean_latency_s,
        "throughput": summary.throughput,
        "accepted_packets_per_s": summary.accepted_packets_per_s,
        "measured": summary.measured,
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
        "zero_load_s_one_router": zero_load_ticks(parameters, 1, parameters.packet_bytes) / TICKS_PER_S,
    }


def last_delivery_s(run: Simulation) -> float | None:
    return float(run.delivered.max()) / run.ticks_per_s if run.received else None


def _messages(
    experiment: Experiment, parameters: SimulationParameters, seed: int
) -> tuple[Injections, Sequence[int] | None]:
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
    return build_injections(pattern, process, duration_s=experiment.duration_s, seed=seed), None


def judge_runs(rows: Sequence[Mapping[str, Any]]) -> Verdict:
    """Every message made is delivered (conservation), nothing deadlocks, no packet circles."""
    sent, received = sum(row["sent"] for row in rows), sum(row["received"] for row in rows)
    stuck = [row["seed"] for row in rows if row["deadlocked"]]
    circling = sum(row["livelocked"] for row in rows)
    late = sum(row["sent"] - row["received"] for row in rows if row["stopped"] == "out-of-time")
    return Verdict(
        checks=(
            Check(
                name="sent = received", predicted=float(sent), measured=float(received), tolerance=0.0, passed=sent == received,
                detail=f"{late} still under way when the time to drain was over" if late else "",
            ),
            Check(
                name="runs that deadlock", predicted=0.0, measured=float(len(stuck)), tolerance=0.0, passed=not stuck,
                detail=f"seeds {', '.join(map(str, stuck[:10]))}" if stuck else "",
            ),
            Check(
                name="packets beyond the hop cap", predicted=0.0, measured=float(circling), tolerance=0.0, passed=not circling
            ),
        )
    )  # fmt: skip
