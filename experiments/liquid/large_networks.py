"""How long schedules of all-to-all exchanges take to compute on networks of about a hundred nodes: thousands of
transfers."""

import time

from testbed.model.studies import Claim, Figures, Points, Results, Row, Rows, Study, Verdict, grid
from testbed.model.traffic import Traffic
from testbed.report.drawing.charts import draw_lines
from testbed.scheduling.methods import schedule_by_name
from testbed.scheduling.traffic.patterns import all_to_all
from topologies import load_network

NETWORKS = ("swiss-t1", "crossbar:100", "torus:8x8", "fat-tree:10,2")
METHODS = {"liquid": "fast method", "exact": "the thesis' search, on sets of bits"}
LIMIT_S, FRACTION_S = 5.0, 1.0
"""Processor seconds after which a search is stopped; and what "a fraction of a second" is less than."""


def points(quick: bool, seed: int) -> Points:
    """One a network; the smaller ones with ``quick``."""
    return grid(network=NETWORKS[:3] if quick else NETWORKS, seed=seed)


def measure(point: Row) -> Results:
    """Processor seconds, and whether the schedule is liquid, by each method; compiled code is warm."""
    traffic = all_to_all(load_network(point["network"]))
    schedule_by_name(Traffic.from_transfers([["a", "b"], ["a", "c"]]), "liquid")
    schedule_by_name(traffic, "liquid", seed=point["seed"], time_limit_s=LIMIT_S)
    found: Results = {"transfers": len(traffic)}
    for method in METHODS:
        schedule = schedule_by_name(
            traffic, method, seed=point["seed"], time_limit_s=LIMIT_S, now=time.process_time
        )
        found |= {f"{method}_s": schedule.seconds or 0.0, f"{method}_liquid": schedule.liquid}
    return found


def judge(rows: Rows) -> Verdict:
    """Each method within a second on every network, and liquid."""
    checks = []
    for method, words in METHODS.items():
        worst = max(rows, key=lambda row, m=method: row[f"{m}_s"])  # type: ignore[misc]
        liquid = sum(row[f"{method}_liquid"] for row in rows)
        checks += [
            Claim(f"longest processor time of {words}, s")
            .at_most(FRACTION_S, worst[f"{method}_s"])
            .cites(
                "a fraction of a second, up to a hundred nodes (Gabrielyan 2007, 3.1; 2006, abstract)"
            )
            .against(LIMIT_S, "the time at which it is stopped")
            .noting(f"{worst['network']}, {worst['transfers']} transfers"),
            Claim(f"networks with a liquid schedule by {words}")
            .at_least(len(rows), liquid)
            .against(None, "none: an exact count"),
        ]
    return Verdict.of(checks)


def figures(rows: Rows) -> Figures:
    """Time against the number of transfers; apart where the schedule is not liquid."""
    samples = {
        (words if row[f"{method}_liquid"] else f"{words}: not liquid", row["transfers"]): (
            row[f"{method}_s"],
            0.0,
        )
        for method, words in METHODS.items()
        for row in rows
    }
    title, second = (
        "Computing time on networks of about a hundred nodes",
        (FRACTION_S, "one second"),
    )
    figure = draw_lines(title, samples, x="transfers", y="processor time (s)", claim=second)
    figure.axes[0].set(xscale="log", yscale="log")
    return {"large-networks": figure}


STUDY = Study.of_module(
    __name__,
    timed=True,
    name="liquid_large_networks",
    title="Liquid schedules of a hundred nodes: thousands of transfers",
    answers="Gabrielyan 2007, 3.1 and 3.9; Gabrielyan 2006, abstract: "
    "liquid schedules of up to a hundred nodes in a fraction of a second",
    deviations=(
        "the document names no network of a hundred nodes: tori, fat trees and a crossbar of the catalogue",
    ),
)
