"""Liquid schedules and topology-unaware orders on the emulated Swiss-T1 (Figures 42, 43).

Their measured throughput is compared with the liquid throughput.

A pattern is an allocation of nodes that exchange messages all to all. There are 362 patterns with
different numbers of nodes or bottleneck loads. The points are ordered by repetition. The patterns
of a repetition are ordered so that those at its beginning are spread evenly over all 362.
Therefore a run that measures only a part of the points covers all kinds of patterns, and a later
run can add to it.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from math import isnan, nan
from typing import TYPE_CHECKING

from experiments.liquid.rows import column, ratios
from experiments.liquid.swiss_t1_traffic import LARGE, MIN_GAIN, draw_patterns, usual_gain_check
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

PATTERNS = 362
REPETITIONS = 20
LIQUID_REPETITIONS = 7
# How often an order is run at most, if the machine does not keep up.
ATTEMPTS = 3

# A quick run measures the second and third pattern, of 16 and 20 nodes. The first one, all 32
# nodes, takes minutes by itself.
QUICK_PATTERNS = slice(1, 3)

# Fields of a run that are stored for each order.
STORED = (
    "seconds",
    "ratio",
    "predicted_ratio",
    "throughput_bps",
    "messages_verified",
    "queue_drops",
    "failure",
)

# Order of messages by its name in the rows: the method of the plan, and whether a phase or frame
# begins only when the previous one is complete.
METHODS: Mapping[str, tuple[Order | str, bool]] = {
    "liquid": ("liquid", True),
    "round_robin": ("round-robin", False),
    "random": ("random", False),
    "fifo": ("identical", False),
    "round_robin_phases": ("round-robin", True),
}
THREE_ORDERS = ("liquid", "round_robin", "random")
NAMES = {
    "liquid": "liquid schedules",
    "round_robin": "round robin",
    "random": "random order",
    "fifo": "FIFO order (the same for all)",
    "round_robin_phases": "round robin, phase by phase",
}

MIN_LIQUID = 0.95
MAX_ROUND_ROBIN = 0.65

# Largest relative difference of a measured order from the same order in virtual time. Setting up a
# batch of circuits takes 3 to 7 ms, which virtual time does not contain. A message takes 80 ms.
NEAR_PREDICTION = 0.1

# Largest fraction of invalid runs in a valid study.
MAX_INVALID = 0.1

_KB = kinds.whole(1, 100_000)


@options
class Options:
    """Number of patterns and repetitions, and size of the messages."""

    patterns: int | None = option(
        default=None,
        kind=kinds.whole(1, PATTERNS),
        help="number of patterns, spread evenly over the 362 (default: all; 2 with --quick)",
    )
    repetitions: int | None = option(
        default=None,
        kind=kinds.whole(1, REPETITIONS),
        metavar="R",
        help="number of runs of each pattern (default 20, and 7 of liquid schedules; "
        "1 with --quick)",
    )
    all_orders: int = option(
        default=PATTERNS,
        kind=kinds.whole(0, PATTERNS),
        metavar="N",
        help="number of patterns on which all orders are measured; on the others only liquid "
        "schedules, round robin and random order",
    )
    message_kb: int = option(
        default=200, kind=_KB, metavar="KB", help="size of a message, except in liquid schedules"
    )
    liquid_message_kb: int = option(
        default=500, kind=_KB, metavar="KB", help="size of a message in liquid schedules"
    )


def spread(count: int) -> list[int]:
    """Return the numbers from 0 to ``count - 1``, ordered so that every beginning is spread evenly.

    The last number is first. Each further number is in the middle of the widest gap between the
    numbers before it, or of the highest such gap.

    >>> spread(5)
    [4, 2, 1, 3, 0]
    """
    order = [count - 1]
    gaps = [(0, count - 1)]
    while gaps:
        low, high = max(gaps, key=_width_and_end)
        gaps.remove((low, high))
        if low < high:
            middle = (low + high) // 2
            order.append(middle)
            gaps.append((low, middle))
            gaps.append((middle + 1, high))
    return order


def _width_and_end(gap: tuple[int, int]) -> tuple[int, int]:
    low, high = gap
    return high - low, high


def points(quick: bool, seed: int, options: Options | None = None) -> Points:
    """Return the points, repetition by repetition.

    All 32 nodes are always one of the patterns, unless ``quick`` is true.
    """
    # Imported here, because the list of allocations is only needed to measure.
    from testbed.scheduling.traffic.allocation import distinct_allocations

    options = options or Options()
    allocations = distinct_allocations()
    spread_indices = spread(len(allocations))
    if quick and not options.patterns:
        indices = spread_indices[QUICK_PATTERNS]
    else:
        indices = spread_indices[: options.patterns]
    repetitions = options.repetitions
    if repetitions is None:
        repetitions = 1 if quick else REPETITIONS

    result: Points = []
    for repetition in range(1, repetitions + 1):
        for number, index in enumerate(indices):
            allocation = allocations[index]
            point: Results = {
                "pattern": index + 1,
                "allocation": allocation.name,
                "nodes": allocation.nodes,
                "bottleneck_load": allocation.bottleneck_load,
                "message_bytes": 1000 * options.message_kb,
                "liquid_message_bytes": 1000 * options.liquid_message_kb,
                "repetition": repetition,
            }
            if number >= options.all_orders:
                point["orders"] = len(THREE_ORDERS)
            point["seed"] = seed + repetition - 1
            result.append(point)
    return result


def methods_of(point: Row) -> Collection[str]:
    """Return the names of the orders that are measured at a point."""
    return THREE_ORDERS if "orders" in point else METHODS


def measure(point: Row) -> Results:
    """Measure the orders one after another, with circuits, on one network."""
    from testbed.bulk.emulated.fabric import EmulatedBulkFabric

    results: Results = {}
    with EmulatedBulkFabric() as fabric:
        for method in methods_of(point):
            if method == "liquid" and point["repetition"] > LIQUID_REPETITIONS:
                continue
            try:
                results |= measured_order(point, method, fabric)
            except InvalidRunError as error:
                results[f"{method}_invalid"] = str(error)
    return results


def measured_order(point: Row, method: str, fabric: EmulatedBulkFabric) -> Results:
    """Measure one order on a fabric.

    Args:
        point: The parameters of the point.
        method: Name of the order in ``METHODS``.
        fabric: The network, which is running.

    Raises:
        InvalidRunError: The machine did not keep up in any of the attempts.
    """
    from testbed.bulk.judgement import judge_bulk
    from testbed.bulk.workload import bulk_plan

    order, barrier = METHODS[method]
    size_field = "liquid_message_bytes" if method == "liquid" else "message_bytes"
    plan = bulk_plan(
        f"swiss-t1:allocation={point['allocation']}",
        scheduling=order,
        message_bytes=point[size_field],
        barrier=barrier,
        seed=point["seed"],
    )

    def run_and_judge() -> Judgement:
        judgement = judge_bulk(plan, fabric.run(plan))
        if judgement.verdict.invalid is not None:
            raise InvalidRunError(judgement.verdict.invalid)
        return judgement

    failed_attempts: list[str] = []
    judgement = repeated(
        run_and_judge, lambda _: None, repeats=ATTEMPTS - 1, say=failed_attempts.append
    )
    document = judgement.document
    failed_checks = [check.name for check in judgement.verdict.checks if not check.passed]
    results: Results = {f"{method}_{field}": document[field] for field in STORED}
    results[f"{method}_goodput_bps"] = document["goodput_bps"]
    results[f"{method}_failed"] = failed_checks
    results[f"{method}_attempts"] = 1 + len(failed_attempts)
    results["transfers"] = document["transfers"]
    results["liquid_links"] = document["liquid_links"]
    return results


def by_pattern(rows: Rows) -> Points:
    """Return one row per pattern with the medians over its valid repetitions.

    The medians are of the ratio, predicted ratio, throughput and goodput of each order. The rows
    are in the order of Figure 41. A pattern is left out if an order that was measured has no valid
    repetition.
    """
    result = []
    for _, repetitions in sorted(grouped(rows, "pattern").items()):
        medians = _medians(repetitions)
        if None not in medians.values():
            first = repetitions[0]
            links = next(row["liquid_links"] for row in repetitions if "liquid_links" in row)
            result.append(
                {
                    "pattern": first["pattern"],
                    "nodes": first["nodes"],
                    "bottleneck_load": first["bottleneck_load"],
                    **medians,
                    "liquid_links": links,
                }
            )
    return result


def _medians(repetitions: Rows) -> Results:
    """Return the medians of each order's fields; a median is None if no repetition is valid."""
    methods: dict[str, None] = {}
    for row in repetitions:
        methods.update(dict.fromkeys(methods_of(row)))
    medians: Results = {}
    for method in methods:
        for quantity in ("ratio", "predicted_ratio", "throughput_bps", "goodput_bps"):
            field = f"{method}_{quantity}"
            values = [row[field] for row in repetitions if field in row]
            medians[field] = statistics.median(values) if values else None
    return medians


