"""Runs programs of other authors over a coded tunnel and its rivals while links fail.

The programs are ping, H.264 video by ffmpeg, iperf3 and wget, and a voice stream similar to G.711.
Four rivals carry the same programs through the same failures: one shortest path, the split without
a code, a code for any one cable, and an adaptive code.
"""

import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING

from experiments.stream.networks import NETWORKS, Ends, points_over
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


def _slow(ends: Ends) -> Ends:
    """Return the network with links of 2 Mbit/s, and its end points."""
    network, source, sink = ends
    separator = "," if ":" in network else ":"
    return f"{network}{separator}capacity_bps=2000000", source, sink


# The networks of TCP, which fills every link. Two processors cannot code links of 10 Mbit/s.
_SLOW_NETWORKS = tuple(map(_slow, NETWORKS))

# Title of each network.
TITLES = {
    NETWORKS[0][0]: "Swiss-T1",
    NETWORKS[1][0]: "optical cloud",
    NETWORKS[2][0]: "MANET",
    _SLOW_NETWORKS[0][0]: "Swiss-T1",
    _SLOW_NETWORKS[1][0]: "optical cloud",
    _SLOW_NETWORKS[2][0]: "MANET",
}

# How a fault is written after its times (``--faults``).
KINDS = {"down": "down", "one way": "down one-way", "blackhole": "blackhole", "loss": "loss 0.5"}

# When each of two cables is broken: begin and end as fractions of the run.
SPANS = {"single": ((0.15, 0.4), (0.6, 0.85)), "overlapping": ((0.2, 0.6), (0.4, 0.8))}

# Outcomes from the worst. A run that cannot tell, because a rival did as well or nothing was
# compared, is the worst one only if there is no other.
_WORST_FIRST = ("fails", "holds", "cannot-tell")

# The drawings: name, key of the results of each rival, and label.
_DRAWN = (
    ("voice", "voice_mos", "mean opinion score of voice"),
    ("picture", "psnr_db", "PSNR, dB (100: identical)"),
)


def points(quick: bool, seed: int) -> Points:
    """Return five seeds for each network, kind of fault and span, and one run of TCP alone.

    ``quick``: two runs of 5 s.
    """
    if quick:
        return [
            _quick_point(seed, kind="down", span="overlapping"),
            _quick_point(seed, kind="blackhole", span="single"),
        ]
    programs = points_over(
        NETWORKS,
        workload="ping,voip,video",
        duration_s=10.0,
        seed=range(seed, seed + 5),
        kind=KINDS,
        span=SPANS,
    )
    tcp = points_over(
        _SLOW_NETWORKS, workload="tcp", duration_s=12.0, seed=seed, kind="down", span="single"
    )
    return programs + tcp


def _quick_point(seed: int, *, kind: str, span: str) -> Results:
    network, source, sink = NETWORKS[0]
    return {
        "network": network,
        "source": source,
        "sink": sink,
        "workload": "ping,voip,video",
        "duration_s": 5.0,
        "seed": seed,
        "kind": kind,
        "span": span,
    }


def measure(point: Row) -> Results:
    """Run all rivals one after another; repeat them if the machine could not keep up."""
    from testbed.tunnel.workload import TUNNEL

    faults = broken_cables(point)
    plan = planned(point, faults)
    _, judged = TUNNEL.judged(plan, How(fabric="emulation"), repeats=2)
    return {"faults": faults, **results_of(judged)}


def planned(point: Row, faults: str | Sequence[str]) -> "TrialPlan":
    """Return the trial of a point under these faults."""
    from testbed.tunnel.workload import tunnel_plan

    return tunnel_plan(
        point["network"],
        (point["source"], point["sink"]),
        faults=faults,
        workload=point["workload"],
        duration_s=point["duration_s"],
        seed=point["seed"],
    )


def broken_cables(point: Row) -> list[str]:
    """Return two faults that are drawn by the seed.

    At least one is on the direct path. The adaptive code can repair both at the same time.

    Raises:
        ValueError: There are no two such cables.
    """
    from testbed.tunnel.prediction import predict_rival

    plan = planned(point, "none")
    direct_links = set(plan.direct.paths[0].links)
    pairs = []
    for pair in combinations(plan.tunnel.there.forward.loaded, 2):
        if set(pair) & direct_links:
            pairs.append(pair)
    for pair in random.Random(point["seed"]).sample(pairs, len(pairs)):
        faults = [_fault(point, plan, pair, number) for number in range(2)]
        if predict_rival(planned(point, faults), "adaptive").most_loss == 0:
            return faults
    raise ValueError(f"{point['network']}: no two cables whose failures a code stands")


