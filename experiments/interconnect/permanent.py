"""How much latency do permanent link failures cost under FT-DRB (Zarza 2011, 5.6.1 and A.2.1, Figures 5.25-5.28 and
A.18-A.20)?

Two tori and a fat tree, six patterns, up to 10 % of the links, which all fail half-way, or each at a random moment.
"""

import itertools
from collections.abc import Mapping, Sequence

from experiments.interconnect.figures import LATENCY, PERFORMANCE
from experiments.interconnect.runs import measure_run
from experiments.interconnect.samples import (
    at_least,
    at_most,
    delivery_check,
    equal,
    of_failures,
    performances,
)
from experiments.interconnect.study_points import (
    POISSON_512,
    SYNTHETIC,
    TEN_PERCENT,
    drb_points,
    seeds_of,
)
from testbed.model.studies import (
    Claim,
    Figures,
    Points,
    Results,
    Row,
    Rows,
    Study,
    grouped,
    mean_of,
    spread,
    where,
)
from testbed.model.verdict import Check, Verdict
from testbed.report.drawing.charts import draw_bars, draw_lines

TREE = "fat-tree:4,3"
ABOVE_95 = (95.0, "claim: above 95 %")
SEEN = 0.1
"""Points that diversion is to gain at the least."""
NO_DIVERSION = {"marking": "clock", "marking_s": 3600.0}
"""Sources mark no link as failed for as long as a run lasts, and divert nothing: routers' escapes alone."""
ALONE_SEEDS = {"torus:8x8": 30, "fat-tree:4,3": 5, "torus:16x16": 5}
"""Of these runs: on the 8x8 torus they differ the most."""
HALF_WAY, AT_RANDOM = "half", "random-start"
# Kinds of failures: see ``Run.fault_kind``.
RANDOM_SEEDS = {"torus:8x8": 10, "fat-tree:4,3": 10, "torus:16x16": 5}
RANDOM_FIGURES = {"torus:8x8": "A.18", "torus:16x16": "A.19", "fat-tree:4,3": "A.20"}


def points(quick: bool, seed: int) -> Points:
    """Return every (network, pattern, number of failures, seed) of both kinds.

    The tree has 100 draws of failures half-way, since few of them cost the most. Runs without failures serve both.
    """
    own = seeds_of(seed, quick, few=6)
    draws = own if quick else range(own.start, own.start + 100 * own.step, own.step)
    seeds = dict.fromkeys(TEN_PERCENT, tuple(own)) | {TREE: tuple(draws)}
    few = {network: seeds_of(seed, quick)[:count] for network, count in RANDOM_SEEDS.items()}
    at_random = _failing_points(few, quick, AT_RANDOM)
    return _failing_points(seeds, quick, HALF_WAY) + [p for p in at_random if p["faults"]]


def _failing_points(seeds: Mapping[str, Sequence[int]], quick: bool, kind: str) -> Points:
    """Every network, its seeds, each pattern and number of links that fail for good; quick: without the large torus."""
    found = []
    for network, own in seeds.items():
        if quick and network == "torus:16x16":
            continue
        most = TEN_PERCENT[network]
        counts = (0, 4, most) if quick else (0, 2, 4, 6, 8, 10, most)
        for pattern in ("uniform", "transpose") if quick else SYNTHETIC:
            found += drb_points(network, pattern, own, quick=quick, faults=counts, fault_kind=kind)
            alone = own[: ALONE_SEEDS[network]]
            without: Results = {"faults": most, "fault_kind": kind, "options": NO_DIVERSION}
            found += drb_points(network, pattern, alone, quick=quick, **without)
    return found


