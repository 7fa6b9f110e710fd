"""The workload "simulation": runs, progress and output.

Packets pass routers with finite buffers and credits, with or without avoidance of deadlocks, for
one seed after another.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from operator import itemgetter
from pathlib import Path

from testbed.interconnect.plan import SimulationPlan, load_of
from testbed.live.events import RunView
from testbed.model.options.planner import planner
from testbed.model.progress import CounterReading, Progress, ReportProgress
from testbed.model.workload import How, Workload, lazily
from testbed.simulation.options import SimulationOptions, TimelineOptions
from topologies import Json, JsonObject

DESCRIPTION = (
    "Simulate an interconnection network: virtual cut-through routers with finite buffers and "
    "credits, on tori, meshes, rings, fat trees or any other network. Packets are routed by "
    "dimension order, d-mod-k, random paths up a fat tree (nca), a table or FT-DRB. Deadlocks "
    "are avoided by NAC or by virtual channels with a dateline, or are reported by a watchdog. "
    "The models of a hop are described in docs/workloads/simulator_model.md."
)
Rows = tuple[JsonObject, ...]

# Largest number of events of NAC (non-blocking adaptive cycles, a deadlock avoidance) that
# --nac-trace writes for each run.
TIMELINE_EVENTS = 100_000

# Number of skipped rows of a trace that the output names.
_NAMED_ROWS = 5


def _carry(plan: SimulationPlan, how: How, report_progress: ReportProgress | None) -> Rows:
    """Run the simulation, and return one row per seed and load.

    The command distributes the seeds of a load over the cores of the machine. The library runs
    them one after another in this process.
    """
    from testbed.results.parallel_seeds import run_seeds

    timeline = None if how.options is None else how.options.nac_trace
    experiments = plan.sweep or (plan.experiment,)
    if timeline is not None:
        experiments = tuple(
            replace(experiment, timeline=TIMELINE_EVENTS) for experiment in experiments
        )
    seed_groups: list[tuple[int, ...]] = [(seed,) for seed in plan.seeds]
    if how.results is not None:
        seed_groups = [plan.seeds]
    parts = list(itertools.product(experiments, seed_groups))
    rows: list[JsonObject] = []
    for number, (experiment, seeds) in enumerate(parts):
        if report_progress is not None:
            count = f"seed {seeds[0]}" if len(seeds) == 1 else f"{len(seeds)} seeds"
            progress = Progress(
                done_s=number,
                total_s=len(parts),
                doing=f"load {load_of(experiment):.3g}, {count}",
                reading=CounterReading(figures=_reading(rows)),
            )
            report_progress(progress)
        rows += run_seeds(experiment, seeds)
    if timeline is not None:
        _write_timeline(timeline, rows)
    return tuple(rows)


def _reading(rows: Sequence[Json]) -> dict[str, float]:
    """Return the figures for the live page from the last row; empty without messages."""
    if not rows or rows[-1]["mean_latency_s"] is None:
        return {}
    row = rows[-1]
    return {
        f"Latency at load {row['load']:.3g}, us": float(1e6 * row["mean_latency_s"]),
        "Throughput": float(row["throughput"]),
    }


def _write_timeline(path: Path, rows: Sequence[JsonObject]) -> None:
    """Write the events of NAC as CSV, and remove them from the rows.

    The rows then go into the report, for which the events would be too many.
    """
    from topologies.files.formats import write_atomically

    lines = ["seed,time_s,event,router,input_link\n"]
    for row in rows:
        for time_s, event, router, link in row.pop("nac_trace"):
            lines.append(f"{row['seed']},{time_s:.11f},{event},{router},{link}\n")
    write_atomically(path, "".join(lines).encode())


def _view(plan: SimulationPlan) -> tuple[str, Callable[[], RunView]]:
    """Return the name of the workload and a function that creates the live view of a run."""
    from testbed.live.run_views import network_view

    experiment = plan.experiment
    title = (
        f"{experiment.network.name}: {experiment.pattern}, "
        f"deadlock avoidance {experiment.parameters.deadlock}"
    )
    return "simulate", partial(network_view, title, experiment.network, {})


def _fitted(
    requested: SimulationOptions, plan: SimulationPlan, _fabric: str
) -> tuple[SimulationPlan, str]:
    """Return the plan and a note about the rates and delays of its links.

    If one rate replaces the capacities of the network, the network of the returned plan has this
    rate.
    """
    from testbed.simulation.link_rates import link_delays_note, link_rates_note

    experiment = plan.experiment
    rates = link_rates_note(requested.network, experiment.network, experiment.parameters)
    delays = link_delays_note(experiment.network, experiment.parameters)
    note = "; ".join(filter(None, (rates, delays)))
    if not rates or experiment.parameters.capacities:
        return plan, note
    rate_bps = experiment.parameters.link_bps
    links = tuple(replace(link, capacity_bps=rate_bps) for link in experiment.network.links)
    network = replace(experiment.network, links=links)
    with_equal_rates = replace(
        plan,
        experiment=replace(experiment, network=network),
        sweep=tuple(replace(at_load, network=network) for at_load in plan.sweep),
    )
    return with_equal_rates, note


def _shown(document: Json) -> Iterator[object]:
    """Yield the lines and the table that the command prints."""
    loads = document.get("loads")
    if loads:
        traffic = f"loads {loads[0]['load']:g} to {loads[-1]['load']:g}"
    else:
        rate = document["rate_packets_per_s"] or 0
        traffic = f"{rate:.6g} packets/s a node for {document['duration_s']:g} s"
    yield (
        f"{document['network']}, {document['pattern']}, {document['routing']}, "
        f"deadlock avoidance {document['deadlock_avoidance']}, model {document['model']}: {traffic}"
    )
    trace = document["trace"]
    if trace is not None:
        yield (
            f"trace of {trace['system']}: {trace['failures']} failures in "
            f"{trace['span_s'] / 86400:.0f} days (rule: {trace['rule']}), "
            f"{_skipped(trace['bad_rows'])}"
        )
    yield _table(document["per_seed"], with_load=bool(loads))
    latency_s = document["mean_latency_s"]
    if latency_s is not None:
        half_interval_s = document["mean_latency_interval_s"]
        spread = "" if half_interval_s is None else f" +- {1e6 * half_interval_s:.3f}"
        yield f"mean latency {1e6 * latency_s:.3f}{spread} us, source queue included"


def _skipped(rows: Sequence[int]) -> str:
    """Return which rows of a trace were skipped, as text."""
    if not rows:
        return "no row skipped"
    names = [str(row) for row in rows[:_NAMED_ROWS]]
    if len(rows) > _NAMED_ROWS:
        names.append("...")
    plural = "s" if len(rows) > 1 else ""
    return f"{len(rows)} bad row{plural} skipped ({', '.join(names)})"


def _table(rows: Sequence[Json], *, with_load: bool) -> object:
    """Return the table of the runs, with a column for the load if there are several loads."""
    from testbed.report.answers import Table

    headings = [name for name in _COLUMNS if with_load or name != "load"]
    cells = []
    for row in rows:
        cells.append([_COLUMNS[name](row) for name in headings])
    return Table(
        name="runs",
        headings=headings,
        rows=cells,
        spare=("NAC moves", "in the network us", "sent", "received"),
    )


def _latency_us(row: Json) -> float | None:
    return _microseconds(row["mean_latency_s"])


def _network_latency_us(row: Json) -> float | None:
    return _microseconds(row["network_latency_s"])


def _microseconds(seconds: float | None) -> float | None:
    return None if seconds is None else 1e6 * seconds


def _nac_moves(row: Json) -> int | None:
    """Return how many packets NAC moved, or None without NAC."""
    counters: Mapping[str, int] = row["nac"]
    if not counters:
        return None
    return counters.get("moved", 0) + counters.get("recovery_moved", 0)


# Heading of each column of the table, and the function that returns its value of a row.
_COLUMNS: dict[str, Callable[[Json], object]] = {
    "load": itemgetter("load"),
    "seed": itemgetter("seed"),
    "sent": itemgetter("sent"),
    "received": itemgetter("received"),
    "latency us": _latency_us,
    "in the network us": _network_latency_us,
    "throughput": itemgetter("throughput"),
    "deadlock at s": itemgetter("deadlocked_at_s"),
    "NAC moves": _nac_moves,
}


def _example() -> SimulationPlan:
    """Return a small plan, for documentation and tests."""
    return simulation_plan("mesh:3x3", 0.1, duration_s=0.001)


_BUILD = lazily("testbed.simulation.planning:build_simulation")
simulation_plan = planner(
    "simulation_plan",
    "Make the plan of routers with finite buffers in virtual time, seed after seed.",
    SimulationOptions,
    _BUILD,
    SimulationPlan,
)
SIMULATION = Workload(
    name="simulation",
    title="Routers with finite buffers",
    description=DESCRIPTION,
    command="testbed simulate torus:8x8 --loads 0.1:0.5:0.1 --deadlock-avoidance nac",
    plan=SimulationPlan,
    options=SimulationOptions,
    run_options=TimelineOptions,
    build=_BUILD,
    carry=_carry,
    virtual=True,
    fitted=_fitted,
    judge=lazily("testbed.simulation.judgement:judge_simulation"),
    view=_view,
    figures=lazily("testbed.simulation.figures:simulation_figures"),
    shown=_shown,
    example=_example,
)
