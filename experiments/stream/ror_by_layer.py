"""ROR on packets by capillary layer: what is sent beyond the stream at rest while each link of a route is down, against equation 23.

Every loaded link fails in turn in virtual time, under stratified and under random labels. The sender knows neither route nor
failure; it diagnoses what failed from the labels that are lost. The rival of the fall that theory predicts from the first layer to
the full route is that there is none.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from experiments.stream.networks import NETWORKS
from testbed.commands.studies.study import Study
from testbed.model.verdict import Check, Verdict
from testbed.stream.plan import StreamParameters
from testbed.stream.planning import EachLink
from testbed.stream.session import SessionRequest, plan_session, run_session
from testbed.stream.simulated import SimulatedStreamFabric
from topologies.errors import TopologyError

Row = Mapping[str, Any]
LABELS = ("stratified", "random")
FULL = 0
"""Stands for all layers."""
PRECISION = 0.03
"""Of each link's loss: blocks are counted, not losses, so that short failures suffice."""


def points(quick: bool, seed: int) -> list[dict[str, Any]]:
    """Networks of the streaming experiments; in full also thirty mobile networks of the sizes of Gabrielyan 2007, section 4.4."""
    networks = [(one.name, one.source, one.sink) for one in NETWORKS]
    if not quick:
        sizes = (40, 60, 80, 100, 115)
        networks += [(f"manet:nodes={n},seed={seed + k}", "n0", f"n{n - 1}") for n in sizes for k in range(6)]
    return [
        {"network": name, "source": source, "sink": sink, "layers": layers, "labels": labels, "seed": seed}
        for name, source, sink in networks
        for layers in ((1, 3, FULL) if quick else (1, 2, 3, 5, 10, FULL))
        for labels in LABELS
    ]


def measure(point: Mapping[str, Any]) -> dict[str, Any]:
    """Fail every link of the route that does not carry everything; None for figures of a pair of nodes that no path joins."""
    request = SessionRequest(
        network=point["network"],
        source=point["source"],
        sink=point["sink"],
        layers=point["layers"] or None,
        stream=StreamParameters(labels=point["labels"], playback_s=0.3, hold_s=0.3),
        faults=EachLink(precision=PRECISION),
        seed=point["seed"],
    )
    try:
        session = run_session(*plan_session(request), SimulatedStreamFabric())
    except TopologyError:
        return {"predicted": None}
    analysis, plan = session.analysis, session.plan
    heavy = [fault for fault in analysis.faults if fault.predicted_loss > 1 / 200 and fault.predicted_loss < 1]
    named = [fault.diagnosis for fault in heavy if fault.diagnosis is not None]
    return {
        "predicted": analysis.ror_predicted,
        "measured": analysis.ror_measured,
        "tolerance": analysis.ror_tolerance,
        "error": analysis.ror_error,
        "links": len(analysis.faults),
        "infinite": sum(plan.forward.load(i) == 1 for i in plan.forward.loaded),
        "undecodable": sum(fault.undecodable_blocks for fault in analysis.faults if fault.predicted_loss < 1),
        "heavy": len(heavy),
        "right": sum(one.right for one in named),
        "wrong": sum(one.certain and not one.right for one in named),
    }


def judge(rows: Sequence[Row]) -> Verdict:
    """Measured against predicted on every route; the fall over the layers, and that the run can tell it from none."""
    checks = []
    for labels in LABELS:
        own = [row for row in rows if row["labels"] == labels and row["predicted"] is not None]
        gaps = [abs(row["measured"] - row["predicted"]) / row["tolerance"] for row in own]
        checks.append(
            Check.at_most(
                f"{labels} labels: measured ROR off the predicted one, in tolerances, worst",
                1.0,
                max(gaps, default=float("inf")),
                detail=f"{len(own)} routes; 2 % or 0.05 with stratified labels, 5 % or 0.1 with random ones",
            )
        )
        checks += _fall_checks(labels, own)
    found = [row for row in rows if row["predicted"] is not None]
    heavy, right = sum(row["heavy"] for row in found), sum(row["right"] for row in found)
    checks += [
        Check.equal(
            "undecodable blocks after the answer, stratified labels",
            0,
            sum(r["undecodable"] for r in found if r["labels"] == "stratified"),
        ),
        Check.at_least(
            "failures of links of load above 1/200 in which the failed cable is named, share",
            0.99,
            right / max(1, heavy),
            detail=f"{heavy} failures",
        ),
        Check.equal("failures in which the sender was certain of a wrong cable", 0, sum(row["wrong"] for row in found)),
    ]
    return Verdict(checks=tuple(checks))


