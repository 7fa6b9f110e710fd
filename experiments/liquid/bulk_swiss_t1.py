"""Topology-unaware orders and liquid schedules on the emulated Swiss-T1, measured beside the liquid throughput (Figures 42, 43).

Each pattern is an allocation of nodes that exchange messages all to all: the 362 with different nodes or bottleneck load. Points
come repetition by repetition, and in each the patterns in an order of which every beginning is spread over all 362, so that a part
of the study says something of the whole, and a later run adds to it.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

from experiments.liquid import bulk_swiss_t1_verdict as verdict
from experiments.liquid.bulk_swiss_t1_verdict import METHODS
from testbed.commands import numbers
from testbed.commands.studies.study import Study
from testbed.errors import InvalidRunError

Row = Mapping[str, Any]
PATTERNS, REPETITIONS = 362, 20
QUICK_PATTERNS = slice(1, 3)
"""Of those spread over the 362: the second and third, of 16 and 20 nodes; the whole machine takes minutes by itself."""
LIQUID_REPETITIONS = 7
ATTEMPTS = 3
KEPT = ("seconds", "ratio", "predicted_ratio", "throughput_bps", "messages_verified", "queue_drops", "failure")
_asked = {"patterns": 0, "repetitions": 0, "message_bytes": 200_000, "liquid_message_bytes": 500_000}


def add_options(parser: argparse.ArgumentParser) -> None:
    """How many patterns, how often, and how long their messages are."""
    add = parser.add_argument
    add(
        "--patterns",
        type=numbers.whole(1, PATTERNS),
        metavar="N",
        help="so many, spread over the 362 (default: all; quick: two)",
    )
    add(
        "--repetitions",
        type=numbers.whole(1, REPETITIONS),
        metavar="R",
        help="of each pattern (default 20, of liquid schedules 7; quick: 1)",
    )
    add(
        "--message-kb",
        type=numbers.whole(1, 100_000),
        default=200,
        metavar="KB",
        help="of every message but in liquid schedules (default 200)",
    )
    add(
        "--liquid-message-kb",
        type=numbers.whole(1, 100_000),
        default=500,
        metavar="KB",
        help="of messages in liquid schedules (default 500)",
    )


def configure(args: argparse.Namespace) -> None:
    """Takes the options."""
    _asked.update(
        patterns=args.patterns or 0,
        repetitions=args.repetitions or 0,
        message_bytes=1000 * args.message_kb,
        liquid_message_bytes=1000 * args.liquid_message_kb,
    )


def spread(count: int) -> list[int]:
    """0 to ``count`` - 1, the last first, then each in the widest gap that those before it leave (of equals the highest)."""
    order, gaps = [count - 1], [(0, count - 1)]
    while gaps:
        low, high = max(gaps, key=lambda gap: (gap[1] - gap[0], gap[1]))
        gaps.remove((low, high))
        if low < high:
            middle = (low + high) // 2
            order.append(middle)
            gaps += [(low, middle), (middle + 1, high)]
    return order


def points(quick: bool, seed: int) -> list[dict[str, Any]]:
    """Repetition by repetition; the whole machine is always among the patterns, but with ``quick``."""
    from testbed.scheduling.traffic.allocation import distinct_allocations

    every = distinct_allocations()
    spread_out = spread(len(every))
    chosen = (
        spread_out[QUICK_PATTERNS] if quick and not _asked["patterns"] else spread_out[: _asked["patterns"] or PATTERNS]
    )
    repetitions = _asked["repetitions"] or (1 if quick else REPETITIONS)
    return [
        {
            "pattern": k + 1,
            "allocation": every[k].name,
            "nodes": every[k].nodes,
            "bottleneck_load": every[k].bottleneck_load,
            "message_bytes": _asked["message_bytes"],
            "liquid_message_bytes": _asked["liquid_message_bytes"],
            "repetition": repetition,
            "seed": seed + repetition - 1,
        }
        for repetition in range(1, repetitions + 1)
        for k in chosen
    ]


def measure(point: Row) -> dict[str, Any]:
    """Every order of this repetition over circuits, one after the other, on one network."""
    from testbed.bulk.session import open_bulk_fabric

    found: dict[str, Any] = {}
    with ExitStack() as stack:
        fabric = open_bulk_fabric("emulation", stack)
        for method in METHODS:
            if method == "liquid" and point["repetition"] > LIQUID_REPETITIONS:
                continue
            try:
                found |= measured_order(point, method, fabric)
            except InvalidRunError as error:
                found[f"{method}_invalid"] = str(error)
    return found


def measured_order(point: Row, method: str, fabric: Any) -> dict[str, Any]:
    """One order on a fabric. Raises InvalidRunError where the machine could not keep up in any of three attempts."""
    from testbed.bulk.planning import BulkOptions
    from testbed.bulk.session import plan_sides, run_side

    order, barrier = METHODS[method]
    size = point["liquid_message_bytes" if method == "liquid" else "message_bytes"]
    options = BulkOptions(method=order, message_bytes=size, barrier=barrier, seed=point["seed"])
    name = f"swiss-t1:allocation={point['allocation']}"
    (plan,) = plan_sides(name, options, ("circuit",), now=time.monotonic)
    for attempt in range(ATTEMPTS):
        session = run_side(fabric, plan)
        if session.verdict.invalid is None:
            break
        if attempt == ATTEMPTS - 1:
            raise InvalidRunError(session.verdict.invalid)
    row = session.row()
    return {
        **{f"{method}_{key}": row[key] for key in KEPT},
        f"{method}_goodput_bps": row["goodput_bps"],
        f"{method}_failed": [check.name for check in session.verdict.checks if not check.passed],
        f"{method}_attempts": attempt + 1,
        "transfers": row["transfers"],
        "liquid_links": row["liquid_links"],
    }


judge, figures = verdict.judge, verdict.figures
STUDY = Study.of_module(
    __name__,
    name="bulk_swiss_t1",
    does="carry Swiss-T1's traffic patterns over circuits in emulated switches, by liquid schedules and topology-unaware orders",
    title="Measured throughput of liquid schedules and of topology-unaware orders on Swiss-T1",
    answers="Gabrielyan 2007, Figures 42 and 43: round robin stays far below the liquid throughput, random and FIFO orders are no better, "
    "liquid schedules come very close to it",
    deviations=(
        "messages of 200 kB (liquid schedules: 500 kB) over links of 20 Mbit/s, where the document has 2 and 5 MB over links of "
        "86 MB/s: a message lasts 80 and 200 ms here, 23 and 58 ms there",
        "circuits in switches, granted by a central arbiter link by link, stand for the wormhole network",
        "round robin and random order are carried out both freely, each sender going on when its message is through, and phase by "
        "phase, as section 3.3 counts them; the document does not say which was measured",
    ),
    emulation=True,
)
