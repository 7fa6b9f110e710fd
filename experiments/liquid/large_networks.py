"""Computing time of schedules for all-to-all exchanges on networks of about a hundred nodes.

Such an exchange has thousands of transfers.
"""

import time

from experiments.liquid.rows import column
from testbed.model.studies import Claim, Figures, Points, Results, Row, Rows, Study, Verdict, grid
from testbed.model.traffic import Traffic
from testbed.report.drawing.charts import draw_lines
from testbed.scheduling.methods import schedule_by_name
from testbed.scheduling.traffic.patterns import all_to_all
from topologies import load_network

NETWORKS = ("swiss-t1", "crossbar:100", "torus:8x8", "fat-tree:10,2")
METHODS = {"liquid": "fast method", "exact": "the thesis' search, on sets of bits"}

# Processor time after which a search is stopped.
LIMIT_S = 5.0

# "A fraction of a second" is less than this.
FRACTION_S = 1.0


def points(quick: bool, seed: int) -> Points:
    """Return one point per network. A quick run leaves out the largest network."""
    return grid(network=NETWORKS[:3] if quick else NETWORKS, seed=seed)


def measure(point: Row) -> Results:
    """Return the processor time of each method, and whether its schedule is liquid."""
    traffic = all_to_all(load_network(point["network"]))
    # Compile and warm up everything, so that compilation is not part of the measured time.
    schedule_by_name(Traffic.from_transfers([["a", "b"], ["a", "c"]]), "liquid")
    schedule_by_name(traffic, "liquid", seed=point["seed"], time_limit_s=LIMIT_S)
    results: Results = {"transfers": len(traffic)}
    for method in METHODS:
        schedule = schedule_by_name(
            traffic, method, seed=point["seed"], time_limit_s=LIMIT_S, now=time.process_time
        )
        results[f"{method}_s"] = schedule.seconds or 0.0
        results[f"{method}_liquid"] = schedule.liquid
    return results


def judge(rows: Rows) -> Verdict:
    """Check that each method finds a liquid schedule of every network within a second."""
    checks = []
    for method, name in METHODS.items():
        times_s = column(rows, f"{method}_s")
        longest_s = max(times_s)
        slowest = rows[times_s.index(longest_s)]
        liquid_count = sum(column(rows, f"{method}_liquid"))
        checks += [
            Claim(f"longest processor time of {name}, s")
            .at_most(FRACTION_S, longest_s)
            .cites(
                "a fraction of a second, up to a hundred nodes "
                "(Gabrielyan 2007, 3.1; 2006, abstract)"
            )
            .against(LIMIT_S, "the time at which it is stopped")
            .noting(f"{slowest['network']}, {slowest['transfers']} transfers"),
            Claim(f"networks with a liquid schedule by {name}")
            .at_least(len(rows), liquid_count)
            .against(None, "none: an exact count"),
        ]
    return Verdict.of(checks)


def figures(rows: Rows) -> Figures:
    """Draw the computing time over the number of transfers.

    Times of schedules that are not liquid have a line of their own.
    """
    samples = {}
    for method, name in METHODS.items():
        for row in rows:
            label = name if row[f"{method}_liquid"] else f"{name}: not liquid"
            samples[label, row["transfers"]] = (row[f"{method}_s"], 0.0)
    figure = draw_lines(
        "Computing time on networks of about a hundred nodes",
        samples,
        x="transfers",
        y="processor time (s)",
        claim=(FRACTION_S, "one second"),
    )
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
        "the document names no network of a hundred nodes: tori, fat trees and a crossbar of the "
        "catalogue",
    ),
)