def layer_means(rows: Sequence[Row]) -> dict[int, tuple[float, float, float, float]]:
    """Layers -> mean predicted and measured ROR, mean tolerance and standard error of the measured mean, over the networks that have
    a finite ROR at every layer."""
    layers = sorted({row["layers"] for row in rows}, key=lambda k: (k == FULL, k))
    by_network: dict[str, dict[int, Row]] = {}
    for row in rows:
        by_network.setdefault(row["network"], {})[row["layers"]] = row
    whole = [
        found
        for found in by_network.values()
        if len(found) == len(layers) and not any(r["infinite"] for r in found.values())
    ]
    if not whole:
        return {}
    means = {}
    for k in layers:
        own, count = [found[k] for found in whole], len(whole)
        predicted, measured, tolerance = (
            sum(row[key] for row in own) / count for key in ("predicted", "measured", "tolerance")
        )
        means[k] = (predicted, measured, tolerance, math.sqrt(sum(row["error"] ** 2 for row in own)) / count)
    return means


def _fall_checks(labels: str, rows: Sequence[Row]) -> list[Check]:
    means = layer_means(rows)
    if len(means) < 2:
        return [
            Check(
                name=f"{labels} labels: fall of ROR over the layers",
                predicted=None,
                measured=None,
                tolerance=None,
                passed=False,
                detail="no network was measured at every layer",
            )
        ]
    first, last = next(iter(means.values())), means[FULL]
    predicted, measured = first[0] - last[0], first[1] - last[1]
    open_to = 4 * math.hypot(first[3], last[3])
    return [
        Check.equal(
            f"{labels} labels: fall of mean ROR from layer 1 to the full route",
            predicted,
            measured,
            tolerance=first[2] + last[2],
            detail=f"{first[1]:.2f} to {last[1]:.2f} measured",
        ),
        Check(
            name=f"{labels} labels: that fall against the rival's, which is none: half of the predicted one at least",
            predicted=predicted / 2,
            measured=measured,
            tolerance=open_to,
            passed=bool(predicted > 0 and measured >= predicted / 2 > open_to),
            detail=f"counting blocks leaves {open_to:.3f} open; a run that leaves more than half of the fall open cannot tell",
        ),
    ]


def figures(rows: Sequence[Row]) -> dict[str, Any]:
    """Mean ROR over the layers, predicted and measured, one panel for each order of labels."""
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, len(LABELS), figsize=(11, 4.6))
    for axes, labels in zip(panels, LABELS, strict=True):
        means = layer_means([row for row in rows if row["labels"] == labels and row["predicted"] is not None])
        at = range(len(means))
        axes.plot(at, [one[0] for one in means.values()], "k--", label="predicted (equation 23)")
        axes.errorbar(
            at,
            [one[1] for one in means.values()],
            yerr=[one[2] for one in means.values()],
            fmt="o",
            label="measured, tolerance",
        )
        axes.set_xticks(list(at), ["full" if k == FULL else str(k) for k in means])
        axes.set(xlabel="capillary layers", ylabel="mean ROR", title=f"{labels} labels", ylim=(0, None))
        axes.grid(alpha=0.3)
        axes.legend(fontsize="small")
    figure.tight_layout()
    return {"ror_by_layer": figure}


STUDY = Study.of_module(
    __name__,
    name="ror_by_layer",
    does="ROR made of packets sent, by capillary layer, while every link of a route fails in turn, in virtual time",
    answers="Gabrielyan 2007, eq. 20 to 23 and section 4.4: that ROR falls as layers are added, measured against predicted; rival: it does not",
)
