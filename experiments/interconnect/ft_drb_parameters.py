"""What do Thl, Tol and the design alternatives of section 3.6 change (Zarza 2011, Algorithm 3.3, Tables 3.1 and 3.2)?

A 16x16 torus at 0.2 of a link a node, three links failing half-way: latency without and with failures, how often
metapaths come and go, how soon sources react, how many messages escape, and how much arrives in time. What is judged in
a tenth of its time and in twice it, too, what balancing costs in four and eight times.
"""

from collections.abc import Mapping
from itertools import product

from experiments.interconnect.figures import LATENCY
from experiments.interconnect.runs import measure_run
from experiments.interconnect.samples import (
    at_least,
    at_most,
    delivery_check,
    of_failures,
    stands_still,
)
from experiments.interconnect.study_points import drb_point, seeds_of
from testbed.model.studies import (
    Check,
    Figures,
    Points,
    Results,
    Row,
    Rows,
    Study,
    Verdict,
    spread,
    where,
)
from testbed.report.drawing.charts import draw_bars

NETWORK, LOAD, LINK_RATE, SECONDS = "torus:16x16", 0.2, 2e9 / (512 * 8), 0.064
LETTER: Results = {"hysteresis": False, "averaging": 1}
VARIANTS: dict[str, Results] = {
    "off": {"always": False},
    "the letter, Thl 2": LETTER | {"threshold": 2.0},
    "the letter, Thl 4": LETTER | {"threshold": 4.0},
    "Thl 2": {"threshold": 2.0},
    "Thl 3": {"threshold": 3.0},
    "Thl 4 (default)": {},
    "Thl 4, Tol 10 %": {"tolerance": 0.1},
    "Thl 4, Tol 50 %": {"tolerance": 0.5},
    "Thl 6": {"threshold": 6.0},
    "destination notifies": {"notifier": "destination"},
    "notifications reused": {"reuse_notifications": True},
    "queued notified": {"notify_queued": True},
    "router tells link-up": {"link_up": "router"},
    "probing hybrid, 1 ms": {"probing": "hybrid", "probe_s": 0.001},
    "marking hybrid, 0.1 ms": {"marking": "hybrid", "marking_s": 1e-4},
    "marked after 1": {"notifications": 1},
}
"""Thl in zero-load latencies of the pair; the alternatives of 3.6 with the default's Thl."""
DEFAULT, OFF, LETTER_2, REUSED = (
    "Thl 4 (default)",
    "off",
    "the letter, Thl 2",
    "notifications reused",
)
JUDGED = (OFF, LETTER_2, DEFAULT, REUSED)
SHARES = (0.1, 1.0, 2.0)
"""Of ``SECONDS``, for the variants that are judged; figures are those of the middle one."""
LONG = (4.0, 8.0)
"""Of ``SECONDS``, without failures and for the two whose latencies are compared: what balancing costs still falls in
twice the time."""
SEEN = 0.1
"""Per cent of latency, or points of performance, that doubling the time may move in any case."""
Table = Mapping[str, Mapping[int, Rows]]


def points(quick: bool, seed: int) -> Points:
    """Every variant with three failures half-way and without, the same seeds in all; those that are judged in three
    lengths."""
    seeds = list(seeds_of(seed, quick))[: 2 if quick else 5]
    own = SECONDS / (64 if quick else 1)

    def run(name: str, s: int, share: float, faults: int) -> Results:
        load: Results = {
            "options": VARIANTS[name],
            "rate": LOAD * LINK_RATE,
            "seconds": share * own,
        }
        point = drb_point(
            NETWORK, "uniform", s, quick=True, faults=faults, fault_kind="half", **load
        )
        return point | {"share": share}

    chosen = [name for name in VARIANTS if not quick or name in (*JUDGED, "destination notifies")]
    found = []
    for name in chosen:
        found += [
            run(name, *of) for of in product(seeds, SHARES if name in JUDGED else (1.0,), (0, 3))
        ]
    return found + [
        run(name, s, share, 0) for share, name, s in product(LONG, (OFF, DEFAULT), seeds)
    ]


