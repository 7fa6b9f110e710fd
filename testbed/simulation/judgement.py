"""The verdict on a simulation's rows, and what ``testbed simulate --json`` prints."""

import statistics
from collections.abc import Sequence

from testbed.interconnect.plan import Experiment, SimulationPlan, load_of
from testbed.model.studies.samples import half_width
from testbed.model.verdict import Claim, Verdict
from testbed.model.workload import Judgement
from testbed.simulation.link_rates import link_rates_document
from topologies import Json, JsonObject

OF_MESSAGES = ("messages", "transfers", "frames")
"""Keys of a traffic file; a format of other programs adds its own."""


def judge_simulation(plan: SimulationPlan, rows: tuple[JsonObject, ...]) -> Judgement:
    """Verdict, document and a row a seed and load."""
    verdict = judge_runs(rows)
    return Judgement(verdict=verdict, document=simulation_document(plan, rows, verdict), rows=rows)


def simulation_document(plan: SimulationPlan, rows: Sequence[Json], verdict: Verdict) -> JsonObject:
    """What ``testbed simulate --json`` prints; of a sweep, each load's means stand under ``loads``."""
    document = _document(plan.experiment, rows, verdict)
    if plan.sweep:  # a mean over loads means nothing
        names = (
            "mean_latency_s",
            "mean_latency_interval_s",
            "network_latency_s",
            "network_latency_interval_s",
        )
        document |= dict.fromkeys(
            (*names, "throughput", "throughput_interval", "rate_packets_per_s")
        )
        document["loads"] = [_load(one, rows) for one in plan.sweep]
    return document


def _load(experiment: Experiment, rows: Sequence[Json]) -> JsonObject:
    """One load of a sweep: its means over the seeds."""
    load = load_of(experiment)
    own = [row for row in rows if row["load"] == load]
    found = _document(experiment, own, judge_runs(own))
    names = (
        "mean_latency_s",
        "mean_latency_interval_s",
        "throughput",
        "throughput_interval",
        "deadlocked",
    )
    return {"load": load} | {name: found[name] for name in names}


def _document(experiment: Experiment, rows: Sequence[Json], verdict: Verdict) -> JsonObject:
    """Means over the seeds with half their 95 % confidence intervals, every seed's row, what was read of the trace
    of failures, and what another program's file of traffic said besides its messages."""
    means: JsonObject = {}
    for name in ("mean_latency", "network_latency", "throughput"):
        unit = "" if name == "throughput" else "_s"
        means[f"{name}{unit}"], means[f"{name}_interval{unit}"] = _mean(rows, f"{name}{unit}")
    return {
        "network": experiment.network.name,
        "pattern": experiment.pattern,
        "model": experiment.parameters.model,
        "routing": experiment.parameters.routing,
        "deadlock_avoidance": experiment.parameters.deadlock,
        "link_rates": link_rates_document(experiment),
        "rate_packets_per_s": experiment.rate_per_s,
        "duration_s": experiment.duration_s,
        "warm_up_s": experiment.warm_up_s,
        **means,
        "trace": _trace(experiment),
        **{name: sum(row[name] for row in rows) for name in ("sent", "received", "packet_hops")},
        "deadlocked": any(row["deadlocked"] for row in rows),
        "per_seed": list(rows),
        "verdict": dict(verdict.to_json()),
        **{
            name: value
            for name, value in (experiment.traffic or {}).items()
            if name not in OF_MESSAGES
        },
    }


def _trace(experiment: Experiment) -> JsonObject | None:
    """What was read of the trace of failures."""
    if experiment.trace is None:
        return None
    names = ("system", "rule", "span_s")
    return {name: getattr(experiment.trace, name) for name in names} | {
        "failures": len(experiment.trace.failures),
        "bad_rows": list(experiment.trace.bad_rows),
    }


def _mean(rows: Sequence[Json], name: str) -> tuple[float | None, float | None]:
    """Mean over seeds and half its 95 % confidence interval (None where there is none)."""
    values = [row[name] for row in rows if row[name] is not None]
    if not values:
        return None, None
    return statistics.fmean(values), half_width(values) if len(values) > 1 else None


def _possible(row: Json) -> bool:
    """Whether every message is in one place only, and none is longer under way than until the last delivery."""
    times = [row.get(name) for name in ("network_latency_s", "mean_latency_s", "last_delivery_s")]
    measured = [0.0, *(time for time in times if time is not None)]
    return row.get("packets_conserved", True) and measured == sorted(measured)


def judge_runs(rows: Sequence[Json]) -> Verdict:
    """Every message made is delivered (conservation, within the time that there was), nothing deadlocks, no packet
    circles; of no message, or, at some load, none that was measured between warm-up and end, a run cannot tell."""
    sent, received = (
        sum(row["sent"] for row in rows),
        sum(row["received"] * _possible(row) for row in rows),
    )
    stuck = [row["seed"] for row in rows if row["deadlocked"]]
    circling = sum(row["livelocked"] for row in rows)
    late = sum(row["sent"] - row["received"] for row in rows if row["stopped"] == "out-of-time")
    loads = {row["load"] for row in rows}
    measured = min(
        (sum(row["measured_messages"] for row in rows if row["load"] == load) for load in loads),
        default=0,
    )
    conserved = Claim("sent = received", "conservation").equal(float(sent), float(received))
    if late:
        conserved = conserved.noting(f"{late} still under way when the time to drain was over")
    deadlocks = Claim("runs that deadlock", "deadlocks").equal(0.0, float(len(stuck)))
    if stuck:
        deadlocks = deadlocks.noting(f"seeds {', '.join(map(str, stuck[:10]))}")
    checks = (
        conserved.of(measured) if conserved.passed else conserved,
        deadlocks.of(sent),
        Claim("packets beyond the hop cap", "hop-cap").equal(0.0, float(circling)).of(sent),
    )
    return Verdict(checks=checks)
