"""The gain of equations 12 and 13 in the construction of a liquid schedule.

The equations restrict the candidates for the next frame:

- Equation 11: the remaining teams of the complete traffic.
- Equation 12: the teams of the reduced traffic, which has more bottlenecks.
- Equation 13: only the full teams of the reduced traffic.

The document says that each restriction speeds up the construction, but gives no figure.
"""

import statistics
import time
from collections.abc import Callable
from dataclasses import replace

from experiments.liquid.rows import ratios
from experiments.liquid.swiss_t1_traffic import draw_times, pattern_points, traffic_of
from testbed.model.studies import Check, Claim, Figures, Points, Results, Row, Rows, Study, Verdict
from testbed.scheduling.exact.exact_search import ExactOptions, search_exactly

# Processor time after which a search is stopped.
LIMIT_S = 0.5

# The document's search: without the improvements of ours.
OURS_OFF = ExactOptions(anchored=False, remembered=False, scarce_first=False, restarts=False)

# Equation: whether the traffic is reduced, and whether teams must be full.
CHOICES = {"eq11": (False, False), "eq12": (True, False), "eq13": (True, True)}
NAMES = {
    "eq11": "teams of the whole traffic (equation 11)",
    "eq12": "teams of the reduced traffic (equation 12)",
    "eq13": "full teams of the reduced traffic (equation 13)",
}

# The document says "considerably" faster. We require this factor.
MIN_GAIN = 2.0


def points(quick: bool, seed: int) -> Points:
    """Return one point per pattern."""
    return pattern_points(quick, limit_s=LIMIT_S, seed=seed)


def measure(point: Row) -> Results:
    """Return the processor time with each equation, and whether a liquid schedule was found."""
    paths = traffic_of(point["allocation"]).paths()
    results: Results = {}
    for choice, (reduced, full) in CHOICES.items():
        start_s = time.process_time()
        result = search_exactly(
            paths,
            options=replace(OURS_OFF, reduced=reduced, full=full),
            seed=point["seed"],
            expired=_expiry(start_s + point["limit_s"]),
        )
        results[f"{choice}_s"] = time.process_time() - start_s
        results[f"{choice}_liquid"] = result.proved == "liquid"
    return results


def _expiry(end_s: float) -> Callable[[], bool]:
    """Return a function that returns whether the process has used this much processor time."""
    return lambda: time.process_time() >= end_s


def judge(rows: Rows) -> Verdict:
    """Compare the times and the solved patterns with those of the previous equation."""
    checks = (
        _gain_check(rows, "eq11", "eq12"),
        _solved_check(rows, "eq11", "eq12"),
        _gain_check(rows, "eq12", "eq13"),
        _solved_check(rows, "eq12", "eq13"),
    )
    return Verdict.of(checks)


def _solved(rows: Rows, choice: str) -> int:
    """Return the number of patterns that are solved with an equation."""
    return len([row for row in rows if row[f"{choice}_liquid"]])


def _gain_check(rows: Rows, before: str, after: str) -> Check:
    """Check the gain of an equation over the previous one, on patterns that one of them solves."""
    solved = [row for row in rows if row[f"{before}_liquid"] or row[f"{after}_liquid"]]
    gains = ratios(solved, f"{before}_s", f"{after}_s")
    times = f"time by equation {before[2:]} over time by equation {after[2:]}"
    return (
        Claim(f"{times}, median of the {len(gains)} patterns that one of them solves")
        .at_least(MIN_GAIN, statistics.median(gains))
        .cites("sped up considerably, sections 3.7.3 and 3.7.4")
        .against(1.0, "nothing gained")
        .noting("a search that ran out of time counts with its limit")
    )


def _solved_check(rows: Rows, before: str, after: str) -> Check:
    name = (
        f"patterns solved by equation {after[2:]} and not by equation {before[2:]}, "
        "less the reverse"
    )
    return (
        Claim(name)
        .at_least(1, _solved(rows, after) - _solved(rows, before))
        .cites("sped up considerably, sections 3.7.3 and 3.7.4")
        .against(0, "as many")
    )


def figures(rows: Rows) -> Figures:
    """Draw the times by pattern. Patterns without a schedule in time have series of their own."""
    title = "What the restrictions of the choice buy (equations 11 to 13)"
    labels = {}
    for choice, name in NAMES.items():
        labels[choice] = f"{name}: {_solved(rows, choice)} of {len(rows)}"
    return {"restrictions": draw_times(rows, title, labels)}


STUDY = Study.of_module(
    __name__,
    timed=True,
    name="liquid_restrictions",
    title="What equations 12 and 13 buy in the construction of a liquid schedule",
    answers="Gabrielyan 2007, sections 3.7.3 and 3.7.4, equations 11 to 15: "
    "each restriction speeds the construction up considerably",
    deviations=(
        "the document gives no factor: twice as fast is taken for considerably",
        "a search is stopped after 0.5 s of processor",
    ),
)