def judge(rows: Rows) -> Verdict:
    """Hysteresis keeps metapaths from coming and going; balancing costs little without failures; reuse saves escapes;
    in twice the time all is as it was."""
    short, table, doubled = (_table(rows, share) for share in SHARES)
    four, eight = (_cost(_table(rows, share), DEFAULT) for share in LONG)
    back, rival = (_given_up(table[name][0]) for name in (DEFAULT, LETTER_2))
    cost, dear = _cost(table, DEFAULT), _cost(table, LETTER_2)
    reused = _saved(table)
    letter = "Algorithm 3.3 to the letter, Thl 2"
    thousand, many = (_in_thousand(table[name][0]) for name in (DEFAULT, LETTER_2))
    of_default: tuple[tuple[str, float, list[float], list[float]], ...] = (
        ("paths given up again over paths taken into use, without failures", 0.05, back, rival),
        ("paths given up again for a thousand messages, without failures", 1.0, thousand, many),
        ("what load balancing costs without failures (% of latency)", 2.0, cost, dear),
    )
    in_long = f"what load balancing costs in {1e3 * LONG[0] * SECONDS:.0f} ms (% of latency)"
    saved = (_saved(of) for of in (short, table, doubled))
    checks = (
        delivery_check(rows),
        *(
            at_most(name, most, own).against(spread(other)[0], letter)
            for name, most, own, other in of_default
        ),
        at_least("escapes that the reuse of notifications saves (%)", 10.0, reused)
        .cites("an improvement (3.6.1), without a number")
        .against(0.0, "none"),
        stands_still(in_long, 1.0 / LONG[0], cost, four, eight, may=max(SEEN, spread(four)[1])),
        stands_still(
            "what the reuse of notifications saves (%)", SHARES[0], *saved, may=spread(reused)[1]
        ),
        _performance_stands_still(short, table, doubled),
    )
    return Verdict.of(checks)


def _performance_stands_still(short: Table, table: Table, doubled: Table) -> Check:
    """Of the judged variant whose performance moves most, over what it may."""
    of_variant = {
        name: tuple(_performance(of[name]) for of in (short, table, doubled)) for name in JUDGED
    }
    may = {name: max(SEEN, spread(own)[1]) for name, (_, own, _) in of_variant.items()}

    def over(name: str) -> float:
        _, own, twice = of_variant[name]
        return abs(spread(twice)[0] - spread(own)[0]) / may[name]

    worst = max(of_variant, key=over)
    name = (
        f"performance with three failed links, {worst} (of those judged the most over what it may),"
    )
    return stands_still(name, SHARES[0], *of_variant[worst], may=may[worst])


def _given_up(runs: Rows) -> list[float]:
    """Of each run: paths given up again over paths taken into use."""
    return [row["shrunk"] / max(row["grown"], 1) for row in runs]


def _in_thousand(runs: Rows) -> list[float]:
    """Of each run: paths given up for a thousand messages."""
    return [1e3 * row["shrunk"] / row["sent"] for row in runs]


def _cost(table: Table, name: str) -> list[float]:
    """Of each seed: how much more latency than without balancing (%), without failures."""
    pairs = zip(table[name][0], table[OFF][0], strict=True)
    return [100.0 * (a["latency_later_s"] / b["latency_later_s"] - 1.0) for a, b in pairs]


def _saved(table: Table) -> list[float]:
    """Of each seed: how many escapes (%) the reuse of notifications saves."""
    pairs = zip(table[REUSED][3], table[DEFAULT][3], strict=True)
    return [100.0 * (1.0 - a["escaped_share"] / b["escaped_share"]) for a, b in pairs]


def _performance(found: Mapping[int, Rows]) -> list[float]:
    """Of each seed, of messages made in the second half of the run (%)."""
    return of_failures([*found[0], *found[3]], lambda row: 3, "latency_later_s")[3]


def _table(rows: Rows, share: float) -> dict[str, dict[int, list[Row]]]:
    """Variant -> number of failures -> runs in order of seed, of that share of the time."""
    found: dict[str, dict[int, list[Row]]] = {}
    for row in where(rows, share=share):
        name = next(name for name, options in VARIANTS.items() if options == row["options"])
        found.setdefault(name, {}).setdefault(row["faults"], []).append(row)
    return found


def figures(rows: Rows) -> Figures:
    """Latency and escapes by variant."""
    table, title = _table(rows, 1.0), f"{NETWORK} at {LOAD} of a link a node"
    latency = {
        (words, name): [1e6 * row["latency_later_s"] for row in found[faults]]
        for faults, words in ((0, "no failures"), (3, "three failed links"))
        for name, found in table.items()
    }
    three = "three failed links"
    escaped = {
        (three, name): [100.0 * row["escaped_share"] for row in found[3]]
        for name, found in table.items()
    }
    return {
        "latency": draw_bars(f"{title}: latency of the second half", latency, y=LATENCY, low=7.0),
        "escapes": draw_bars(
            f"{title}: escapes", escaped, y="escaped after the failure (% of messages)"
        ),
    }


STUDY = Study.of_module(
    __name__,
    name="interconnect_balance",
    title="Thl, Tol and the alternatives of section 3.6: what they change at 0.2 of a link a node",
    deviations=(
        "Five seeds, 64 ms (judged: 6.4, 128; balancing: 256, 512), one load, uniform; the document has words only.",
        "Hysteresis and averages are ours; Algorithm 3.3 to the letter stands beside them.",
    ),
    answers="Zarza 2011, Algorithm 3.3 and section 3.6 (Tables 3.1, 3.2): no numbers are given there",
    measure=measure_run,
)
