"""What do permanent failures cost that begin at random moments (Zarza 2011, appendix A.2.1, Figures A.18 to A.20)?

As `interconnect_permanent`, where they all begin half-way: two tori and a fat tree, six patterns, up to 10 % of the links.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from experiments.interconnect.permanent import over_failures
from experiments.interconnect.runs import measure_run
from experiments.interconnect.samples import Row, at_least, delivery_check, livelock_check, performances
from experiments.interconnect.traffic import SYNTHETIC, TEN_PERCENT, drb_point, seeds_of
from testbed.model.samples import spread
from testbed.model.studies.study import Study
from testbed.model.verdict import Check, Verdict

SEEDS = {"torus:8x8": 10, "fat-tree:4,3": 10, "torus:16x16": 5}
FIGURES = {"torus:8x8": "A.18", "torus:16x16": "A.19", "fat-tree:4,3": "A.20"}


def points(quick: bool, seed: int) -> list[dict[str, Any]]:
    """Every network, pattern and number of failed links (Table 5.8), each link for good from a moment of its own on."""
    found = []
    for network, count in SEEDS.items():
        if quick and network == "torus:16x16":
            continue
        most = TEN_PERCENT[network]
        seeds = list(seeds_of(seed, quick))[:count]
        for pattern in ("uniform", "transpose") if quick else SYNTHETIC:
            for faults in (0, most) if quick else (0, 2, 4, 6, 8, 10, most):
                random: dict[str, Any] = {"faults": faults, "fault_kind": "random-start"}
                found += [drb_point(network, pattern, s, quick=quick, **random) for s in seeds]
    return found


def judge(rows: Sequence[Row]) -> Verdict:
    """Sent = received; above 95 % with a tenth of the links failed; less lost with fewer links."""
    checks = [delivery_check(rows), livelock_check(rows)]
    measured = performances(rows, lambda row: (row["network"], row["pattern"], row["faults"]))
    for (network, pattern, faults), values in measured.items():
        if faults == TEN_PERCENT[network]:
            checks.append(
                at_least(
                    f"{network} {pattern}: performance at 10 % failed links, from random moments on (%)",
                    95.0,
                    values,
                    rival=80.0,
                    rival_is="as uniform traffic on the fat tree in the document",
                    stated="above 95 % (5.6.1); the appendix has curves, no numbers",
                )
            )
    checks += [check for network in FIGURES if (check := _gradual(measured, network)) is not None]
    return Verdict(checks=tuple(checks), notes=_notes(rows))


def _gradual(measured: Mapping[tuple[str, str, int], Sequence[float]], network: str) -> Check | None:
    """What 4 failed links lose over what a tenth of the links lose, patterns taken together."""
    lost: dict[int, list[float]] = {}
    for (name, _, faults), values in measured.items():
        if name == network and faults:
            lost.setdefault(faults, []).extend(100.0 - value for value in values)
    most = TEN_PERCENT[network]
    if 4 not in lost:
        return None
    return Check.at_most(
        f"{network}: loss with 4 failed links over that with {most}",
        0.75,
        spread(lost[4])[0] / spread(lost[most])[0],
        rival=1.0,
        rival_is="all is lost with the first links: an abrupt fall",
        stated="no abrupt transitions (5.6.1)",
    )


def _notes(rows: Sequence[Row]) -> tuple[str, ...]:
    """Latency and both phases, with a tenth of the links failed."""
    said = []
    for network, most in TEN_PERCENT.items():
        mine = [row for row in rows if (row["network"], row["faults"]) == (network, most)]
        if mine:
            shares = [spread([row[name] for row in mine])[0] for name in ("diverted_share", "escaped_share")]
            said.append(f"{network} {shares[0]:.2f} over other paths, {shares[1]:.2f} escaped")
    return (f"with a tenth of the links failed, of messages after the first failure, all patterns: {', '.join(said)}",)


def figures(rows: Sequence[Row]) -> Mapping[str, Any]:
    """A.18 to A.20: performance and latency over the number of failed links."""
    drawn: dict[str, Any] = {}
    for network, number in FIGURES.items():
        mine = [row for row in rows if row["network"] == network]
        if mine:
            drawn |= over_failures(mine, number, f"{network}: {{}}, links fail for good at random moments")
    return drawn


STUDY = Study.of_module(
    __name__,
    name="interconnect_random_starts",
    title="Links that fail for good at random moments: two tori and a fat tree",
    deviations=(
        "8x8 torus and fat tree 2 s (uniform 8 s) and ten seeds, 16x16 torus 1.5 s (12 s) and five seeds, not 30: the document gives no time.",
        "Messages come at random (Poisson) where the document has a constant rate; payloads of 512 bytes only.",
        "A permanent failure lasts from its random moment until the end of the run; this is its random duration.",
    ),
    does="latency under 0 to 10 % of the links failing for good at random moments, three networks, six patterns",
    answers="Zarza 2011, Figures A.18-A.20: as Figures 5.26-5.28, from random moments on",
    measure=measure_run,
)
