"""What every study of ROR asks of the sender, route by route, whatever the routes are; each check next to its rival."""

from collections.abc import Mapping

from experiments.stream.ror.measured_routes import (
    LABELS,
    mean_ror,
    off_in_tolerances,
    route_allowed,
    route_ror,
)
from testbed.model.studies import Check, Claim, Row, Rows, sum_of, where


def sender_checks(rows: Rows, others: Rows, other_is: str) -> list[Check]:
    """``others``: the routes whose ROR would be measured on the same networks if what the study compares made no
    difference; ``other_is``: that in words."""
    checks, other = (
        [],
        {(row["network"], row["labels"]): route_ror(row).predicted for row in others},
    )
    for labels in LABELS:
        own = [row for row in where(rows, labels=labels) if row["links"]]
        if own:
            checks += [_worst_route(labels, own, other, other_is), _single_links(labels, own)]
    strict = where(rows, labels="stratified")
    heavy, guessed = (
        sum_of(rows, "heavy"),
        sum(row["heavy"] / max(1, row["of_links"]) for row in rows),
    )
    return [
        *checks,
        Claim("failures without a whole block between the answer and the end")
        .equal(0, sum_of(rows, "unanswered"))
        .against(sum_of(rows, "links"), "a sender that answers too late every time"),
        Claim("undecodable blocks after the answer, stratified labels")
        .equal(0, sum_of(strict, "undecodable"))
        .against(
            sum_of(strict, "steady_blocks"),
            "a sender that never raises N: every block that needs more",
        ),
        Claim("failures of links of load above 1/200 in which the failed cable is named, share")
        .at_least(0.99, sum_of(rows, "right") / max(1, heavy))
        .against(guessed / max(1, heavy), "a cable of the route, guessed")
        .noting(f"{heavy} failures"),
        Claim("failures in which the sender was certain of a wrong cable")
        .equal(0, sum_of(rows, "wrong"))
        .against(heavy, "a wrong cable each time"),
    ]


def _worst_route(
    labels: str, rows: Rows, other: Mapping[tuple[str, str], float], other_is: str
) -> Check:
    gaps = [off_in_tolerances(row) for row in rows]
    worst = rows[gaps.index(max(gaps))]
    route = (
        f"method {worst['method']}" if "method" in worst else f"layers {worst['layers'] or 'all'}"
    )

    def rival(row: Row) -> float:
        """Over the links that failed, as the gaps are: the share of the other ROR that falls to so many links."""
        off = abs(other.get((row["network"], labels), 0.0) - route_ror(row).predicted)
        return float(off * row["links"] / row["of_links"] / route_allowed(row))

    return (
        Claim(f"{labels} labels: measured ROR off the predicted one, in tolerances, worst route")
        .at_most(1.0, max(gaps))
        .against(max(map(rival, rows)), other_is)
        .noting(
            f"{sum(g > 1 for g in gaps)} of {len(rows)} routes are off; the worst is on {worst['network']}, {route}"
        )
    )


def _single_links(labels: str, rows: Rows) -> Check:
    return (
        Claim(f"{labels} labels: what single links are off, summed over a route, mean over routes")
        .at_most(sum(map(route_allowed, rows)) / len(rows), sum_of(rows, "astray") / len(rows))
        .against(
            sum_of(rows, "astray_rival") / len(rows),
            "each failure answered with the next link's block size",
        )
        .noting(f"of a ROR of {mean_ror(rows).predicted:.2f} in the mean")
    )
