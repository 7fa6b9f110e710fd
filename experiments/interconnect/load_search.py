"""Which load would give the document's figures: 80 % on the fat tree, and gains of 14, 8 and 12 points (Zarza 2011,
5.6.1, 5.6.4)?

The stated 400 packets of 512 bytes a second load a link to 0.08 %. Here the load is raised until links queue, with as
many messages a node at every load, so that sources come to know as much; with a fiftieth of them and twice as many,
too.
"""

import itertools
from collections.abc import Mapping, Sequence

from experiments.interconnect.figures import OFFERED, PERFORMANCE
from experiments.interconnect.runs import measure_run
from experiments.interconnect.samples import at_most, of_failures, safety_checks, stands_still
from experiments.interconnect.study_points import POISSON_512, TEN_PERCENT, drb_point, seeds_of
from experiments.interconnect.transient import GAINS
from testbed.model.studies.samples import crossing, spread
from testbed.model.studies.study import Figures, Points, Results, Rows, Study, where
from testbed.model.verdict import Check, Verdict
from testbed.report.drawing.charts import draw_lines

LINK_RATE = 2e9 / (512 * 8)
"""Packets of 512 B a second on a 2 Gbps link."""
STATED = 400.0 / LINK_RATE
"""The document's load: 400 packets/s, as a fraction of a link."""
LOADS = {
    "fat-tree:4,3": (STATED, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4),
    "torus:8x8": (STATED, 0.05, 0.1, 0.2, 0.3),
    "torus:16x16": (STATED, 0.025, 0.05, 0.075, 0.1),
}
MESSAGES = {"fat-tree:4,3": 3200, "torus:8x8": 3200, "torus:16x16": 4800}
"""A node, at every load: those of 8 s (12 s) at the stated rate, as the other studies of uniform traffic have."""
SHARES = (0.02, 1.0, 2.0)
"""Of so many messages: figures are those of the middle one."""
MOVED = 0.05
"""Part of the load found that doubling the time may move it by."""
KINDS = ((0, "none"), (1, "half"), (1, "start"), (1, "transient"))
TREE, CLAIMED = "fat-tree:4,3", 80.0
Line = Mapping[float, float]


def points(quick: bool, seed: int) -> Points:
    """Every load with a tenth of the links failed half-way, from the start and for a while, and without, in three
    lengths."""
    found = []
    for network, loads in LOADS.items():
        if quick and network == "torus:16x16":
            continue
        for s in list(seeds_of(seed, quick))[: 2 if quick else 6]:
            for load, share, (many, kind) in itertools.product(loads[::4] if quick else loads, SHARES, KINDS):
                rate, faults = load * LINK_RATE, many * TEN_PERCENT[network]
                seconds = share * MESSAGES[network] / rate / (16 if quick else 1)
                chosen: Results = {"faults": faults, "fault_kind": kind, "rate": rate, "seconds": seconds}
                found.append(drb_point(network, "uniform", s, quick=quick, **chosen) | {"share": share})
    return found


def judge(rows: Rows) -> Verdict:
    """The load at which each of the document's figures appears, against the load that it states, and when the time is
    doubled."""
    checks = safety_checks(rows)
    of_length = {share: where(rows, share=share) for share in SHARES}
    for field, words in (("latency_s", "of the whole run"), ("latency_later_s", "after the failure")):
        short, own, doubled = (_losses(of, field) for of in of_length.values())
        checks += _load_of(f"{TREE}: load at which performance {words} is 80 %", 100.0 - CLAIMED, short, own, doubled)
    for network, claimed in GAINS.items():
        short, own, doubled = (_gains(of, network) for of in of_length.values())
        if own:
            name = f"{network}: load at which transient failures gain {claimed:.0f} points"
            checks += _load_of(name, claimed, short, own, doubled)
    return Verdict.of(checks, (_format(of_length[1.0]),))


