"""The published runs of the interconnect studies, spoilt as their rivals say: each verdict must fail where it was
spoilt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import pytest

from testbed.commands.studies.experiment import known_experiment
from testbed.model.verdict import Check, Verdict
from tests.helpers.study_rows import Rows, published

Row = dict[str, Any]
Spoil = Callable[[Row], dict[str, Any]]


@cache
def rows_of(name: str) -> Rows:
    return published(f"interconnect_{name}")


@cache
def judge_of(name: str) -> Callable[[Rows], Verdict]:
    judge: Callable[[Rows], Verdict] = known_experiment(f"interconnect_{name}").judge
    return judge


@cache
def checks_of(name: str) -> tuple[Check, ...]:
    """Of the published run as it is."""
    return tuple(judge_of(name)(rows_of(name)).checks)


def slower(factor: float, which: Callable[[Row], bool] = lambda row: row["faults"] > 0) -> Spoil:
    fields = ("latency_s", "latency_later_s")
    return lambda row: (
        {name: factor * row[name] for name in fields if row.get(name)} if which(row) else {}
    )


def of_part(part: str, **changes: Any) -> Spoil:
    return lambda row: changes if row["part"] == part else {}


def lost(row: Row) -> dict[str, Any]:
    return {"received": row["received"] - 1} if row["deadlock"] == "nac" else {}


def stays_high(row: Row) -> dict[str, Any]:
    return (
        {"latency_after_us": row["latency_before_us"] + row["rise_us"]} if "rise_us" in row else {}
    )


def later_with_the_rate(row: Row) -> dict[str, Any]:
    return {"deadlocked": True, "deadlock_s": 1e-9 * row["rate"]} if row["part"] == "sweep" else {}


def no_burst(row: Row) -> dict[str, Any]:
    return {"deadlocked": False} if row["part"] == "burst" and row["deadlock"] == "none" else {}


def no_path_more(row: Row) -> dict[str, Any]:
    return {"latency_s": 1e-5} if row["rate"] > 400.0 else {}


def few_paths_slow(row: Row) -> dict[str, Any]:
    return slower(1.1, lambda r: r["paths"] == 1 and r["rate"] == 400.0)(row)


def as_permanent(row: Row) -> dict[str, Any]:
    return slower(1.2, lambda r: r["fault_kind"] == "transient")(row)


def of_nac(row: Row, name: str, value: int) -> dict[str, Any]:
    return {"nac": row["nac"] | {name: value}} if row["nac"] else {}


def moved_later(*, anew: bool, by_tf: float) -> Spoil:
    """Of the worst cases of NAC's times: all moves of packets later by so many t_f."""
    return lambda row: (
        {"moves_tf": [at + by_tf for at in row["moves_tf"]]}
        if row["part"] == "worst" and row["anew"] == anew
        else {}
    )


def with_nac(field: str, value: Any) -> Spoil:
    return lambda row: {field: value} if row["avoidance"] == "nac" else {}


def diverting(row: Row) -> bool:
    """With failures, and sources that divert what is sent past them."""
    return row["faults"] > 0 and not row["options"]


def in_twice_the_time(row: Row) -> bool:
    """Of studies that double their time, or that of others: in twice the time."""
    return bool(row.get("share") == 2.0)


def failed_in_twice_the_time(row: Row) -> bool:
    return in_twice_the_time(row) and row["faults"] > 0


def default_in_the_longest_time(row: Row) -> bool:
    return bool(row.get("share") == 8.0) and not row["options"]


def ft_drb_in_twice_the_time(row: Row) -> bool:
    return in_twice_the_time(row) and row["routing"] == "ft-drb"


def shorter(row: Row) -> bool:
    """Of the study near saturation: with failures, in the shorter of the two lengths."""
    return bool("part" not in row and row["faults"] and row["seconds"] == 0.008)


def apart_by(factor: float, share: float, routing: str | None = None) -> Spoil:
    """Of the study beside BookSim2: our latencies at that share of saturation, of one routing or all, so much
    higher."""

    def spoil(row: Row) -> dict[str, Any]:
        mine = row["part"] == "latency" and row["model"] == "booksim" and row["share"] == share
        return (
            {"latency_cycles": factor * row["latency_cycles"]}
            if mine and routing in (None, row["routing"])
            else {}
        )

    return spoil


def saturates_later(row: Row) -> dict[str, Any]:
    return (
        {"load": 1.1 * row["load"]}
        if row["part"] == "saturation" and row["model"] == "booksim"
        else {}
    )


def is_default(row: Row) -> bool:
    return not row["options"]


def not_reused(row: Row) -> dict[str, Any]:
    """As many escapes as where notifications are not reused, in the run of the same seed and length."""
    same = ("seed", "faults", "share")
    alike = [
        o
        for o in rows_of("balance")
        if is_default(o) and all(o[name] == row[name] for name in same)
    ]
    return (
        {"escaped_share": alike[0]["escaped_share"]}
        if row["options"] == {"reuse_notifications": True}
        else {}
    )


