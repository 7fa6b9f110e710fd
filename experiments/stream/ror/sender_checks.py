"""What every study of ROR asks of the sender, route by route, whatever the routes are; each check next to its rival."""

from collections.abc import Callable

from experiments.stream.ror.measured_routes import LABELS, mean_ror, off_in_tolerances, route_allowed, route_ror
from testbed.model.studies.samples import sum_of
from testbed.model.studies.study import Row, Rows, where
from testbed.model.verdict import Check, Claim


def sender_checks(rows: Rows, other: Callable[[Row], float], other_is: str) -> list[Check]:
    """``other``: the ROR that would be measured on a row's route if what the study compares made no difference;
    ``other_is``: that in words."""
    checks = []
    for labels in LABELS:
        own = [row for row in where(rows, labels=labels) if row["links"]]
        if own:
            checks += [_worst_route(labels, own, other, other_is), _single_links(labels, own)]
    strict = where(rows, labels="stratified")
    heavy = sum_of(rows, "heavy")
    return [
        *checks,
        Claim("failures without a whole block between the answer and the end")
        .equal(0, sum_of(rows, "unanswered"))
        .against(sum_of(rows, "links"), "a sender that answers too late every time"),
        Claim("undecodable blocks after the answer, stratified labels")
        .equal(0, sum_of(strict, "undecodable"))
        .against(sum_of(strict, "steady_blocks"), "a sender that never raises N: every block that needs more"),
        Claim("failures of links of load above 1/200 in which the failed cable is named, share")
        .at_least(0.99, sum_of(rows, "right") / max(1, heavy))
        .against(
            sum(row["heavy"] / max(1, row["of_links"]) for row in rows) / max(1, heavy), "a cable of the route, guessed"
        )
        .noting(f"{heavy} failures"),
        Claim("failures in which the sender was certain of a wrong cable")
        .equal(0, sum_of(rows, "wrong"))
        .against(heavy, "a wrong cable each time"),
    ]


def _worst_route(labels: str, rows: Rows, other: Callable[[Row], float], other_is: str) -> Check:
    gaps = [off_in_tolerances(row) for row in rows]
    worst = rows[gaps.index(max(gaps))]
    # over the links that failed, as the gaps are: the share of the other route's ROR that falls to so many links
    rivals = [
        abs(other(row) - route_ror(row).predicted) * row["links"] / row["of_links"] / route_allowed(row) for row in rows
    ]
    return (
        Claim(f"{labels} labels: measured ROR off the predicted one, in tolerances, worst route")
        .at_most(1.0, max(gaps))
        .against(max(rivals), other_is)
        .noting(
            f"{sum(gap > 1 for gap in gaps)} of {len(rows)} routes are off; the worst is on {worst['network']}, "
            + (f"method {worst['method']}" if "method" in worst else f"layers {worst['layers'] or 'all'}")
        )
    )


def _single_links(labels: str, rows: Rows) -> Check:
    return (
        Claim(f"{labels} labels: what single links are off, summed over a route, mean over routes")
        .at_most(sum(map(route_allowed, rows)) / len(rows), sum_of(rows, "astray") / len(rows))
        .against(sum_of(rows, "astray_rival") / len(rows), "each failure answered with the next link's block size")
        .noting(f"of a ROR of {mean_ror(rows).predicted:.2f} in the mean")
    )
