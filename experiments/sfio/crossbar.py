"""All nodes of a full crossbar write to all, plain messages and a striped file (Gabrielyan 2007, figures 16 and 18)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from experiments.sfio.figures import BLUE, GREEN, GREY, OCHRE, RING, finish_by_nodes, lines_by_nodes
from experiments.sfio.runs import accessed, at_least, judged, transferred
from testbed.commands.studies.study import Study
from testbed.model.verdict import Verdict

Row = Mapping[str, Any]
NODES, QUICK_NODES = (1, 2, 4, 6, 8, 10, 12, 14, 16, 20, 24, 28, 31), (2, 4, 8, 16)
REPEAT = 3
LINK_RATE_BPS = 5e6
PAIR_BYTES, QUICK_PAIR_BYTES = 300_000, 120_000
STRIPE_UNIT = 200
MIN_NETWORK, MIN_SCHEDULED = 0.85, 0.8
SERIES = {
    "network": ("plain messages, in turns (Figure 16)", GREY, "^"),
    "striped-in-turns": ("striped file, in turns over circuits", BLUE, "o"),
    "striped": ("striped file, all at once (Figure 18)", OCHRE, "s"),
}


def points(quick: bool, seed: int) -> list[dict[str, Any]]:
    """Three ways at every number of nodes, each of which computes and keeps a subfile."""
    size = QUICK_PAIR_BYTES if quick else PAIR_BYTES
    return [
        {"nodes": nodes, "series": series, "pair_bytes": size, "seed": seed}
        for nodes in (QUICK_NODES if quick else NODES)
        for series in SERIES
    ]


def measure(point: Row) -> dict[str, Any]:
    """One all-to-all exchange."""
    nodes, network = point["nodes"], f"crossbar:{max(2, point['nodes'])}"
    if point["series"] == "network" and nodes > 1:
        return transferred(network, message_bytes=point["pair_bytes"], link_rate_bps=LINK_RATE_BPS, seed=point["seed"])
    in_turns = point["series"] != "striped"
    return accessed(
        network,
        compute_nodes=nodes,
        io_nodes=nodes,
        stripe_unit=STRIPE_UNIT,
        file_bytes=nodes * nodes * point["pair_bytes"],
        schedule="liquid" if in_turns else "none",
        switching="circuit" if in_turns else "packet",
        link_rate_bps=LINK_RATE_BPS,
        repeat=REPEAT,
        seed=point["seed"],
    )


def judge(rows: Sequence[Row]) -> Verdict:
    """A crossbar has no bottleneck but its hosts' links: throughput grows with the nodes."""
    share = {
        series: min(r["throughput_bps"] / (r["nodes"] * LINK_RATE_BPS) for r in rows if r["series"] == series)
        for series in SERIES
    }
    checks = (
        at_least("plain messages over all links together, worst number of nodes", share["network"], MIN_NETWORK),
        at_least(
            "striped file in turns over all links together, worst number of nodes",
            share["striped-in-turns"],
            MIN_SCHEDULED,
        ),
    )
    note = f"all at once, without turns: at least {share['striped']:.2f} of all links together"
    return judged(rows, checks, (note,))


def figures(rows: Sequence[Row]) -> dict[str, Any]:
    """Throughput over the number of nodes, as Figures 16 and 18."""
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4.6))
    lines_by_nodes(axes, rows, SERIES, {"network": RING})
    nodes = sorted({row["nodes"] for row in rows})
    ideal = [LINK_RATE_BPS * n / 1e6 for n in nodes]
    axes.plot(nodes, ideal, color="black", linewidth=1, label="all links together")
    axes.plot(
        nodes,
        [MIN_SCHEDULED * value for value in ideal],
        color=GREEN,
        linestyle=":",
        label=f"{MIN_SCHEDULED} of it",
    )
    finish_by_nodes(
        axes,
        rows,
        x="compute nodes, and as many I/O nodes",
        title=f"All to all on a full crossbar, 5 Mbit/s links, stripe unit {STRIPE_UNIT} bytes",
    )
    return {"crossbar": figure}


STUDY = Study.of_module(
    __name__,
    name="sfio_crossbar",
    does="writes a striped file from all to all nodes of a full crossbar, beside plain messages",
    answers="Gabrielyan 2007, Figures 16 and 18: throughput grows linearly with the nodes",
    emulation=True,
)
