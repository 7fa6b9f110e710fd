"""The same streams on one, two and four machines with clocks of their own: losses, block sizes, packet fates, and what
the clocks claim."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from testbed.errors import InvalidRunError
from testbed.model.studies.study import Figures, Points, Results, Row, Rows, Study, grid, where
from testbed.model.verdict import Check, Claim, Verdict
from testbed.report.drawing.charts import MARKS, chart
from testbed.stream.judgement.streams import judge_stream
from testbed.stream.options import EachLink
from testbed.stream.workload import mobility_plan, stream_plan

if TYPE_CHECKING:
    from testbed.stream.fabric import StreamFabric
    from testbed.stream.plan import StreamPlan

MACHINES = (1, 2, 4)
CLOCK_STEP_S = 4321.0
"""Machine k's clock is (k + 1) times so far ahead: the truth that its estimate is held against."""
CASES = {
    "Swiss-T1, cut": ("swiss-t1", "s1", "s6", "down"),
    "Swiss-T1, blackhole": ("swiss-t1", "s1", "s6", "blackhole"),
    "optical cloud, cut": ("optical-cloud", "x1", "x14", "down"),
    "mobile network": ("manet:nodes=40", "n0", "n39", ""),
}
TRIES = 3
OF_FAULTS = {
    "links": "link", "predicted_losses": "predicted_loss", "losses": "measured_loss",
    "block_sizes": "measured_block_size", "undecodable": "undecodable_blocks",
}  # fmt: skip
"""In the rows -> in a fault's result."""


NAMESPACES = "All machines are namespaces of one: its processors are shared, and the network between them is a bridge."
"""How the studies deviate."""


def points(quick: bool, seed: int) -> Points:
    """Every case on one, two and four machines; quick: Swiss-T1 on one and two."""
    return grid(case=list(CASES)[: 1 if quick else None], machines=MACHINES[:2] if quick else MACHINES, seed=seed)


def plan_of(point: Row) -> StreamPlan:
    """The same for any number of machines."""
    network, source, sink, kind = CASES[point["case"]]
    if kind in ("down", "blackhole"):
        faults = EachLink(kind="down" if kind == "down" else "blackhole", most=4)
        return stream_plan(network, source, sink, faults=faults, seed=point["seed"])
    return mobility_plan(network, source, sink, count=3, seed=point["seed"])


def measure(point: Row) -> Results:
    """One valid run on switches, out of three at most."""
    plan = plan_of(point)
    fabric = fabric_of(point["machines"])
    tried, session = 0, None
    while session is None or (session.verdict.invalid is not None and tried < TRIES):
        tried += 1
        try:
            session = judge_stream(plan, fabric.run(plan))
        except InvalidRunError:
            if tried == TRIES:
                raise
    counters, campaign, faults = session.run.counters, session.analysis.campaign, session.analysis.faults
    return {
        "tried": tried,
        "invalid": session.verdict.invalid,
        "failed": [c.name for c in session.verdict.checks if not c.passed],
        **{key: [getattr(fault, name) for fault in faults] for key, name in OF_FAULTS.items()},
        "wrong_fates": None if campaign is None else campaign.wrongly_lost + campaign.wrongly_arrived,
        "sent": session.analysis.sent,
        **{f"crossing_{what}": counters.get(f"crossing_{what}", 0) for what in ("links", "sent", "lost_on_the_way")},
        "clocks": counters.get("machines", []),
    }


def fabric_of(machines: int) -> StreamFabric:
    """One machine: the usual fabric."""
    from testbed.machines.machines_request import MachinesRequest
    from testbed.stream.emulated.fabric import EmulatedStreamFabric

    return EmulatedStreamFabric(machines=None if machines == 1 else MachinesRequest(count=machines))


def judge(rows: Rows) -> Verdict:
    """Each run on several machines against the one on one machine; the clocks' claims against the truth."""
    return compared_with_one_machine(rows, _against_one)


def compared_with_one_machine(rows: Rows, against_one: Callable[[Row, Row], list[Check]]) -> Verdict:
    """The verdict of runs on several machines, each held by ``against_one`` to its case's run on one machine, and its
    clocks to the truth."""
    invalid = next((f"{r['case']}, {r['machines']} machines: {r['invalid']}" for r in rows if r["invalid"]), None)
    alone = {row["case"]: row for row in where(rows, machines=1)}
    checks: list[Check] = []
    for row in rows:
        if row["machines"] > 1:
            checks += [*against_one(row, alone[row["case"]]), clock_check(row)]
    return Verdict(checks=tuple(checks), invalid=invalid)


def _against_one(row: Row, one: Row) -> list[Check]:
    name = f"{row['case']}, {row['machines']} machines"
    if row["wrong_fates"] is not None:
        wrong = row["wrong_fates"]
        return [
            Claim(f"{name}: packets that fared otherwise than their labels say")
            .equal(one["wrong_fates"], wrong, 2)
            .against(row["crossing_sent"] / 100, "one in a hundred of the packets that cross is lost on the way")
        ]
    apart = max(abs(a - b) for a, b in zip(row["losses"], one["losses"], strict=True))
    wrong_sizes = sum(a != b for a, b in zip(row["block_sizes"], one["block_sizes"], strict=True))
    return [
        Claim(f"{name}: greatest difference of a fault's loss from that on one machine")
        .equal(0.0, apart, 0.01)
        .against(max(one["losses"]), "a fault is in force at no end, or at the wrong one"),
        Claim(f"{name}: faults answered by another block size than on one machine")
        .equal(0, wrong_sizes)
        .against(len(row["block_sizes"]), "N is never raised, or by what the machines themselves lose"),
    ]


def clock_check(row: Row) -> Check:
    """Each machine's offset against the truth, by what it claims."""
    errors = [abs(c["offset_s"] - CLOCK_STEP_S * (k + 1)) for k, c in enumerate(row["clocks"])]
    claims = [c["uncertainty_s"] for c in row["clocks"]]
    outside = sum(error > claim for error, claim in zip(errors, claims, strict=True))
    return (
        Claim(f"{row['case']}, {row['machines']} machines: clocks further off than they claim")
        .equal(0, outside)
        .against(len(errors), "the machines' clocks are taken for ours")
        .noting(f"errors up to {1e6 * max(errors):.0f} us, claims up to {1e6 * max(claims):.0f} us")
    )


def figures(rows: Rows) -> Figures:
    """Losses of every fault on several machines over those on one."""
    alone = {row["case"]: row for row in where(rows, machines=1)}
    figure, axes = chart(size=(6, 5), xlabel="loss of a fault on one machine, %", ylabel="on several machines, %")
    for number, row in enumerate(row for row in rows if row["machines"] > 1 and row["losses"]):
        one = alone[row["case"]]
        at, measured = ([100 * loss for loss in each["losses"]] for each in (one, row))
        label = f"{row['case']}, {row['machines']} machines"
        axes.plot(at, measured, MARKS[number % len(MARKS)], label=label)
    most = 100 * max((x for row in rows for x in row["losses"]), default=0.01)
    axes.plot([0, most], [0, most], "k:", linewidth=1, label="the same")
    axes.legend()
    return {"losses": figure}


STUDY = Study.of_module(
    __name__,
    title="The same streams on one, two and four machines",
    answers="ours: a plan gives the same on several machines as on one; rival: "
    "what crosses between machines fares otherwise",
    deviations=(NAMESPACES,),
    emulation=True,
)
