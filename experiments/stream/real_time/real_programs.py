"""Programs that nobody here wrote (ping, H.264 by ffmpeg, iperf3, wget) and a G.711-like voice over a coded tunnel,
while links fail: what do they notice?

Four rivals carry the same programs through the same failures: one shortest path, the split without code, a code for any
one cable, and one that adapts.
"""

import random
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING

from experiments.stream.networks import NETWORKS, points_over
from testbed.model.studies import (
    Check,
    Figures,
    Points,
    Results,
    Row,
    Rows,
    Study,
    Verdict,
    grouped,
    verdict_of,
)
from testbed.model.workload import How, Judgement

if TYPE_CHECKING:
    from testbed.tunnel.trial import TrialPlan

_SLOW = tuple(
    (f"{name}{',' if ':' in name else ':'}capacity_bps=2000000", a, b) for name, a, b in NETWORKS
)
"""For TCP at will, which takes more than two processors where it fills coded links of 10 Mbit/s."""
TITLES = {
    network: title
    for (network, *_), title in zip(
        NETWORKS + _SLOW, 2 * ("Swiss-T1", "optical cloud", "MANET"), strict=True
    )
}
KINDS = {"down": "down", "one way": "down one-way", "blackhole": "blackhole", "loss": "loss 0.5"}
"""Name -> the manner of a fault."""
SPANS = {"single": ((0.15, 0.4), (0.6, 0.85)), "overlapping": ((0.2, 0.6), (0.4, 0.8))}
"""Of a run, in which each of two cables is broken."""
_WORST_FIRST = ("fails", "holds", "cannot-tell")
"""Where a rival fares as well, or nothing was there to be compared, the other runs tell."""


def points(quick: bool, seed: int) -> Points:
    """Networks, kinds of fault, one at a time and overlapping, five seeds; TCP alone, once. Quick: two runs of 5 s."""
    common = {
        "workload": "ping,voip,video",
        "duration_s": 5.0 if quick else 10.0,
        "seed": range(seed, seed + 5),
    }
    if quick:
        cases = (("down", "overlapping"), ("blackhole", "single"))
        (end,) = points_over(NETWORKS[:1], **(common | {"seed": seed}))
        return [end | {"kind": kind, "span": span} for kind, span in cases]
    tcp = common | {
        "workload": "tcp",
        "duration_s": 12.0,
        "kind": "down",
        "span": "single",
        "seed": seed,
    }
    return points_over(NETWORKS, **common, kind=KINDS, span=SPANS) + points_over(_SLOW, **tcp)


def measure(point: Row) -> Results:
    """All rivals, one after another on one network; repeated where the machine could not keep up."""
    from testbed.tunnel.workload import TUNNEL

    faults = broken_cables(point)
    _, judged = TUNNEL.judged(planned(point, faults), How(fabric="emulation"), repeats=2)
    return {"faults": faults, **results_of(judged)}


def planned(point: Row, faults: str | Sequence[str]) -> "TrialPlan":
    """The point's trial under these faults."""
    from testbed.tunnel.workload import tunnel_plan

    asked = {name: point[name] for name in ("workload", "duration_s", "seed")}
    return tunnel_plan(point["network"], (point["source"], point["sink"]), faults=faults, **asked)


def broken_cables(point: Row) -> list[str]:
    """Two faults, drawn by the seed: one is on the direct path, and the code can stand both together."""
    from testbed.tunnel.prediction import predict_rival

    plan, lasts_s = planned(point, "none"), point["duration_s"]
    loaded = plan.tunnel.there.forward.loaded
    pairs = [
        pair for pair in combinations(loaded, 2) if set(pair) & set(plan.direct.paths[0].links)
    ]
    for pair in random.Random(point["seed"]).sample(pairs, len(pairs)):
        faults = [
            f"{plan.network.links[i].label}@{start * lasts_s:g}-{stop * lasts_s:g} {KINDS[point['kind']]}"
            for i, (start, stop) in zip(pair, SPANS[point["span"]], strict=True)
        ]
        if predict_rival(planned(point, faults), "adaptive").most_loss == 0:
            return faults
    raise ValueError(f"{point['network']}: no two cables whose failures a code stands")


def results_of(judged: Judgement) -> Results:
    """The checks of the adaptive tunnel, in which each rival's figure is measured, and how each rival fared."""
    own = [check.to_json() for check in judged.verdict.checks if check.about == "rival:adaptive"]
    fared = {
        row["rival"]: {
            "lost": row.get("lost"),
            "voice_mos": row.get("voip", {}).get("mos"),
            "psnr_db": row.get("video", {}).get("psnr_db"),
            "goodput_bps": row.get("tcp", {}).get("goodput_bps"),
        }
        for row in judged.rows
    }
    return {"checks": own, "rivals": fared, "invalid": judged.verdict.invalid}


def judge(rows: Rows) -> Verdict:
    """Of each network, one failure at a time and overlapping, over all kinds and seeds: the worst run of each check."""
    checks = []
    rows = [
        row
        for row in rows
        if ("faults-came", 0) not in ((one["key"], one["predicted"]) for one in row["checks"])
    ]
    for (network, span, tcp), own in grouped(rows, _case).items():
        where = ", ".join((TITLES[network], span, *(["TCP"] if tcp else [])))
        for key, same in grouped((found for row in own for found in row["checks"]), "key").items():
            worst = min(map(_check, same), key=_merit)
            name = f"{worst.name}, {where}"
            checks.append(
                replace(
                    worst, name=name, about=where, key=key, detail=f"the worst of {len(same)} runs"
                )
            )
    return verdict_of(rows, checks)


def _merit(check: Check) -> tuple[int, float]:
    """By outcome, then by how far the figure is from the prediction."""
    off = abs((check.measured or 0) - (check.predicted or 0))
    return _WORST_FIRST.index(
        check.outcome
    ), off if check.passed and check.relation != "equals" else -off


def _case(row: Row) -> tuple[str, str, bool]:
    return row["network"], row["span"], row["workload"] == "tcp"


def _check(stored: Row) -> Check:
    return Check(**{name: value for name, value in stored.items() if name != "outcome"})


def figures(rows: Rows) -> Figures:
    """Voice and picture over each rival, by kind of fault."""
    from testbed.report.drawing.charts import draw_bars

    def samples(figure: str) -> Iterable[Row]:
        for row in rows:
            for rival, found in row["rivals"].items():
                if found[figure] is not None:
                    yield {
                        "place": (rival, f"{row['kind']}, {row['span']}"),
                        "value": found[figure],
                    }

    drawn = {
        "voice": ("voice_mos", "mean opinion score of voice"),
        "picture": ("psnr_db", "PSNR, dB (100: identical)"),
    }
    found = {
        name: (grouped(samples(key), "place", "value"), words)
        for name, (key, words) in drawn.items()
    }
    return {
        name: draw_bars(words, values, y=words) for name, (values, words) in found.items() if values
    }


STUDY = Study.of_module(
    __name__,
    title="Programs as they are over a coded tunnel and its rivals, while links fail",
    deviations=(
        "The document sends packets of its own; here programs of others send theirs, through a TUN device.",
        "Links of 10 Mbit/s, of 2 for TCP (one seed), which fills them; the failures are two cables drawn by the seed, "
        "of which one is on the shortest path.",
    ),
    answers="not in the documents: Gabrielyan 2007, section 4.3.3, speaks of telephony and video, but sends neither",
    emulation=True,
)
