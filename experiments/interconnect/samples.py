"""Rows of interconnect studies put together: performance against the run without failures, means and their
intervals."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from testbed.model.studies import (
    Check,
    Claim,
    Row,
    Rows,
    grouped,
    interval,
    reader,
    spread,
    sum_of,
    where,
)
from testbed.model.studies.samples import Reader

HOP_KEYS = ("switching", "router_delay_s", "seconds", "bytes", "injection")
RUN_KEYS = ("network", "pattern", "seed", "rate", "routing", "deadlock", *HOP_KEYS)
"""What a run without failures depends on."""
COUNTED = "none: packets are counted"


def performances(rows: Rows, label: Reader, field: str = "latency_s") -> dict[Any, list[float]]:
    """100 * L0 / Lf of every run with failures, by label; L0: the run of the same seed without (Zarza 2011, 5.4.2).

    ``field``: which latency, that of all messages or of those made in the second half of the run ("latency_later_s").
    """
    whole = {_run_key(row): row[field] for row in where(rows, faults=0)}
    retained = [row for row in rows if row[field] and whole.get(_run_key(row)) is not None]
    return grouped(retained, label, lambda row: 100.0 * whole[_run_key(row)] / row[field])


def of_failures(rows: Rows, label: Reader, field: str = "latency_s") -> dict[Any, list[float]]:
    """``performances`` of the runs with failures alone."""
    read = reader(label)
    found = performances(rows, lambda row: (read(row),) if row["faults"] else (), field)
    return {key[0]: values for key, values in found.items() if key}


def delivery_check(rows: Rows) -> Check:
    """Sent = received in every run, none deadlocked; parts of what was sent are no more than that."""
    sent, received = sum_of(rows, "sent"), sum_of(rows, "received")
    stuck = sum(bool(row["deadlocked"]) for row in rows)
    lost = [row for row in rows if row["sent"] != row["received"] or _more_than_all(row)]
    check = Claim("sent = received in every run").count(float(sent), float(received), COUNTED)
    circled = sum(row.get("livelocked", 0) for row in rows)
    said = f"{len(rows)} runs, {stuck} deadlocked; {circled} packets crossed more than sixteen diameters of links"
    check = replace(check, passed=not lost and not stuck, detail=said)
    return check.of(sent + len(lost) + stuck, "nothing was sent")


def _more_than_all(row: Row) -> bool:
    shares = [value for key, value in row.items() if key.endswith("_share") and value is not None]
    parts = [row.get(name, 0) / max(1, row["sent"]) for name in ("livelocked", "alternative")]
    return bool(max((*shares, *parts)) > 1 or row.get("shrunk", 0) > row.get("grown", math.inf))


def at_least(name: str, claimed: float, values: Sequence[float], detail: str = "") -> Check:
    """A check that the mean is not below what is claimed, with its interval; the detail tells the number of runs,
    too."""
    return Claim(name).at_least(claimed, _mean(values)).noting(_runs(values, detail))


def at_most(name: str, claimed: float, values: Sequence[float], detail: str = "") -> Check:
    """A check that the mean is not above what is claimed, as ``at_least``."""
    return Claim(name).at_most(claimed, _mean(values)).noting(_runs(values, detail))


def equal(
    name: str, claimed: float, values: Sequence[float], tolerance: float, detail: str = ""
) -> Check:
    """A check that the mean is what is claimed, within the tolerance, as ``at_least``."""
    return Claim(name).equal(claimed, _mean(values), tolerance).noting(_runs(values, detail))


def _mean(values: Sequence[float]) -> tuple[float, float | None]:
    """With its uncertainty (none of a single value)."""
    return spread(values)[0], interval(values)


def _runs(values: Sequence[float], detail: str) -> str:
    return ", ".join(filter(None, (f"{len(values)} runs", detail)))


def stands_still(
    figure: str,
    share: float,
    short: Sequence[float],
    own: Sequence[float],
    doubled: Sequence[float],
    *,
    may: float,
) -> Check:
    """A check that a figure's mean moves by ``may`` at most when the simulated time of its runs is doubled; all of the
    same seeds.

    Its rival is how far the mean moves from that ``share`` of the time.
    """
    differences = [b - a for a, b in zip(own, doubled, strict=True)]
    sign, (first, at, last) = (
        math.copysign(1.0, spread(differences)[0]),
        (spread(v)[0] for v in (short, own, doubled)),
    )
    moved = [sign * difference for difference in differences]
    check = at_most(
        f"{figure} moves so much when the time is doubled",
        may,
        moved,
        f"from {at:.4g} to {last:.4g}",
    )
    return check.against(abs(at - first), f"as from {share:g} of the time")


def _run_key(row: Row) -> tuple[object, ...]:
    return tuple(map(row.get, RUN_KEYS))
