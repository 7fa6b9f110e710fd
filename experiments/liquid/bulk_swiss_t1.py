"""Topology-unaware orders and liquid schedules on the emulated Swiss-T1, measured next to the liquid throughput
(Figures 42, 43).

Each pattern is an allocation of nodes that exchange messages all to all: the 362 with different nodes or bottleneck
load. Points come repetition by repetition, and in each the patterns in an order of which every beginning is spread over
all 362, so that a part of the study says something of the whole, and a later run adds to it.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from math import isnan, nan
from operator import itemgetter
from typing import TYPE_CHECKING

from experiments.liquid.swiss_t1_traffic import LARGE, LEAST_GAIN, draw_patterns, usual_gain_check
from testbed.errors import InvalidRunError
from testbed.model.options import kinds
from testbed.model.options.option import option, options
from testbed.model.studies import (
    Check,
    Claim,
    Figures,
    Points,
    Results,
    Row,
    Rows,
    Study,
    Verdict,
    grouped,
    repeated,
)
from testbed.model.workload import Judgement
from testbed.report.drawing.charts import Figure
from testbed.scheduling.baselines import Order

if TYPE_CHECKING:
    from testbed.bulk.emulated.fabric import EmulatedBulkFabric

PATTERNS, REPETITIONS, ATTEMPTS = 362, 20, 3
QUICK_PATTERNS = slice(1, 3)
"""Of those spread over the 362: the second and third, of 16 and 20 nodes; the whole machine takes minutes by itself."""
LIQUID_REPETITIONS = 7
STORED = (
    "seconds",
    "ratio",
    "predicted_ratio",
    "throughput_bps",
    "messages_verified",
    "queue_drops",
    "failure",
)
METHODS: Mapping[str, tuple[Order | str, bool]] = {
    "liquid": ("liquid", True),
    "round_robin": ("round-robin", False),
    "random": ("random", False),
    "fifo": ("identical", False),
    "round_robin_phases": ("round-robin", True),
}
"""Name in the rows -> (method of the plan, whether a phase or frame begins only when the one before is through)."""
THREE_ORDERS = ("liquid", "round_robin", "random")
NAMES = {
    "liquid": "liquid schedules",
    "round_robin": "round robin",
    "random": "random order",
    "fifo": "FIFO order (the same for all)",
    "round_robin_phases": "round robin, phase by phase",
}
MIN_LIQUID, MAX_ROUND_ROBIN = 0.95, 0.65
NEAR_PREDICTION = 0.1
"""A batch of circuits takes 3 to 7 ms to set up, a message 80 ms: so much an order may lose against its own virtual
time."""
MAX_INVALID = 0.1


_KB = kinds.whole(1, 100_000)


@options
class Options:
    """How many patterns, how often, and how long their messages are."""

    patterns: int | None = option(
        default=None,
        kind=kinds.whole(1, PATTERNS),
        help="number of patterns, spread over the 362 (default: all; quick: two)",
    )
    repetitions: int | None = option(
        default=None, kind=kinds.whole(1, REPETITIONS), metavar="R",
        help="runs of each pattern (default: 20, with liquid schedules 7; quick: 1)",
    )  # fmt: skip
    all_orders: int = option(
        default=PATTERNS, kind=kinds.whole(0, PATTERNS), metavar="N",
        help="run every order for the first N patterns only (for the others: liquid schedules, "
"round robin and random order)",
    )  # fmt: skip
    message_kb: int = option(
        default=200,
        kind=_KB,
        metavar="KB",
        help="size of every message, except in liquid schedules",
    )
    liquid_message_kb: int = option(
        default=500, kind=_KB, metavar="KB", help="size of messages in liquid schedules"
    )


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
    chosen = spread_out[
        QUICK_PATTERNS if quick and not options.patterns else slice(options.patterns)
    ]
    sizes = {
        "message_bytes": 1000 * options.message_kb,
        "liquid_message_bytes": 1000 * options.liquid_message_kb,
    }
    found: Points = []
    for repetition in range(1, (options.repetitions or (1 if quick else REPETITIONS)) + 1):
        for number, k in enumerate(chosen):
            own: Results = {"pattern": k + 1, "allocation": every[k].name, "nodes": every[k].nodes}
            own |= {"bottleneck_load": every[k].bottleneck_load, **sizes, "repetition": repetition}
            own |= {"orders": len(THREE_ORDERS)} if number >= options.all_orders else {}
            found.append(own | {"seed": seed + repetition - 1})
    return found


def methods_of(point: Row) -> Iterable[str]:
    """Names of the orders that are measured there."""
    return THREE_ORDERS if "orders" in point else METHODS


def measure(point: Row) -> Results:
    """The orders of this repetition over circuits, one after the other, on one network."""
    from testbed.bulk.emulated.fabric import EmulatedBulkFabric

    found: Results = {}
    with EmulatedBulkFabric() as fabric:
        for method in methods_of(point):
            if method == "liquid" and point["repetition"] > LIQUID_REPETITIONS:
                continue
            try:
                found |= measured_order(point, method, fabric)
            except InvalidRunError as error:
                found[f"{method}_invalid"] = str(error)
    return found


def measured_order(point: Row, method: str, fabric: EmulatedBulkFabric) -> Results:
    """One order on a fabric. Raises InvalidRunError where the machine could not keep up in any of three attempts."""
    from testbed.bulk.judgement import judge_bulk
    from testbed.bulk.workload import bulk_plan

    order, barrier = METHODS[method]
    size = point["liquid_message_bytes" if method == "liquid" else "message_bytes"]
    name = f"swiss-t1:allocation={point['allocation']}"
    plan = bulk_plan(
        name, scheduling=order, message_bytes=size, barrier=barrier, seed=point["seed"]
    )
    tried: list[str] = []

    def once() -> Judgement:
        judged = judge_bulk(plan, fabric.run(plan))
        if judged.verdict.invalid is not None:
            raise InvalidRunError(judged.verdict.invalid)
        return judged

    judged = repeated(once, lambda _: None, ATTEMPTS - 1, tried.append)
    row = judged.document
    return {
        **{f"{method}_{key}": row[key] for key in STORED},
        f"{method}_goodput_bps": row["goodput_bps"],
        f"{method}_failed": [check.name for check in judged.verdict.checks if not check.passed],
        f"{method}_attempts": 1 + len(tried),
        "transfers": row["transfers"],
        "liquid_links": row["liquid_links"],
    }


def by_pattern(rows: Rows) -> Points:
    """One row a pattern, in the order of Figure 41: medians over the valid repetitions of each order's ratio,
    prediction and throughput.

    Patterns of which some order that was measured has no valid repetition are left out.
    """
    found = []
    for _, own in sorted(grouped(rows, "pattern").items()):
        values = {
            f"{method}_{key}": _median(
                row[f"{method}_{key}"] for row in own if f"{method}_{key}" in row
            )
            for method in dict.fromkeys(method for row in own for method in methods_of(row))
            for key in ("ratio", "predicted_ratio", "throughput_bps", "goodput_bps")
        }
        if None not in values.values():
            links = next(row["liquid_links"] for row in own if "liquid_links" in row)
            retained = {key: own[0][key] for key in ("pattern", "nodes", "bottleneck_load")}
            found.append({**retained, **values, "liquid_links": links})
    return found


def _median(values: Iterator[float]) -> float | None:
    known = list(values)
    return statistics.median(known) if known else None


def judge(rows: Rows) -> Verdict:
    """Medians over the patterns, gains pattern by pattern, and every byte verified."""
    patterns, runs = by_pattern(rows), [(row, method) for row in rows for method in methods_of(row)]
    invalid = [row[f"{method}_invalid"] for row, method in runs if f"{method}_invalid" in row]
    missing_patterns = len({row["pattern"] for row in rows}) - len(patterns)
    if not patterns or len(invalid) > MAX_INVALID * len(runs):
        return Verdict(checks=(), invalid=f"{len(invalid)} of {len(runs)} runs: {invalid[0]}")
    notes = [f"{len(patterns)} of 362 patterns, {_repetitions(rows)}", *_repeated(rows)]
    if len(complete := _with(patterns, "fifo")) < len(patterns):
        notes.append(
            f"FIFO order, and round robin phase by phase, on {len(complete)} of these patterns"
        )
    if invalid:
        notes.append(
            f"{len(invalid)} runs left out, and {missing_patterns} patterns: the machine could not keep up"
        )
    kinds = (_throughput_checks, _gain_checks, _order_checks, _prediction_checks)
    checks = [check for kind in kinds for check in kind(patterns)]
    return Verdict.of((*checks, _verified_check(rows)), notes)


def _repetitions(rows: Rows) -> str:
    each, methods = grouped(rows, "pattern").values(), ("liquid", "round_robin")
    counts = [sum(f"{method}_ratio" in row for row in own) for own in each for method in methods]
    return f"{min(counts)} to {max(counts)} repetitions each"


def _repeated(rows: Rows) -> list[str]:
    """How many runs failed a check of their own, by its name."""
    counts = Counter(
        name for row in rows for method in METHODS for name in row.get(f"{method}_failed", ())
    )
    return [f"{count} runs by themselves failed: {name}" for name, count in counts.items()]


def _with(patterns: Rows, *methods: str) -> list[Row]:
    """Those on which these orders were measured."""
    return [row for row in patterns if all(f"{method}_ratio" in row for method in methods)]


def _over(patterns: Rows, of: Callable[[Row], float]) -> tuple[float, float]:
    """(median, half width of its 95 % interval: 1.57 interquartile ranges over the root of the number, McGill et al.
    1978)."""
    values = [of(row) for row in patterns]
    if len(values) < 4:
        return statistics.median(values), 0.0
    low, _, high = statistics.quantiles(values, n=4)
    return statistics.median(values), 1.57 * (high - low) / len(values) ** 0.5


def _quotient(over: str, under: str) -> Callable[[Row], float]:
    return lambda row: float(row[over] / row[under])


_gain = _quotient("liquid_ratio", "round_robin_ratio")


def _throughput_checks(patterns: Rows) -> list[Check]:
    liquid, robin = (
        _over(patterns, itemgetter(f"{method}_ratio")) for method in ("liquid", "round_robin")
    )
    return [
        Claim("liquid schedules over the liquid throughput, median")
        .at_least(MIN_LIQUID, liquid)
        .cites("very close to the liquid throughput, Figure 43")
        .against(robin[0], "round robin's median"),
        Claim("round robin over the liquid throughput, median")
        .at_most(MAX_ROUND_ROBIN, robin)
        .cites(
            "far below the liquid throughput, Figure 42; for many only 50 % (Gabrielyan and Hersch 2002, Figure 11)"
        )
        .against(liquid[0], "liquid schedules' median"),
    ]


def _gain_checks(patterns: Rows) -> list[Check]:
    large = [row for row in patterns if row["nodes"] >= LARGE]
    if not large:
        return []
    return [
        Claim(
            f"median gain of liquid schedules over round robin, patterns of {LARGE} nodes and more"
        )
        .at_least(LEAST_GAIN, _over(large, _gain))
        .cites("a factor of 1.5 to 2, section 3.9; of two for many, section 3.8.2")
        .against(1.0, "no gain"),
        usual_gain_check([_gain(row) for row in large]),
    ]


def _order_checks(patterns: Rows) -> list[Check]:
    liquid, _ = _over(patterns, _gain)
    checks = []
    for method, words in (("random", "random"), ("fifo", "FIFO")):
        if not (known := _with(patterns, method)):
            continue
        measured = _over(known, _quotient(f"{method}_ratio", "round_robin_ratio"))
        checks.append(
            Claim(f"throughput of {NAMES[method]} over round robin's, median of the patterns")
            .at_most(1.0, measured)
            .cites(f"{words} order yields no better throughput, section 3.8.2")
            .against(liquid, "as good as a liquid schedule")
        )
    return checks


def _prediction_checks(patterns: Rows) -> list[Check]:
    """Each order against its own virtual time; the rival is the prediction of the order next to it."""
    rivals = {
        "round_robin": "fifo",
        "random": "round_robin_phases",
        "fifo": "round_robin",
        "round_robin_phases": "fifo",
    }
    checks = []
    for method, other in rivals.items():
        if not (known := _with(patterns, method, other)):
            continue
        measured = _over(
            _with(patterns, method), _quotient(f"{method}_ratio", f"{method}_predicted_ratio")
        )
        rival, _ = _over(known, _quotient(f"{other}_predicted_ratio", f"{method}_predicted_ratio"))
        checks.append(
            Claim(
                f"{NAMES[method]}, measured over its own run in virtual time, median of the patterns"
            )
            .equal(1.0, measured, NEAR_PREDICTION)
            .against(rival, f"{NAMES[other]}, in virtual time")
        )
    return checks


def _verified_check(rows: Rows) -> Check:
    keys = [f"{method}_messages_verified" for method in METHODS]
    missing = sum(row["transfers"] - row[key] for row in rows for key in keys if key in row)
    return Claim("messages not verified").count(0, missing)


def figures(rows: Rows) -> Figures:
    """Figures 42 and 43 of the thesis, and all orders' shares."""
    patterns = by_pattern(rows)
    if not patterns:
        return {}
    return {
        "42-round-robin": _throughput(patterns, "round_robin", rows[0]["message_bytes"]),
        "43-liquid-schedules": _throughput(patterns, "liquid", rows[0]["liquid_message_bytes"]),
        "orders": _orders(patterns),
    }


