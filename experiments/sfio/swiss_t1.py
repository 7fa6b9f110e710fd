"""All nodes of Swiss-T1 write to all, plain messages and a striped file (Gabrielyan 2007, figures 19 and 21).

Throughput follows the topology: it stays where it is while nodes fill the switches in use, and rises when switches are added.
Where nodes are taken at random, 53 times each (sfio_placements), it spreads instead.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from experiments.sfio.figures import BLUE, GREY, OCHRE, RING, finish_by_nodes, lines_by_nodes
from experiments.sfio.placements import PLACEMENTS, measure_placed, placed_checks, placed_points, placement_figure
from experiments.sfio.runs import accessed, at_least, judged, transferred
from testbed.commands.studies.study import Study
from testbed.errors import InputError
from testbed.model.verdict import Check, Verdict

Row = Mapping[str, Any]
STEPS = ((8, 10), (16, 18), (24, 26))
NODES, QUICK_NODES = tuple(range(2, 33, 2)), (8, 10, 16, 18, 24, 26)
REPEAT = 3
LINK_RATE_BPS = 5e6
PAIR_BYTES, QUICK_PAIR_BYTES = 100_000, 40_000
STRIPE_UNIT = 200
QUICK_MEASURED, QUICK_MEASURED_NODES = 2, (8, 16, 24)
QUICK_PLACED_NODES = (8, 10, 12, 16, 18, 24, 26)
STEP_NODES = (8, 10, 16, 18, 24, 26)
MIN_STEP, MAX_BETWEEN, MIN_RATIO = 1.3, 1.25, 0.85
SERIES = {
    "network": ("plain messages, liquid schedule (Figure 19)", GREY, "^"),
    "striped-liquid": ("striped file, liquid schedule", BLUE, "o"),
    "striped": ("striped file, circuits as they come", OCHRE, "s"),
}


def allocation(nodes: int) -> str:
    """Nodes of each switch: evenly over two switches up to 8 nodes, over four up to 16, over six, over eight.

    >>> allocation(10)
    '3-3-2-2-0-0-0-0'
    """
    switches = 2 * -(-nodes // 8)
    counts = [nodes // switches + (k < nodes % switches) for k in range(switches)]
    return "-".join(str(count) for count in counts + [0] * (8 - switches))


def points(quick: bool, seed: int) -> list[dict[str, Any]]:
    """Three ways at every number of nodes, switches filled two by two; then the random placements."""
    in_order = [
        {
            "nodes": nodes,
            "allocation": allocation(nodes),
            "series": series,
            "pair_bytes": QUICK_PAIR_BYTES if quick else PAIR_BYTES,
            "seed": seed,
        }
        for nodes in (QUICK_NODES if quick else NODES)
        for series in SERIES
        if not (quick and series == "network" and nodes not in (8, 18))
    ]
    measured = _asked.get("placements", QUICK_MEASURED if quick else PLACEMENTS)
    predicted_nodes, measured_nodes = (QUICK_PLACED_NODES, QUICK_MEASURED_NODES) if quick else (NODES, STEP_NODES)
    return in_order + placed_points(predicted_nodes, measured_nodes, measured, QUICK_PAIR_BYTES, seed)


_asked: dict[str, int] = {}


def add_options(parser: argparse.ArgumentParser) -> None:
    """``--placements``."""
    text = (
        f"random placements to measure, of {PLACEMENTS} that are predicted (default all; {QUICK_MEASURED} with --quick)"
    )
    parser.add_argument("--placements", type=int, metavar="N", help=text)


def configure(args: argparse.Namespace) -> None:
    """Keeps what was asked for; InputError for more placements than there are."""
    _asked.clear()
    if args.placements is not None:
        if not 0 <= args.placements <= PLACEMENTS:
            raise InputError(f"--placements {args.placements}: give 0 to {PLACEMENTS}")
        _asked["placements"] = args.placements


def measure(point: Row) -> dict[str, Any]:
    """One all-to-all exchange of the allocated nodes."""
    if "placement" in point:
        return measure_placed(point, stripe_unit=STRIPE_UNIT, link_rate_bps=LINK_RATE_BPS)
    network = f"swiss-t1:allocation={point['allocation']}"
    if point["series"] == "network":
        return transferred(network, message_bytes=point["pair_bytes"], link_rate_bps=LINK_RATE_BPS, seed=point["seed"])
    return accessed(
        network,
        compute_nodes=point["nodes"],
        io_nodes=point["nodes"],
        stripe_unit=STRIPE_UNIT,
        file_bytes=point["nodes"] ** 2 * point["pair_bytes"],
        schedule="liquid" if point["series"] == "striped-liquid" else "none",
        switching="circuit",
        link_rate_bps=LINK_RATE_BPS,
        repeat=REPEAT,
        seed=point["seed"],
    )


def judge(rows: Sequence[Row]) -> Verdict:
    """The three steps, nothing like them in between, and the liquid throughput reached."""
    found = {row["nodes"]: row for row in rows if row["series"] == "striped-liquid"}
    checks: list[Check] = []
    for before, after in STEPS:
        checks.append(
            at_least(
                f"scheduled striped file: throughput at {after} over {before} nodes",
                found[after]["throughput_bps"] / found[before]["throughput_bps"],
                MIN_STEP,
                f"liquid throughput: {found[after]['liquid_links'] / found[before]['liquid_links']:.2f}; "
                f"at least {MIN_STEP}",
            )
        )
    between = [(a, a + 2) for a in sorted(found) if a >= 8 and a + 2 in found and (a, a + 2) not in STEPS]
    if between:
        worst = max(between, key=lambda pair: found[pair[1]]["throughput_bps"] / found[pair[0]]["throughput_bps"])
        growth = found[worst[1]]["throughput_bps"] / found[worst[0]]["throughput_bps"]
        checks.append(
            Check.at_most(
                f"scheduled striped file: greatest growth elsewhere, at {worst[1]} over {worst[0]} nodes",
                MAX_BETWEEN,
                growth,
                detail=f"at most {MAX_BETWEEN}",
            )
        )
    short = min(found.values(), key=lambda row: row["throughput_bps"] / row["liquid_bps"])
    checks.append(
        at_least(
            "scheduled striped file over liquid throughput, worst number of nodes",
            short["throughput_bps"] / short["liquid_bps"],
            MIN_RATIO,
            f"{short['nodes']} nodes; at least {MIN_RATIO}",
        )
    )
    placed, notes = placed_checks(rows)
    return judged(rows, [*checks, *placed], notes)


def figures(rows: Sequence[Row]) -> dict[str, Any]:
    """Throughput over the number of nodes, as Figures 19 and 21: with the steps marked, and with the spread of placements."""
    title = f"All to all on Swiss-T1, {PLACEMENTS} random placements of each number of nodes, 5 Mbit/s links"
    return {"swiss-t1": _step_figure(rows), "placements": placement_figure(rows, title=title)}


def _step_figure(rows: Sequence[Row]) -> Any:
    from matplotlib import pyplot as plt

    rows = [row for row in rows if "placement" not in row]
    figure, axes = plt.subplots(figsize=(7.4, 4.8))
    liquid = sorted({(row["nodes"], row["liquid_bps"] / 1e6) for row in rows if row["series"] != "network"})
    axes.plot(*zip(*liquid, strict=True), color="black", linewidth=1, label="liquid throughput")
    lines_by_nodes(axes, rows, SERIES, {"network": {"linestyle": "", **RING}})
    for number, (before, after) in enumerate(STEPS):
        label = "two more switches come into use" if number == 0 else None
        axes.axvspan(before, after, color=BLUE, alpha=0.12, linewidth=0, label=label)
    finish_by_nodes(
        axes,
        rows,
        x="nodes, each of which computes and keeps a subfile",
        title=f"All to all on Swiss-T1, 5 Mbit/s links, stripe unit {STRIPE_UNIT} bytes",
    )
    return figure


STUDY = Study.of_module(
    __name__,
    name="sfio_swiss_t1",
    does="writes a striped file from all to all nodes of Swiss-T1, two more at a time, in order and at random",
    answers="Gabrielyan 2007, Figures 19 and 21: throughput rises from 8 to 10, 16 to 18 and 24 to 26 nodes",
    emulation=True,
)
