"""Which load would give the document's figures: 80 % on the fat tree, and gains of 14, 8 and 12 points (Zarza 2011, 5.6.1, 5.6.4)?

The stated 400 packets of 512 bytes a second load a link to 0.08 %. Here the load is raised until links queue, with as many messages
a node at every load, so that sources come to know as much.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from experiments.interconnect.figures import draw_lines
from experiments.interconnect.runs import measure_run
from experiments.interconnect.samples import Row, delivery_check, livelock_check, performances
from experiments.interconnect.traffic import TEN_PERCENT, drb_point, seeds_of
from experiments.interconnect.transient import GAINS
from testbed.commands.studies.study import Study
from testbed.model.samples import spread
from testbed.model.verdict import Check, Verdict

LINK_RATE = 2e9 / (512 * 8)
"""Packets of 512 B a second on a 2 Gbps link."""
STATED = 400.0 / LINK_RATE
"""The document's load: 400 packets/s, as a fraction of a link."""
LOADS = {
    "fat-tree:4,3": (STATED, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35),
    "torus:8x8": (STATED, 0.05, 0.1, 0.2, 0.3),
    "torus:16x16": (STATED, 0.05, 0.1, 0.15, 0.2),
}
MESSAGES = {"fat-tree:4,3": 800, "torus:8x8": 800, "torus:16x16": 600}
"""A node, at every load: those of 2 s (1.5 s) at the stated rate."""
KINDS = ((0, "none"), (1, "half"), (1, "start"), (1, "transient"))
TREE, CLAIMED = "fat-tree:4,3", 80.0


def points(quick: bool, seed: int) -> list[dict[str, Any]]:
    """Every load with a tenth of the links failed half-way, from the start and for a while, and without."""
    found = []
    for network, loads in LOADS.items():
        if quick and network == "torus:16x16":
            continue
        seeds = list(seeds_of(seed, quick))[: 2 if quick else 3]
        for load in loads[::3] if quick else loads:
            seconds = MESSAGES[network] / (load * LINK_RATE) / (8 if quick else 1)
            for many, kind in KINDS:
                chosen: dict[str, Any] = {
                    "faults": many * TEN_PERCENT[network],
                    "fault_kind": kind,
                    "rate": load * LINK_RATE,
                }
                found += [drb_point(network, "uniform", s, quick=quick, seconds=seconds, **chosen) for s in seeds]
    return found


def judge(rows: Sequence[Row]) -> Verdict:
    """The load at which each of the document's figures appears, against the load that it states."""
    checks = [delivery_check(rows), livelock_check(rows)]
    for field, words in (("latency_s", "of the whole run"), ("latency_later_s", "after the failure")):
        lost = {load: 100.0 - spread(v)[0] for load, v in _lines(rows, field)[TREE, "half"].items()}
        checks.append(_load_of(f"{TREE}: load at which performance {words} is 80 %", 100.0 - CLAIMED, lost))
    notes = [_told(rows)]
    for network, claimed in GAINS.items():
        gains = _gains(rows, network)
        if gains:
            checks.append(
                _load_of(f"{network}: load at which transient failures gain {claimed:.0f} points", claimed, gains)
            )
    return Verdict(checks=tuple(checks), notes=tuple(notes))


def _load_of(name: str, wanted: float, line: Mapping[float, float]) -> Check:
    """The load at which the line first reaches a value, between two loads on a straight line; the highest where it never does."""
    first, most = min(line), max(line.values())
    reached = first if line[first] >= wanted else None
    for (low, before), (high, after) in itertools.pairwise(sorted(line.items())):
        if reached is None and after >= wanted > before:
            reached = low + (high - low) * (wanted - before) / (after - before)
    found = max(line) if reached is None else reached
    return Check.at_most(
        f"{name} (fractions of a link)",
        2.0 * STATED,
        found,
        rival=max(line),
        rival_is="the highest load that was run",
        stated=f"at 400 packets/s, {STATED:.5f} of a link",
        detail=f"at most {most:.1f} at any load, never {wanted:.0f}"
        if reached is None
        else f"{found / STATED:.0f} times the stated load",
    )


def _lines(rows: Sequence[Row], field: str) -> dict[tuple[str, str], dict[float, list[float]]]:
    """(network, kind of failure) -> load -> performance of each run."""
    lines: dict[tuple[str, str], dict[float, list[float]]] = {}
    measured = performances(rows, lambda row: (row["network"], row["fault_kind"], row["rate"], row["faults"]), field)
    for (network, kind, rate, faults), values in measured.items():
        if faults:
            lines.setdefault((network, kind), {})[rate / LINK_RATE] = values
    return lines


def _gains(rows: Sequence[Row], network: str) -> dict[float, float]:
    """Load -> points by which transient failures cost less than permanent ones from the start."""
    lines = _lines(rows, "latency_s")
    lasting, passing = lines.get((network, "start"), {}), lines.get((network, "transient"), {})
    return {load: spread(values)[0] - spread(lasting[load])[0] for load, values in passing.items()}


def _told(rows: Sequence[Row]) -> str:
    """Every line in words."""
    said = []
    for field, words in (("latency_s", "whole run"), ("latency_later_s", "second half")):
        for (network, kind), line in _lines(rows, field).items():
            values = ", ".join(
                f"{load:.4g}: {spread(v)[0]:.1f} +- {spread(v)[1]:.1f}" for load, v in sorted(line.items())
            )
            said.append(f"{network}, {kind}, {words}: {values}")
    return "Performance (%) by load (fractions of a link): " + "; ".join(said)


def figures(rows: Sequence[Row]) -> Mapping[str, Any]:
    """Performance over load, by network and kind of failure."""
    drawn = {}
    for field, name in (("latency_s", "whole"), ("latency_later_s", "later")):
        lines = {
            f"{network}, {kind}": {load: spread(v) for load, v in line.items()}
            for (network, kind), line in _lines(rows, field).items()
        }
        drawn[name] = draw_lines(
            "A tenth of the links failed: performance over load, " + ("the whole run" if name == "whole" else "its second half"),
            lines, x_label="offered load (fraction of a link, each node)", y_label="100 L0 / Lf (%)", claim=CLAIMED,
            claim_says="claim: about 80 % on the fat tree",
        )  # fmt: skip
    return drawn


STUDY = Study.of_module(
    __name__,
    name="interconnect_search",
    title="Which load would give 80 % on the fat tree, and transient failures' gains of 14, 8 and 12 points",
    deviations=(
        "Three seeds, uniform traffic. The loads are ours: the document states 400 packets/s, 0.08 % of a link.",
        "Messages come at random (Poisson) where the document has a constant rate; payloads of 512 bytes only.",
    ),
    does="performance with a tenth of the links failed, over the load, on a fat tree and two tori; transient beside permanent",
    answers="Zarza 2011, Figure 5.25 (about 80 %) and section 5.6.4 (14, 8, 12 %): whether the stated load can give them",
    measure=measure_run,
)
