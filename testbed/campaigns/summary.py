"""Summary of a campaign's rows: means for each method and tolerance, a verdict, and figures."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from testbed.campaigns.description import Campaign, Claim, units
from testbed.model import verdict
from testbed.model.code_description import describe_code
from testbed.model.studies.samples import grouped, t_quantile
from testbed.model.verdict import Check, Verdict
from testbed.report.drawing.charts import MARKS, Figure, chart
from topologies import Json, JsonObject

Row = Json
# The columns by which rows are summarised.
_GROUP = ("method", "tolerance", "m", "der", "large_blocks")


def summarise(rows: Iterable[Row]) -> list[JsonObject]:
    """Return one row for each method, tolerance, m, der and equation: counts and mean ROR.

    ``mean_ror`` is the mean over the rows of this method in which ROR is finite. Methods with
    different rows cannot be compared by it. ``mean_ror_of_common_rows`` is the mean over the units
    in which all methods have a finite ROR; ``common_rows`` counts them. Methods whose ROR is
    infinite in all units are ignored there. ``mean_ror_of_others`` is the mean of
    ``ror_of_others``, which omits the links that carry the complete flow (Gabrielyan 2007, eq. 23
    as printed), over the routes that have other links.
    """
    rows = list(rows)
    rows_by_code = grouped(rows, _GROUP[1:])
    common_units = {key: _common_units(members) for key, members in rows_by_code.items()}
    summary = []
    for key, members in grouped(rows, _GROUP).items():
        routed = 0
        finite = []
        common = []
        without_full_links = []
        for row in members:
            if row["state"] == "ok":
                routed += 1
                if _has_other_links(row):
                    without_full_links.append(row["ror_of_others"])
            if row["ror"] is not None:
                finite.append(row["ror"])
                if row["unit"] in common_units[key[1:]]:
                    common.append(row["ror"])
        figures = {
            "rows": len(members),
            "without_path": len(members) - routed,
            "infinite": routed - len(finite),
            "mean_ror": _mean(finite),
            "mean_ror_of_others": _mean(without_full_links),
            "common_rows": len(common),
            "mean_ror_of_common_rows": _mean(common),
        }
        summary.append(dict(zip(_GROUP, key, strict=True)) | figures)
    return summary


def _common_units(rows: Sequence[Row]) -> set[int]:
    """Return the units in which all methods have a finite ROR.

    Methods that have a finite ROR in none of these rows are ignored.
    """
    units_by_method: dict[str, set[int]] = {}
    for row in rows:
        if row["ror"] is not None:
            units_by_method.setdefault(row["method"], set()).add(row["unit"])
    if not units_by_method:
        return set()
    return set.intersection(*units_by_method.values())


def _has_other_links(row: Row) -> bool:
    """Return whether the route has links that do not carry the complete flow."""
    loaded = row.get("loaded_links")
    return loaded is None or row["infinite_links"] < loaded


def judge_claims(campaign: Campaign, rows: Sequence[Row]) -> Verdict:
    """Return the verdict of a campaign: whether any route was found, and a check of each claim.

    If rows are missing or duplicated, the first check cannot tell (``Check.unsure``).
    """
    routed = 0
    rows_of_route: Counter[tuple[int, str]] = Counter()
    for row in rows:
        rows_of_route[row["unit"], row["method"]] += 1
        if row["state"] == "ok":
            routed += 1
    row_counts = rows_of_route.values()
    planned_routes = len(units(campaign)) * len(campaign.methods)
    rows_per_route = campaign.rows_per_unit // len(campaign.methods)
    is_complete = len(row_counts) == planned_routes and set(row_counts) == {rows_per_route}
    planned_rows = planned_routes * rows_per_route
    routes_exist = Check(
        name="rows with a route",
        key="rows-with-a-route",
        measured=float(routed),
        passed=routed > 0,
        detail=f"of {len(rows)}",
        rival_note="none: rows are counted",
    ).of(is_complete, f"{len(rows)} of {planned_rows} rows, or not each of them once")
    checks = [routes_exist]
    for number, claim in enumerate(campaign.claims):
        checks.append(replace(_check(claim, rows), about=f"claim:{number}"))
    return Verdict(checks=tuple(checks))


def _check(claim: Claim, rows: Sequence[Row]) -> Check:
    """Return the check of a claim: the ratio of two sums of ROR over the common rows."""
    rors = _finite_rors(rows, claim.method, claim.large_blocks)
    rors_against = _finite_rors(rows, claim.against, claim.large_blocks)
    common_keys = sorted(rors.keys() & rors_against.keys())
    # The sums of both methods over the common rows of each unit.
    sums_by_unit: dict[int, tuple[float, float]] = {}
    for key in common_keys:
        unit = key[0]
        numerator, denominator = sums_by_unit.get(unit, (0.0, 0.0))
        sums_by_unit[unit] = (numerator + rors[key], denominator + rors_against[key])

    name = f"mean ROR, {claim.method} over {claim.against}"
    if claim.large_blocks:
        name += ", large blocks"
    count = len(sums_by_unit)
    detail = f"over {len(common_keys)} rows of {count} units where both are finite"
    total = sum(numerator for numerator, _ in sums_by_unit.values())
    total_against = sum(denominator for _, denominator in sums_by_unit.values())
    if not total_against:
        check = Check(
            name=name, key="mean-ror", predicted=claim.at_most, passed=False, detail=detail
        )
        return check.of(0)
    ratio = total / total_against
    half_width = None
    if count > 1:
        half_width = _half_width(list(sums_by_unit.values()), ratio)
    check = verdict.Claim(name, "mean-ror").at_most(claim.at_most, (ratio, half_width))
    if claim.at_most < 1:
        check = check.against(1.0, "no gain")
    else:
        check = check.against(None, "none: the claim is only that it costs no more")
    return check.noting(detail)


def _finite_rors(
    rows: Iterable[Row], method: str, large_blocks: bool
) -> dict[tuple[Any, ...], float]:
    """Return the finite RORs of a method by unit, tolerance, m and der."""
    rors: dict[tuple[Any, ...], float] = {}
    for row in rows:
        is_selected = row["method"] == method and row["large_blocks"] == large_blocks
        if is_selected and row["ror"] is not None:
            key = (row["unit"], row["tolerance"], row["m"], row["der"])
            rors[key] = row["ror"]
    return rors


def _half_width(pairs: Sequence[tuple[float, float]], ratio: float) -> float:
    """Return half the width of the 95 % interval of a ratio of sums over independent units.

    Source: Cochran 1977, section 2.11, with Student's t.

    Args:
        pairs: Numerator and denominator of each unit.
        ratio: The ratio of their sums.
    """
    count = len(pairs)
    total = math.fsum(denominator for _, denominator in pairs)
    squares = math.fsum((numerator - ratio * denominator) ** 2 for numerator, denominator in pairs)
    spread = squares * count / (count - 1)
    return t_quantile(count) * math.sqrt(spread) / total


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def campaign_figures(summary: Sequence[Row]) -> dict[str, Figure]:
    """Return a matplotlib figure by name for each M, DER and equation.

    Methods whose ROR is never finite are named in the legend.
    """
    figures = {}
    for (m, der, large), rows in grouped(summary, ("m", "der", "large_blocks")).items():
        equation = describe_code(labels="random", m=m, tolerance=None, der=der, large_blocks=large)
        figure, axes = chart(
            f"Mean ROR, {equation}",
            size=(7.5, 4.8),
            xlabel="static tolerance, % of packets",
            ylabel="mean ROR",
        )
        for number, method in enumerate(dict.fromkeys(row["method"] for row in rows)):
            points = []
            for row in rows:
                mean = row.get("mean_ror_of_common_rows", row["mean_ror"])
                if row["method"] == method and mean is not None:
                    points.append((row["tolerance"], mean))
            points.sort()
            percents = [100 * tolerance for tolerance, _ in points]
            means = [mean for _, mean in points]
            label = method if points else f"{method} (infinite)"
            mark = MARKS[number % len(MARKS)]
            axes.plot(percents, means, marker=mark, ms=4, label=label)
        axes.set_ylim(0, 1.05 * axes.get_ylim()[1])
        axes.legend(ncols=2, loc="lower left")
        name = f"ror-m{m}-der{der:g}"
        if large:
            name += "-large-blocks"
        figures[name] = figure
    return figures
