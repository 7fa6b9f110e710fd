"""Packets through routers with finite buffers and credits, with NAC, virtual channels or no deadlock avoidance, seed
after seed."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from testbed.interconnect.plan import SimulationPlan, load_of
from testbed.live.events import RunView
from testbed.model.options.planner import planner
from testbed.model.progress import CounterReading, Progress, ReportProgress
from testbed.model.workload import How, Workload, lazily
from testbed.simulation.options import SimulationOptions, TimelineOptions
from topologies import Json, JsonObject

DESCRIPTION = (
    "Simulate an interconnection network: virtual cut-through routers with finite buffers and credits, on tori, "
    "meshes, rings, fat trees or any other network. Packets move by dimension order, d-mod-k, random ways up a fat "
    "tree (nca), a table or FT-DRB; deadlocks are avoided by NAC, by virtual channels with a dateline, or not at all "
    "(then a watchdog reports them). docs/workloads/interconnect.md has the models of a hop."
)
Rows = tuple[JsonObject, ...]
TIMELINE_EVENTS = 100_000


def _carry(plan: SimulationPlan, how: How, report_progress: ReportProgress | None) -> Rows:
    """A row a seed and load. A command runs the seeds of a load over the machine's cores, the library one after
    another here."""
    from testbed.results.parallel_seeds import run_seeds

    timeline = None if how.options is None else how.options.nac_trace
    loads = plan.sweep or (plan.experiment,)
    if timeline is not None:
        loads = tuple(replace(one, timeline=TIMELINE_EVENTS) for one in loads)
    shares = [plan.seeds] if how.results is not None else [(seed,) for seed in plan.seeds]
    parts = [(one, seeds) for one in loads for seeds in shares]
    rows: list[JsonObject] = []
    for number, (one, seeds) in enumerate(parts):
        if report_progress is not None:
            words = f"load {load_of(one):.3g}, " + (
                f"seed {seeds[0]}" if len(seeds) == 1 else f"{len(seeds)} seeds"
            )
            reading = CounterReading(figures=_reading(rows))
            report_progress(
                Progress(done_s=number, total_s=len(parts), doing=words, reading=reading)
            )
        rows += run_seeds(one, seeds)
    if timeline is not None:
        _write_timeline(timeline, rows)
    return tuple(rows)


def _reading(rows: Sequence[Json]) -> dict[str, float]:
    """Of the last row, as a live page shows them."""
    if not rows or rows[-1]["mean_latency_s"] is None:
        return {}
    last = rows[-1]
    names = {
        f"Latency at load {last['load']:.3g}, us": 1e6 * last["mean_latency_s"],
        "Throughput": last["throughput"],
    }
    return {name: float(value) for name, value in names.items()}


def _write_timeline(path: Path, rows: Sequence[JsonObject]) -> None:
    """A line an event; the events leave the rows, which go on to the report."""
    from topologies.files.formats import write_atomically

    lines = ["seed,time_s,event,router,input_link\n"]
    for row in rows:
        for time_s, event, router, link in row.pop("nac_trace"):
            lines.append(f"{row['seed']},{time_s:.11f},{event},{router},{link}\n")
    write_atomically(path, "".join(lines).encode())


def _view(plan: SimulationPlan) -> tuple[str, Callable[[], RunView]]:
    from testbed.live.run_views import network_view

    one = plan.experiment
    title = f"{one.network.name}: {one.pattern}, deadlock avoidance {one.parameters.deadlock}"
    return "simulate", partial(network_view, title, one.network, {})


def _fitted(
    requested: SimulationOptions, plan: SimulationPlan, _fabric: str
) -> tuple[SimulationPlan, str]:
    """Return the plan with the rates that its links have, and the note that says which."""
    from testbed.simulation.link_rates import link_rates_note

    experiment = plan.experiment
    note = link_rates_note(requested.network, experiment.network, experiment.parameters)
    if not note or experiment.parameters.capacities:
        return plan, note
    rate_bps = experiment.parameters.link_bps
    links = tuple(replace(link, capacity_bps=rate_bps) for link in experiment.network.links)
    network = replace(experiment.network, links=links)
    alike = replace(
        plan,
        experiment=replace(experiment, network=network),
        sweep=tuple(replace(one, network=network) for one in plan.sweep),
    )
    return alike, note


def _shown(document: Json) -> Iterator[object]:
    loads, latency, trace = document.get("loads"), document["mean_latency_s"], document["trace"]
    requested = f"{document['rate_packets_per_s'] or 0:.6g} packets/s a node for {document['duration_s']:g} s"
    if loads:
        requested = f"loads {loads[0]['load']:g} to {loads[-1]['load']:g}"
    yield (
        f"{document['network']}, {document['pattern']}, {document['routing']}, "
        f"deadlock avoidance {document['deadlock_avoidance']}, model {document['model']}: {requested}"
    )
    if trace is not None:
        yield (
            f"trace of {trace['system']}: {trace['failures']} failures in {trace['span_s'] / 86400:.0f} days "
            f"(rule: {trace['rule']}), {_skipped(trace['bad_rows'])}"
        )
    yield _table(document["per_seed"], with_load=bool(loads))
    if latency is not None:
        half = document["mean_latency_interval_s"]
        spread = "" if half is None else f" +- {1e6 * half:.3f}"
        yield f"mean latency {1e6 * latency:.3f}{spread} us, source queue included"


def _skipped(rows: Sequence[int]) -> str:
    if not rows:
        return "no row skipped"
    named = ", ".join(map(str, rows[:5])) + (", ..." if len(rows) > 5 else "")
    return f"{len(rows)} bad row{'s' if len(rows) > 1 else ''} skipped ({named})"


def _table(rows: Sequence[Json], *, with_load: bool) -> object:
    from testbed.report.answers import Table

    def moves(nac: Mapping[str, int]) -> int | None:
        return nac.get("moved", 0) + nac.get("recovery_moved", 0) if nac else None

    def in_us(seconds: float | None) -> float | None:
        return None if seconds is None else 1e6 * seconds

    columns: dict[str, Callable[[Json], object]] = {
        "load": lambda row: row["load"],
        "seed": lambda row: row["seed"],
        "sent": lambda row: row["sent"],
        "received": lambda row: row["received"],
        "latency us": lambda row: in_us(row["mean_latency_s"]),
        "in the network us": lambda row: in_us(row["network_latency_s"]),
        "throughput": lambda row: row["throughput"],
        "deadlock at s": lambda row: row["deadlocked_at_s"],
        "NAC moves": lambda row: moves(row["nac"]),
    }
    heads = [name for name in columns if with_load or name != "load"]
    spare = ("NAC moves", "in the network us", "sent", "received")
    return Table(
        name="runs",
        headings=heads,
        rows=[[columns[name](row) for name in heads] for row in rows],
        spare=spare,
    )


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
    example=lambda: simulation_plan("mesh:3x3", 0.1, duration_s=0.001),
)