def judge(rows: Rows) -> Verdict:
    """Check medians over the patterns, the gain on each pattern, and that all bytes arrived."""
    patterns = by_pattern(rows)
    invalid = _invalid_reasons(rows)
    run_count = sum(len(methods_of(row)) for row in rows)
    if not patterns or len(invalid) > MAX_INVALID * run_count:
        return Verdict(checks=(), invalid=f"{len(invalid)} of {run_count} runs: {invalid[0]}")

    notes = [f"{len(patterns)} of 362 patterns, {_repetition_counts(rows)}", *_failures(rows)]
    with_fifo = _with_orders(patterns, "fifo")
    if len(with_fifo) < len(patterns):
        notes.append(
            f"FIFO order, and round robin phase by phase, on {len(with_fifo)} of these patterns"
        )
    if invalid:
        missing_patterns = len(set(column(rows, "pattern"))) - len(patterns)
        notes.append(
            f"{len(invalid)} runs left out, and {missing_patterns} patterns: "
            "the machine could not keep up"
        )
    checks = [
        *_throughput_checks(patterns),
        *_gain_checks(patterns),
        *_order_checks(patterns),
        *_prediction_checks(patterns),
        _verified_check(rows),
    ]
    return Verdict.of(checks, notes)


def _invalid_reasons(rows: Rows) -> list[str]:
    reasons = []
    for row in rows:
        for method in methods_of(row):
            if f"{method}_invalid" in row:
                reasons.append(row[f"{method}_invalid"])
    return reasons