CASES: list[tuple[str, str, Spoil]] = [
    (
        "booksim",
        "messages undelivered",
        lambda row: {"received": row["received"] - 1} if "sent" in row else {},
    ),
    ("booksim", "at 30% of saturation", apart_by(1.04, 0.3)),
    ("booksim", "at 70% of saturation", apart_by(1.1, 0.7)),
    ("booksim", "at 90% of saturation, apart from BookSim2's: the mean", apart_by(1.3, 0.9)),
    ("booksim", "over how far from BookSim2 without", apart_by(1.3, 0.9)),
    (
        "booksim",
        "load at saturation (mean latency of 500 cycles), apart from BookSim2's: the mean",
        saturates_later,
    ),
    ("booksim", "Valiant: mean latency", apart_by(1.2, 0.7, "valiant")),
    ("nac", "at the stated rates", of_part("stated", deadlocked=True)),
    ("nac", "within 100 ms", of_part("sweep", deadlocked=False, deadlock_s=None)),
    ("nac", "the higher the rate", later_with_the_rate),
    ("nac", "every packet is delivered", lost),
    ("nac", "a burst in phase", no_burst),
    ("nac", "latency returns", stays_high),
    ("nac_traffic", "every packet is delivered", lost),
    ("nac_traffic", "slots after the treatment", stays_high),
    (
        "nac_traffic",
        "packets of the run that are late",
        lambda row: {"throughput_dip_percent": 41.0},
    ),
    ("nac_traffic", "over the latency before", lambda row: {"rise_us": 3.0 * row["rise_us"]}),
    ("shapes", "performance, 100 L0 / Lf (%)", slower(1.06)),
    ("shapes", "sent = received", lambda row: {"received": row["received"] - 1}),
    ("collectives", "performance at the worst number of failed links (%)", slower(1.05)),
    ("permanent", "transpose: performance at 10 % failed links (%)", slower(1.25)),
    ("permanent", "less that of escapes alone", slower(1.05, diverting)),
    ("transient", "lowest performance under transient", as_permanent),
    ("transient", "loss under transient failures over", as_permanent),
    (
        "transient",
        "loss under intermittent failures over",
        slower(1.2, lambda row: row["fault_kind"] == "intermittent"),
    ),
    ("paths", "no second path at a tenth", no_path_more),
    ("paths", "of all numbers of paths", few_paths_slow),
    ("saturation", "90 % of saturation", slower(1.5)),
    ("saturation", "when the time is doubled", slower(1.3, shorter)),
    (
        "balance",
        "given up again over",
        lambda row: {"shrunk": row["grown"] // 2} if is_default(row) else {},
    ),
    (
        "balance",
        "costs without failures",
        slower(1.1, lambda row: is_default(row) and not row["faults"]),
    ),
    ("balance", "reuse of notifications", not_reused),
    (
        "balance",
        "for a thousand messages",
        lambda row: {"shrunk": row["sent"] // 500} if is_default(row) else {},
    ),
    (
        "balance",
        "what load balancing costs in 256 ms (% of latency) moves",
        slower(1.1, default_in_the_longest_time),
    ),
    ("balance", "performance with three failed links", slower(1.1, failed_in_twice_the_time)),
    (
        "rivals",
        "leave undelivered",
        lambda row: {"received": row["received"] - 1} if row.get("sent") else {},
    ),
    (
        "rivals",
        "over that of up*/down*",
        slower(1.1, lambda row: row["routing"] == "ft-drb" and row["faults"] > 0),
    ),
    ("rivals", "Valiant's detours", lambda row: {"latency_s": 1e-5} if row.get("sent") else {}),
    (
        "rivals",
        "FT-DRB's latency in parts of up*/down*'s moves so much when",
        slower(1.2, ft_drb_in_twice_the_time),
    ),
    (
        "saturation",
        "performance under odd-even turns (%) moves so much when",
        slower(1.2, failed_in_twice_the_time),
    ),
    (
        "saturation",
        "turn model (odd-even)",
        slower(2.0, lambda row: "part" in row and row["faults"] > 0),
    ),
    ("nac_exhaustive", "states under NAC that can never drain, ", of_part("nac", stuck=1)),
    ("nac_exhaustive", "left no state out", of_part("nac", whole=False)),
    ("nac_exhaustive", "those that deadlock without NAC", of_part("none", stuck=0)),
    ("nac_exhaustive", "NAC spoilt: heads do not ask anew", of_part("mutant", stuck=0)),
    ("nac_exhaustive", "but avoidance buffers go first", of_part("lag", stuck=640)),
    ("nac_exhaustive", "ask anew after each failure and repair", of_part("anew", stuck=1)),
    ("nac_exhaustive", "the same runs, where heads of inputs ask anew", of_part("timed", stuck=1)),
    ("routers", "in which nothing moves any more", lambda row: {"stuck_for_s": 0.0}),
    ("routers", "wait for each other in a cycle", lambda row: {"deadlock_cycle": []}),
    ("routers", "undelivered with NAC", with_nac("received", 11)),
    ("routers", "packets that NAC put aside", with_nac("nac", {"moves": 0, "identified": 0})),
    ("routers", "NAC over bubble", with_nac("seconds", 3.0)),
    ("routers", "arrived twice", lambda row: {"twice": 1}),
    (
        "nac",
        "time to identify the cycle",
        lambda row: {"first_tf": 100.0} if row["part"] == "burst" else {},
    ),
    ("nac", "one router closes the cycle, recorded", moved_later(anew=False, by_tf=50.0)),
    ("nac", "the signals' 7 hops left out", moved_later(anew=True, by_tf=-50.0)),
    (
        "nac",
        "until it is identified, the longest",
        lambda row: {"first_tf": 400.0} if row["part"] == "ring" else {},
    ),
    (
        "nac",
        "blocked inputs a packet",
        lambda row: of_nac(row, "blocked", 10**6) if row.get("slots") == 8 else {},
    ),
    (
        "nac",
        "two slots of slack over none",
        lambda row: of_nac(row, "identified", 10**5) if row.get("slack") else {},
    ),
    (
        "nac",
        "two virtual channels",
        lambda row: {"deadlocked": row["deadlock"] == "virtual-channels"},
    ),
    (
        "nac",
        "failed links less none",
        lambda row: {"deadlocked": False} if row["part"] == "torus" else {},
    ),
    ("nac", "undelivered", lambda row: {"received": row["sent"] - 1}),
    ("permanent", "from random moments on (%)", slower(1.25)),
    ("permanent", "less that of escapes alone", slower(1.05, diverting)),
    ("permanent", "loss with 4 failed links", slower(1.25, lambda row: row["faults"] == 4)),
    ("deviations", "undelivered", lambda row: {"received": row["received"] - 1}),
    (
        "deviations",
        "performance beside that without",
        lambda row: (
            {"latency_s": 1.003 * row["latency_s"]}
            if not row["whole"] and row["option"] != "as it is"
            else {}
        ),
    ),
    (
        "deviations",
        "stop_st at detection: time",
        lambda row: (
            {"last_s": 1.08 * row["last_s"]} if row["option"] == "stop_st at detection" else {}
        ),
    ),
    (
        "deviations",
        "ACKs share buffers: latency",
        lambda row: {"latency_s": 1e-3} if row["place"] == "0.6 of a link" else {},
    ),
    (
        "payloads",
        "two payloads are apart",
        slower(1.1, lambda row: row["faults"] > 0 and row["bytes"] == 256),
    ),
    (
        "payloads",
        "two injections are apart",
        slower(1.1, lambda row: row["faults"] > 0 and row["injection"] == "periodic"),
    ),
    ("payloads", "gather at the stated", slower(1.1)),
    ("traces", "averaged over the four machines", slower(1.2)),
    ("traces", "LANL machine with its repairs", slower(1.2)),
    (
        "safety",
        "costs nothing over dimension order",
        slower(1.13, lambda row: row["routing"] == "ft-drb"),
    ),
    ("safety", "over the dimension-order path", of_part("cost", alternative=10**6)),
    ("safety", "without NAC, FT-DRB", lambda row: {"deadlocked": False}),
    (
        "safety",
        "deliver every packet (runs",
        lambda row: {"deadlocked": True} if row["part"] == "deadlock" else {},
    ),
    ("safety", "moves of NAC in", of_part("deadlock", nac_moves=0)),
    ("safety", "at 0.8 of a link", of_part("torus", deadlocked=True)),
    (
        "safety",
        "notifications reused",
        lambda row: {"escapes": 10} if row["part"] == "alternatives" else {},
    ),
]
NAMED = {"no second path at a tenth": "a tenth of a link a node"}


@pytest.mark.parametrize(
    ("name", "check", "spoil"), CASES, ids=[f"{name}-{check}" for name, check, _ in CASES]
)
def test_a_published_run_that_is_spoilt_fails_where_its_rival_says(
    name: str, check: str, spoil: Spoil
) -> None:
    judge, wanted = judge_of(name), NAMED.get(check, check)
    before = {c.name: c for c in checks_of(name) if wanted in c.name}
    after = {
        c.name: c
        for c in judge([row | spoil(row) for row in rows_of(name)]).checks
        if wanted in c.name
    }
    assert before and not any(c.passed for c in after.values())
    assert any(c.passed for c in before.values()) or any(
        c.outcome == "fails" for c in after.values()
    )


def check_of_counts(checks: Sequence[Check]) -> Check:
    return next(check for check in checks if check.name == "sent = received in every run")


@pytest.mark.parametrize("changes", [
    {"escaped_share": 7.0}, {"alternative": 10**9}, {"livelocked": 10**9}, {"shrunk": 10**9, "grown": 1},
])  # fmt: skip
@pytest.mark.parametrize("name", ["paths", "permanent", "transient"])
def test_parts_of_what_was_sent_are_no_more_than_that(name: str, changes: dict[str, Any]) -> None:
    rows = rows_of(name)
    middle = len(rows) // 2
    spoilt = [row | changes if number == middle else row for number, row in enumerate(rows)]
    before = check_of_counts(checks_of(name))
    after = check_of_counts(judge_of(name)(spoilt).checks)
    assert before.passed and after.outcome == "fails"
