"""Topology-unaware orders and liquid schedules on the emulated Swiss-T1, measured next to the liquid throughput
(Figures 42, 43).

Each pattern is an allocation of nodes that exchange messages all to all: the 362 with different nodes or bottleneck
load. Points come repetition by repetition, and in each the patterns in an order of which every beginning is spread over
all 362, so that a part of the study says something of the whole, and a later run adds to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from experiments.liquid import bulk_swiss_t1_verdict as verdict
from experiments.liquid.bulk_swiss_t1_verdict import METHODS
from experiments.liquid.switching.valid_exchange import valid_exchange
from testbed.errors import InvalidRunError
from testbed.model.options import kinds
from testbed.model.options.option import option, options
from testbed.model.studies.study import Points, Results, Row, Study

if TYPE_CHECKING:
    from testbed.bulk.emulated.fabric import EmulatedBulkFabric

PATTERNS, REPETITIONS = 362, 20
QUICK_PATTERNS = slice(1, 3)
"""Of those spread over the 362: the second and third, of 16 and 20 nodes; the whole machine takes minutes by itself."""
LIQUID_REPETITIONS = 7
STORED = ("seconds", "ratio", "predicted_ratio", "throughput_bps", "messages_verified", "queue_drops", "failure")


_KB = kinds.whole(1, 100_000)


@options
class Options:
    """How many patterns, how often, and how long their messages are."""

    patterns: int | None = option(
        default=None, kind=kinds.whole(1, PATTERNS), help="so many, spread over the 362 (default: all; quick: two)"
    )
    repetitions: int | None = option(
        default=None, kind=kinds.whole(1, REPETITIONS), metavar="R",
        help="of each pattern (default 20, of liquid schedules 7; quick: 1)",
    )  # fmt: skip
    message_kb: int = option(default=200, kind=_KB, metavar="KB", help="of every message but in liquid schedules")
    liquid_message_kb: int = option(default=500, kind=_KB, metavar="KB", help="of messages in liquid schedules")


def spread(count: int) -> list[int]:
    """0 to ``count`` - 1, the last first, then each in the widest gap that those before it leave (of equals the
    highest)."""
    order, gaps = [count - 1], [(0, count - 1)]
    while gaps:
        low, high = max(gaps, key=lambda gap: (gap[1] - gap[0], gap[1]))
        gaps.remove((low, high))
        if low < high:
            middle = (low + high) // 2
            order.append(middle)
            gaps += [(low, middle), (middle + 1, high)]
    return order


def points(quick: bool, seed: int, options: Options | None = None) -> Points:
    """Repetition by repetition; the whole machine is always among the patterns, but with ``quick``."""
    options = options or Options()
    from testbed.scheduling.traffic.allocation import distinct_allocations

    every = distinct_allocations()
    spread_out = spread(len(every))
    chosen = spread_out[QUICK_PATTERNS if quick and not options.patterns else slice(options.patterns)]
    sizes = {"message_bytes": 1000 * options.message_kb, "liquid_message_bytes": 1000 * options.liquid_message_kb}
    found: Points = []
    for repetition in range(1, (options.repetitions or (1 if quick else REPETITIONS)) + 1):
        for k in chosen:
            own: Results = {"pattern": k + 1, "allocation": every[k].name, "nodes": every[k].nodes}
            own |= {"bottleneck_load": every[k].bottleneck_load, **sizes, "repetition": repetition}
            found.append(own | {"seed": seed + repetition - 1})
    return found


def measure(point: Row) -> Results:
    """Every order of this repetition over circuits, one after the other, on one network."""
    from testbed.bulk.emulated.fabric import EmulatedBulkFabric

    found: Results = {}
    with EmulatedBulkFabric() as fabric:
        for method in METHODS:
            if method == "liquid" and point["repetition"] > LIQUID_REPETITIONS:
                continue
            try:
                found |= measured_order(point, method, fabric)
            except InvalidRunError as error:
                found[f"{method}_invalid"] = str(error)
    return found


def measured_order(point: Row, method: str, fabric: EmulatedBulkFabric) -> Results:
    """One order on a fabric. Raises InvalidRunError where the machine could not keep up in any of three attempts."""
    from testbed.bulk.workload import bulk_plan

    order, barrier = METHODS[method]
    size = point["liquid_message_bytes" if method == "liquid" else "message_bytes"]
    name = f"swiss-t1:allocation={point['allocation']}"
    plan = bulk_plan(name, scheduling=order, message_bytes=size, barrier=barrier, seed=point["seed"])
    judged, attempts = valid_exchange(plan, fabric)
    row = judged.document
    return {
        **{f"{method}_{key}": row[key] for key in STORED},
        f"{method}_goodput_bps": row["goodput_bps"],
        f"{method}_failed": [check.name for check in judged.verdict.checks if not check.passed],
        f"{method}_attempts": attempts,
        "transfers": row["transfers"],
        "liquid_links": row["liquid_links"],
    }


judge, figures = verdict.judge, verdict.figures
STUDY = Study.of_module(
    __name__,
    title="Measured throughput of liquid schedules and of topology-unaware orders on Swiss-T1",
    answers="Gabrielyan 2007, Figures 42 and 43: round robin stays far below the liquid throughput, random and FIFO "
    "orders are no better, liquid schedules come very close to it",
    deviations=(
        "messages of 200 kB (liquid schedules: 500 kB) over links of 20 Mbit/s, where the document has 2 and 5 MB over "
        "links of 86 MB/s: a message lasts 80 and 200 ms here, 23 and 58 ms there",
        "circuits in switches, granted by a central arbiter link by link, stand for the wormhole network",
        "round robin and random order are carried out both freely, each sender going on when its message is through, "
        "and phase by phase, as section 3.3 counts them; the document does not say which was measured",
    ),
    emulation=True,
)