def _load_of(
    name: str, required: float, short: Sequence[Line], own: Sequence[Line], doubled: Sequence[Line]
) -> list[Check]:
    """The load at which the lines of all seeds reach a value, and that it stands still when the time is doubled."""
    loads = [crossing(line, required) for line in own]
    mean, most = spread(loads)[0], max(own[0])
    never = sum(max(line.values()) < required for line in own)
    reached = f"; {never} never reach it, taken as the highest load" if never else ""
    each = ([crossing(line, required) for line in lines] for lines in (short, own, doubled))
    return [
        at_most(
            f"{name} (fractions of a link)", 2.0 * STATED, loads, f"{mean / STATED:.0f} times the stated load{reached}"
        )
        .cites(f"at 400 packets/s, {STATED:.5f} of a link")
        .against(most, "the highest load that was run"),
        stands_still(name, SHARES[0], *each, may=MOVED * mean),
    ]


def _by_seed(rows: Rows, field: str) -> dict[tuple[str, str], list[Line]]:
    """(network, kind of failure) -> performance over load, a line for each seed."""
    return {
        key: [dict(zip(line, values, strict=True)) for values in zip(*line.values(), strict=True)]
        for key, line in _lines(rows, field).items()
    }


def _lines(rows: Rows, field: str) -> dict[tuple[str, str], dict[float, list[float]]]:
    """(network, kind of failure) -> load -> performance of each run."""
    lines: dict[tuple[str, str], dict[float, list[float]]] = {}
    measured = of_failures(rows, ("network", "fault_kind", "rate"), field)
    for (network, kind, rate), values in measured.items():
        lines.setdefault((network, kind), {})[rate / LINK_RATE] = values
    return lines


def _losses(rows: Rows, field: str) -> list[Line]:
    """Load -> points that failures half-way cost on the fat tree, for each seed."""
    return [{load: 100.0 - retained for load, retained in line.items()} for line in _by_seed(rows, field)[TREE, "half"]]


def _gains(rows: Rows, network: str) -> list[Line]:
    """Load -> points by which transient failures cost less than permanent ones from the start, for each seed."""
    lines = _by_seed(rows, "latency_s")
    pairs = zip(lines.get((network, "transient"), ()), lines.get((network, "start"), ()), strict=True)
    return [{load: passing[load] - lasting[load] for load in passing} for passing, lasting in pairs]


def _format(rows: Rows) -> str:
    """Every line in words."""
    said = []
    for field, words in (("latency_s", "whole run"), ("latency_later_s", "second half")):
        for (network, kind), line in _lines(rows, field).items():
            means = {load: spread(values) for load, values in sorted(line.items())}
            values = ", ".join(f"{load:.4g}: {mean:.1f} +- {half:.1f}" for load, (mean, half) in means.items())
            said.append(f"{network}, {kind}, {words}: {values}")
    return "Performance (%) by load (fractions of a link): " + "; ".join(said)


def figures(rows: Rows) -> Figures:
    """Performance over load, by network and kind of failure."""
    drawn, own = {}, where(rows, share=1.0)
    claim = (CLAIMED, "claim: about 80 % on the fat tree")
    parts = ("latency_s", "whole", "the whole run"), ("latency_later_s", "later", "its second half")
    for field, name, words in parts:
        samples = {
            (f"{network}, {kind}", load): values
            for (network, kind), line in _lines(own, field).items()
            for load, values in line.items()
        }
        title = f"A tenth of the links failed: performance over load, {words}"
        drawn[name] = draw_lines(title, samples, x=OFFERED, y=PERFORMANCE, claim=claim)
    return drawn


STUDY = Study.of_module(
    __name__,
    name="interconnect_search",
    title="Which load would give 80 % on the fat tree, and transient failures' gains of 14, 8 and 12 points",
    deviations=(
        "Six seeds, uniform, also a fiftieth of the time and twice it; loads are ours: 400 packets/s are 0.08 %.",
        POISSON_512,
    ),
    answers="Zarza 2011, Figure 5.25 (about 80 %) and section 5.6.4 (14, 8, 12 %): "
    "whether the stated load can give them",
    measure=measure_run,
)