def _fault(point: Row, plan: "TrialPlan", pair: tuple[int, int], number: int) -> str:
    """Return a fault as text.

    Args:
        point: The point.
        plan: A plan of the point.
        pair: The indices of both links.
        number: Which of the two links fails.
    """
    label = plan.network.links[pair[number]].label
    start, stop = SPANS[point["span"]][number]
    duration_s = point["duration_s"]
    return f"{label}@{start * duration_s:g}-{stop * duration_s:g} {KINDS[point['kind']]}"


def results_of(judged: Judgement) -> Results:
    """Return the checks of the adaptive tunnel, and the results of each rival.

    A check contains the value that was measured for its rival.
    """
    checks = []
    for check in judged.verdict.checks:
        if check.about == "rival:adaptive":
            checks.append(check.to_json())
    rivals = {}
    for row in judged.rows:
        rivals[row["rival"]] = {
            "lost": row.get("lost"),
            "voice_mos": row.get("voip", {}).get("mos"),
            "psnr_db": row.get("video", {}).get("psnr_db"),
            "goodput_bps": row.get("tcp", {}).get("goodput_bps"),
        }
    return {"checks": checks, "rivals": rivals, "invalid": judged.verdict.invalid}


def judge(rows: Rows) -> Verdict:
    """Check the worst run of each check, over all kinds of fault and seeds.

    Networks are judged separately, and so are single and overlapping failures.
    """
    checks = []
    usable_rows = [row for row in rows if _had_faults(row)]
    for case, case_rows in grouped(usable_rows, _case).items():
        checks += _worst_checks(_case_name(case), case_rows)
    return verdict_of(usable_rows, checks)


def _had_faults(row: Row) -> bool:
    """Return whether faults were planned for a run."""
    for check in row["checks"]:
        if check["key"] == "faults-came" and check["predicted"] == 0:
            return False
    return True


def _case(row: Row) -> tuple[str, str, bool]:
    """Return the network, the span, and whether the run is of TCP alone."""
    return row["network"], row["span"], row["workload"] == "tcp"


def _case_name(case: tuple[str, str, bool]) -> str:
    network, span, tcp = case
    name = f"{TITLES[network]}, {span}"
    return f"{name}, TCP" if tcp else name


def _worst_checks(name: str, rows: Rows) -> list[Check]:
    """Return the worst check of each key.

    Args:
        name: Name of the case.
        rows: The rows of the case.
    """
    stored_checks = []
    for row in rows:
        stored_checks += row["checks"]
    checks = []
    for key, stored in grouped(stored_checks, "key").items():
        worst = min(map(_check, stored), key=_merit)
        checks.append(
            replace(
                worst,
                name=f"{worst.name}, {name}",
                about=name,
                key=key,
                detail=f"the worst of {len(stored)} runs",
            )
        )
    return checks


def _merit(check: Check) -> tuple[int, float]:
    """Return a key that orders checks from the worst: outcome, then distance to the prediction."""
    distance = abs((check.measured or 0) - (check.predicted or 0))
    # The farther beyond a bound that it satisfies, the better a measurement is.
    if not check.passed or check.relation == "equals":
        distance = -distance
    return _WORST_FIRST.index(check.outcome), distance


def _check(stored: Row) -> Check:
    fields = {name: value for name, value in stored.items() if name != "outcome"}
    return Check(**fields)


def figures(rows: Rows) -> Figures:
    """Draw the quality of voice and picture over each rival, by kind of fault."""
    from testbed.report.drawing.charts import draw_bars

    drawings = {}
    for name, key, label in _DRAWN:
        samples = _samples(rows, key)
        if samples:
            drawings[name] = draw_bars(label, samples, y=label)
    return drawings


def _samples(rows: Rows, key: str) -> dict[tuple[str, str], list[float]]:
    """Return the values of a result (``key``) by rival and kind of fault."""
    samples: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        for rival, rival_figures in row["rivals"].items():
            value = rival_figures[key]
            if value is not None:
                samples.setdefault((rival, f"{row['kind']}, {row['span']}"), []).append(value)
    return samples


STUDY = Study.of_module(
    __name__,
    title="Unchanged programs over a coded tunnel and its rivals while links fail",
    deviations=(
        "The document sends packets of its own; "
        "here programs of other authors send theirs through a TUN device.",
        "Links of 10 Mbit/s; of 2 Mbit/s for TCP (one seed), which fills them.",
        "Two cables fail, which are drawn by the seed; at least one is on the shortest path.",
    ),
    answers="not in the documents: "
    "Gabrielyan 2007, section 4.3.3, speaks of telephony and video, but sends neither",
    emulation=True,
)
