"""Round robin and liquid schedules on the emulated Swiss-T1, measured beside the predicted liquid throughput (Figures 42, 43).

Each pattern is an allocation of nodes that exchange messages all to all: the 362 with different nodes or bottleneck load.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from testbed.commands.studies.study import Study
from testbed.errors import InputError, InvalidRunError
from testbed.model.verdict import Check, Verdict

Row = Mapping[str, Any]
METHODS = ("round-robin", "liquid")
QUICK_PATTERNS = 20
MIN_LIQUID, MAX_ROUND_ROBIN = 0.95, 0.65
MAX_INVALID = 0.1
ATTEMPTS = 3
KEPT = (
    "seconds",
    "ratio",
    "predicted_ratio",
    "throughput_bps",
    "messages_verified",
    "queue_drops",
    "cpu_fraction",
    "failure",
)
_asked = {"patterns": 0, "message_bytes": 500_000}


def add_options(parser: argparse.ArgumentParser) -> None:
    """How many patterns, and how long their messages are."""
    parser.add_argument("--patterns", type=int, metavar="N", help="evenly over the 362 (default: all; quick: 20)")
    parser.add_argument("--message-kb", type=int, default=500, metavar="KB", help="of every message (default 500)")


def configure(args: argparse.Namespace) -> None:
    """Takes the options; InputError where they are out of range."""
    if args.patterns is not None and not 1 <= args.patterns <= 362:
        raise InputError(f"--patterns {args.patterns}: give 1 to 362")
    if not 1 <= args.message_kb <= 100_000:
        raise InputError(f"--message-kb {args.message_kb}: give 1 to 100000")
    _asked.update(patterns=args.patterns or 0, message_bytes=1000 * args.message_kb)


def points(quick: bool, seed: int) -> list[dict[str, Any]]:
    """Patterns by nodes and then by liquid throughput, as in Figure 41; the whole machine is always among them."""
    from testbed.scheduling.traffic.allocation import distinct_allocations

    every = distinct_allocations()
    count = _asked["patterns"] or (QUICK_PATTERNS if quick else len(every))
    chosen = [round((k + 1) * len(every) / count) - 1 for k in range(count)]
    return [
        {
            "pattern": k + 1,
            "allocation": every[k].name,
            "nodes": every[k].nodes,
            "bottleneck_load": every[k].bottleneck_load,
            "message_bytes": _asked["message_bytes"],
            "seed": seed,
        }
        for k in chosen
    ]


def measure(point: Row) -> dict[str, Any]:
    """Both methods, with circuit and with packet switching, on one network."""
    from testbed.bulk.session import open_bulk_fabric

    found: dict[str, Any] = {"invalid": None}
    with ExitStack() as stack:
        fabric = open_bulk_fabric("emulation", stack)
        for method in METHODS:
            try:
                found |= _measured(point, method, fabric)
            except InvalidRunError as error:
                found["invalid"] = str(error)
    return found


def _measured(point: Row, method: str, fabric: Any) -> dict[str, Any]:
    from testbed.bulk.planning import BulkOptions
    from testbed.bulk.session import plan_sides, run_side

    options = BulkOptions(method=method, message_bytes=point["message_bytes"], seed=point["seed"])
    found: dict[str, Any] = {}
    for plan in plan_sides(f"swiss-t1:allocation={point['allocation']}", options, now=time.monotonic):
        for attempt in range(ATTEMPTS):
            session = run_side(fabric, plan)
            if session.verdict.invalid is None:
                break
            if attempt == ATTEMPTS - 1:
                raise InvalidRunError(session.verdict.invalid)
        row = session.row()
        name = f"{method.replace('-', '_')}_{plan.switching}"
        found |= {f"{name}_{key}": row[key] for key in KEPT}
        found[f"{name}_passed"] = session.verdict.passed
        found["transfers"], found["liquid_links"] = row["transfers"], row["liquid_links"]
        found["goodput_bps"] = row["goodput_bps"]
        found[f"{method.replace('-', '_')}_frames"] = row["frames"]
    return found


def valid(rows: Sequence[Row]) -> list[Row]:
    """The patterns in which the machine kept up."""
    return [row for row in rows if row["invalid"] is None]


def judge(rows: Sequence[Row]) -> Verdict:
    """Medians over the patterns, and every byte verified."""
    good = valid(rows)
    lagging = len(rows) - len(good)
    if not good or lagging > MAX_INVALID * len(rows):
        first = next(row["invalid"] for row in rows if row["invalid"] is not None)
        return Verdict(checks=(), invalid=f"{lagging} of {len(rows)} patterns: {first}")
    liquid = statistics.median(row["liquid_circuit_ratio"] for row in good)
    round_robin = statistics.median(row["round_robin_circuit_ratio"] for row in good)
    names = [f"{m.replace('-', '_')}_{s}" for m in METHODS for s in ("circuit", "packet")]
    missing = sum(row["transfers"] - row[f"{name}_messages_verified"] for row in good for name in names)
    apart = max(abs(row["round_robin_circuit_ratio"] - row["round_robin_circuit_predicted_ratio"]) for row in good)
    checks: tuple[Check, ...] = (
        _check(
            "liquid schedules, median of measured over predicted liquid throughput", 1.0, liquid, liquid >= MIN_LIQUID
        ),
        _check(
            "round robin, median of measured over predicted liquid throughput",
            None,
            round_robin,
            round_robin <= MAX_ROUND_ROBIN,
        ),
        _check("round robin, farthest from its run in virtual time", 0.0, apart, apart <= 0.1),
        _check("messages not verified", 0, missing, missing == 0),
    )
    whole = [row for row in good if row["nodes"] == 32]
    if whole:
        last = whole[-1]
        checks += (
            _check(
                "whole machine, liquid", 1.0, last["liquid_circuit_ratio"], last["liquid_circuit_ratio"] >= MIN_LIQUID
            ),
            _check(
                "whole machine, round robin",
                last["round_robin_circuit_predicted_ratio"],
                last["round_robin_circuit_ratio"],
                last["round_robin_circuit_ratio"] <= MAX_ROUND_ROBIN,
            ),
        )
    notes = (f"{lagging} patterns left out: the machine could not keep up",) if lagging else ()
    return Verdict(checks=checks, notes=notes)


def _check(name: str, predicted: float | None, measured: float, passed: bool) -> Check:
    return Check(name=name, predicted=predicted, measured=measured, tolerance=None, passed=passed)


def figures(rows: Sequence[Row]) -> dict[str, Any]:
    """The two figures of the thesis, with packet switching beside circuits."""
    good = valid(rows)
    if not good:
        return {}
    return {
        "42-round-robin": throughput_figure(good, "round_robin", "round robin"),
        "43-liquid-schedules": throughput_figure(good, "liquid", "liquid schedules"),
    }


def throughput_figure(rows: Sequence[Row], method: str, title: str) -> Any:
    """Throughput over the patterns, sorted as in Figure 41: the prediction as a line, measurements as dots."""
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(9, 4.4), layout="constrained")
    places = [row["pattern"] for row in rows]
    liquid = [row["liquid_links"] * row["goodput_bps"] / 1e6 for row in rows]
    few = len(rows) < 60
    axes.plot(
        places, liquid, color="0.45", linewidth=1.5, marker="_" if few else None, label="liquid throughput, predicted"
    )
    limit = MIN_LIQUID if method == "liquid" else MAX_ROUND_ROBIN
    axes.plot(places, [limit * x for x in liquid], color="0.45", linestyle=":", label=f"{limit} of it")
    for switching, colour, mark in (("packet", "#d55e00", "x"), ("circuit", "black", "o")):
        measured = [row[f"{method}_{switching}_throughput_bps"] / 1e6 for row in rows]
        size = 22 if few else 9
        axes.scatter(
            places, measured, s=size, color=colour, marker=mark, zorder=3, label=f"measured, {switching} switching"
        )
    starts = {row["nodes"]: row["pattern"] for row in reversed(rows)}
    shown = [n for n in (1, 4, 8, 12, 16, 20, 24, 28, 32) if n in starts]
    upper = axes.secondary_xaxis("top")
    upper.set_xticks([starts[n] for n in shown], [str(n) for n in shown])
    upper.set_xlabel("nodes")
    axes.set_xlabel("traffic pattern, sorted by nodes and liquid throughput")
    axes.set_ylabel("payload of all nodes, Mbit/s")
    axes.set_ylim(0, None)
    axes.set_title(f"Swiss-T1, {title}, {rows[0]['message_bytes'] / 1e6:g} MB messages", fontsize=10)
    axes.legend(frameon=False, loc="upper left")
    return figure


STUDY = Study.of_module(
    __name__,
    name="bulk_swiss_t1",
    does="round robin and liquid schedules on the emulated Swiss-T1, circuit and packet switching, 20 or all 362 patterns",
    answers="Gabrielyan 2007, Figures 42 and 43: round robin stays far below the liquid throughput, liquid schedules come very close to it",
    emulation=True,
)
