"""What answering losses costs and saves: senders that adapt against fixed block sizes, no code, and one that knows
failures beforehand.

Two senders adapt: one finds out from the lost labels which cables failed (``diagnosing``), one estimates the share that
is lost.

Loss that changes in three ways over Swiss-T1 from s1 to s6, in virtual time: one link (a quarter of the packets) that
goes and comes back periodically, one whose random loss rises and falls in ramps, and Poisson failures of every loaded
cable.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise, product

import numpy as np

from testbed.faults.fault import Fault, PoissonFaults
from testbed.model.studies import Check, Claim, Points, Results, Row, Rows, Study, Verdict, grid, mean_of, sum_of, where
from testbed.report.drawing.charts import draw_lines, ticks
from testbed.stream.endpoints import build_sender
from testbed.stream.judgement.fault_results import size_range
from testbed.stream.options import LabelOrder
from testbed.stream.plan import StreamParameters, StreamPlan
from testbed.stream.prediction.active_faults import planned_epochs
from testbed.stream.prediction.block_size_policy import block_size_policy
from testbed.stream.prediction.clairvoyant import clairvoyant_block_sizes, needed_size, stream_outcome
from testbed.stream.simulated import SimulatedStreamFabric
from testbed.stream.workload import stream_plan

NETWORK, SOURCE, SINK = "swiss-t1", "s1", "s6"
LINK = ("s1", "s2", 0)
RATE_PPS, PLAYBACK_S, CALM_S = 500.0, 0.4, 1.0
HOLDS_S = {"estimating": 2.0, "estimating, short hold": 0.5}
SENDERS = ("clairvoyant", "diagnosing", *HOLDS_S, "none", "fixed, at rest", "fixed, for the worst")
PATTERNS = {
    "on and off": "period of a link that is down half of the time, s",
    "ramps": "time from no loss to a quarter of all packets and back, s",
    "Poisson": "failures of each cable, 1/s (1 s each)",
}
SLACK = 0.05
"""Of overhead: late parity, and the first rough estimates after a change."""
STEPS = 8
"""Of a ramp, each way."""


NEVER_S = 99.0


def points(quick: bool, seed: int) -> Points:
    """Every sender under every pattern; ``at`` is the pattern's own parameter (``PATTERNS``)."""
    values = {
        "on and off": (1.0, 8.0) if quick else (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0),
        "ramps": (8.0,) if quick else (2.0, 4.0, 8.0, 16.0),
        "Poisson": (0.1,) if quick else (0.01, 0.03, 0.1, 0.3),
    }
    lasts_s = 18.0 if quick else 50.0
    return [
        point
        for pattern, own in values.items()
        for point in grid(pattern=pattern, at=own, sender=SENDERS, lasts_s=lasts_s, seed=seed)
    ]


def changing_faults(pattern: str, at: float, lasts_s: float) -> PoissonFaults | tuple[Fault, ...]:
    """The pattern's faults, both ends of the run calm."""
    if pattern == "Poisson":
        return PoissonFaults(rate_per_s=at, lasts_s=1.0, start_s=CALM_S)
    end_s, start_s, found = lasts_s - PLAYBACK_S - CALM_S, CALM_S, []
    while start_s + at <= end_s + 1e-9:
        if pattern == "on and off":
            found.append(Fault(link=LINK, start_s=start_s, stop_s=start_s + at / 2))
        else:
            times = [round(start_s + k * at / (2 * STEPS), 6) for k in range(2 * STEPS + 1)]
            losses = [min(k + 1, 2 * STEPS - k) / STEPS for k in range(2 * STEPS)]
            found += [
                Fault(link=LINK, kind="loss", start_s=start, stop_s=stop, loss_fraction=loss)
                for (start, stop), loss in zip(pairwise(times), losses, strict=True)
            ]
        start_s += at if pattern == "on and off" else at + CALM_S
    return tuple(found)


def sender_plan(point: Row) -> tuple[StreamPlan, int, int]:
    """The point's plan, N at rest and N for the worst that its faults do (at most the policy's largest)."""
    labels: LabelOrder = "random" if point["pattern"] == "ramps" else "stratified"
    sender, lasts_s = point["sender"], point["lasts_s"]
    hold_s, diagnosis = HOLDS_S.get(sender, 2.0), sender not in HOLDS_S
    stream = StreamParameters(
        rate_pps=RATE_PPS, playback_s=PLAYBACK_S, labels=labels, hold_s=hold_s, diagnosis=diagnosis
    )
    faults = changing_faults(point["pattern"], point["at"], lasts_s)
    settings = vars(stream) | {"faults": faults, "duration_s": lasts_s, "seed": point["seed"]}
    plan = stream_plan(NETWORK, SOURCE, SINK, **settings)
    policy = block_size_policy(plan)
    worst = max(needed_size(plan, policy, epoch.loss, epoch.needed) for epoch in planned_epochs(plan))
    sizes = {"none": stream.source_packets, "fixed, at rest": policy.base, "fixed, for the worst": worst}
    return replace(plan, stream=replace(stream, block_size=sizes.get(sender))), policy.base, worst


