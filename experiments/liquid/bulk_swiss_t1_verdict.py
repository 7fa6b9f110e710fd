"""What the measured orders on Swiss-T1 say: medians of the repetitions of each pattern, judged and drawn (Figures 42
and 43)."""

import statistics
from collections import Counter
from collections.abc import Callable, Iterator, Mapping

from experiments.liquid.swiss_t1_traffic import LARGE, LEAST_GAIN, usual_gain_check
from testbed.model.studies import Check, Claim, Figures, Points, Row, Rows, Verdict, grouped
from testbed.report.drawing.charts import BLUE, GREEN, GREY, ORANGE, Axes, Figure, chart
from testbed.scheduling.baselines import Order

METHODS: Mapping[str, tuple[Order | str, bool]] = {
    "liquid": ("liquid", True),
    "round_robin": ("round-robin", False),
    "random": ("random", False),
    "fifo": ("identical", False),
    "round_robin_phases": ("round-robin", True),
}
"""Name in the rows -> (method of the plan, whether a phase or frame begins only when the one before is through)."""
LOOKS = {
    "liquid": ("liquid schedules", BLUE, "o"),
    "round_robin": ("round robin", ORANGE, "^"),
    "random": ("random order", GREEN, "x"),
    "fifo": ("FIFO order (the same for all)", GREY, "v"),
    "round_robin_phases": ("round robin, phase by phase", "#f0a36b", "2"),
}
NAMES = {method: words for method, (words, _, _) in LOOKS.items()}
MIN_LIQUID, MAX_ROUND_ROBIN = 0.95, 0.65
NEAR_PREDICTION = 0.1
"""A batch of circuits takes 3 to 7 ms to set up, a message 80 ms: so much an order may lose against its own virtual
time."""
MAX_INVALID = 0.1


