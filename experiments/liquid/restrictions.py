"""What equations 12 and 13 buy: the construction of a liquid schedule with each choice of candidates for the next
frame.

Equation 11 takes the teams of the whole traffic that are left; equation 12 the teams of the reduced traffic, whose
bottlenecks are more; equation 13 only the full ones of these. The document says that each speeds the construction up,
without a figure.
"""

import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

from experiments.liquid.swiss_t1_traffic import draw_times, pattern_points, traffic_of
from testbed.model.studies import Check, Claim, Figures, Points, Results, Row, Rows, Study, Verdict
from testbed.scheduling.exact.exact_search import ExactOptions, search_exactly

LIMIT_S = 0.5
OURS_OFF = ExactOptions(anchored=False, remembered=False, scarce_first=False, restarts=False)
CHOICES = {"eq11": (False, False), "eq12": (True, False), "eq13": (True, True)}
"""Whether the traffic is reduced, and whether teams must be full ones."""
NAMES = {
    "eq11": "teams of the whole traffic (equation 11)",
    "eq12": "teams of the reduced traffic (equation 12)",
    "eq13": "full teams of the reduced traffic (equation 13)",
}
LEAST_GAIN = 2.0
"""What "considerably" is taken to be."""


def points(quick: bool, seed: int) -> Points:
    """One a pattern."""
    return pattern_points(quick, limit_s=LIMIT_S, seed=seed)


def measure(point: Row) -> Results:
    """Processor seconds and whether a liquid schedule was found, for each choice, without what this search has next to
    the document's."""
    paths = traffic_of(point["allocation"]).paths()
    found: Results = {}
    for choice, (reduced, full) in CHOICES.items():
        began, options = time.process_time(), replace(OURS_OFF, reduced=reduced, full=full)
        expired = _expiry(began + point["limit_s"])
        result = search_exactly(paths, options=options, seed=point["seed"], expired=expired)
        found[f"{choice}_s"] = time.process_time() - began
        found[f"{choice}_liquid"] = result.proved == "liquid"
    return found


def _expiry(until_s: float) -> Callable[[], bool]:
    return lambda: time.process_time() >= until_s


def judge(rows: Rows) -> Verdict:
    """Time of each choice over those of the next, on the patterns that one of the two solves."""
    checks = [
        check
        for before, after in pairwise(CHOICES)
        for check in (_gain_check(rows, before, after), _solved_check(rows, before, after))
    ]
    return Verdict.of(checks)


def _solved(rows: Rows, choice: str) -> int:
    return sum(row[f"{choice}_liquid"] for row in rows)


def _gain_check(rows: Rows, before: str, after: str) -> Check:
    solved = [row for row in rows if row[f"{before}_liquid"] or row[f"{after}_liquid"]]
    ratios = [row[f"{before}_s"] / row[f"{after}_s"] for row in solved]
    over = f"time by equation {before[2:]} over time by equation {after[2:]}"
    return (
        Claim(f"{over}, median of the {len(ratios)} patterns that one of them solves")
        .at_least(LEAST_GAIN, statistics.median(ratios))
        .cites("sped up considerably, sections 3.7.3 and 3.7.4")
        .against(1.0, "nothing gained")
        .noting("a search that ran out of time counts with its limit")
    )


def _solved_check(rows: Rows, before: str, after: str) -> Check:
    fewer, more = _solved(rows, before), _solved(rows, after)
    return (
        Claim(
            f"patterns solved by equation {after[2:]} and not by equation {before[2:]}, less the reverse"
        )
        .at_least(1, more - fewer)
        .cites("sped up considerably, sections 3.7.3 and 3.7.4")
        .against(0, "as many")
    )


def figures(rows: Rows) -> Figures:
    """Time against pattern; apart where none was found within the limit."""
    title = "What the restrictions of the choice buy (equations 11 to 13)"
    names = {
        choice: f"{words}: {_solved(rows, choice)} of {len(rows)}"
        for choice, words in NAMES.items()
    }
    return {"restrictions": draw_times(rows, title, names)}


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
