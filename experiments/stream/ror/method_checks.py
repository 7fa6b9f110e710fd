"""Checks that the measured RORs of routing methods have the predicted order.

The rival of these checks is the reverse order. An infinite ROR is above every finite one. ROR is
predicted to be infinite if a link carries the complete flow. It is measured as infinite if nothing
arrives while such a link is down. Two methods with infinite ROR have no order.
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
from testbed.report.drawing.charts import Figure, draw_bars

METHODS = ("single", "disjoint-2", "ecmp", "max-flow", "capillary", "least-fec:0.05")

# The method with which the others are compared.
REFERENCE = "capillary"


@dataclass(frozen=True)
class Pair:
    """Two methods on one network.

    Attributes:
        network: The network.
        a: The first method.
        b: The second method.
        predicted: Predicted ROR of ``a`` minus that of ``b``, possibly infinite.
        measured: Measured ROR of ``a`` minus that of ``b``, possibly infinite.
        tolerance: Largest accepted difference of a measured ROR from the predicted one.
        uncertainty: Half the width of the 95 % interval of ``measured``.
    """

    network: str
    a: str
    b: str
    predicted: float
    measured: float
    tolerance: float
    uncertainty: float

    @property
    def judged(self) -> bool:
        """True if the predictions differ by more than twice the tolerance."""
        return abs(self.predicted) > 2 * self.tolerance

    @property
    def retained(self) -> bool:
        """True if the measurement has the predicted order, and excludes the reverse order."""
        return self.predicted * self.measured > 0 and abs(self.measured) > self.uncertainty


def possibly_infinite_ror(row: Row) -> tuple[float, float]:
    """Return the predicted and the measured ROR of a route.

    The predicted ROR is infinite if a link carries the complete flow. The measured ROR is infinite
    if nothing arrives in a failure of such a link.
    """
    ror = route_ror(row)
    predicted = ror.predicted
    measured = ror.measured
    if row["forced"]:
        predicted = math.inf
    if row["forced"] > row["forced_open"]:
        measured = math.inf
    return predicted, measured


def pairs(rows: Rows, labels: str) -> list[Pair]:
    """Return all pairs of methods on every network, unless ROR of both is infinite."""
    result = []
    for a, b in itertools.combinations(where(rows, labels=labels), 2):
        both_infinite = a["forced"] and b["forced"]
        if a["network"] == b["network"] and not both_infinite:
            result.append(_pair(a, b))
    return result


def _pair(a: Row, b: Row) -> Pair:
    """Return the pair of two rows of one network."""
    predicted_a, measured_a = possibly_infinite_ror(a)
    predicted_b, measured_b = possibly_infinite_ror(b)
    finite_a = route_ror(a)
    finite_b = route_ror(b)
    measured = 0.0
    if not (math.isinf(measured_a) and math.isinf(measured_b)):
        measured = measured_a - measured_b
    return Pair(
        network=a["network"],
        a=a["method"],
        b=b["method"],
        predicted=predicted_a - predicted_b,
        measured=measured,
        tolerance=allowed(a["labels"], max(finite_a.predicted, finite_b.predicted)),
        uncertainty=math.hypot(finite_a.uncertainty, finite_b.uncertainty),
    )


def judge_methods(rows: Rows) -> Verdict:
    """Check the order of methods, their ROR minus that of capillary routing, and the sender.

    Routes that need more than 255 packets per block are left out, and named in a note. If ROR is
    predicted to be infinite, nothing may arrive during the failure.
    """
    checks = []
    notes = beyond_notes(rows)
    carried_rows = carried(rows)
    for labels in LABELS:
        if not where(carried_rows, labels=labels):
            continue
        checks.append(_check_order(labels, pairs(carried_rows, labels)))
        for method in METHODS:
            if method == REFERENCE:
                continue
            comparison = _compare_with_capillary(carried_rows, labels, method)
            if isinstance(comparison, Check):
                checks.append(comparison)
            else:
                notes.append(comparison)
    checks.append(_check_infinite(carried_rows))
    checks += sender_checks(
        carried_rows,
        where(carried_rows, method=REFERENCE),
        "what capillary routing calls for, whatever the method",
    )
    return Verdict.of(checks, notes)


def _check_order(labels: str, all_pairs: Sequence[Pair]) -> Check:
    """Check that pairs with clearly different predictions have the predicted order."""
    name = f"{labels} labels: pairs of methods in the predicted order, share"
    judged = [pair for pair in all_pairs if pair.judged]
    if not judged:
        why = "no two predictions differ by more than twice the tolerance"
        return Check.unmeasured(name, why, predicted=1.0, rival=0.0, rival_note="the order swapped")
    networks = {pair.network for pair in judged}
    remark = (
        f"{len(judged)} pairs on {len(networks)} networks; "
        f"{len(all_pairs) - len(judged)} more differ by less than twice the tolerance"
    )
    swapped = []
    for pair in judged:
        if not pair.retained:
            swapped.append(f"{pair.a} and {pair.b} on {pair.network}")
    if swapped:
        remark += f"; not so: {', '.join(swapped)}"
    return (
        Claim(name)
        .at_least(1.0, 1 - len(swapped) / len(judged))
        .against(0.0, "the order swapped")
        .noting(remark)
    )


def _check_infinite(rows: Rows) -> Check:
    """Check that nothing arrives while a link that carries the complete flow is down."""
    forced = sum_of(rows, "forced")
    routes = [row for row in rows if row["forced"] > 0]
    return (
        Claim(
            "failures of links that carry everything in which something arrived: "
            "ROR is infinite where nothing does"
        )
        .equal(0, sum_of(rows, "forced_open"))
        .against(forced, "something arrives, so that some N would do")
        .noting(f"{forced} failures on {len(routes)} routes")
    )


def _compare_with_capillary(rows: Rows, labels: str, method: str) -> Check | str:
    """Check the mean ROR of a method minus that of capillary routing.

    Returns:
        The check, or a note if ROR is infinite on every network, or if the predictions do not
        differ enough.
    """
    method_rows, capillary_rows = _finite_on_both(rows, labels, method)
    if not method_rows:
        return f"{labels} labels: {method} is infinite on every network"
    name = f"{labels} labels: mean ROR of {method} less that of capillary routing"
    method_ror = mean_ror(method_rows)
    capillary_ror = mean_ror(capillary_rows)
    predicted = method_ror.predicted - capillary_ror.predicted
    tolerance = allowed(labels, predicted)
    if abs(predicted) <= 2 * tolerance:
        return f"{name}: {predicted:.2f}, too near to be told apart"
    measured = method_ror.measured - capillary_ror.measured
    uncertainty = math.hypot(method_ror.uncertainty, capillary_ror.uncertainty)
    return (
        Claim(name)
        .equal(predicted, (measured, uncertainty), tolerance)
        .against(-predicted, "the two swapped")
        .noting(f"{len(method_rows)} networks on which both are finite")
    )


def _finite_on_both(rows: Rows, labels: str, method: str) -> tuple[list[Row], list[Row]]:
    """Return the rows of a method and of capillary routing, on networks where both are finite."""
    finite = {}
    for row in where(rows, labels=labels):
        if not row["forced"]:
            finite[row["network"], row["method"]] = row
    method_rows = []
    capillary_rows = []
    for (network, row_method), row in finite.items():
        reference = finite.get((network, REFERENCE))
        if row_method == method and reference is not None:
            method_rows.append(row)
            capillary_rows.append(reference)
    return method_rows, capillary_rows


def method_figures(rows: Rows) -> Results:
    """Draw the mean ROR of each method minus that of capillary routing, for each order of labels.

    The mean is over the networks on which both are finite. The error bar shows the variation over
    networks.
    """
    drawings = {}
    for labels in LABELS:
        if where(rows, labels=labels):
            drawings[f"methods_beside_capillary_{labels}"] = _draw_differences(rows, labels)
    return drawings


def _draw_differences(rows: Rows, labels: str) -> Figure:
    samples: dict[tuple[str, str], list[float]] = {}
    for method in METHODS:
        if method == REFERENCE:
            continue
        method_rows, capillary_rows = _finite_on_both(rows, labels, method)
        for method_row, capillary_row in zip(method_rows, capillary_rows, strict=True):
            ror = route_ror(method_row)
            reference = route_ror(capillary_row)
            predicted = samples.setdefault(("predicted", method), [])
            predicted.append(ror.predicted - reference.predicted)
            measured = samples.setdefault(("measured", method), [])
            measured.append(ror.measured - reference.measured)
    return draw_bars(f"{labels} labels", samples, y="ROR less that of capillary routing")
