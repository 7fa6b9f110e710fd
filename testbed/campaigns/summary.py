"""What a campaign's rows say together: means a method and tolerance, whether its claims hold, and figures."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from testbed.campaigns.description import Campaign, Claim, units
from testbed.model import verdict
from testbed.model.code_description import describe_code
from testbed.model.studies.samples import grouped, t_quantile
from testbed.model.verdict import Check, Verdict
from testbed.report.drawing.charts import MARKS, Figure, chart
from topologies import Json, JsonObject

Row = Json
_GROUP = ("method", "tolerance", "m", "der", "large_blocks")


def summarise(rows: Iterable[Row]) -> list[JsonObject]:
    """Return one row for each method, tolerance, m, der and equation: counts and mean ROR.

    ``mean_ror`` is the mean over the rows of this method in which ROR is finite, so methods with
    other rows do not compare. ``mean_ror_of_common_rows`` is the mean over the ``common_rows``: the
    flows for which every method is finite, methods that never are left out. ``mean_ror_of_others``
    is over all routed rows, links that carry everything left out (Gabrielyan 2007, eq. 23 as
    printed), if any other link is left.
    """
    rows = list(rows)
    common_units = {
        key: _common_units(members) for key, members in grouped(rows, _GROUP[1:]).items()
    }
    summary = []
    for key, members in grouped(rows, _GROUP).items():
        routed = [row for row in members if row["state"] == "ok"]
        finite = [row["ror"] for row in members if row["ror"] is not None]
        others = [row["ror_of_others"] for row in routed if _has_other_links(row)]
        units_of_all = common_units[key[1:]]
        common = []
        for row in members:
            if row["ror"] is not None and row["unit"] in units_of_all:
                common.append(row["ror"])
        figures = {
            "rows": len(members),
            "without_path": len(members) - len(routed),
            "infinite": len(routed) - len(finite),
            "mean_ror": _mean(finite),
            "mean_ror_of_others": _mean(others),
            "common_rows": len(common),
            "mean_ror_of_common_rows": _mean(common),
        }
        summary.append(dict(zip(_GROUP, key, strict=True)) | figures)
    return summary


def _common_units(rows: Sequence[Row]) -> set[int]:
    """Return the units in which every method is finite that is finite in any of these rows."""
    units_by_method: dict[str, set[int]] = {}
    for row in rows:
        if row["ror"] is not None:
            units_by_method.setdefault(row["method"], set()).add(row["unit"])
    return set.intersection(*units_by_method.values()) if units_by_method else set()


def _has_other_links(row: Row) -> bool:
    """Return whether the route has links that do not carry the whole flow."""
    loaded = row.get("loaded_links")
    return loaded is None or row["infinite_links"] < loaded


def judge_claims(campaign: Campaign, rows: Sequence[Row]) -> Verdict:
    """One check a claim; a campaign without claims is judged by whether anything was routed at all. Where rows are
    missing, or there twice, it cannot tell."""
    routed = sum(row["state"] == "ok" for row in rows)
    each = Counter((row["unit"], row["method"]) for row in rows).values()
    planned = (
        len(units(campaign)) * len(campaign.methods),
        campaign.rows_per_unit // len(campaign.methods),
    )
    whole = len(each) == planned[0] and set(each) == {planned[1]}
    some = Check(
        name="rows with a route",
        key="rows-with-a-route",
        measured=float(routed),
        passed=routed > 0,
        detail=f"of {len(rows)}",
        rival_note="none: rows are counted",
    ).of(whole, f"{len(rows)} of {math.prod(planned)} rows, or not each of them once")
    claims = (
        replace(_check(claim, rows), about=f"claim:{number}")
        for number, claim in enumerate(campaign.claims)
    )
    return Verdict(checks=(some, *claims))


def _check(claim: Claim, rows: Sequence[Row]) -> Check:
    rest = ("unit", "tolerance", "m", "der")
    ours, theirs = (
        {
            tuple(row[name] for name in rest): row["ror"]
            for row in rows
            if row["method"] == method
            and row["large_blocks"] == claim.large_blocks
            and row["ror"] is not None
        }
        for method in (claim.method, claim.against)
    )
    common = ours.keys() & theirs.keys()
    units: dict[int, list[float]] = {}
    for key in sorted(common):
        sums = units.setdefault(key[0], [0.0, 0.0])
        sums[0] += ours[key]
        sums[1] += theirs[key]
    name = f"mean ROR, {claim.method} over {claim.against}" + (
        ", large blocks" if claim.large_blocks else ""
    )
    detail = f"over {len(common)} rows of {len(units)} units where both are finite"
    below = sum(other for _, other in units.values())
    if not below:
        return Check(
            name=name, key="mean-ror", predicted=claim.at_most, passed=False, detail=detail
        ).of(0)
    ratio = sum(own for own, _ in units.values()) / below
    rival = (
        (1.0, "no gain")
        if claim.at_most < 1
        else (None, "none: the claim is only that it costs no more")
    )
    half_width = _half_width(list(units.values()), ratio) if len(units) > 1 else None
    return (
        verdict.Claim(name, "mean-ror")
        .at_most(claim.at_most, (ratio, half_width))
        .against(*rival)
        .noting(detail)
    )


def _half_width(pairs: Sequence[Sequence[float]], ratio: float) -> float:
    """Half the 95 % interval of a ratio of sums over units that are independent (Cochran 1977, section 2.11), by
    Student's t."""
    count = len(pairs)
    below = math.fsum(other for _, other in pairs)
    spread = math.fsum((own - ratio * other) ** 2 for own, other in pairs) * count / (count - 1)
    return t_quantile(count) * math.sqrt(spread) / below


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def campaign_figures(summary: Sequence[Row]) -> dict[str, Figure]:
    """Name -> matplotlib figure, one for each M, DER and equation; methods that are never finite are named in the
    legend."""
    figures = {}
    for (m, der, large), rows in grouped(summary, ("m", "der", "large_blocks")).items():
        equation = describe_code(labels="random", m=m, tolerance=None, der=der, large_blocks=large)
        named = {"xlabel": "static tolerance, % of packets", "ylabel": "mean ROR"}
        figure, axes = chart(f"Mean ROR, {equation}", size=(7.5, 4.8), **named)
        for number, method in enumerate(dict.fromkeys(row["method"] for row in rows)):
            line = []
            for row in rows:
                mean = row.get("mean_ror_of_common_rows", row["mean_ror"])
                if row["method"] == method and mean is not None:
                    line.append((row["tolerance"], mean))
            line.sort()
            label = method if line else f"{method} (infinite)"
            mark = MARKS[number % len(MARKS)]
            axes.plot(
                [100 * t for t, _ in line], [r for _, r in line], marker=mark, ms=4, label=label
            )
        axes.set_ylim(0, 1.05 * axes.get_ylim()[1])
        axes.legend(ncols=2, loc="lower left")
        figures[f"ror-m{m}-der{der:g}" + ("-large-blocks" if large else "")] = figure
    return figures