def measure(point: Row) -> Results:
    """One stream in virtual time."""
    plan, base, worst = sender_plan(point)
    build = build_sender
    if point["sender"] == "clairvoyant":
        build = partial(build_sender, foreseen=clairvoyant_block_sizes(plan))
    run = SimulatedStreamFabric(build).run(plan)
    first = np.unique(run.sent.block, return_index=True)[1]
    return {
        **stream_outcome(plan, run),
        "base": base,
        "worst": worst,
        "answers": answer_range(plan),
        "m": plan.stream.source_packets,
        "raised": float((run.sent.block_size[first] > base).mean()),
        **failing_shares(plan),
    }


def failing_shares(plan: StreamPlan) -> dict[str, float]:
    """``lost``: share of the source packets that the plan's faults take; ``down``: share of the time in which any is in
    force."""
    until_s = plan.duration_s - plan.stream.playback_s
    spans = [(epoch, max(0.0, min(epoch.stop_s, until_s) - epoch.start_s)) for epoch in planned_epochs(plan)]
    return {
        "lost": sum(epoch.loss * lasts_s for epoch, lasts_s in spans) / until_s,
        "down": sum(lasts_s for epoch, lasts_s in spans if epoch.loss) / until_s,
    }


def answer_range(plan: StreamPlan) -> tuple[int, int]:
    """N that the adaptive sender may answer the greatest loss with: the policy's for losses it cannot tell apart."""
    adaptive = replace(plan, stream=replace(plan.stream, block_size=None))
    return size_range(plan, max(e.loss for e in planned_epochs(plan)), block_size_policy(adaptive))


def stored_fraction(row: Row, hold_s: float) -> float:
    """Share of the blocks for which N is raised under a link that is down half of each period: the hold runs on after
    each repair."""
    return float(min(1.0, row["down"] * (1 + hold_s / (row["at"] / 2))))


def judge(rows: Rows) -> Verdict:
    """Bounds from both sides: never much worse than foresight in blocks lost, never dearer than always being
    prepared."""
    table = {(row["pattern"], row["at"], row["sender"]): row for row in rows}
    cases = list(dict.fromkeys((row["pattern"], row["at"]) for row in rows))
    periods = [at for kind, at in cases if kind == "on and off"]
    long = [at for at in periods if at >= 1]
    times = [t for at in long for t in table["on and off", at, "diagnosing"]["first_decode_s"]]
    checks = [
        _foresight_check(table, cases),
        *(
            _losses_check(table, pattern, [at for kind, at in cases if kind == pattern], sender)
            for pattern in dict.fromkeys(pattern for pattern, _ in cases)
            for sender in ("estimating", "diagnosing")
        ),
        *(_hold_check(table, periods, sender) for sender in HOLDS_S),
        _exact_check(table, long),
        _cheaper_check(table, long),
        _decode_check(times, min(long) / 2),
        _no_code_check(table, cases),
    ]
    return Verdict.of(checks)


Table = Mapping[tuple[str, float, str], Row]


def _foresight_check(table: Table, cases: Sequence[tuple[str, float]]) -> Check:
    """Foresight under failures that a code can repair: nothing is lost."""
    own = [table[pattern, at, "clairvoyant"] for pattern, at in cases if pattern == "on and off"]
    worst = max(row["undecodable"] for row in own)
    still = min(table["on and off", row["at"], "fixed, at rest"]["undecodable"] for row in own)
    return Claim("blocks that foresight could not save, link on and off").equal(0.0, worst).against(still, "N at rest")


def _losses_check(table: Table, pattern: str, values: Sequence[float], own: str) -> Check:
    """Of the source packets that N at rest has late or lost and foresight has not: how many this sender has, worst
    case."""
    shares = []
    for at in values:
        best, late, still = (table[pattern, at, sender]["late"] for sender in ("clairvoyant", own, "fixed, at rest"))
        if still > best:
            shares.append((late - best) / (still - best))
    saved = f"{pattern}: of the packets that only foresight saves and N at rest loses"
    return (
        Claim(f"{saved}, share lost by the {own} sender, worst")
        .at_most(0.1, max(shares, default=0.0))
        .against(1.0, "N at rest")
        .noting("below 0 it does better than foresight without late parity")
    )