def _repetition_counts(rows: Rows) -> str:
    """Describe how often liquid schedules and round robin were validly measured on a pattern."""
    counts = []
    for repetitions in grouped(rows, "pattern").values():
        for method in ("liquid", "round_robin"):
            valid = [row for row in repetitions if f"{method}_ratio" in row]
            counts.append(len(valid))
    return f"{min(counts)} to {max(counts)} repetitions each"


def _failures(rows: Rows) -> list[str]:
    """Return a note for each check that runs failed, with the number of these runs."""
    counts: Counter[str] = Counter()
    for row in rows:
        for method in METHODS:
            counts.update(row.get(f"{method}_failed", ()))
    return [f"{count} runs by themselves failed: {name}" for name, count in counts.items()]


def _with_orders(patterns: Rows, *methods: str) -> list[Row]:
    """Return the patterns on which all of these orders were measured."""
    fields = {f"{method}_ratio" for method in methods}
    return [row for row in patterns if fields <= row.keys()]


def _median(values: Sequence[float]) -> tuple[float, float]:
    """Return the median, and half the width of its 95 % confidence interval.

    The half width is 1.57 times the interquartile range over the root of the number of values
    (McGill, Tukey and Larsen 1978). It is 0 for fewer than four values.
    """
    if len(values) < 4:
        return statistics.median(values), 0.0
    low, _, high = statistics.quantiles(values, n=4)
    return statistics.median(values), 1.57 * (high - low) / len(values) ** 0.5


def _gains(patterns: Rows) -> list[float]:
    """Return the throughput of liquid schedules over that of round robin, by pattern."""
    return ratios(patterns, "liquid_ratio", "round_robin_ratio")


def _throughput_checks(patterns: Rows) -> list[Check]:
    liquid = _median(column(patterns, "liquid_ratio"))
    round_robin = _median(column(patterns, "round_robin_ratio"))
    return [
        Claim("liquid schedules over the liquid throughput, median")
        .at_least(MIN_LIQUID, liquid)
        .cites("very close to the liquid throughput, Figure 43")
        .against(round_robin[0], "round robin's median"),
        Claim("round robin over the liquid throughput, median")
        .at_most(MAX_ROUND_ROBIN, round_robin)
        .cites(
            "far below the liquid throughput, Figure 42; for many only 50 % "
            "(Gabrielyan and Hersch 2002, Figure 11)"
        )
        .against(liquid[0], "liquid schedules' median"),
    ]


def _gain_checks(patterns: Rows) -> list[Check]:
    large = [row for row in patterns if row["nodes"] >= LARGE]
    if not large:
        return []
    name = f"median gain of liquid schedules over round robin, patterns of {LARGE} nodes and more"
    return [
        Claim(name)
        .at_least(MIN_GAIN, _median(_gains(large)))
        .cites("a factor of 1.5 to 2, section 3.9; of two for many, section 3.8.2")
        .against(1.0, "no gain"),
        usual_gain_check(_gains(large)),
    ]


