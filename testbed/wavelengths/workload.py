"""Lightpaths in rounds as a workload: the plan is an answer by itself; a run lights its rounds and sends packets over
them."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial

from testbed.errors import InputError
from testbed.live.events import RunView
from testbed.model.options.planner import planner
from testbed.model.progress import ReportProgress
from testbed.model.workload import How, Workload, lazily
from testbed.wavelengths.options import ProbeOptions, WavelengthOptions
from testbed.wavelengths.plan import RoundMeasurements, WavelengthPlan
from topologies import Json

DESCRIPTION = (
    "Light a path for every pair, in as few rounds as can be: wavelength assignment as liquid scheduling. With wsxc "
    "switches a path keeps one wavelength; wixc switches may change it. With --fabric the rounds are set up on "
    "switches (a wavelength is a VLAN), packets are sent over every path and on wrong wavelengths, and a verdict says "
    "what became of them."
)
_PLANNED, _MEASURED = (
    ("round", "paths", "fibres", "full"),
    ("sent", "arrived", "astray", "wrong", "dropped", "set up s"),
)
_ROUND_COUNTS = (
    "sent",
    "delivered",
    "misdelivered",
    "wrong_wavelength_packets",
    "dropped",
    "setup_s",
)
Rounds = tuple[RoundMeasurements, ...]


_BUILD = partial(lazily("testbed.wavelengths.planning:build_wavelengths"), now=time.monotonic)


def _carry(plan: WavelengthPlan, how: How, report_progress: ReportProgress | None) -> Rounds:
    """Every round. Raises InputError where a fibre has more wavelengths than there are VLAN ids."""
    from testbed.wavelengths.rules import MAX_FABRIC_WAVELENGTHS

    if plan.wavelengths > MAX_FABRIC_WAVELENGTHS:
        raise InputError(
            f"--wavelengths {plan.wavelengths}: on a fabric give at most {MAX_FABRIC_WAVELENGTHS} (VLAN ids)"
        )
    sent: ProbeOptions = how.options or ProbeOptions()
    if how.fabric == "simulator":
        from testbed.wavelengths.simulated import simulate_plan

        return simulate_plan(plan, packets=sent.packets, wrong=sent.wrong, seed=plan.seed)
    from testbed.wavelengths.emulated import run_wavelengths

    return run_wavelengths(
        plan,
        packets=sent.packets,
        wrong=sent.wrong,
        seed=plan.seed,
        report_progress=report_progress,
    )


def _view(plan: WavelengthPlan) -> tuple[str, Callable[[], RunView]]:
    from testbed.live.run_views import network_view
    from testbed.report.wording import counted

    title = f"{plan.network.name}: {counted(len(plan.lightpaths), 'lightpath')} in {counted(len(plan.rounds), 'round')} of "
    title += f"{plan.wavelengths} wavelengths, {plan.method}"
    lit = Counter(link for path in plan.lightpaths for link in path.links)
    return "wavelengths", partial(network_view, title, plan.network, lit)


def _shown(document: Json) -> Iterator[object]:
    from testbed.report.answers import Table
    from testbed.report.wording import counted

    frames = "" if document["frames"] is None else f", {counted(document['frames'], 'frame')}"
    proved = "optimal" if document["optimal"] else f"at least {document['bound']} are needed"
    yield (
        f"{document['network']}: {counted(document['lightpaths'], 'lightpath')}, bottleneck load {document['bottleneck_load']}, "
        f"{counted(document['wavelengths'], 'wavelength')}, {document['switching']}"
    )
    rounds = counted(document["rounds"], "round")
    conversions = counted(document["conversions"], "conversion")
    yield f"{document['method']}: {rounds} ({proved}){frames}, {conversions}"
    yield "beside it: " + ", ".join(
        f"{method} {count}" for method, count in document["baselines"].items()
    )
    measured, rows = document.get("per_round"), []
    for number, paths in enumerate(document["plan"]):
        lit: dict[str, set[int]] = {}
        for path in paths:
            for link, wavelength in zip(path["links"], path["wavelengths"], strict=True):
                lit.setdefault(link, set()).add(wavelength)
        full = f"{max(map(len, lit.values()))}/{document['wavelengths']}"
        row: list[object] = [number + 1, len(paths), len(lit), full]
        if measured is not None:
            one = measured[number]
            row += [one[name] for name in _ROUND_COUNTS]
        rows.append(row)
    heads = _PLANNED if measured is None else (*_PLANNED, *_MEASURED)
    yield Table(name="rounds", headings=heads, rows=rows, spare=("set up s", "wrong", "fibres"))


wavelength_plan = planner(
    "wavelength_plan",
    "Make the plan of lightpaths in rounds over the network's own wavelengths.",
    WavelengthOptions,
    _BUILD,
    WavelengthPlan,
)
WAVELENGTHS = Workload(
    name="wavelengths",
    title="Lightpaths in rounds",
    description=DESCRIPTION,
    command="testbed wavelengths optical-cloud --pattern x1:x14,x2:x5",
    plan=WavelengthPlan,
    options=WavelengthOptions,
    run_options=ProbeOptions,
    build=_BUILD,
    answer=lambda plan: plan.to_json(),
    carry=_carry,
    judge=lazily("testbed.wavelengths.judgement:judge_wavelengths"),
    view=_view,
    shown=_shown,
    example=lambda: wavelength_plan("optical-cloud:graph=ring:4,wavelengths=2"),
)
