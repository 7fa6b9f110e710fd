"""Rows of the interconnect studies: performance with failures, and checks of means.

The performance of a run with failures is its latency beside that of the run without failures.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from testbed.model.studies import (
    Check,
    Claim,
    Row,
    Rows,
    interval,
    reader,
    spread,
    sum_of,
    where,
)
from testbed.model.studies.samples import Reader
from topologies import lists_by_key

# The fields that describe the model of a hop and the packets.
HOP_KEYS = ("switching", "router_delay_s", "seconds", "bytes", "injection")

# The fields on which a run without failures depends.
RUN_KEYS = ("network", "pattern", "seed", "rate", "routing", "deadlock", *HOP_KEYS)

# Why an exact count has no rival.
COUNTED = "none: packets are counted"


def performances(rows: Rows, label: Reader, field: str = "latency_s") -> dict[Any, list[float]]:
    """Return 100 * L0 / Lf of each run, by label (Zarza 2011, 5.4.2).

    Lf is the latency of the run, and L0 that of the run of the same seed without failures.

    Args:
        rows: Runs with and without failures.
        label: The fields of a row that are its label, or a function that returns the label.
        field: The latency: "latency_s" of all messages, or "latency_later_s" of those generated in
            the second half of the run.
    """
    read_label = reader(label)
    return lists_by_key((read_label(row), value) for row, value in _performances(rows, field))


def failure_performances(
    rows: Rows, label: Reader, field: str = "latency_s"
) -> dict[Any, list[float]]:
    """Return the ``performances`` of the runs with failures only.

    The label is not read from other rows.
    """
    read_label = reader(label)
    return lists_by_key(
        (read_label(row), value) for row, value in _performances(rows, field) if row["faults"]
    )


def _performances(rows: Rows, field: str) -> Iterator[tuple[Row, float]]:
    """Yield each run and its performance, if it and the run without failures have a latency."""
    fault_free = {_run_key(row): row[field] for row in where(rows, faults=0)}
    for row in rows:
        base = fault_free.get(_run_key(row))
        if row[field] and base is not None:
            yield row, 100.0 * base / row[field]


def _run_key(row: Row) -> tuple[object, ...]:
    return tuple(row.get(name) for name in RUN_KEYS)


def diverting(rows: Rows) -> list[Row]:
    """Return the runs with FT-DRB's default options, in which sources divert messages."""
    return [row for row in rows if not row["options"]]


def not_diverting(rows: Rows) -> list[Row]:
    """Return the runs in which sources divert no message, and the runs without failures."""
    return [row for row in rows if row["options"] or not row["faults"]]


def mean(values: Sequence[float]) -> float:
    """Return the mean of the values, or NaN if there are none."""
    return spread(values)[0]


def delivery_check(rows: Rows) -> Check:
    """Return a check that every run delivered what it sent, and that none deadlocked.

    The check also fails if a row is inconsistent: for instance, if it counts more escaped messages
    than messages.
    """
    sent = sum_of(rows, "sent")
    received = sum_of(rows, "received")
    deadlocked = sum(bool(row["deadlocked"]) for row in rows)
    circling = sum(row.get("livelocked", 0) for row in rows)
    wrong = 0
    for row in rows:
        if row["sent"] != row["received"] or _exceeds_sent(row):
            wrong += 1
    check = Claim("sent = received in every run").count(float(sent), float(received), COUNTED)
    detail = (
        f"{len(rows)} runs, {deadlocked} deadlocked; "
        f"{circling} packets crossed more than sixteen diameters of links"
    )
    check = replace(check, passed=not wrong and not deadlocked, detail=detail)
    return check.of(sent + wrong + deadlocked, "nothing was sent")


def _exceeds_sent(row: Row) -> bool:
    """Return whether a row counts more messages of some kind than messages in total."""
    shares = []
    for name, value in row.items():
        if name.endswith("_share") and value is not None:
            shares.append(value)
    for name in ("livelocked", "alternative"):
        shares.append(row.get(name, 0) / max(1, row["sent"]))
    if max(shares) > 1:
        return True
    return bool(row.get("shrunk", 0) > row.get("grown", math.inf))


def at_least(name: str, claimed: float, values: Sequence[float], detail: str = "") -> Check:
    """Return a check that the mean of runs is at least the claimed value.

    Args:
        name: Name of the check.
        claimed: The claimed value.
        values: The value of each run.
        detail: A remark, which follows the number of runs.
    """
    return Claim(name).at_least(claimed, _measured(values)).noting(_remark(values, detail))


def at_most(name: str, claimed: float, values: Sequence[float], detail: str = "") -> Check:
    """Return a check that the mean of runs is at most the claimed value, as ``at_least`` does."""
    return Claim(name).at_most(claimed, _measured(values)).noting(_remark(values, detail))


def equal(
    name: str, claimed: float, values: Sequence[float], tolerance: float, detail: str = ""
) -> Check:
    """Return a check that the mean of runs is the claimed value.

    Args:
        name: Name of the check.
        claimed: The claimed value.
        values: The value of each run.
        tolerance: How far the mean may be from the claimed value.
        detail: A remark, which follows the number of runs.
    """
    check = Claim(name).equal(claimed, _measured(values), tolerance)
    return check.noting(_remark(values, detail))


def _measured(values: Sequence[float]) -> tuple[float, float | None]:
    """Return the mean, and half its 95 % confidence interval, or None for a single value."""
    return mean(values), interval(values)


def _remark(values: Sequence[float], detail: str) -> str:
    count = f"{len(values)} runs"
    return f"{count}, {detail}" if detail else count


def stands_still(
    figure: str,
    share: float,
    shorter: Sequence[float],
    usual: Sequence[float],
    doubled: Sequence[float],
    *,
    may: float,
) -> Check:
    """Return a check that the mean of a figure stays when the simulated time is doubled.

    The rival is the difference to the mean in a shorter time. If it passes too, the check could not
    detect a figure that is not constant yet.

    Args:
        figure: Name of the figure.
        share: The shorter time, in parts of the time of the study.
        shorter: The figure's value of each run in the shorter time.
        usual: Its values in the time of the study.
        doubled: Its values in twice that time, of the same seeds.
        may: Largest accepted change of the mean.
    """
    differences = [after - before for before, after in zip(usual, doubled, strict=True)]
    direction = math.copysign(1.0, mean(differences))
    distances = [direction * difference for difference in differences]
    check = at_most(
        f"{figure} moves so much when the time is doubled",
        may,
        distances,
        f"from {mean(usual):.4g} to {mean(doubled):.4g}",
    )
    return check.against(abs(mean(usual) - mean(shorter)), f"as from {share:g} of the time")
