"""Does the number of alternative paths matter to FT-DRB (Zarza 2011, 5.6.6, Figure 5.39)?

A 16x16 torus with ten links failed from the start, 1 to 5 paths, six patterns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from experiments.interconnect.figures import draw_lines
from experiments.interconnect.runs import measure_run
from experiments.interconnect.samples import Row, at_least, delivery_check, livelock_check, performances
from experiments.interconnect.traffic import SYNTHETIC, drb_point, seeds_of
from testbed.commands.studies.study import Study
from testbed.model.samples import spread
from testbed.model.verdict import Check, Verdict

NETWORK = "torus:16x16"
FALLING = ("bit-reversal", "butterfly")


def points(quick: bool, seed: int) -> list[dict[str, Any]]:
    """1 to 5 paths by pattern, ten links failed from the start."""
    seeds = seeds_of(seed, quick)
    found = []
    for pattern in ("uniform", "bit-reversal") if quick else SYNTHETIC:
        for paths in (1, 4) if quick else (1, 2, 3, 4, 5):
            ten = {"faults": 10, "fault_kind": "start", "paths": paths}
            found += [drb_point(NETWORK, pattern, s, quick=quick, **ten) for s in seeds]
        found += [drb_point(NETWORK, pattern, s, quick=quick) for s in seeds]
    return found


def judge(rows: Sequence[Row]) -> Verdict:
    """Sent = received; latency flat in the number of paths; bit reversal and butterfly fall, or do not rise."""
    checks = [delivery_check(rows), livelock_check(rows)]
    for pattern, line in _latencies(rows).items():
        means = {paths: spread(values)[0] for paths, values in line.items()}
        low, high = min(means.values()), max(means.values())
        change = 100.0 * (high - low) / low
        checks.append(
            Check(
                name=f"{pattern}: latency hardly depends on the number of paths (% between least and most)",
                predicted=0.0,
                measured=change,
                tolerance=2.0,
                passed=change <= 2.0,
            )
        )
        if pattern in FALLING:
            fall = 100.0 * (means[min(means)] - means[max(means)]) / means[min(means)]
            checks.append(
                Check(
                    name=f"{pattern}: latency falls from 1 path to {max(means)} (%)",
                    predicted=0.0,
                    measured=fall,
                    tolerance=None,
                    passed=fall > 0,
                    detail="at 400 packets/s nothing queues: a metapath that is never too slow keeps one path",
                )
            )
    performance = [v for values in performances(rows, lambda row: row["pattern"]).values() for v in values]
    checks.append(at_least("mean performance with ten failed links (%)", 95.0, [p for p in performance if p != 100.0]))
    return Verdict(checks=tuple(checks))


def figures(rows: Sequence[Row]) -> Mapping[str, Any]:
    """5.39: latency over the number of alternative paths."""
    lines = {p: {float(n): spread(v) for n, v in line.items()} for p, line in _latencies(rows).items()}
    return {
        "5.39": draw_lines(
            f"{NETWORK}, ten failed links: latency by number of alternative paths", lines,
            x_label="alternative paths", y_label="mean latency (us)",
        )
    }  # fmt: skip


def _latencies(rows: Sequence[Row]) -> dict[str, dict[int, list[float]]]:
    found: dict[str, dict[int, list[float]]] = {}
    for row in rows:
        if row["faults"]:
            found.setdefault(row["pattern"], {}).setdefault(row["paths"], []).append(1e6 * row["latency_s"])
    return found


STUDY = Study.of_module(
    __name__,
    name="interconnect_paths",
    does="latency on a 16x16 torus with ten failed links and 1 to 5 alternative paths, six patterns",
    answers="Zarza 2011, Figure 5.39: flat; bit reversal and butterfly fall",
    measure=measure_run,
)
