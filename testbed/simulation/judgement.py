"""The verdict on a simulation, and the JSON document of ``testbed simulate``."""

import statistics
from collections.abc import Sequence

from testbed.interconnect.plan import Experiment, SimulationPlan, load_of
from testbed.model.studies.samples import half_width, sum_of
from testbed.model.verdict import Claim, Verdict
from testbed.model.workload import Judgement
from testbed.simulation.link_rates import link_rates_document
from topologies import Json, JsonObject

# Keys of a traffic file that contain its messages. Other keys come from formats of other programs,
# and are copied to the document.
OF_MESSAGES = ("messages", "transfers", "frames")

# Figures of a document that a sweep reports per load. Their means over all loads mean nothing.
_PER_LOAD = (
    "mean_latency_s",
    "mean_latency_interval_s",
    "network_latency_s",
    "network_latency_interval_s",
    "throughput",
    "throughput_interval",
    "rate_packets_per_s",
)


def judge_simulation(plan: SimulationPlan, rows: tuple[JsonObject, ...]) -> Judgement:
    """Return the verdict, the document and the rows (one per seed and load)."""
    verdict = judge_runs(rows)
    return Judgement(verdict=verdict, document=simulation_document(plan, rows, verdict), rows=rows)


def simulation_document(plan: SimulationPlan, rows: Sequence[Json], verdict: Verdict) -> JsonObject:
    """Return the document of ``testbed simulate --json``.

    For a sweep, the means of each load are in ``loads``.
    """
    document = _document(plan.experiment, rows, verdict)
    if plan.sweep:
        document |= dict.fromkeys(_PER_LOAD)
        document["loads"] = [_load(experiment, rows) for experiment in plan.sweep]
    return document


def _load(experiment: Experiment, rows: Sequence[Json]) -> JsonObject:
    """Return the means over the seeds of one load of a sweep."""
    load = load_of(experiment)
    rows_of_load = [row for row in rows if row["load"] == load]
    document = _document(experiment, rows_of_load, judge_runs(rows_of_load))
    names = (
        "mean_latency_s",
        "mean_latency_interval_s",
        "throughput",
        "throughput_interval",
        "deadlocked",
    )
    means: JsonObject = {"load": load}
    for name in names:
        means[name] = document[name]
    return means


def _document(experiment: Experiment, rows: Sequence[Json], verdict: Verdict) -> JsonObject:
    """Return the document of one load.

    It contains means over the seeds with half their 95 % confidence intervals, the row of every
    seed, the trace of failures, and further keys of another program's traffic file.
    """
    means: JsonObject = {}
    for name, interval in (
        ("mean_latency_s", "mean_latency_interval_s"),
        ("network_latency_s", "network_latency_interval_s"),
        ("throughput", "throughput_interval"),
    ):
        mean, half_interval = _mean(rows, name)
        means[name] = mean
        means[interval] = half_interval
    document = {
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
        "sent": sum_of(rows, "sent"),
        "received": sum_of(rows, "received"),
        "packet_hops": sum_of(rows, "packet_hops"),
        "deadlocked": any(row["deadlocked"] for row in rows),
        "per_seed": list(rows),
        "verdict": dict(verdict.to_json()),
    }
    for name, value in (experiment.traffic or {}).items():
        if name not in OF_MESSAGES:
            document[name] = value
    return document


def _trace(experiment: Experiment) -> JsonObject | None:
    """Return what was read from the trace of failures, or None if there is none."""
    trace = experiment.trace
    if trace is None:
        return None
    return {
        "system": trace.system,
        "rule": trace.rule,
        "span_s": trace.span_s,
        "failures": len(trace.failures),
        "bad_rows": list(trace.bad_rows),
    }


def _mean(rows: Sequence[Json], name: str) -> tuple[float | None, float | None]:
    """Return the mean over seeds and half its 95 % confidence interval, or None for either."""
    values = [row[name] for row in rows if row[name] is not None]
    if not values:
        return None, None
    if len(values) == 1:
        return statistics.fmean(values), None
    return statistics.fmean(values), half_width(values)


def _is_consistent(row: Json) -> bool:
    """Return whether the figures of a row do not contradict each other.

    Every message must be in exactly one place. The latency in the network must not exceed the mean
    latency, nor the mean latency the time of the last delivery.
    """
    shorter_s = 0.0
    for name in ("network_latency_s", "mean_latency_s", "last_delivery_s"):
        time_s = row.get(name)
        if time_s is None:
            continue
        if time_s < shorter_s:
            return False
        shorter_s = time_s
    return bool(row.get("packets_conserved", True))


def judge_runs(rows: Sequence[Json]) -> Verdict:
    """Return the verdict on the rows of all seeds and loads.

    Every message must be delivered within the time to drain, no run may deadlock, and no packet may
    exceed the hop limit. The verdict is "cannot tell" if there is no message, or if at some load no
    message was generated between warm-up and end.
    """
    sent = int(sum_of(rows, "sent"))
    received = sum(row["received"] for row in rows if _is_consistent(row))
    conserved = Claim("sent = received", "conservation").equal(float(sent), float(received))
    late_rows = [row for row in rows if row["stopped"] == "out-of-time"]
    late = sum_of(late_rows, "sent") - sum_of(late_rows, "received")
    if late:
        conserved = conserved.noting(f"{late} still under way when the time to drain was over")
    if conserved.passed:
        conserved = conserved.of(_fewest_measured_messages(rows))
    seeds = [row["seed"] for row in rows if row["deadlocked"]]
    deadlocks = Claim("runs that deadlock", "deadlocks").equal(0.0, float(len(seeds)))
    if seeds:
        deadlocks = deadlocks.noting(f"seeds {', '.join(map(str, seeds[:10]))}")
    livelocked = float(sum_of(rows, "livelocked"))
    hop_cap = Claim("packets beyond the hop cap", "hop-cap").equal(0.0, livelocked)
    return Verdict(checks=(conserved, deadlocks.of(sent), hop_cap.of(sent)))


def _fewest_measured_messages(rows: Sequence[Json]) -> int:
    """Return the number of measured messages of the load that has the fewest; 0 without rows."""
    measured: dict[float, int] = {}
    for row in rows:
        measured[row["load"]] = measured.get(row["load"], 0) + row["measured_messages"]
    return min(measured.values(), default=0)
