"""The workload of lightpaths in rounds.

The plan is a result by itself. A run lights the rounds and sends packets over them.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from testbed.errors import InputError
from testbed.live.events import RunView
from testbed.model.options.planner import planner
from testbed.model.progress import ReportProgress
from testbed.model.workload import How, Workload, lazily
from testbed.wavelengths.options import ProbeOptions, WavelengthOptions
from testbed.wavelengths.plan import RoundMeasurements, WavelengthPlan
from topologies import Json, LinkId

DESCRIPTION = (
    "Assign lightpaths to as few rounds as possible, which is wavelength assignment as liquid "
    "scheduling. With wsxc switches a path keeps its wavelength; wixc switches may change it. "
    "With --fabric the rounds are set up on switches, where a wavelength is a VLAN. Packets are "
    "sent over every path and on wrong wavelengths, and the verdict says whether each packet "
    "arrived or was dropped as planned."
)
# The columns of the table of rounds; the latter ones only if the rounds have been run.
_PLAN_HEADINGS = ("round", "paths", "fibres", "full")
_RUN_HEADINGS = ("sent", "arrived", "astray", "wrong", "dropped", "set up s")
# The keys of a round's measurements, in the order of these columns.
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
    """Run all rounds of a plan.

    Args:
        plan: The plan.
        how: The fabric and the options of the run.
        report_progress: Called with the progress of the run, or None.

    Raises:
        InputError: A fibre has more wavelengths than there are VLAN ids.
    """
    from testbed.wavelengths.rules import MAX_FABRIC_WAVELENGTHS

    if plan.wavelengths > MAX_FABRIC_WAVELENGTHS:
        raise InputError(
            f"--wavelengths {plan.wavelengths}: on a fabric give at most {MAX_FABRIC_WAVELENGTHS}"
            " (VLAN ids)"
        )
    options: ProbeOptions = how.options or ProbeOptions()
    if how.fabric == "simulator":
        from testbed.wavelengths.simulated import simulate_plan

        return simulate_plan(plan, packets=options.packets, wrong=options.wrong, seed=plan.seed)
    from testbed.wavelengths.emulated import run_wavelengths

    return run_wavelengths(
        plan,
        packets=options.packets,
        wrong=options.wrong,
        seed=plan.seed,
        report_progress=report_progress,
    )


def _view(plan: WavelengthPlan) -> tuple[str, Callable[[], RunView]]:
    """Return the name and the view of a run in the browser."""
    from testbed.live.run_views import network_view
    from testbed.report.wording import counted

    lightpaths = counted(len(plan.lightpaths), "lightpath")
    rounds = counted(len(plan.rounds), "round")
    title = (
        f"{plan.network.name}: {lightpaths} in {rounds} of {plan.wavelengths} wavelengths,"
        f" {plan.method}"
    )
    load: Counter[LinkId] = Counter()
    for path in plan.lightpaths:
        load.update(path.links)
    return "wavelengths", partial(network_view, title, plan.network, load)


def _shown(document: Json) -> Iterator[object]:
    """Yield the lines and the table that the command prints of its JSON document."""
    from testbed.report.answers import Table
    from testbed.report.wording import counted

    lightpaths = counted(document["lightpaths"], "lightpath")
    wavelengths = counted(document["wavelengths"], "wavelength")
    yield (
        f"{document['network']}: {lightpaths}, bottleneck load {document['bottleneck_load']},"
        f" {wavelengths}, {document['switching']}"
    )
    rounds = counted(document["rounds"], "round")
    proved = "optimal" if document["optimal"] else f"at least {document['bound']} are needed"
    frames = "" if document["frames"] is None else f", {counted(document['frames'], 'frame')}"
    conversions = counted(document["conversions"], "conversion")
    yield f"{document['method']}: {rounds} ({proved}){frames}, {conversions}"
    baselines = [f"{method} {count}" for method, count in document["baselines"].items()]
    yield "beside it: " + ", ".join(baselines)
    measured = document.get("per_round")
    headings: tuple[str, ...] = _PLAN_HEADINGS
    if measured is not None:
        headings += _RUN_HEADINGS
    rows = []
    for number, lit_paths in enumerate(document["plan"]):
        row = _plan_columns(number, lit_paths, document["wavelengths"])
        if measured is not None:
            row += [measured[number][name] for name in _ROUND_COUNTS]
        rows.append(row)
    yield Table(name="rounds", headings=headings, rows=rows, spare=("set up s", "wrong", "fibres"))


def _plan_columns(number: int, lit_paths: Sequence[Json], wavelengths: int) -> list[object]:
    """Return the columns of a round in the plan.

    They are its number from 1, the number of lit paths, the number of their fibres, and the largest
    number of lit wavelengths of a fibre, as in 3/8.

    Args:
        number: Index of the round.
        lit_paths: The lit paths, as in the JSON document.
        wavelengths: Number of wavelengths of each fibre.
    """
    wavelengths_of: dict[str, set[int]] = {}
    for path in lit_paths:
        for link, wavelength in zip(path["links"], path["wavelengths"], strict=True):
            wavelengths_of.setdefault(link, set()).add(wavelength)
    max_lit = max(map(len, wavelengths_of.values()))
    return [number + 1, len(lit_paths), len(wavelengths_of), f"{max_lit}/{wavelengths}"]


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
    answer=WavelengthPlan.to_json,
    carry=_carry,
    judge=lazily("testbed.wavelengths.judgement:judge_wavelengths"),
    view=_view,
    shown=_shown,
    example=partial(wavelength_plan, "optical-cloud:graph=ring:4,wavelengths=2"),
)
