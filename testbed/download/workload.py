"""The workload ``download``: a file over many paths to a host behind a slow last mile."""

from collections.abc import Callable, Iterator
from functools import partial

from testbed.download.options import DownloadOptions
from testbed.download.plan import DownloadPlan
from testbed.faults.fault import fault_lines
from testbed.live.events import RunView
from testbed.model.options.planner import planner
from testbed.model.workload import Workload, lazily
from topologies import Json

DESCRIPTION = (
    "Send a file in large coded blocks from a node to a host behind a last mile of a given rate "
    "(Gabrielyan 2007, section 4.3.3). The sender raises its rate by what failed links lose, so "
    "that the last mile stays full as long as a path is left. By default, the link with the "
    "highest load is down for the middle half of the download."
)
_BUILD = lazily("testbed.download.planning:build_download")


def _view(plan: DownloadPlan) -> tuple[str, Callable[[], RunView]]:
    """Return the subtitle of the live page, and a function that draws its network."""
    from testbed.live.run_views import split_view

    title = f"{plan.network.name}: download from {plan.source} to {plan.sink}"
    return f"{plan.method}, {plan.code}", partial(split_view, title, plan.forward, plan.faults)


def _shown(document: Json) -> Iterator[str]:
    """Yield the lines that the command prints for a run's document."""
    rate = ""
    if document["constant_rate"]:
        rate = ", rate never raised"
    transfer = f"{document['file_bytes']} bytes, {document['code']}, {document['method']}{rate}"
    yield f"{transfer}, {document['fabric']}"
    yield from fault_lines(document["faults"])
    duration_s = document["duration_s"]
    measured = "never"
    if duration_s["measured"] is not None:
        measured = f"{duration_s['measured']:.2f} s"
    outage = f"{document['outage_s']:.2f} s without a path"
    yield f"there after   {measured} (predicted {duration_s['predicted']:.2f} s, {outage})"
    goodput = f"{document['goodput_bps'] / 1e6:.2f} Mbit/s"
    yield f"goodput       {goodput}, {document['goodput_ratio']:.1%} of the last mile"
    sent = document["packets"]["sent"]
    needed = document["packets"]["needed"]
    yield f"packets sent  {sent['measured']} (predicted {sent['predicted']:.0f}, needed {needed})"


download_plan = planner(
    "download_plan",
    "Make the plan of a file in large coded blocks over a last mile.",
    DownloadOptions,
    _BUILD,
    DownloadPlan,
)
DOWNLOAD = Workload(
    name="download",
    title="A download over many paths",
    description=DESCRIPTION,
    command="testbed download swiss-t1 --from s1 --to s6 --file-size 2MB",
    plan=DownloadPlan,
    options=DownloadOptions,
    build=_BUILD,
    simulate=lazily("testbed.download.simulated:simulate_download"),
    emulate=lazily("testbed.download.emulated:emulate_download"),
    judge=lazily("testbed.download.judgement:judge_download"),
    foreseen=lazily("testbed.download.prediction:foreseen"),
    view=_view,
    figures=lazily("testbed.download.figures:download_figures"),
    shown=_shown,
    example=lambda: download_plan("swiss-t1", "s1", "s6"),
)
