"""Is the order of routing methods by measured ROR the predicted one? The rival of an order is the swapped order.

An infinite ROR stands above every finite one: predicted where a link carries everything, measured where nothing arrives
while such a link is down. Two infinite ones have no order.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from experiments.stream.ror.measured_routes import (
    LABELS,
    allowed,
    beyond_notes,
    carried,
    mean_ror,
    route_ror,
)
from experiments.stream.ror.sender_checks import sender_checks
from testbed.model.studies import Check, Claim, Results, Row, Rows, Verdict, sum_of, where
from testbed.report.drawing.charts import draw_bars

METHODS = ("single", "disjoint-2", "ecmp", "max-flow", "capillary", "least-fec:0.05")
MEASURE = "capillary"
"""The method that the others are set beside."""


@dataclass(frozen=True)
class Pair:
    """Two methods on one network: ``predicted`` and ``measured`` are ROR of ``a`` less that of ``b``, perhaps
    infinite."""

    network: str
    a: str
    b: str
    predicted: float
    measured: float
    tolerance: float
    uncertainty: float

    @property
    def judged(self) -> bool:
        """Whether the predictions differ by more than twice the tolerance."""
        return abs(self.predicted) > 2 * self.tolerance

    @property
    def retained(self) -> bool:
        """Whether the measurement has the predicted order, and can tell it from the swapped one."""
        return self.predicted * self.measured > 0 and abs(self.measured) > self.uncertainty


def whole_ror(row: Row) -> tuple[float, float]:
    """Predicted and measured ROR of the whole route, infinite ones included."""
    finite = route_ror(row)
    predicted = math.inf if row["forced"] else finite.predicted
    return predicted, math.inf if row["forced"] > row["forced_open"] else finite.measured


def pairs(rows: Rows, labels: str) -> list[Pair]:
    """Every two methods on every network, but for those that are both infinite."""
    found = []
    for a, b in itertools.combinations(where(rows, labels=labels), 2):
        if a["network"] != b["network"] or (a["forced"] and b["forced"]):
            continue
        (predicted_a, measured_a), (predicted_b, measured_b) = whole_ror(a), whole_ror(b)
        both_infinite = math.isinf(measured_a) and math.isinf(measured_b)
        one, two = route_ror(a), route_ror(b)
        measured = 0.0 if both_infinite else measured_a - measured_b
        tolerance = allowed(labels, max(one.predicted, two.predicted))
        uncertainty, names = (
            math.hypot(one.uncertainty, two.uncertainty),
            (a["network"], a["method"], b["method"]),
        )
        found.append(Pair(*names, predicted_a - predicted_b, measured, tolerance, uncertainty))
    return found


def judge_methods(rows: Rows) -> Verdict:
    """The order pair by pair, each method beside capillary routing, infinite ROR, and what is asked of the sender on
    every route that the code can carry."""
    checks, notes, rows = [], beyond_notes(rows), carried(rows)
    for labels in (labels for labels in LABELS if where(rows, labels=labels)):
        checks.append(_order_check(labels, pairs(rows, labels)))
        comparison = [
            _compare_with_capillary(rows, labels, method) for method in METHODS if method != MEASURE
        ]
        checks += [one for one in comparison if isinstance(one, Check)]
        notes += [one for one in comparison if isinstance(one, str)]
    forced = sum_of(rows, "forced")
    checks.append(
        Claim(
            "failures of links that carry everything in which something arrived: ROR is infinite where nothing does"
        )
        .equal(0, sum_of(rows, "forced_open"))
        .against(forced, "something arrives, so that some N would do")
        .noting(f"{forced} failures on {sum(row['forced'] > 0 for row in rows)} routes")
    )
    other_is = "what capillary routing calls for, whatever the method"
    return Verdict.of([*checks, *sender_checks(rows, where(rows, method=MEASURE), other_is)], notes)


def _order_check(labels: str, found: Sequence[Pair]) -> Check:
    judged = [pair for pair in found if pair.judged]
    astray = [f"{pair.a} and {pair.b} on {pair.network}" for pair in judged if not pair.retained]
    name = f"{labels} labels: pairs of methods in the predicted order, share"
    if not judged:
        why = "no two predictions differ by more than twice the tolerance"
        return Check.unmeasured(name, why, predicted=1.0, rival=0.0, rival_note="the order swapped")
    networks = len({pair.network for pair in judged})
    counted = f"{len(judged)} pairs on {networks} networks; {len(found) - len(judged)} more differ by less"
    otherwise = f"; not so: {', '.join(astray)}" if astray else ""
    check = (
        Claim(name).at_least(1.0, 1 - len(astray) / len(judged)).against(0.0, "the order swapped")
    )
    return check.noting(f"{counted} than twice the tolerance{otherwise}")


def _compare_with_capillary(rows: Rows, labels: str, method: str) -> Check | str:
    """The mean difference over the networks on which both are finite, where theory tells them apart; else a note."""
    finite = {
        (row["network"], row["method"]): row
        for row in where(rows, labels=labels)
        if not row["forced"]
    }
    shared = [n for n, name in finite if name == method and (n, MEASURE) in finite]
    if not shared:
        return f"{labels} labels: {method} is infinite on every network"
    one, two = (
        mean_ror([finite[network, name] for network in shared]) for name in (method, MEASURE)
    )
    predicted = one.predicted - two.predicted
    tolerance = allowed(labels, predicted)
    words = f"{labels} labels: mean ROR of {method} less that of capillary routing"
    if abs(predicted) <= 2 * tolerance:
        return f"{words}: {predicted:.2f}, too near to be told apart"
    return (
        Claim(words)
        .equal(
            predicted,
            (one.measured - two.measured, math.hypot(one.uncertainty, two.uncertainty)),
            tolerance,
        )
        .against(-predicted, "the two swapped")
        .noting(f"{len(shared)} networks on which both are finite")
    )


def method_figures(rows: Rows) -> Results:
    """``methods_beside_capillary``, for each order of labels that was measured: mean differences over the networks
    where both are finite; the bar is what networks differ by."""
    drawn, y = {}, "ROR less that of capillary routing"
    for labels in (labels for labels in LABELS if where(rows, labels=labels)):
        finite = {
            (row["network"], row["method"]): row
            for row in where(rows, labels=labels)
            if not row["forced"]
        }
        samples: dict[tuple[str, str], list[float]] = {}
        for method, (network, name) in itertools.product(METHODS, finite):
            if method == name != MEASURE and (network, MEASURE) in finite:
                one, other = route_ror(finite[network, method]), route_ror(finite[network, MEASURE])
                samples.setdefault(("predicted", method), []).append(
                    one.predicted - other.predicted
                )
                samples.setdefault(("measured", method), []).append(one.measured - other.measured)
        drawn[f"methods_beside_capillary_{labels}"] = draw_bars(f"{labels} labels", samples, y=y)
    return drawn
