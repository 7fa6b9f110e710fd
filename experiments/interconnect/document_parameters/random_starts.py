"""What do permanent failures cost that begin at random moments (Zarza 2011, appendix A.2.1, Figures A.18 to A.20)?

As `interconnect_permanent`, where they all begin half-way: two tori and a fat tree, six patterns, up to 10 % of the
links.
"""

from experiments.interconnect.permanent import (
    above_95,
    at_ten_percent,
    failing_points,
    of_escapes_alone,
    over_failures,
)
from experiments.interconnect.runs import measure_run
from experiments.interconnect.samples import delivery_check, of_failures
from experiments.interconnect.study_points import POISSON_512, TEN_PERCENT, seeds_of
from testbed.model.studies import (
    Check,
    Claim,
    Figures,
    Points,
    Results,
    Rows,
    Study,
    Verdict,
    spread,
    where,
)

SEEDS = {"torus:8x8": 10, "fat-tree:4,3": 10, "torus:16x16": 5}
FIGURES = {"torus:8x8": "A.18", "torus:16x16": "A.19", "fat-tree:4,3": "A.20"}


def points(quick: bool, seed: int) -> Points:
    """Every network, pattern and number of failed links (Table 5.8), each link for good from a moment of its own on."""
    seeds = {network: list(seeds_of(seed, quick))[:count] for network, count in SEEDS.items()}
    return failing_points(seeds, quick, "random-start")


def judge(rows: Rows) -> Verdict:
    """Sent = received; above 95 % with a tenth of the links failed; less lost with fewer links."""
    stated = "above 95 % (5.6.1); the appendix has curves, no numbers"
    own = [row for row in rows if not row["options"]]
    found, alone = at_ten_percent(own), of_escapes_alone(rows)
    checks = [delivery_check(rows), *above_95(found, alone, ", from random moments on", stated)]
    checks += [
        check for network in FIGURES for check in _gradual(where(own, network=network), network)
    ]
    return Verdict.of(checks)


def _gradual(rows: Rows, network: str) -> list[Check]:
    """What 4 failed links lose over what a tenth of the links lose, patterns taken together; none where 4 did not
    fail."""
    retained, most = of_failures(rows, "faults"), TEN_PERCENT[network]
    if 4 not in retained:
        return []
    few, many = (spread([100.0 - value for value in retained[count]])[0] for count in (4, most))
    return [
        Claim(f"{network}: loss with 4 failed links over that with {most}")
        .at_most(0.75, few / many)
        .cites("no abrupt transitions (5.6.1)")
        .against(1.0, "all is lost with the first links: an abrupt fall")
    ]


def figures(rows: Rows) -> Figures:
    """A.18 to A.20: performance and latency over the number of failed links."""
    drawn: Results = {}
    for network, number in FIGURES.items():
        title = f"{network}: {{}}, links fail for good at random moments"
        drawn |= over_failures(where(rows, network=network, options={}), number, title)
    return drawn


STUDY = Study.of_module(
    __name__,
    name="interconnect_random_starts",
    title="Links that fail for good at random moments: two tori and a fat tree",
    deviations=(
        "8x8 torus, fat tree 2 s (uniform 8 s), ten seeds, 16x16 torus 1.5 s (12 s), five; the document gives no time.",
        POISSON_512,
        "A permanent failure lasts from its random moment until the end of the run; this is its random duration.",
    ),
    answers="Zarza 2011, Figures A.18-A.20: as Figures 5.26-5.28, from random moments on",
    measure=measure_run,
)