def _order_checks(patterns: Rows) -> list[Check]:
    """Check that other topology-unaware orders are no better than round robin."""
    liquid, _ = _median(_gains(patterns))
    checks = []
    for method, cited_name in (("random", "random"), ("fifo", "FIFO")):
        measured = _with_orders(patterns, method)
        if measured:
            checks.append(
                Claim(f"throughput of {NAMES[method]} over round robin's, median of the patterns")
                .at_most(1.0, _median(ratios(measured, f"{method}_ratio", "round_robin_ratio")))
                .cites(f"{cited_name} order yields no better throughput, section 3.8.2")
                .against(liquid, "as good as a liquid schedule")
            )
    return checks


def _prediction_checks(patterns: Rows) -> list[Check]:
    """Compare each order with the same order in virtual time.

    The rival is the prediction of another order.
    """
    rivals = {
        "round_robin": "fifo",
        "random": "round_robin_phases",
        "fifo": "round_robin",
        "round_robin_phases": "fifo",
    }
    checks = []
    for method, rival in rivals.items():
        with_both = _with_orders(patterns, method, rival)
        if not with_both:
            continue
        prediction = f"{method}_predicted_ratio"
        measured = _median(ratios(_with_orders(patterns, method), f"{method}_ratio", prediction))
        rival_value, _ = _median(ratios(with_both, f"{rival}_predicted_ratio", prediction))
        name = f"{NAMES[method]}, measured over its own run in virtual time, median of the patterns"
        checks.append(
            Claim(name)
            .equal(1.0, measured, NEAR_PREDICTION)
            .against(rival_value, f"{NAMES[rival]}, in virtual time")
        )
    return checks


def _verified_check(rows: Rows) -> Check:
    missing = 0
    for row in rows:
        for method in METHODS:
            if f"{method}_messages_verified" in row:
                missing += row["transfers"] - row[f"{method}_messages_verified"]
    return Claim("messages not verified").count(0, missing)


def figures(rows: Rows) -> Figures:
    """Draw Figures 42 and 43 of the thesis, and the throughput of all orders."""
    patterns = by_pattern(rows)
    if not patterns:
        return {}
    return {
        "42-round-robin": _throughput_figure(patterns, "round_robin", rows[0]["message_bytes"]),
        "43-liquid-schedules": _throughput_figure(
            patterns, "liquid", rows[0]["liquid_message_bytes"]
        ),
        "orders": _orders_figure(patterns),
    }


def _throughput_figure(patterns: Rows, method: str, message_bytes: int) -> Figure:
    """Draw predictions and the measured median over the patterns, ordered as in Figure 41."""
    liquid = []
    simulated = []
    measured = []
    for row in patterns:
        liquid_mbps = row["liquid_links"] * row[f"{method}_goodput_bps"] / 1e6
        liquid.append(liquid_mbps)
        simulated.append(row[f"{method}_predicted_ratio"] * liquid_mbps)
        measured.append(row[f"{method}_throughput_bps"] / 1e6)
    series = {
        "liquid throughput, predicted": liquid,
        "this order in virtual time": simulated,
        "measured, median": measured,
    }
    title = f"Swiss-T1 on switches, {NAMES[method]}, {message_bytes / 1e6:g} MB messages"
    return draw_patterns(
        patterns, title, series, ylabel="payload of all nodes, Mbit/s", ylim=(0, None)
    )


def _orders_figure(patterns: Rows) -> Figure:
    series = {}
    for method, name in NAMES.items():
        shares = [row.get(f"{method}_ratio", nan) for row in patterns]
        measured = [share for share in shares if not isnan(share)]
        if measured:
            series[f"{name}: {statistics.median(measured):.2f}"] = shares
    title = (
        "Share of the liquid throughput that each order reaches on switches "
        "(median of the patterns)"
    )
    return draw_patterns(
        patterns, title, series, ylabel="throughput over liquid throughput", ylim=(0, 1.05)
    )


STUDY = Study.of_module(
    __name__,
    title="Measured throughput of liquid schedules and of topology-unaware orders on Swiss-T1",
    answers="Gabrielyan 2007, Figures 42 and 43: round robin stays far below the liquid "
    "throughput, random and FIFO orders are no better, liquid schedules come very close to it",
    deviations=(
        "messages of 200 kB (liquid schedules: 500 kB) over links of 20 Mbit/s, where the document "
        "has 2 and 5 MB over links of 86 MB/s: a message lasts 80 and 200 ms here, 23 and 58 ms "
        "there",
        "circuits in switches, granted by a central arbiter link by link, stand for the wormhole "
        "network",
        "round robin and random order are carried out both freely, each sender going on when its "
        "message is through, and phase by phase, as section 3.3 counts them; the document does not "
        "say which was measured",
    ),
    emulation=True,
)
