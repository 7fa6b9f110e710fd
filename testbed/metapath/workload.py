"""The workload ``metapath``: an uncoded stream whose routing reacts to failures.

The routing is FT-DRB, one path, or a route that the controller recomputes.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from testbed.live.events import RunView
from testbed.metapath.options import MetapathPlanOptions
from testbed.metapath.plan import MetapathPlan, MetapathRun
from testbed.model.options.planner import planner
from testbed.model.workload import Workload, lazily
from topologies import Json

_BUILD: Callable[[MetapathPlanOptions], MetapathPlan] = lazily(
    "testbed.metapath.planning:build_metapath"
)


def _view(plan: MetapathPlan) -> tuple[str, Callable[[], RunView]]:
    """Return the title of the live page, and a function that draws its network.

    Every link may carry the stream after a failure, so all links are drawn in the same way.
    """
    from testbed.live.run_views import network_view

    title = f"{plan.routing} {plan.network.name} {plan.source} to {plan.sink}"
    loads = {link.id: 1 for link in plan.network.links}

    def view() -> RunView:
        drawn = network_view(title, plan.network, loads, plan.faults, plan.duration_s)
        return replace(drawn, source=plan.source, sink=plan.sink, share="stream")

    return title, view


def _shown(document: Json) -> Iterator[object]:
    """Yield the table that the command prints: one row per fault."""
    from testbed.report.answers import table_of_rows

    rows = []
    for fault in document["per_fault"]:
        detected = [f"{cause} {1e3 * at_s:.0f}" for cause, at_s in fault["detected_s"].items()]
        latencies = [
            _median_ms(fault["latency_before_ms"]),
            _median_ms(fault["latency_during_ms"]),
            _median_ms(fault["latency_after_ms"]),
        ]
        row = {
            "link": fault["link"],
            "fault": fault["kind"],
            "lost": fault["lost"],
            "of": fault["sent"],
            "noticed ms": ", ".join(detected) or "-",
            "reconfigured ms": _ms(fault["reconfigured_s"]),
            "returned ms": _ms(fault["returned_s"]),
            "latency ms before/during/after": "/".join(latencies),
        }
        rows.append(row)
    yield table_of_rows(
        rows, spare=("latency ms before/during/after", "fault", "returned ms", "of", "noticed ms")
    )


def _ms(value_s: float | None) -> str:
    if value_s is None:
        return "-"
    return f"{1e3 * value_s:.0f}"


def _median_ms(latency_ms: Sequence[float] | None) -> str:
    if latency_ms is None:
        return "-"
    return f"{latency_ms[0]:.2f}"


metapath_plan = planner(
    "metapath_plan",
    "Make the plan of a plain stream whose routing answers failures.",
    MetapathPlanOptions,
    _BUILD,
    MetapathPlan,
)
METAPATH: Workload[MetapathPlan, MetapathRun] = Workload(
    name="metapath",
    stored_as="stream-routing",
    title="A stream whose routing answers failures",
    plan=MetapathPlan,
    options=MetapathPlanOptions,
    build=_BUILD,
    emulate=lazily("testbed.metapath.emulated.fabric:run_metapath_stream"),
    judge=lazily("testbed.metapath.judgement:judge_metapaths"),
    view=_view,
    figures=lazily("testbed.metapath.figures:metapath_figures"),
    shown=_shown,
    example=lambda: metapath_plan("torus:3x3", "h0_0", "h1_1", faults="none"),
)
