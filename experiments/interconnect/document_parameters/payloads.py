"""Do 256 bytes, a constant rate, or gather at 400 packets a second change what failures cost (Zarza 2011, Tables 5.5 to
5.16)?

What the other studies leave out of the document's parameters: both payloads, messages at a constant rate, and gather at
the stated rate, which offers the root's only link 84 % of what it bears.
"""

from itertools import product

from experiments.interconnect.figures import PERFORMANCE, named
from experiments.interconnect.permanent import NO_DIVERSION, beyond_escapes
from experiments.interconnect.runs import measure_run
from experiments.interconnect.samples import delivery_check, of_failures
from experiments.interconnect.study_points import SYNTHETIC, TEN_PERCENT, drb_points, seeds_of
from testbed.model.studies import (
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
from testbed.report.drawing.charts import draw_bars

NETWORKS = ("torus:8x8", "fat-tree:4,3")
PAYLOADS, INJECTIONS = (256, 512), ("poisson", "periodic")
GATHER_S, GATHER_LINKS = 0.5, (0, 10, 100)


def points(quick: bool, seed: int) -> Points:
    """Two networks by pattern, payload and injection, none and a tenth of the links failed from the start; gather on
    32x32."""
    every = seeds_of(seed, quick)
    patterns, seeds = (("uniform", "transpose"), every[:2]) if quick else (SYNTHETIC, every[:5])
    found = []
    for network, pattern, size, injection in product(NETWORKS, patterns, PAYLOADS, INJECTIONS):
        failing: Results = {
            "faults": (0, TEN_PERCENT[network]),
            "fault_kind": "start",
            "bytes": size,
        }
        runs = drb_points(network, pattern, seeds, quick=quick, **failing)
        found += [point | {"injection": injection} for point in runs]
    gather: Results = {
        "faults": GATHER_LINKS[: 2 if quick else None],
        "seconds": GATHER_S / (25 if quick else 1),
    }
    gather |= {"quick": quick, "fault_kind": "start"}
    runs = drb_points("torus:32x32", "gather", every, **gather)
    gather |= {"faults": gather["faults"][-1], "options": NO_DIVERSION}
    runs += drb_points("torus:32x32", "gather", every[:6], **gather)
    return found + [point | {"injection": "periodic"} for point in runs]


def judge(rows: Rows) -> Verdict:
    """Performance differs by less than a point between payloads and injections; gather at the stated rate loses less
    than 1 %."""
    checks = [delivery_check(rows)]
    means = {
        key: spread(values)[0] for key, values in _measured(rows).items() if key[1] != "gather"
    }
    for what, place, pairs in (("payloads", 2, PAYLOADS), ("injections", 3, INJECTIONS)):
        apart = {}
        for key, mean in means.items():
            if key[place] == pairs[0]:
                other = (*key[:place], pairs[1], *key[place + 1 :])
                apart[key] = abs(mean - means[other])
        worst = max(apart, key=lambda key: apart[key])
        checks.append(
            Claim(
                f"performance with a tenth of the links failed: the most that the two {what} are apart (points)"
            )
            .at_most(1.0, apart[worst])
            .against(
                100.0 - min(means.values()),
                "as much as the failed links cost where they cost the most",
            )
            .noting(f"{pairs[0]} against {pairs[1]}: {worst[0]} {worst[1]}")
        )
    gather = {int(key[4]): values for key, values in _measured(rows).items() if key[1] == "gather"}
    name = f"gather at the stated 400 packets/s a node: performance with {max(gather)} failed links"
    alone = [values for key, values in _measured(rows, alone=True).items() if key[1] == "gather"]
    said = "less than 1 % lost (5.6.3, Figure 5.31)"
    return Verdict.of(
        checks + beyond_escapes(name, 99.0, gather[max(gather)], next(iter(alone), ()), said)
    )


def _measured(rows: Rows, *, alone: bool = False) -> dict[tuple[str, ...], list[float]]:
    """Performance by network, pattern, payload, injection and failed links; each against its own run without
    failures."""
    found: dict[tuple[str, ...], list[float]] = {}
    for injection in INJECTIONS:
        own = [
            row
            for row in where(rows, injection=injection)
            if bool(row["options"]) == alone or not row["faults"]
        ]
        found |= of_failures(own, ("network", "pattern", "bytes", "injection", "faults"))
    return found


def figures(rows: Rows) -> Figures:
    """5.25 by payload and injection: performance with a tenth of the links failed."""
    drawn, claim = {}, (95.0, "claim: above 95 %")
    for network in NETWORKS:
        found = {
            (f"{k[2]} B, {k[3]}", k[1]): values
            for k, values in _measured(rows).items()
            if k[0] == network
        }
        title = f"{network}: a tenth of the links failed, by payload and injection"
        drawn[f"5.25-{named(network)}"] = draw_bars(
            title, found, y=PERFORMANCE, low=90, claim=claim
        )
    return drawn


STUDY = Study.of_module(
    __name__,
    name="interconnect_payloads",
    title="256 and 512 bytes, constant and random rates, and gather at 400 packets/s: do they matter?",
    deviations=(
        "8x8 torus, fat tree 2 s (uniform: 8 s; --quick: 0.4 s), gather 0.5 s (0.02 s), from the start; 5 seeds (30).",
        "A constant rate has the nodes share the period out of phase; in phase it would be a burst.",
    ),
    answers="Zarza 2011, Tables 5.5 to 5.16: payloads of 256 and 512 bytes, a constant rate, gather at 400 packets/s",
    measure=measure_run,
)