def _hold_check(table: Table, periods: Sequence[float], sender: str) -> Check:
    """How long N is raised: while the link is down and ``hold_s`` longer."""
    rows = [table["on and off", at, sender] for at in periods]
    predicted = statistics.fmean(stored_fraction(row, HOLDS_S[sender]) for row in rows)
    return (
        Claim(f"on and off, {sender}: share of blocks with N raised, mean over the periods")
        .equal(predicted, mean_of(rows, "raised"), SLACK)
        .against(mean_of(rows, "down"), "a sender that lowers N at once")
        .noting(f"it holds N for {HOLDS_S[sender]:g} s")
    )


def _exact_check(table: Table, periods: Sequence[float]) -> Check:
    """A sender that knows what failed spends what foresight does: no hold, no margin."""
    foreseen, ours, theirs = (
        {at: table["on and off", at, sender]["overhead"] for at in periods}
        for sender in ("clairvoyant", "diagnosing", "estimating")
    )
    gaps, rivals = ({at: of[at] - foreseen[at] for at in periods} for of in (ours, theirs))
    worst = max(gaps, key=lambda at: abs(gaps[at]))
    return (
        Claim("on and off, diagnosing: overhead beyond that of foresight, worst")
        .equal(0.0, gaps[worst], SLACK)
        .against(max(rivals.values()), "the estimating sender")
        .noting(f"at a period of {worst:g} s")
    )


def _cheaper_check(table: Table, periods: Sequence[float]) -> Check:
    """Packets beyond the source packets, over those of a sender that is always prepared for the worst: while nothing
    fails it is at rest."""
    rows = [table["on and off", at, "diagnosing"] for at in periods]
    predicted = [
        (row["down"] * row["worst"] + (1 - row["down"]) * row["base"] - row["m"]) / (row["worst"] - row["m"])
        for row in rows
    ]
    measured = [row["overhead"] / table["on and off", row["at"], "fixed, for the worst"]["overhead"] for row in rows]
    return (
        Claim("on and off, diagnosing: parity sent over that of N for the worst, mean")
        .equal(statistics.fmean(predicted), statistics.fmean(measured), 0.1)
        .against(1.0, "as dear as being always prepared")
    )


def _no_code_check(table: Table, cases: Sequence[tuple[str, float]]) -> Check:
    """Without a code, what the faults take is late: what all others are to save."""
    own, rival = ([table[pattern, at, sender] for pattern, at in cases] for sender in ("none", "diagnosing"))
    lost = sum_of(own, "lost")
    return (
        Claim("no code: source packets late or lost, over those that the failures take")
        .equal(1.0, sum_of(own, "late") / lost, 0.03)
        .against(sum_of(rival, "late") / lost, "the diagnosing sender")
    )


def _decode_check(times: Sequence[float | None], repaired_s: float) -> Check:
    """From each failure to the first block that decodes (None: none did while it lasted), within the playback
    buffer."""
    worst = max((NEVER_S if t is None else t for t in times), default=NEVER_S)
    return (
        Claim("on and off, diagnosing: from a failure to the first block that decodes, worst, s")
        .at_most(PLAYBACK_S, worst)
        .against(repaired_s, "N at rest: only after the repair")
        .noting(f"{len(times)} failures; {NEVER_S:g}: none while it lasted")
    )


MEASURES = {
    "overhead": "parity sent, % of the source packets",
    "wasted": "parity that came and was not needed, % of the source packets",
    "late": "late or lost, % of the source packets",
}


def figures(rows: Rows) -> Results:
    """A figure a pattern and measure, a line a sender."""
    drawn = {}
    for (pattern, across), (measure, words) in product(PATTERNS.items(), MEASURES.items()):
        if own := where(rows, pattern=pattern):
            samples = {(row["sender"], row["at"]): (100 * row[measure], 0.0) for row in own}
            figure = drawn[f"{pattern.replace(' ', '-')}-{measure}"] = draw_lines(pattern, samples, x=across, y=words)
            ticks(figure.axes[0], (row["at"] for row in own))
    return drawn


STUDY = Study.of_module(
    __name__,
    title="Redundancy that adapts, fixed redundancy and none, while losses change",
    answers="Gabrielyan 2007, section 4.3: "
    "redundancy added when a failure is heard of, against redundancy that is always there",
    deviations=("The document has no figure of it; losses are those of cut and lossy links over Swiss-T1.",),
)
