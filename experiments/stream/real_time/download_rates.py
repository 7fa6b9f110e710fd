"""A download that raises its rate while links fail, against one that never does and against a single path, on switches
and in virtual time."""

from itertools import product

import numpy as np

from testbed.download.judgement import judge_download
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
from testbed.report.drawing.charts import draw_lines

PAIRS = {"swiss-t1": ("s1", "s6"), "optical-cloud": ("x1", "x14"), "torus:4x4": ("s0_0", "s2_2")}
DOWNLOADS = {
    "raises its rate": ("capillary", False),
    "never raises it": ("capillary", True),
    "single path": ("single", False),
}
"""Name -> routing method, and whether the sender's rate is constant."""
LAST_BPS = 4e6
BIN_S = 0.1


def points(quick: bool, seed: int) -> Points:
    """Every download over every network, on both fabrics; the same file under the same outage. The other code over two
    networks."""
    cases = [("swiss-t1", "raptorq")]
    if not quick:
        cases = [*product(PAIRS, ["raptorq"]), *product(list(PAIRS)[:2], ["reed-solomon"])]
    size = 1_000_000 if quick else 2_000_000
    rest = grid(bytes=size, fabric=("simulator", "emulation"), download=DOWNLOADS, seed=seed)
    return [{"network": network, "code": code} | point for network, code in cases for point in rest]


def measure(point: Row) -> Results:
    """One download; the most loaded link of its route is down for the middle half of an undisturbed one."""
    method, constant_rate = DOWNLOADS[point["download"]]
    network = point["network"]
    sender: Results = {
        "routing": method,
        "constant_rate": constant_rate,
        "code": point["code"],
        "seed": point["seed"],
    }
    plan = download_plan(
        network, *PAIRS[network], file_bytes=point["bytes"], last_mile_rate_bps=LAST_BPS, **sender
    )
    if point["fabric"] == "simulator":
        run = simulate_download(plan)
    else:
        from testbed.download.emulated import emulate_download

        run = emulate_download(plan)
    verdict = judge_download(plan, run).verdict
    return {
        "seconds": run.seconds,
        "predicted_s": alternatives(plan).constant_rate_s
        if constant_rate
        else predict(plan).seconds,
        "tolerance_s": tolerances(plan)[0],
        "sent": run.sent,
        "verified": run.verified,
        "verdict": "passed" if verdict.passed else "invalid" if verdict.invalid else "failed",
        "invalid": verdict.invalid,
        "outage_s": [[fault.start_s, fault.stop_s] for fault in plan.faults],
        "asked_pps": plan.parameters.arrival_pps,
        "arrived": np.bincount(
            [int(at_s / BIN_S) for at_s in run.arrivals_s], minlength=1
        ).tolist(),
    }


def judge(rows: Rows) -> Verdict:
    """The claim holds where the download passes its own verdict, the rival fails it, and the seconds saved are those
    predicted."""
    checks: list[Check] = []
    for case, some in grouped(rows, ("network", "code", "fabric")).items():
        own = {row["download"]: row for row in some}
        name, raised = ", ".join(case), own["raises its rate"]
        for download, row in own.items():
            passing, single = download != "never raises it", download == "single path"
            checks.append(
                Claim(
                    f"{name}: verdict of the {download if single else f'download that {download}'}"
                )
                .equal(float(passing), float(row["verdict"] == "passed"))
                .against(float(not passing), "1: passed, 0: failed")
            )
            if row is raised:
                continue
            saved, took, quick = (
                row["predicted_s"] - raised["predicted_s"],
                _seconds(row),
                _seconds(raised),
            )
            checks.append(
                Claim(
                    f"{name}: seconds saved, raised rate over {download if single else 'constant rate'}"
                )
                .equal(saved, took - quick, raised["tolerance_s"])
                .against(0.0, "nothing is saved")
                .noting(f"{quick:.2f} s instead of {took:.2f} s")
            )
    return verdict_of(rows, checks)


def _seconds(row: Row) -> float:
    """Of a download that never ended: as long as it was watched."""
    return float(len(row["arrived"]) * BIN_S if row["seconds"] is None else row["seconds"])


def figures(rows: Rows) -> Figures:
    """How full the last mile was, second by second, by network and fabric; the first code."""
    drawn = {}
    for (network, fabric), own in grouped(
        where(rows, code=rows[0]["code"]), ("network", "fabric")
    ).items():
        share = {
            (row["download"], BIN_S * (k + 0.5)): (100 * count / BIN_S / row["asked_pps"], 0.0)
            for row in own
            for k, count in enumerate(row["arrived"])
        }
        title, y = (
            f"{network}, {fabric} (grey: the most loaded link is down)",
            "arrivals, % of the rate asked for",
        )
        drawn[f"{network.replace(':', '-')}-{fabric}"] = figure = draw_lines(
            title, share, x="s", y=y
        )
        figure.axes[0].axvspan(*own[0]["outage_s"][0], color="0.92", zorder=0)
    return drawn


STUDY = Study.of_module(
    __name__,
    title="Downloads: a rate that is raised, one that never is, and a single path",
    answers="Gabrielyan 2007, section 4.3.3: an adaptive rate keeps the last kilometre full; rivals: "
    "a rate never raised, a single path",
    deviations=(
        "The file has 2 MB and the last kilometre 4 Mbit/s.",
        "One link fails once, for half of the download; the document speaks of a lossy Internet.",
    ),
    emulation=True,
)