def by_pattern(rows: Rows) -> Points:
    """One row a pattern, in the order of Figure 41: medians over the valid repetitions of each order's ratio,
    prediction and throughput.

    Patterns of which some order has no valid repetition are left out.
    """
    found = []
    for _, own in sorted(grouped(rows, "pattern").items()):
        values = {
            f"{method}_{key}": _median(row[f"{method}_{key}"] for row in own if f"{method}_{key}" in row)
            for method in METHODS
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
    patterns, runs = by_pattern(rows), [(row, method) for row in rows for method in METHODS]
    invalid = [row[f"{method}_invalid"] for row, method in runs if f"{method}_invalid" in row]
    missing_patterns = len({row["pattern"] for row in rows}) - len(patterns)
    if not patterns or len(invalid) > MAX_INVALID * len(runs):
        return Verdict(checks=(), invalid=f"{len(invalid)} of {len(runs)} runs: {invalid[0]}")
    notes = [f"{len(patterns)} of 362 patterns, {_repetitions(rows)}", *_repeated(rows)]
    if invalid:
        notes.append(f"{len(invalid)} runs left out, and {missing_patterns} patterns: the machine could not keep up")
    kinds = (_throughput_checks, _gain_checks, _order_checks, _prediction_checks)
    checks = [check for kind in kinds for check in kind(patterns)]
    return Verdict.of((*checks, _verified_check(rows)), notes)


def _repetitions(rows: Rows) -> str:
    each, methods = grouped(rows, "pattern").values(), ("liquid", "round_robin")
    counts = [sum(f"{method}_ratio" in row for row in own) for own in each for method in methods]
    return f"{min(counts)} to {max(counts)} repetitions each"


def _repeated(rows: Rows) -> list[str]:
    """How many runs failed a check of their own, by its name."""
    counts = Counter(name for row in rows for method in METHODS for name in row.get(f"{method}_failed", ()))
    return [f"{count} runs by themselves failed: {name}" for name, count in counts.items()]


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


def _throughput_checks(patterns: Rows) -> list[Check]:
    liquid, liquid_width = _over(patterns, lambda row: row["liquid_ratio"])
    robin, robin_width = _over(patterns, lambda row: row["round_robin_ratio"])
    return [
        Claim("liquid schedules over the liquid throughput, median")
        .at_least(MIN_LIQUID, liquid)
        .cites("very close to the liquid throughput, Figure 43")
        .against(robin, "round robin's median")
        .plus_minus(liquid_width),
        Claim("round robin over the liquid throughput, median")
        .at_most(MAX_ROUND_ROBIN, robin)
        .cites("far below the liquid throughput, Figure 42; for many only 50 % (Gabrielyan and Hersch 2002, Figure 11)")
        .against(liquid, "liquid schedules' median")
        .plus_minus(robin_width),
    ]


def _gain_checks(patterns: Rows) -> list[Check]:
    large = [row for row in patterns if row["nodes"] >= LARGE]
    if not large:
        return []
    gain, width = _over(large, _gain)
    return [
        Claim(f"median gain of liquid schedules over round robin, patterns of {LARGE} nodes and more")
        .at_least(LEAST_GAIN, gain)
        .cites("a factor of 1.5 to 2, section 3.9; of two for many, section 3.8.2")
        .against(1.0, "no gain")
        .plus_minus(width),
        usual_gain_check([_gain(row) for row in large]),
    ]


def _gain(row: Row) -> float:
    return float(row["liquid_ratio"] / row["round_robin_ratio"])


def _order_checks(patterns: Rows) -> list[Check]:
    liquid, _ = _over(patterns, _gain)
    checks = []
    for method, words in (("random", "random"), ("fifo", "FIFO")):
        measured, width = _over(patterns, _quotient(f"{method}_ratio", "round_robin_ratio"))
        checks.append(
            Claim(f"throughput of {NAMES[method]} over round robin's, median of the patterns")
            .at_most(1.0, measured)
            .cites(f"{words} order yields no better throughput, section 3.8.2")
            .against(liquid, "as good as a liquid schedule")
            .plus_minus(width)
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
        measured, width = _over(patterns, _quotient(f"{method}_ratio", f"{method}_predicted_ratio"))
        rival, _ = _over(patterns, _quotient(f"{other}_predicted_ratio", f"{method}_predicted_ratio"))
        checks.append(
            Claim(f"{NAMES[method]}, measured over its own run in virtual time, median of the patterns")
            .equal(1.0, measured, NEAR_PREDICTION)
            .against(rival, f"{NAMES[other]}, in virtual time")
            .plus_minus(width)
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


def _axes(patterns: Rows) -> tuple[Figure, Axes]:
    figure, axes = chart(size=(9, 4.4), xlabel="traffic pattern, sorted by nodes and liquid throughput")
    starts = {row["nodes"]: row["pattern"] for row in reversed(patterns)}
    shown = list(starts)[:: max(1, len(starts) // 12)]
    upper = axes.secondary_xaxis("top")
    upper.set_xticks([starts[n] for n in shown], [str(n) for n in shown])
    upper.set_xlabel("nodes")
    return figure, axes


def _throughput(patterns: Rows, method: str, message_bytes: int) -> Figure:
    """Over the patterns, sorted as in Figure 41: the prediction as a line, measurements as dots."""
    figure, axes = _axes(patterns)
    places = [row["pattern"] for row in patterns]
    liquid = [row["liquid_links"] * row[f"{method}_goodput_bps"] / 1e6 for row in patterns]
    axes.plot(places, liquid, color="0.45", linewidth=1.5, label="liquid throughput, predicted")
    virtual = [row[f"{method}_predicted_ratio"] * y for row, y in zip(patterns, liquid, strict=True)]
    axes.plot(places, virtual, color="0.45", linewidth=0.8, linestyle=":", label="this order in virtual time")
    measured = [row[f"{method}_throughput_bps"] / 1e6 for row in patterns]
    _, colour, mark = LOOKS[method]
    axes.scatter(places, measured, s=14, color=colour, marker=mark, zorder=3, label="measured, median")
    title = f"Swiss-T1 on switches, {NAMES[method]}, {message_bytes / 1e6:g} MB messages"
    axes.set(ylabel="payload of all nodes, Mbit/s", ylim=(0, None), title=title)
    axes.legend(loc="upper left")
    return figure


def _orders(patterns: Rows) -> Figure:
    figure, axes = _axes(patterns)
    for method, (words, colour, mark) in LOOKS.items():
        middle = statistics.median(row[f"{method}_ratio"] for row in patterns)
        at, ratios = ([row[key] for row in patterns] for key in ("pattern", f"{method}_ratio"))
        axes.plot(at, ratios, mark, markersize=4, color=colour, label=f"{words}: {middle:.2f}")
    axes.axhline(1.0, color="0.45", linewidth=0.8, linestyle="--")
    title = "Share of the liquid throughput that each order reaches on switches (median of the patterns)"
    axes.set(ylabel="throughput over liquid throughput", ylim=(0, 1.05), title=title)
    axes.legend(loc="lower left", ncols=2)
    return figure