def judge(rows: Rows) -> Verdict:
    """Sent = received; 80 % on the fat tree, above 95 % elsewhere; no abrupt fall; further paths opened by
    congestion."""
    half_way = _of_kind(rows, HALF_WAY)
    thesis = where(half_way, rate=400.0, options={})
    worst, alone = at_ten_percent(thesis), of_escapes_alone(half_way)
    lowest, uniform = (
        f"{TREE} uniform, the lowest: performance at 10 % failed links (%)",
        worst.pop((TREE, "uniform")),
    )
    checks = [
        delivery_check(rows),
        equal(lowest, 80.0, uniform, 5.0)
        .cites("about 80 % (5.6.1, Figure 5.25)")
        .against(95.0, "as the other patterns"),
        *above_95(worst, alone, "", "above 95 % (5.6.1)"),
        _gradual(thesis),
        _opened(thesis),
        *_at_random_moments(_of_kind(rows, AT_RANDOM)),
    ]
    return Verdict.of(checks)


def _of_kind(rows: Rows, kind: str) -> Rows:
    """Return the runs with failures of this kind, and those without failures."""
    return [row for row in rows if row["fault_kind"] in ("none", kind)]


def _at_random_moments(rows: Rows) -> list[Check]:
    """Above 95 % with a tenth of the links failed; less is lost with fewer links."""
    stated = "above 95 % (5.6.1); the appendix has curves, no numbers"
    diverting = [row for row in rows if not row["options"]]
    retained, alone = at_ten_percent(diverting), of_escapes_alone(rows)
    checks = above_95(retained, alone, ", from random moments on", stated)
    for network in RANDOM_FIGURES:
        checks += _loss_with_few(where(diverting, network=network), network)
    return checks


def _loss_with_few(rows: Rows, network: str) -> list[Check]:
    """Return the check of what 4 failed links lose over what a tenth of the links lose, patterns taken together.

    There is none if no run has 4 failed links.
    """
    retained, most = of_failures(rows, "faults"), TEN_PERCENT[network]
    if 4 not in retained:
        return []
    few, _ = spread([100.0 - value for value in retained[4]])
    many, _ = spread([100.0 - value for value in retained[most]])
    return [
        Claim(f"{network}: loss with 4 failed links over that with {most}")
        .at_most(0.75, few / many)
        .cites("no abrupt transitions (5.6.1)")
        .against(1.0, "all is lost with the first links: an abrupt fall")
    ]


def figures(rows: Rows) -> Figures:
    """5.25: 10 % failed by network and pattern; the others: performance and latency over the number of failures."""
    thesis = where(_of_kind(rows, HALF_WAY), rate=400.0, options={})
    title = "Performance with 10 % of the links failed"
    drawn = {
        "5.25": draw_bars(title, at_ten_percent(thesis), y=PERFORMANCE, low=75, claim=ABOVE_95)
    }
    for network, number in zip(TEN_PERCENT, ("5.26", "5.27", "5.28"), strict=True):
        drawn |= over_failures(
            where(thesis, network=network), number, f"{network}: {{}} under permanent failures"
        )
    at_random = where(_of_kind(rows, AT_RANDOM), options={})
    for network, number in RANDOM_FIGURES.items():
        title = f"{network}: {{}}, links fail for good at random moments"
        drawn |= over_failures(where(at_random, network=network), number, title)
    return drawn


def over_failures(rows: Rows, number: str, title: str) -> Results:
    """Performance and latency of one network's runs over the number of failed links, a line a pattern; ``title`` with a
    place for which; none without runs."""

    def label(row: Row) -> tuple[str, int]:
        return row["pattern"], row["faults"]

    if not rows:
        return {}
    measured, failed = performances(rows, label), "failed links"
    late = {
        k: v
        for k, v in grouped(rows, label, lambda row: 1e6 * row["latency_s"]).items()
        if k in measured
    }
    return {
        number: draw_lines(
            title.format("performance"), measured, x=failed, y=PERFORMANCE, claim=ABOVE_95
        ),
        f"{number}-absolute": draw_lines(title.format("latency"), late, x=failed, y=LATENCY),
    }


def at_ten_percent(rows: Rows) -> dict[tuple[str, str], list[float]]:
    """Performance by network and pattern with a tenth of the links failed."""
    most = [row for row in rows if row["faults"] in (0, TEN_PERCENT[row["network"]])]
    return of_failures(most, ("network", "pattern"))


def of_escapes_alone(rows: Rows) -> dict[tuple[str, str], list[float]]:
    """``at_ten_percent`` of the runs in which sources divert nothing."""
    return at_ten_percent([row for row in rows if row["options"] or not row["faults"]])


