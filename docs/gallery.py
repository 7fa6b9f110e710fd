"""The examples of the gallery and their pictures.

``python docs/gallery.py [NAME ...]`` runs each command in the simulator and stores one figure of its
run in docs/pictures/.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

PICTURES = Path(__file__).resolve().parent / "pictures"


class Example(NamedTuple):
    """An example: a command and the figure of its run that is shown.

    ``figure`` names a figure of ``testbed report RUN --figures``. If it is empty, the command writes
    ``picture.svg`` itself.
    """

    title: str
    command: str
    figure: str
    caption: str
    page: str


EXAMPLES = {
    "cloud": Example(
        "Look at a network",
        "topology show optical-cloud --plot picture.svg",
        "",
        "NSFNET's 14 sites: an edge router and a cross-connect each, and the fibres between them.",
        "reference/networks.md",
    ),
    "route": Example(
        "Split a flow and break a link",
        "stream swiss-t1 --from s1 --to s6 --max-faults 3",
        "route",
        "The capillary route: link widths are exact shares of the flow, red numbers are the cables that fail in turn.",
        "workloads/routing.md",
    ),
    "timeline": Example(
        "Stream through failures",
        "stream swiss-t1 --from s1 --to s6 --max-faults 3",
        "timeline",
        "Loss and redundancy over time (s), the predictions dashed, faults shaded.",
        "workloads/stream.md",
    ),
    "download": Example(
        "Keep a slow last link full",
        "download swiss-t1 --from s1 --to s6",
        "last-kilometre",
        "Packets that arrived a second while the most loaded link of the network behind was down.",
        "workloads/download.md",
    ),
    "frames": Example(
        "Schedule a collective exchange, and carry it out",
        "bulk swiss-t1:allocation=4-4-0-0-2-0-0-0 --message-size 500kB",
        "time-frames",
        "A liquid schedule: the time frames of 100 messages over the links that carry them.",
        "workloads/bulk.md",
    ),
    "striping": Example(
        "Write one file over several hosts",
        "sfio crossbar:8 --compute-nodes 4 --io-nodes 4 --file-size 4MB",
        "throughput",
        "Throughput of a striped file (Mbit/s), measured and predicted.",
        "workloads/striping.md",
    ),
    "simulate": Example(
        "Find where an interconnection network saturates",
        "simulate torus:4x4 --loads 0.1:0.9:0.2 --duration 0.005 --repetitions 3 --deadlock-avoidance nac",
        "latency-over-load",
        "Mean latency of messages by offered load; whiskers: 95 % of three seeds.",
        "workloads/interconnect.md",
    ),
}


def make(names: list[str]) -> None:
    """Run each command of these examples once, and store their pictures."""
    runs: dict[str, Path] = {}
    for name in names:
        one = EXAMPLES[name]
        folder = runs.get(one.command)
        if folder is None:
            folder = runs[one.command] = Path(tempfile.mkdtemp(prefix="gallery-"))
            fabric = (
                ["--fabric", "simulator"]
                if one.figure and not one.command.startswith("simulate")
                else []
            )
            _testbed([*shlex.split(one.command), *fabric], folder)
            for run in folder.glob("results/*/*/manifest.json"):
                _testbed(["report", str(run.parent), "--figures"], folder)
        drawn = next(
            folder.glob(f"results/*/*/figures/{one.figure}.svg")
            if one.figure
            else folder.glob("picture.svg")
        )
        shutil.copyfile(drawn, PICTURES / f"{name}.svg")
        print(PICTURES / f"{name}.svg")
    for folder in runs.values():
        shutil.rmtree(folder)


def _testbed(words: list[str], folder: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "testbed.cli", *words],
        cwd=folder,
        check=True,
        stdout=subprocess.DEVNULL,
    )


if __name__ == "__main__":
    make(sys.argv[1:] or list(EXAMPLES))
