"""Do transient failures cost less than permanent ones under FT-DRB (Zarza 2011, 5.6.4, Figures 5.32-5.34)?

The same networks and patterns; failures start at a random moment and last up to a tenth of the run, or permanently.
"""

import math
from collections.abc import Mapping

from experiments.interconnect.figures import PERFORMANCE
from experiments.interconnect.runs import measure_run
from experiments.interconnect.samples import at_least, delivery_check, equal, of_failures
from experiments.interconnect.study_points import (
    POISSON_512,
    SYNTHETIC,
    TEN_PERCENT,
    drb_point,
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
    spread,
)
from testbed.report.drawing.charts import draw_lines

GAINS = {"torus:8x8": 14.0, "torus:16x16": 8.0, "fat-tree:4,3": 12.0}
"""How many per cent better than permanent failures the thesis found transient ones, at best."""
SECONDS = {"torus:8x8": 4.0, "fat-tree:4,3": 2.0, "torus:16x16": 2.0}
"""Of a full run where every node has one destination."""
OTHERWISE_S = {
    ("torus:16x16", "uniform", "transient"): 3.0, ("torus:16x16", "uniform", "intermittent"): 3.0,
    ("torus:16x16", "others", "intermittent"): 16.0, ("torus:8x8", "others", "intermittent"): 12.0,
}  # fmt: skip
"""By network, pattern and kind, where it is another time (docs/replication/chapter_5.md): on the larger torus only
lasting failures need all of uniform traffic's. Of the other patterns intermittent failures need more: they come ten
times, and of each time sources lose what five notifications take. Each kind has runs without failures of its own
length."""
Found = Mapping[tuple[str, str, str, int], list[float]]
"""Performance by network, pattern, kind of failure and number of failed links."""
INTERMITTENT_SEEDS = {"torus:16x16": 10}
"""Of the patterns but uniform: their runs are long, and the document has none."""


def points(quick: bool, seed: int) -> Points:
    """Both kinds of failure at every number; the same seeds draw the same links."""
    seeds = seeds_of(seed, quick, few=6)
    found = []
    for network, most in TEN_PERCENT.items():
        if quick and network == "torus:16x16":
            continue
        kinds = [(n, "transient") for n in ((4,) if quick else (2, 4, 6, 8, 10))]
        kinds += [(most, kind) for kind in ("transient", "intermittent", "start")]
        for pattern in ("uniform", "transpose") if quick else SYNTHETIC:
            lengths = {
                kind: None if quick else _length_s(network, pattern, kind) for _, kind in kinds
            }
            for number, s in enumerate(seeds):
                without = pattern != "uniform" and number >= INTERMITTENT_SEEDS.get(
                    network, len(seeds)
                )
                some = [(n, kind) for n, kind in kinds if not (without and kind == "intermittent")]
                whole: list[tuple[float | None, Results]] = [
                    (full_s, {}) for full_s in dict.fromkeys(lengths[kind] for _, kind in some)
                ]
                failed = [(lengths[kind], {"faults": n, "fault_kind": kind}) for n, kind in some]
                for full_s, changed in [*whole, *failed]:
                    found.append(
                        drb_point(network, pattern, s, quick=quick, full_s=full_s, **changed)
                    )
    return found


def _length_s(network: str, pattern: str, kind: str) -> float | None:
    """The simulated time of a full run; None where it is what every study has."""
    if pattern == "uniform":
        return OTHERWISE_S.get((network, "uniform", kind))
    return OTHERWISE_S.get((network, "others", kind), SECONDS[network])


