"""Rows of interconnect studies put together: performance against the run without failures, means and their intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Unpack

from testbed.model.samples import Row, grouped, spread
from testbed.model.verdict import Check, Evidence

RUN_KEYS = ("network", "pattern", "seed", "seconds", "rate", "bytes", "routing", "deadlock")
"""What a run without failures depends on."""
COUNTED = "none: packets are counted"


def performances(rows: Sequence[Row], label: Callable[[Row], Any], field: str = "latency_s") -> dict[Any, list[float]]:
    """100 * L0 / Lf of every run with failures, by label; L0: the run of the same seed without (Zarza 2011, 5.4.2).

    ``field``: which latency, that of all messages or of those made in the second half of the run ("latency_later_s").
    """
    whole = {_run_key(row): row[field] for row in rows if row["faults"] == 0}
    kept = [row for row in rows if row[field] and whole.get(_run_key(row)) is not None]
    return grouped(kept, label, lambda row: 100.0 * whole[_run_key(row)] / row[field])


def of_failures(rows: Sequence[Row], label: Callable[[Row], Any], field: str = "latency_s") -> dict[Any, list[float]]:
    """``performances`` of the runs with failures alone."""
    found = performances(rows, lambda row: (label(row),) if row["faults"] else (), field)
    return {key[0]: values for key, values in found.items() if key}


def delivery_check(rows: Sequence[Row]) -> Check:
    """Sent = received in every run, none deadlocked."""
    sent, received = sum(row["sent"] for row in rows), sum(row["received"] for row in rows)
    stuck = sum(bool(row["deadlocked"]) for row in rows)
    lost = [row for row in rows if row["sent"] != row["received"]]
    check = Check(
        name="sent = received in every run",
        predicted=float(sent),
        measured=float(received),
        tolerance=0.0,
        passed=not lost and not stuck,
        detail=f"{len(rows)} runs, {stuck} deadlocked",
        rival_note=COUNTED,
    )
    return check.of(sent + len(lost) + stuck, "nothing was sent")


def safety_checks(rows: Sequence[Row]) -> list[Check]:
    """Everything arrives, and nothing circles."""
    return [delivery_check(rows), livelock_check(rows)]


def livelock_check(rows: Sequence[Row]) -> Check:
    """No packet crossed more links than the cap (they travel on and arrive; a cap is no loss)."""
    circling, sent = sum(row.get("livelocked", 0) for row in rows), sum(row["sent"] for row in rows)
    check = Check.equal(
        "packets beyond the hop cap of sixteen diameters",
        0.0,
        float(circling),
        rival_is=COUNTED,
        detail=f"{sum(bool(row.get('livelocked')) for row in rows)} of {len(rows)} runs, {sent} packets",
    )
    return check.of(sent + circling, "nothing was sent")


def at_least(name: str, claimed: float, values: Sequence[float], **evidence: Unpack[Evidence]) -> Check:
    """A check that the mean is not below what is claimed, with its interval; the detail tells the number of runs."""
    return Check.at_least(name, claimed, spread(values)[0], **of_mean(values, evidence))


def at_most(name: str, claimed: float, values: Sequence[float], **evidence: Unpack[Evidence]) -> Check:
    """A check that the mean is not above what is claimed, as ``at_least``."""
    return Check.at_most(name, claimed, spread(values)[0], **of_mean(values, evidence))


def equal(
    name: str, claimed: float, values: Sequence[float], *, tolerance: float, **evidence: Unpack[Evidence]
) -> Check:
    """A check that the mean is what is claimed, within the tolerance, as ``at_least``."""
    return Check.equal(name, claimed, spread(values)[0], tolerance=tolerance, **of_mean(values, evidence))


def stands_still(
    figure: str, share: float, short: Sequence[float], own: Sequence[float], doubled: Sequence[float], *, may: float
) -> Check:
    """A check that a figure's mean moves by ``may`` at most when the simulated time of its runs is doubled; all of the same seeds.

    Its rival is how far the mean moves from that ``share`` of the time.
    """  # fmt: skip
    differences = [b - a for a, b in zip(own, doubled, strict=True)]
    sign = math.copysign(1.0, spread(differences)[0])
    return at_most(
        f"{figure} moves so much when the time is doubled",
        may,
        [sign * moved for moved in differences],
        rival=abs(spread(own)[0] - spread(short)[0]),
        rival_is=f"as from {share:g} of the time",
        detail=f"from {spread(own)[0]:.4g} to {spread(doubled)[0]:.4g}",
    )


def of_mean(values: Sequence[float], evidence: Evidence) -> Evidence:
    """The evidence, with the uncertainty of the values' mean (none of a single value) and how many there are."""
    runs = ", ".join(filter(None, (f"{len(values)} runs", evidence.get("detail", ""))))
    return {**evidence, "uncertainty": spread(values)[1] if len(values) > 1 else None, "detail": runs}


def _run_key(row: Row) -> tuple[Any, ...]:
    return tuple(row.get(name) for name in RUN_KEYS)
