"""Measures the cost of permanent link failures under FT-DRB (Zarza 2011, 5.6.1 and A.2.1).

Up to 10 % of the links of two tori and a fat tree fail, with six patterns (Figures 5.25 to 5.28 and
A.18 to A.20). All fail half-way through the run, or each at a random moment.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise

from experiments.interconnect.figures import LATENCY, PERFORMANCE
from experiments.interconnect.runs import measure_run
from experiments.interconnect.samples import (
    at_least,
    at_most,
    delivery_check,
    diverting,
    equal,
    failure_performances,
    mean,
    not_diverting,
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
    Check,
    Claim,
    Figures,
    Points,
    Results,
    Rows,
    Study,
    Verdict,
    mean_of,
    where,
)
from testbed.report.drawing.charts import draw_bars, draw_lines

TREE = "fat-tree:4,3"
LARGE_TORUS = "torus:16x16"

# Threshold of the claim, and its label in figures.
ABOVE_95 = (95.0, "claim: above 95 %")

# Smallest gain by the diversion of messages that passes a check (points of performance).
MIN_GAIN = 0.1

# Options with which sources mark no link as failed during a run, and so divert no message. Only
# the routers give escape paths.
NO_DIVERSION = {"marking": "clock", "marking_s": 3600.0}

# Number of runs without diversion, by network. Results on the 8x8 torus differ most.
ALONE_SEEDS = {"torus:8x8": 30, "fat-tree:4,3": 5, "torus:16x16": 5}

# Kinds of failures: see ``Run.fault_kind``.
HALF_WAY = "half"
AT_RANDOM = "random-start"

# Number of seeds of failures at random moments, by network.
RANDOM_SEEDS = {"torus:8x8": 10, "fat-tree:4,3": 10, "torus:16x16": 5}

# Number of seeds of failures half-way on the fat tree. Only a few sets of failures cost much, so
# that the mean needs many seeds.
TREE_SEEDS = 100

# Numbers of the document's figures, by network.
HALF_WAY_FIGURES = {"torus:8x8": "5.26", "torus:16x16": "5.27", "fat-tree:4,3": "5.28"}
RANDOM_FIGURES = {"torus:8x8": "A.18", "torus:16x16": "A.19", "fat-tree:4,3": "A.20"}

# Performance of each run, by network and pattern.
Performances = Mapping[tuple[str, str], Sequence[float]]


def points(quick: bool, seed: int) -> Points:
    """Return the points: each network, pattern, number of failures and seed, for both kinds.

    The runs without failures serve both kinds.
    """
    seeds = seeds_of(seed, quick, few=6)
    tree_seeds = seeds
    if not quick:
        tree_seeds = range(seeds.start, seeds.start + TREE_SEEDS * seeds.step, seeds.step)
    half_way: Points = []
    for network in TEN_PERCENT:
        network_seeds = tree_seeds if network == TREE else seeds
        half_way += _points_of_kind(network, network_seeds, HALF_WAY, quick=quick)
    at_random: Points = []
    for network, count in RANDOM_SEEDS.items():
        few_seeds = seeds_of(seed, quick)[:count]
        at_random += _points_of_kind(network, few_seeds, AT_RANDOM, quick=quick)
    return half_way + [point for point in at_random if point["faults"]]


def _points_of_kind(network: str, seeds: Sequence[int], kind: str, *, quick: bool) -> Points:
    """Return the points of a network: each pattern and number of failed links.

    With a tenth of the links, a few runs without diversion are added. With ``--quick`` the large
    torus is left out.
    """
    if quick and network == LARGE_TORUS:
        return []
    max_faults = TEN_PERCENT[network]
    counts = (0, 4, max_faults) if quick else (0, 2, 4, 6, 8, 10, max_faults)
    patterns = ("uniform", "transpose") if quick else SYNTHETIC
    alone_seeds = seeds[: ALONE_SEEDS[network]]
    result = []
    for pattern in patterns:
        result += drb_points(network, pattern, seeds, quick=quick, faults=counts, fault_kind=kind)
        result += drb_points(
            network,
            pattern,
            alone_seeds,
            quick=quick,
            faults=max_faults,
            fault_kind=kind,
            options=NO_DIVERSION,
        )
    return result


def judge(rows: Rows) -> Verdict:
    """Check the performance with a tenth of the links failed.

    It should be about 80 % for uniform traffic on the fat tree and above 95 % otherwise. It should
    not fall abruptly with the number of failures, and congestion should open further paths.
    """
    half_way = _of_kind(rows, HALF_WAY)
    as_stated = where(half_way, rate=400.0, options={})
    retained = at_ten_percent(as_stated)
    uniform_on_tree = retained.pop((TREE, "uniform"))
    tree_check = equal(
        f"{TREE} uniform, the lowest: performance at 10 % failed links (%)",
        80.0,
        uniform_on_tree,
        5.0,
    )
    tree_check = tree_check.cites("about 80 % (5.6.1, Figure 5.25)")
    checks = [
        delivery_check(rows),
        tree_check.against(95.0, "as the other patterns"),
        *_above_95_checks(
            retained, at_ten_percent(not_diverting(half_way)), "", "above 95 % (5.6.1)"
        ),
        _gradual_check(as_stated),
        _opened_check(as_stated),
        *_random_checks(_of_kind(rows, AT_RANDOM)),
    ]
    return Verdict.of(checks)


def _of_kind(rows: Rows, kind: str) -> Rows:
    """Return the runs with failures of this kind, and those without failures."""
    return [row for row in rows if row["fault_kind"] in ("none", kind)]


def at_ten_percent(rows: Rows) -> dict[tuple[str, str], list[float]]:
    """Return performance by network and pattern with a tenth of the links failed."""
    at_most_failed = [row for row in rows if row["faults"] in (0, TEN_PERCENT[row["network"]])]
    return failure_performances(at_most_failed, ("network", "pattern"))


def _random_checks(rows: Rows) -> list[Check]:
    """Check failures at random moments.

    Performance should be above 95 % with a tenth of the links failed. With fewer failed links, the
    loss should be smaller.
    """
    with_diversion = diverting(rows)
    checks = _above_95_checks(
        at_ten_percent(with_diversion),
        at_ten_percent(not_diverting(rows)),
        ", from random moments on",
        "above 95 % (5.6.1); the appendix has curves, no numbers",
    )
    for network in RANDOM_FIGURES:
        checks += _few_failures_checks(where(with_diversion, network=network), network)
    return checks


def _few_failures_checks(rows: Rows, network: str) -> list[Check]:
    """Check the loss with 4 failed links over that with a tenth of them, for all patterns together.

    There is no check if no run has 4 failed links.
    """
    max_faults = TEN_PERCENT[network]
    retained = failure_performances(rows, "faults")
    if 4 not in retained:
        return []
    few_loss = mean([100.0 - value for value in retained[4]])
    max_loss = mean([100.0 - value for value in retained[max_faults]])
    check = Claim(f"{network}: loss with 4 failed links over that with {max_faults}").at_most(
        0.75, few_loss / max_loss
    )
    check = check.cites("no abrupt transitions (5.6.1)")
    return [check.against(1.0, "all is lost with the first links: an abrupt fall")]


def _above_95_checks(
    retained: Performances, alone: Performances, moments: str, stated: str
) -> list[Check]:
    """Check that performance is above 95 % with a tenth of the links failed.

    It should also be better than with the routers' escapes alone, for the same seeds.

    Args:
        retained: Performance with diversion.
        alone: Performance without diversion.
        moments: A text that says when the links fail, for the names of the checks.
        stated: The claim of the document, with its section.
    """
    checks = []
    for (network, pattern), values in retained.items():
        name = f"{network} {pattern}: performance at 10 % failed links{moments}"
        checks += diversion_checks(name, 95.0, values, alone[network, pattern], stated)
    return checks


def diversion_checks(
    name: str,
    threshold: float,
    values: Sequence[float],
    alone: Sequence[float],
    stated: str,
    detail: str = "",
) -> list[Check]:
    """Check that performance reaches a threshold because sources divert messages.

    It should be at least the threshold, and better than with the routers' escapes alone. If there
    are no runs without diversion, the first check cannot tell, and there is no second one.

    Args:
        name: Name of the checks, without its unit.
        threshold: The claimed performance (%).
        values: Performance of each run.
        alone: Performance of each run without diversion. These runs have the first seeds of the
            others.
        stated: The claim of the document, with its section.
        detail: A remark.
    """
    rival = "routers' escapes alone: sources divert nothing"
    check = at_least(f"{name} (%)", threshold, values, detail).cites(stated)
    if not alone:
        check = check.against(None, f"{rival}; not run")
        if check.passed:
            check = check.of(0, "no run without diversion")
        return [check]
    gains = [value - value_alone for value, value_alone in zip(values, alone, strict=False)]
    gain_check = at_least(f"{name}, less that of escapes alone (points)", MIN_GAIN, gains)
    return [
        check.against(mean(alone), rival),
        gain_check.against(0.0, "diversion is for nothing"),
    ]


def _gradual_check(rows: Rows) -> Check:
    """Check that the loss grows gradually with the number of failed links.

    The loss is the mean over all patterns. Its growth in each step is compared with even growth
    from no failed link to a tenth of them.
    """
    steepest = [0.0]
    where_steepest = ""
    # The widest step, if it has all of the loss, over an even fall.
    abrupt = float("inf")
    for network, losses in _losses(rows).items():
        max_faults = TEN_PERCENT[network]
        max_loss = mean(losses[max_faults])
        for few, many in pairwise(losses):
            # The step from 10 to 51 links on the 16x16 torus cannot be steep: with all of the loss
            # it would be 1.2 times an even fall.
            if many > 2 * TEN_PERCENT["torus:8x8"]:
                continue
            abrupt = min(abrupt, max_faults / (many - few))
            even_step = (many - few) * max_loss / max_faults
            steps = []
            for few_loss, many_loss in zip(losses[few], losses[many], strict=True):
                steps.append((many_loss - few_loss) / even_step)
            if mean(steps) > mean(steepest):
                steepest = steps
                where_steepest = f"{network}, from {few} to {many} links"
    check = at_most("steepest step of the loss over an even fall", 3.0, steepest, where_steepest)
    check = check.cites("no abrupt transitions (5.6.1)")
    return check.against(abrupt, "all of the loss in the widest step")


def _losses(rows: Rows) -> dict[str, dict[int, list[float]]]:
    """Return, by network and ascending number of failures, the loss of each seed.

    It is the mean over patterns, in percent.
    """
    by_seed = performances(rows, ("network", "faults", "seed"))
    losses: dict[str, dict[int, list[float]]] = {}
    for (network, count, _), values in sorted(by_seed.items()):
        losses.setdefault(network, {}).setdefault(count, []).append(100.0 - mean(values))
    return losses


def _opened_check(rows: Rows) -> Check:
    """Check that congestion opens further paths if, and only if, a tenth of the links failed."""
    grown = []
    for row in rows:
        if row["faults"] == TEN_PERCENT[row["network"]]:
            grown.append(float(row["grown"]))
    check = at_least(
        "metapaths that congestion opened in a run with 10 % failed links",
        1.0,
        grown,
        "at 400 packets/s nothing queues",
    )
    check = check.cites("opened between some pairs (5.6.1)")
    return check.against(mean_of(where(rows, faults=0), "grown"), "as without failures")


def figures(rows: Rows) -> Figures:
    """Draw performance and latency under permanent failures.

    Figure 5.25 has all networks and patterns with 10 % of the links failed. Figures 5.26 to 5.28
    and A.18 to A.20 have one network each, over the number of failures.
    """
    half_way = where(_of_kind(rows, HALF_WAY), rate=400.0, options={})
    at_random = where(_of_kind(rows, AT_RANDOM), options={})
    drawn: Results = {
        "5.25": draw_bars(
            "Performance with 10 % of the links failed",
            at_ten_percent(half_way),
            y=PERFORMANCE,
            low=75,
            claim=ABOVE_95,
        )
    }
    for network, number in HALF_WAY_FIGURES.items():
        title = f"{network}: {{}} under permanent failures"
        drawn |= _over_failures(where(half_way, network=network), number, title)
    for network, number in RANDOM_FIGURES.items():
        title = f"{network}: {{}}, links fail for good at random moments"
        drawn |= _over_failures(where(at_random, network=network), number, title)
    return drawn


def _over_failures(rows: Rows, number: str, title: str) -> Results:
    """Draw performance and latency over the number of failed links, one line per pattern.

    Args:
        rows: Runs of one network. If there are none, nothing is drawn.
        number: Number of the figure.
        title: Title of the figures, with "{}" for what is drawn.
    """
    if not rows:
        return {}
    retained = performances(rows, ("pattern", "faults"))
    latencies_us: dict[tuple[str, int], list[float]] = {}
    for row in rows:
        label = (row["pattern"], row["faults"])
        if label in retained:
            latencies_us.setdefault(label, []).append(1e6 * row["latency_s"])
    failed = "failed links"
    return {
        number: draw_lines(
            title.format("performance"), retained, x=failed, y=PERFORMANCE, claim=ABOVE_95
        ),
        f"{number}-absolute": draw_lines(
            title.format("latency"), latencies_us, x=failed, y=LATENCY
        ),
    }


STUDY = Study.of_module(
    __name__,
    name="interconnect_permanent",
    title="Cost of permanent link failures on two tori and a fat tree",
    deviations=(
        "8x8 torus and fat tree 2 s (uniform 8 s), 16x16 torus 1.5 s (uniform 12 s); with --quick "
        "0.4 and 0.15 s. The document gives no time.",
        POISSON_512,
        "Figures 5.25-5.28: links fail half-way, so that half of the messages precede the "
        "failures.",
        "Figures A.18-A.20: ten seeds, five on the 16x16 torus. A failure lasts from a random "
        "moment until the end.",
    ),
    answers="Zarza 2011, Figures 5.25-5.28 and A.18-A.20: lowest about 80 % (fat tree, uniform, "
    "10 %), all others above 95 %, no abrupt fall",
    measure=measure_run,
)