Performances = Mapping[tuple[str, str], Sequence[float]]


def above_95(found: Performances, alone: Performances, when: str, stated: str) -> list[Check]:
    """Performance by network and pattern is above 95 % with a tenth of the links failed, and better than that of
    routers' escapes alone, of the same seeds; ``when`` they fail, in words."""
    checks = []
    for (network, pattern), values in found.items():
        name = f"{network} {pattern}: performance at 10 % failed links{when}"
        checks += beyond_escapes(name, 95.0, values, alone[network, pattern], stated)
    return checks


def beyond_escapes(
    name: str,
    least: float,
    values: Sequence[float],
    alone: Sequence[float],
    stated: str,
    detail: str = "",
) -> list[Check]:
    """Performance is at least so high (%), and better than that of routers' escapes ``alone``, of the same first seeds;
    where none of these was run it does not hold."""
    check, rival = (
        at_least(f"{name} (%)", least, values, detail),
        "routers' escapes alone: sources divert nothing",
    )
    check = check.cites(stated)
    if not alone:
        return [
            check.against(None, f"{rival}; not run").of(
                not check.passed, "no run without diversion"
            )
        ]
    gained = [own - other for own, other in zip(values, alone, strict=False)]
    gain = at_least(f"{name}, less that of escapes alone (points)", SEEN, gained)
    return [check.against(spread(alone)[0], rival), gain.against(0.0, "diversion is for nothing")]


def _gradual(rows: Rows) -> Check:
    """The steepest step of the loss, patterns taken together, over an even fall from no failed link to a tenth of
    them."""
    losses: dict[str, dict[int, list[float]]] = {}
    for (network, count, _), values in sorted(
        performances(rows, ("network", "faults", "seed")).items()
    ):
        losses.setdefault(network, {}).setdefault(count, []).append(100.0 - spread(values)[0])
    steepest, place, abrupt = [0.0], "", float("inf")
    for network, loss in losses.items():
        most = TEN_PERCENT[network]
        for few, many in itertools.pairwise(loss):
            if many <= 2 * TEN_PERCENT["torus:8x8"]:
                abrupt, even = (
                    min(abrupt, most / (many - few)),
                    (many - few) * spread(loss[most])[0] / most,
                )
                steps = [
                    (more - less) / even for less, more in zip(loss[few], loss[many], strict=True)
                ]
                if spread(steps)[0] > spread(steepest)[0]:
                    steepest, place = steps, f"{network}, from {few} to {many} links"
    return (
        at_most("steepest step of the loss over an even fall", 3.0, steepest, place)
        .cites("no abrupt transitions (5.6.1)")
        .against(abrupt, "all of the loss in the widest step")
    )


def _opened(rows: Rows) -> Check:
    """Whether congestion opens further paths in runs with a tenth of the links failed, and in those alone."""
    name = "metapaths that congestion opened in a run with 10 % failed links"
    grown = [float(row["grown"]) for row in rows if row["faults"] == TEN_PERCENT[row["network"]]]
    return (
        at_least(name, 1.0, grown, "at 400 packets/s nothing queues")
        .cites("opened between some pairs (5.6.1)")
        .against(mean_of(where(rows, faults=0), "grown"), "as without failures")
    )


STUDY = Study.of_module(
    __name__,
    name="interconnect_permanent",
    title="Links that fail for good: what they cost on two tori and a fat tree",
    deviations=(
        "8x8 torus, fat tree 2 s (uniform 8 s), 16x16 1.5 s (12 s; --quick: 0.4, 0.15 s); the document gives no time.",
        POISSON_512,
        "Figures 5.25-5.28: failures come half-way: half of the messages precede them.",
        "Figures A.18-A.20: ten seeds, five on the 16x16 torus; a failure lasts from a random moment until the end.",
    ),
    answers="Zarza 2011, Figures 5.25-5.28, A.18-A.20: "
    "lowest about 80 % (fat tree, uniform, 10 %), all others above 95 %, no abrupt fall",
    measure=measure_run,
)