def _throughput(patterns: Rows, method: str, message_bytes: int) -> Figure:
    """Over the patterns, sorted as in Figure 41: predictions and the measured median."""
    liquid = [row["liquid_links"] * row[f"{method}_goodput_bps"] / 1e6 for row in patterns]
    series = {
        "liquid throughput, predicted": liquid,
        "this order in virtual time": [
            row[f"{method}_predicted_ratio"] * most
            for row, most in zip(patterns, liquid, strict=True)
        ],
        "measured, median": [row[f"{method}_throughput_bps"] / 1e6 for row in patterns],
    }
    title = f"Swiss-T1 on switches, {NAMES[method]}, {message_bytes / 1e6:g} MB messages"
    return draw_patterns(
        patterns, title, series, ylabel="payload of all nodes, Mbit/s", ylim=(0, None)
    )


def _orders(patterns: Rows) -> Figure:
    series = {}
    for method, words in NAMES.items():
        ratios = [row.get(f"{method}_ratio", nan) for row in patterns]
        if known := [ratio for ratio in ratios if not isnan(ratio)]:
            series[f"{words}: {statistics.median(known):.2f}"] = ratios
    title = "Share of the liquid throughput that each order reaches on switches (median of the patterns)"
    return draw_patterns(
        patterns, title, series, ylabel="throughput over liquid throughput", ylim=(0, 1.05)
    )


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