def judge(rows: Rows) -> Verdict:
    """Sent = received; 8x8 above 99.5 %; transient better than permanent, and by how much the thesis says."""
    checks, found = [delivery_check(rows)], _measured(rows)
    eights = {
        key: values
        for key, values in found.items()
        if key[0] == "torus:8x8" and key[2] == "transient"
    }
    worst = min(eights, key=lambda key: spread(eights[key])[0])
    lasting = min(
        spread(v)[0] for key, v in found.items() if key[0] == "torus:8x8" and key[2] == "start"
    )
    name, detail = (
        "torus:8x8: lowest performance under transient failures (%)",
        f"worst: {worst[1]}, {worst[3]} links",
    )
    checks.append(
        at_least(name, 99.5, eights[worst], detail)
        .cites("above 99.5 % (5.6.4)")
        .against(lasting, "under permanent failures, lowest")
    )
    for network, claimed in GAINS.items():
        gains = _gains(found, network)
        if not gains:
            continue
        pattern, gain = max(gains.items(), key=lambda item: spread(item[1])[0])
        name = f"{network}: most that transient failures gain over permanent ones (points)"
        checks.append(
            equal(name, claimed, gain, claimed / 4, detail=pattern)
            .cites(f"about {claimed:.0f} % (5.6.4)")
            .against(0.0, "no gain")
        )
        checks += [
            _share_of_permanent(found, network, kind) for kind in ("transient", "intermittent")
        ]
    note = (
        "A gain of 8-14 points needs permanent failures to cost as much; at the stated 400 packets/s of 512 B (0.08 % "
        "of a link) they cost the detours only, so there is less to gain"
    )
    return Verdict.of(checks, (note,))


def figures(rows: Rows) -> Figures:
    """5.32-5.34: performance over the number of transient failures."""
    found, drawn = _measured(rows), {}
    for network, number in zip(TEN_PERCENT, ("5.32", "5.33", "5.34"), strict=True):
        lines = {
            (key[1], key[3]): v
            for key, v in found.items()
            if (key[0], key[2]) == (network, "transient")
        }
        if not lines:
            continue
        title, claim = (
            f"{network}: performance under transient failures",
            (99.5, "claim: above 99.5 %"),
        )
        chosen = claim if network == "torus:8x8" else None
        drawn[number] = draw_lines(title, lines, x="failed links", y=PERFORMANCE, claim=chosen)
    return drawn


def _measured(rows: Rows) -> Found:
    return of_failures(rows, ("network", "pattern", "fault_kind", "faults"))


def _gains(found: Found, network: str, passing: str = "transient") -> dict[str, list[float]]:
    """Pattern -> points gained over permanent failures, a seed each (the same seed draws the same links), of the first
    seeds where fewer pass."""
    most = TEN_PERCENT[network]
    return {
        pattern: [
            t - p
            for t, p in zip(
                values, found[network, pattern, "start", most][: len(values)], strict=True
            )
        ]
        for (place, pattern, kind, count), values in found.items()
        if (place, kind, count) == (network, passing, most)
    }


def _share_of_permanent(found: Found, network: str, kind: str) -> Check:
    """What transient (or intermittent) failures cost over what permanent ones do, of the pattern where that is most.

    They last a twentieth (a tenth) of the run on average: where nothing queues, they cost a twentieth (a tenth).
    """
    shares = {}
    for pattern, gain in _gains(found, network, kind).items():
        lasting = found[network, pattern, "start", TEN_PERCENT[network]][: len(gain)]
        cost, half = spread([100.0 - value for value in lasting])
        gained, apart = spread(gain)
        shares[pattern] = (1 - gained / cost, math.hypot(apart, half * gained / cost) / cost)
    pattern = max(shares, key=lambda name: shares[name][0])
    runs = len(found[network, pattern, kind, TEN_PERCENT[network]])
    return (
        Claim(
            f"{network}: loss under {kind} failures over that under permanent ones, the worst pattern"
        )
        .at_most(0.5, (shares[pattern][0], shares[pattern][1] if runs > 1 else None))
        .cites("transient ones cost less (5.6.4)")
        .against(1.0, "as much")
        .noting(
            f"{pattern}, {runs} runs; a {'twentieth' if kind == 'transient' else 'tenth'} where nothing queues"
        )
    )


STUDY = Study.of_module(
    __name__,
    name="interconnect_transient",
    title="Links that fail for a while, beside links that fail for good",
    deviations=(
        "8x8 torus 4 s (uniform 8 s), fat tree 2 s (8 s), 16x16 torus 2 s (uniform 3 s, with lasting failures 12 s; "
        "--quick: 0.4 s): the document gives no time.",
        "Intermittent failures, patterns but uniform: 8x8 torus 12 s; 16x16 torus 16 s, ten seeds instead of 30.",
        POISSON_512,
        "Intermittent failures (2.2, 3.4) are ours: each link fails ten times, for a tenth of the run in all.",
        "The gain is taken against permanent failures from the start of the run, with the same links.",
    ),
    answers="Zarza 2011, Figures 5.32-5.34: 8x8 above 99.5 %, better than permanent by about 14, 8 and 12 %",
    measure=measure_run,
)
