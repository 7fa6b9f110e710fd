"""Runs downloads that raise their rate while links fail, on switches and in a simulation.

They are compared with a download that never raises its rate, and with one over a single path.
"""

from itertools import product

import numpy as np

from testbed.download.judgement import judge_download
from testbed.download.plan import DownloadMeasurements, DownloadPlan
from testbed.download.prediction import alternatives, predict, tolerances
from testbed.download.simulated import simulate_download
from testbed.download.workload import download_plan
from testbed.model.studies import (
    Figures,
    Points,
    Results,
    Row,
    Rows,
    Study,
    grid,
    grouped,
    verdict_of,
    where,
)
from testbed.model.verdict import Check, Claim, Verdict
from testbed.report.drawing.charts import Figure, draw_lines

PAIRS = {"swiss-t1": ("s1", "s6"), "optical-cloud": ("x1", "x14"), "torus:4x4": ("s0_0", "s2_2")}

RAISED = "raises its rate"
CONSTANT = "never raises it"
SINGLE = "single path"

# Routing method of each download, and whether the rate of its sender is constant.
DOWNLOADS = {
    RAISED: ("capillary", False),
    CONSTANT: ("capillary", True),
    SINGLE: ("single", False),
}

# How checks name each download, and how checks of the seconds saved name the slower download.
VERDICT_NAMES = {
    RAISED: "download that raises its rate",
    CONSTANT: "download that never raises it",
    SINGLE: "single path",
}
RIVAL_NAMES = {CONSTANT: "constant rate", SINGLE: "single path"}

LAST_BPS = 4e6

# Arrivals are counted in bins of this duration.
BIN_S = 0.1


def points(quick: bool, seed: int) -> Points:
    """Return every download of the same file, on both fabrics.

    All networks have RaptorQ, and two of them Reed-Solomon too. ``quick``: one network, a smaller
    file.
    """
    cases = [("swiss-t1", "raptorq")]
    if not quick:
        cases = [*product(PAIRS, ["raptorq"]), *product(list(PAIRS)[:2], ["reed-solomon"])]
    downloads = grid(
        bytes=1_000_000 if quick else 2_000_000,
        fabric=("simulator", "emulation"),
        download=DOWNLOADS,
        seed=seed,
    )
    result: Points = []
    for network, code in cases:
        for download in downloads:
            result.append({"network": network, "code": code, **download})
    return result


def measure(point: Row) -> Results:
    """Run one download.

    The most loaded link of its route is down for the middle half of an undisturbed download.
    """
    method, constant_rate = DOWNLOADS[point["download"]]
    network = point["network"]
    source, sink = PAIRS[network]
    plan = download_plan(
        network,
        source,
        sink,
        file_bytes=point["bytes"],
        last_mile_rate_bps=LAST_BPS,
        routing=method,
        constant_rate=constant_rate,
        code=point["code"],
        seed=point["seed"],
    )
    run = _run(plan, point["fabric"])
    verdict = judge_download(plan, run).verdict
    if constant_rate:
        predicted_s = alternatives(plan).constant_rate_s
    else:
        predicted_s = predict(plan).seconds
    bins = [int(arrival_s / BIN_S) for arrival_s in run.arrivals_s]
    return {
        "seconds": run.seconds,
        "predicted_s": predicted_s,
        "tolerance_s": tolerances(plan)[0],
        "sent": run.sent,
        "verified": run.verified,
        "verdict": _verdict_name(verdict),
        "invalid": verdict.invalid,
        "outage_s": [[fault.start_s, fault.stop_s] for fault in plan.faults],
        "asked_pps": plan.parameters.arrival_pps,
        "arrived": np.bincount(bins, minlength=1).tolist(),
    }


def _run(plan: DownloadPlan, fabric: str) -> DownloadMeasurements:
    if fabric == "simulator":
        return simulate_download(plan)
    from testbed.download.emulated import emulate_download

    return emulate_download(plan)


def _verdict_name(verdict: Verdict) -> str:
    if verdict.passed:
        return "passed"
    return "invalid" if verdict.invalid else "failed"


def judge(rows: Rows) -> Verdict:
    """Check the verdict of each download, and the seconds that a raised rate saves.

    The download that raises its rate and the one over a single path must pass their own verdicts;
    the one with a constant rate must fail.
    """
    checks: list[Check] = []
    for case, case_rows in grouped(rows, ("network", "code", "fabric")).items():
        name = ", ".join(case)
        by_download = {row["download"]: row for row in case_rows}
        raised = by_download[RAISED]
        for download, row in by_download.items():
            checks.append(_check_verdict(name, row))
            if download != RAISED:
                checks.append(_check_saving(name, raised, row))
    return verdict_of(rows, checks)


def _check_verdict(name: str, row: Row) -> Check:
    """Check the verdict of one download."""
    download = row["download"]
    expected = float(download != CONSTANT)
    return (
        Claim(f"{name}: verdict of the {VERDICT_NAMES[download]}")
        .equal(expected, float(row["verdict"] == "passed"))
        .against(1 - expected, "1: passed, 0: failed")
    )


def _check_saving(name: str, raised: Row, row: Row) -> Check:
    """Check the seconds that the raised rate saves, compared with another download."""
    saved_s = row["predicted_s"] - raised["predicted_s"]
    raised_s = _duration_s(raised)
    other_s = _duration_s(row)
    return (
        Claim(f"{name}: seconds saved, raised rate over {RIVAL_NAMES[row['download']]}")
        .equal(saved_s, other_s - raised_s, raised["tolerance_s"])
        .against(0.0, "nothing is saved")
        .noting(f"{raised_s:.2f} s instead of {other_s:.2f} s")
    )


def _duration_s(row: Row) -> float:
    """Return how long a download took, or how long it was observed if it did not end."""
    if row["seconds"] is None:
        return float(len(row["arrived"]) * BIN_S)
    return float(row["seconds"])


def figures(rows: Rows) -> Figures:
    """Draw how full the last mile was by time, for each network and fabric; the first code only."""
    first_code = where(rows, code=rows[0]["code"])
    drawings = {}
    for (network, fabric), case_rows in grouped(first_code, ("network", "fabric")).items():
        name = f"{network.replace(':', '-')}-{fabric}"
        drawings[name] = _draw_arrivals(f"{network}, {fabric}", case_rows)
    return drawings


def _draw_arrivals(name: str, rows: Rows) -> Figure:
    samples = {}
    for row in rows:
        for k, count in enumerate(row["arrived"]):
            percentage = 100 * count / BIN_S / row["asked_pps"]
            samples[row["download"], BIN_S * (k + 0.5)] = (percentage, 0.0)
    figure = draw_lines(
        f"{name} (grey: the most loaded link is down)",
        samples,
        x="s",
        y="arrivals, % of the rate asked for",
    )
    start_s, stop_s = rows[0]["outage_s"][0]
    figure.axes[0].axvspan(start_s, stop_s, color="0.92", zorder=0)
    return figure


STUDY = Study.of_module(
    __name__,
    title="Downloads with a rate that is raised, with a constant rate, and over a single path",
    answers="Gabrielyan 2007, section 4.3.3: an adaptive rate keeps the last kilometre full; "
    "rivals: a rate never raised, a single path",
    deviations=(
        "The file has 2 MB and the last kilometre 4 Mbit/s.",
        "One link fails once, for half of the download; the document speaks of a lossy Internet.",
    ),
    emulation=True,
)
