"""A plain stream, without a code, whose routing answers failures: FT-DRB, one path, or a route that is computed
again."""

from collections.abc import Callable, Iterator
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
    """Every link may come to carry the stream: all are drawn alike."""
    from testbed.live.run_views import network_view

    title = f"{plan.routing} {plan.network.name} {plan.source} to {plan.sink}"
    loads = {link.id: 1 for link in plan.network.links}

    def view() -> RunView:
        drawn = network_view(title, plan.network, loads, plan.faults, plan.duration_s)
        return replace(drawn, source=plan.source, sink=plan.sink, share="stream")

    return title, view


def _shown(document: Json) -> Iterator[object]:
    from testbed.report.answers import table_of_rows

    rows = []
    for one in document["per_fault"]:
        noticed = (
            ", ".join(f"{cause} {1e3 * at:.0f}" for cause, at in one["detected_s"].items()) or "-"
        )
        latency = "/".join(
            "-" if value is None else f"{value[0]:.2f}"
            for value in (one[f"latency_{when}_ms"] for when in ("before", "during", "after"))
        )
        reconfigured, returned = (_ms(one[name]) for name in ("reconfigured_s", "returned_s"))
        row = {
            "link": one["link"],
            "fault": one["kind"],
            "lost": one["lost"],
            "of": one["sent"],
            "noticed ms": noticed,
        }
        row |= {"reconfigured ms": reconfigured, "returned ms": returned}
        rows.append(row | {"latency ms before/during/after": latency})
    yield table_of_rows(
        rows, spare=("latency ms before/during/after", "fault", "returned ms", "of", "noticed ms")
    )


def _ms(value_s: float | None) -> str:
    return "-" if value_s is None else f"{1e3 * value_s:.0f}"


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
