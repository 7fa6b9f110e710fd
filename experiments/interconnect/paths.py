"""Does the number of alternative paths matter to FT-DRB (Zarza 2011, 5.6.6, Figure 5.39)?

A 16x16 torus with ten links failed from the start, 1 to 5 paths, six patterns; and two of them at a load where queues
exist.
"""

from collections.abc import Mapping, Sequence

from experiments.interconnect.figures import LATENCY
from experiments.interconnect.runs import measure_run
from experiments.interconnect.samples import at_least, delivery_check
from experiments.interconnect.study_points import SYNTHETIC, drb_points, seeds_of
from testbed.model.studies import (
    Check,
    Claim,
    Figures,
    Points,
    Results,
    Rows,
    Study,
    Verdict,
    grouped,
    spread,
)
from testbed.report.drawing.charts import draw_lines

NETWORK = "torus:16x16"
FALLING = ("bit-reversal", "butterfly")
SEEN = 1.0
"""Per cent of latency: a fall of less is none that a figure shows."""
LOADED = 0.1 * 2e9 / (512 * 8)
"""Messages a second a node of the second set, a tenth of a link; the thesis' 400 are 0.08 %."""
LOADED_S = 0.004
UNIFORM_S = 3.0
"""Of a full run of uniform traffic: ten failed links are known sooner than a tenth of all."""


def points(quick: bool, seed: int) -> Points:
    """1 to 5 paths by pattern, ten links failed from the start; those that fall with a loaded network besides."""
    seeds = seeds_of(seed, quick)
    found = []
    for pattern in ("uniform", "bit-reversal") if quick else SYNTHETIC:
        full_s = UNIFORM_S if pattern == "uniform" else None
        for paths in (1, 4) if quick else (1, 2, 3, 4, 5):
            ten: Results = {"faults": 10, "fault_kind": "start", "paths": paths}
            found += drb_points(NETWORK, pattern, seeds, quick=quick, full_s=full_s, **ten)
            if pattern in FALLING:
                ten |= {"rate": LOADED, "seconds": LOADED_S}
                found += drb_points(NETWORK, pattern, seeds, quick=quick, **ten)
        found += drb_points(NETWORK, pattern, seeds, quick=quick, full_s=full_s)
    return found


def judge(rows: Rows) -> Verdict:
    """Sent = received; latency flat in the number of paths; bit reversal and butterfly fall, or do not rise."""
    checks = [delivery_check(rows)]
    stated = _latencies(rows, loaded=False)
    single = [spread(line[min(line)])[0] for line in stated.values()]
    for pattern, line in stated.items():
        means = [spread(values)[0] for values in line.values()]
        checks.append(
            Claim(
                f"{pattern}: latency between the least and the most of all numbers of paths (% apart)"
            )
            .equal(0.0, 100.0 * (max(means) - min(means)) / min(means), 2.0)
            .cites("no significant changes (5.6.6)")
            .against(
                100.0 * (max(single) - min(single)) / min(single),
                "as far apart as the patterns are",
            )
        )
    for loaded in (False, True):
        lines = _latencies(rows, loaded=loaded)
        checks += [
            _fall(pattern, lines[pattern], loaded) for pattern in FALLING if pattern in lines
        ]
    return Verdict.of(checks)


def _fall(pattern: str, line: Mapping[int, Sequence[float]], loaded: bool) -> Check:
    """Whether latency falls from the fewest paths to the most, run by run (the same seed fails the same links)."""
    falls = [
        100.0 * (few - many) / few
        for few, many in zip(line[min(line)], line[max(line)], strict=True)
    ]
    load = "a tenth of a link a node" if loaded else "400 packets/s a node"
    detail = "" if loaded else "nothing queues: a metapath that is never too slow keeps one path"
    check = at_least(
        f"{pattern}, {load}: latency falls from 1 path to {max(line)} (%)", SEEN, falls, detail
    )
    return check.cites("a downward trend (5.6.6)").against(0.0, "no fall")


def figures(rows: Rows) -> Figures:
    """5.39: latency over the number of alternative paths."""
    titles = {
        "5.39": "latency by number of alternative paths",
        "5.39-loaded": "each node offers a tenth of a link",
    }
    drawn = {}
    for (number, words), loaded in zip(titles.items(), (False, True), strict=True):
        lines = _latencies(rows, loaded=loaded).items()
        samples = {
            (pattern, paths): values for pattern, line in lines for paths, values in line.items()
        }
        title = f"{NETWORK}, ten failed links{':' if not loaded else ','} {words}"
        drawn[number] = draw_lines(title, samples, x="alternative paths", y=LATENCY)
    return drawn


def _latencies(rows: Rows, *, loaded: bool) -> dict[str, dict[int, list[float]]]:
    """Pattern -> number of paths -> latency of each run (us)."""
    failed = [row for row in rows if row["faults"] and (row["rate"] == LOADED) == loaded]
    by_pattern = grouped(failed, "pattern", None)
    return {
        pattern: grouped(mine, "paths", lambda row: 1e6 * row["latency_s"])
        for pattern, mine in by_pattern.items()
    }


STUDY = Study.of_module(
    __name__,
    name="interconnect_paths",
    title="One to five alternative paths with ten failed links",
    deviations=(
        "1.5 s a run (uniform 3 s, --quick 0.15 s), messages at random (Poisson), payloads of 512 bytes only.",
        "Two patterns also at a tenth of a link, 4 ms: at the stated rate nothing queues, no second path opens.",
    ),
    answers="Zarza 2011, Figure 5.39: flat; bit reversal and butterfly fall",
    measure=measure_run,
)
