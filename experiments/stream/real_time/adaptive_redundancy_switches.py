"""Adaptive against fixed block sizes on real switches, under a link that goes and comes back: the same figures as in virtual time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from experiments.stream.real_time.adaptive_figures import outcome_figures
from experiments.stream.real_time.adaptive_redundancy import HOLDS_S, PATTERNS, PLAYBACK_S, sender_plan
from experiments.stream.real_time.adaptive_redundancy import measure as measure_simulated
from testbed.commands.studies.study import Study
from testbed.model.verdict import Check, Verdict

Row = Mapping[str, Any]
SENDERS = (*HOLDS_S, "fixed, at rest", "fixed, for the worst")
SLACK = 0.05
"""Of overhead, between switches and virtual time: a report that comes later raises N of a block or two more."""


def points(quick: bool, seed: int) -> list[dict[str, Any]]:
    """One link that is down half of each period, under each sender (foresight has no business on switches)."""
    periods, lasts_s = ((4.0,), 8.0) if quick else ((1.0, 8.0), 20.0)
    return [
        {"pattern": "on and off", "at": at, "sender": sender, "lasts_s": lasts_s, "seed": seed}
        for at in periods
        for sender in SENDERS
    ]


def measure(point: Mapping[str, Any], fabric: str = "emulation") -> dict[str, Any]:
    """One run on switches, repeated up to twice where the machine could not keep up, and the same in virtual time."""
    from testbed.stream.judgement.analysis import analyse
    from testbed.stream.judgement.verdict import invalid_reason
    from testbed.stream.prediction.foresight import stream_outcome
    from testbed.stream.session import open_fabric

    plan, _, _ = sender_plan(point)
    for _ in range(3):
        run = open_fabric(fabric).run(plan)
        invalid = invalid_reason(plan, run, analyse(plan, run))
        if invalid is None:
            break
    return {**asdict(stream_outcome(plan, run)), "invalid": invalid, "virtual": measure_simulated(point)}


def judge(rows: Sequence[Row]) -> Verdict:
    """Overhead as in virtual time; the adaptive sender late with at most a tenth of what N at rest is late with."""
    checks = []
    for row in rows:
        low, high = row["virtual"]["answers"] if row["sender"] in HOLDS_S else (0, 0)
        tolerance = SLACK + (high - low) / row["virtual"]["m"]
        name = f"{row['sender']}, period {row['at']:g} s"
        checks.append(
            Check.equal(
                f"overhead on switches against virtual time, {name}",
                row["virtual"]["overhead"],
                row["overhead"],
                tolerance=tolerance,
                detail=f"the losses it cannot tell apart call for N from {low} to {high}; " * (row["sender"] in HOLDS_S)
                + f"late {100 * row['late']:.2f} %, in virtual time {100 * row['virtual']['late']:.2f} %",
            )
        )
    for at in dict.fromkeys(row["at"] for row in rows):
        own = {row["sender"]: row for row in rows if row["at"] == at}
        adaptive, still = own["adaptive"], own["fixed, at rest"]
        checks.append(
            Check(
                name=f"source packets late or lost, adaptive over fixed at rest, period {at:g} s",
                predicted=None,
                measured=adaptive["late"] / still["late"] if still["late"] else None,
                tolerance=0.1,
                passed=0 < still["late"] >= 10 * adaptive["late"],
            )
        )
        times = adaptive["first_decode_s"]
        worst = max((t for t in times if t is not None), default=float("inf"))
        checks.append(
            Check(
                name=f"from a failure to the first block that decodes, adaptive, period {at:g} s, worst, s",
                predicted=None,
                measured=worst,
                tolerance=PLAYBACK_S,
                passed=None not in times and worst <= PLAYBACK_S,
                detail=f"{len(times)} failures",
            )
        )
    reasons = [row["invalid"] for row in rows if row["invalid"]]
    return Verdict(checks=tuple(checks), invalid="; ".join(reasons) or None)


STUDY = Study.of_module(
    __name__,
    name="adaptive_redundancy_switches",
    does="redundancy spent and packets lost while a link goes and comes back, adaptive and fixed senders, on real switches",
    answers="the study of adaptive redundancy on the fabric, held against virtual time",
    figures=lambda rows: outcome_figures(rows, PATTERNS, SENDERS),
    emulation=True,
)
