"""What do Thl, Tol and the design alternatives of section 3.6 change (Zarza 2011, Algorithm 3.3, Tables 3.1 and 3.2)?

A 16x16 torus at 0.2 of a link a node, three links failing half-way: latency without and with failures, how often metapaths come and
go, how soon sources react, how many messages escape, and how much arrives in time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from experiments.interconnect.figures import draw_bars
from experiments.interconnect.runs import measure_run
from experiments.interconnect.samples import Row, delivery_check, livelock_check, of_mean, performances
from experiments.interconnect.traffic import drb_point, seeds_of
from testbed.commands.studies.study import Study
from testbed.model.samples import spread
from testbed.model.verdict import Check, Verdict

NETWORK, LOAD, LINK_RATE, SECONDS = "torus:16x16", 0.2, 2e9 / (512 * 8), 0.008
LETTER: dict[str, Any] = {"hysteresis": False, "averaging": 1}
VARIANTS: dict[str, dict[str, Any]] = {
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
DEFAULT, OFF = "Thl 4 (default)", "off"


def points(quick: bool, seed: int) -> list[dict[str, Any]]:
    """Every variant with three failures half-way and without, the same seeds in all."""
    seeds = list(seeds_of(seed, quick))[: 2 if quick else 5]
    chosen = {"rate": LOAD * LINK_RATE, "seconds": SECONDS / (8 if quick else 1)}
    return [
        drb_point(NETWORK, "uniform", s, quick=True, faults=n, fault_kind="half", options=options, **chosen)
        for name, options in VARIANTS.items()
        if not quick or name in (OFF, "the letter, Thl 2", DEFAULT, "destination notifies", "notifications reused")
        for n in (0, 3)
        for s in seeds
    ]


def judge(rows: Sequence[Row]) -> Verdict:
    """Hysteresis keeps metapaths from coming and going; balancing costs little without failures; reuse saves escapes."""
    table = _table(rows)
    letter, default = table["the letter, Thl 2"], table[DEFAULT]
    back = [row["shrunk"] / max(row["grown"], 1) for row in default[0]]
    rival = spread([row["shrunk"] / max(row["grown"], 1) for row in letter[0]])[0]
    cost = [
        100.0 * (a["latency_later_s"] / b["latency_later_s"] - 1.0)
        for a, b in zip(default[0], table[OFF][0], strict=True)
    ]
    dear = spread(
        [
            100.0 * (a["latency_later_s"] / b["latency_later_s"] - 1.0)
            for a, b in zip(letter[0], table[OFF][0], strict=True)
        ]
    )[0]
    reused = [
        100.0 * (1.0 - a["escaped_share"] / b["escaped_share"])
        for a, b in zip(table["notifications reused"][3], default[3], strict=True)
    ]
    checks = (
        delivery_check(rows),
        livelock_check(rows),
        Check.at_most(
            "paths given up again over paths taken into use, without failures",
            0.05,
            spread(back)[0],
            **of_mean(back, {"rival": rival, "rival_is": "Algorithm 3.3 to the letter, Thl 2"}),
        ),
        Check.at_most(
            "what load balancing costs without failures (% of latency)",
            2.0,
            spread(cost)[0],
            **of_mean(cost, {"rival": dear, "rival_is": "Algorithm 3.3 to the letter, Thl 2"}),
        ),
        Check.at_least(
            "escapes that the reuse of notifications saves (%)",
            10.0,
            spread(reused)[0],
            **of_mean(reused, {"rival": 0.0, "rival_is": "none", "stated": "an improvement (3.6.1), without a number"}),
        ),
    )
    return Verdict(checks=checks, notes=tuple(_told(name, found) for name, found in table.items()))


def _table(rows: Sequence[Row]) -> dict[str, dict[int, list[Row]]]:
    """Variant -> number of failures -> runs in order of seed."""
    found: dict[str, dict[int, list[Row]]] = {}
    for row in rows:
        name = next(name for name, options in VARIANTS.items() if options == row["options"])
        found.setdefault(name, {}).setdefault(row["faults"], []).append(row)
    return found


def _told(name: str, found: Mapping[int, Sequence[Row]]) -> str:
    """A variant in words: latency of the second half, changes of metapaths, phases, reaction."""

    def mean(faults: int, field: str) -> float:
        return spread([float(row[field]) for row in found[faults]])[0]

    pairs = performances([*found[0], *found[3]], lambda row: row["faults"], "latency_later_s")[3]
    return (
        f"{name}: latency {1e6 * mean(0, 'latency_later_s'):.2f} us without failures, {1e6 * mean(3, 'latency_later_s'):.2f} with "
        f"three ({spread(pairs)[0]:.1f} +- {spread(pairs)[1]:.1f} %); paths came {mean(0, 'grown'):.0f} and went "
        f"{mean(0, 'shrunk'):.0f} times without failures; after the failure {100 * mean(3, 'escaped_share'):.2f} % of the messages "
        f"escaped and {100 * mean(3, 'diverted_share_last'):.2f} % were sent over other paths in the last quarter; messages that escaped were made "
        f"{mean(3, 'reaction_us'):.0f} us after the failure on average; {mean(3, 'acks') / mean(3, 'sent'):.2f} ACKs a message"
    )


def figures(rows: Sequence[Row]) -> Mapping[str, Any]:
    """Latency and escapes by variant."""
    table = _table(rows)
    latency = {
        words: {name: spread([1e6 * row["latency_later_s"] for row in found[faults]]) for name, found in table.items()}
        for faults, words in ((0, "no failures"), (3, "three failed links"))
    }
    escaped = {
        "three failed links": {
            name: spread([100.0 * row["escaped_share"] for row in found[3]]) for name, found in table.items()
        }
    }
    title = f"{NETWORK} at {LOAD} of a link a node"
    return {
        "latency": draw_bars(f"{title}: latency of the second half", latency, y_label="mean latency (us)", low=7.0),
        "escapes": draw_bars(f"{title}: escapes", escaped, y_label="escaped after the failure (% of messages)"),
    }


STUDY = Study.of_module(
    __name__,
    name="interconnect_balance",
    title="Thl, Tol and the alternatives of section 3.6: what they change at 0.2 of a link a node",
    deviations=(
        "Five seeds, 8 ms, one load, uniform traffic: the document compares the alternatives in words.",
        "Hysteresis and averages are ours; Algorithm 3.3 to the letter stands beside them.",
    ),
    does="latency, changes of metapaths, escapes and reaction time under FT-DRB's parameters and alternatives, 16x16 torus",
    answers="Zarza 2011, Algorithm 3.3 and section 3.6 (Tables 3.1, 3.2): no numbers are given there",
    measure=measure_run,
)
