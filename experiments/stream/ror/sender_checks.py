"""Checks of the adaptive sender that all studies of ROR have in common.

They check the measured ROR of each route, the diagnosis of failed links, and the blocks after it.
"""

from collections.abc import Mapping

from experiments.stream.ror.measured_routes import (
    LABELS,
    difference_in_tolerances,
    mean_ror,
    route_allowed,
    route_ror,
)
from testbed.model.studies import Check, Claim, Row, Rows, sum_of, where


def sender_checks(rows: Rows, rival_rows: Rows, rival_is: str) -> list[Check]:
    """Return the checks of the sender.

    Args:
        rows: The rows of all routes.
        rival_rows: For each network and order of labels, the row whose predicted ROR all routes
            would have if layers or methods (which the study compares) made no difference.
        rival_is: Description of these routes.
    """
    rival_ror = {}
    for row in rival_rows:
        rival_ror[row["network"], row["labels"]] = route_ror(row).predicted
    checks = []
    for labels in LABELS:
        routes = [row for row in where(rows, labels=labels) if row["links"]]
        if routes:
            checks.append(_check_worst_route(labels, routes, rival_ror, rival_is))
            checks.append(_check_single_links(labels, routes))
    return [*checks, *_block_checks(rows), *_diagnosis_checks(rows)]


def _block_checks(rows: Rows) -> list[Check]:
    """Check that the sender raises N in every failure, and that later blocks are decodable."""
    stratified = where(rows, labels="stratified")
    return [
        Claim("failures without a whole block between the answer and the end")
        .equal(0, sum_of(rows, "unanswered"))
        .against(sum_of(rows, "links"), "a sender that answers too late every time"),
        Claim("undecodable blocks after the answer, stratified labels")
        .equal(0, sum_of(stratified, "undecodable"))
        .against(
            sum_of(stratified, "steady_blocks"),
            "a sender that never raises N: every block that needs more",
        ),
    ]


def _diagnosis_checks(rows: Rows) -> list[Check]:
    """Check that the sender finds the failed cable."""
    heavy = sum_of(rows, "heavy")
    guessed = sum(row["heavy"] / max(1, row["of_links"]) for row in rows)
    return [
        Claim("failures of links of load above 1/200 in which the failed cable is named, share")
        .at_least(0.99, sum_of(rows, "right") / max(1, heavy))
        .against(guessed / max(1, heavy), "a cable of the route, guessed")
        .noting(f"{heavy} failures"),
        Claim("failures in which the sender was certain of a wrong cable")
        .equal(0, sum_of(rows, "wrong"))
        .against(heavy, "a wrong cable each time"),
    ]


def _check_worst_route(
    labels: str, rows: Rows, rival_ror: Mapping[tuple[str, str], float], rival_is: str
) -> Check:
    """Check the route whose measured ROR differs most from the predicted one.

    Args:
        labels: The order of labels.
        rows: The rows with this order.
        rival_ror: Predicted ROR of the rival by network and order of labels.
        rival_is: Description of the rival.
    """
    differences = list(map(difference_in_tolerances, rows))
    rival_differences = []
    for row in rows:
        ror = rival_ror.get((row["network"], labels), 0.0)
        rival_differences.append(_rival_off_in_tolerances(row, ror))
    worst = rows[differences.index(max(differences))]
    if "method" in worst:
        route = f"method {worst['method']}"
    else:
        route = f"layers {worst['layers'] or 'all'}"
    off = [difference for difference in differences if difference > 1]
    return (
        Claim(f"{labels} labels: measured ROR off the predicted one, in tolerances, worst route")
        .at_most(1.0, max(differences))
        .against(max(rival_differences), rival_is)
        .noting(
            f"{len(off)} of {len(rows)} routes are off; the worst is on {worst['network']}, {route}"
        )
    )


def _rival_off_in_tolerances(row: Row, rival_ror: float) -> float:
    """Return the rival's ROR minus the predicted one, as a multiple of the route's tolerance.

    Only a part of the links fails. The difference is scaled by their share, so that it can be
    compared with ``difference_in_tolerances``.
    """
    difference = abs(rival_ror - route_ror(row).predicted)
    return float(difference * row["links"] / row["of_links"] / route_allowed(row))


def _check_single_links(labels: str, rows: Rows) -> Check:
    """Check the absolute errors of single links, which do not cancel each other in a sum."""
    tolerance = sum(map(route_allowed, rows)) / len(rows)
    return (
        Claim(f"{labels} labels: what single links are off, summed over a route, mean over routes")
        .at_most(tolerance, sum_of(rows, "astray") / len(rows))
        .against(
            sum_of(rows, "astray_rival") / len(rows),
            "each failure answered with the next link's block size",
        )
        .noting(f"of a ROR of {mean_ror(rows).predicted:.2f} in the mean")
    )
