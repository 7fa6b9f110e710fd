"""Redundancy that adapts, fixed and none on real switches, under a link that goes and comes back: the same figures as
in virtual time."""

from collections.abc import Mapping
from dataclasses import asdict

from experiments.stream.failures.failing_streams import valid_run
from experiments.stream.real_time.adaptive_figures import outcome_figures
from experiments.stream.real_time.adaptive_redundancy import PATTERNS, decode_check, sender_plan
from experiments.stream.real_time.adaptive_redundancy import measure as measure_simulated
from testbed.model.studies.study import Points, Results, Row, Rows, Study, grid, verdict_of, where
from testbed.model.verdict import Check, Claim, Verdict

RIVALS = {
    "diagnosing": "estimating",
    "estimating": "diagnosing",
    "none": "fixed, at rest",
    "fixed, at rest": "none",
    "fixed, for the worst": "fixed, at rest",
}
"""Sender -> the one whose overhead it must be distinguished from."""
SENDERS = tuple(RIVALS)
SLACK = 0.05
"""Of overhead, between switches and virtual time: a report that comes later raises N of a block or two more."""


def points(quick: bool, seed: int) -> Points:
    """One link that is down half of each period, under each sender (foresight has no business on switches)."""
    periods, lasts_s = ((4.0,), 7.0) if quick else ((1.0, 4.0), 9.0)
    return grid(pattern="on and off", at=periods, sender=SENDERS, lasts_s=lasts_s, seed=seed)


def measure(point: Row, fabric: str = "emulation") -> Results:
    """One run on switches, repeated up to twice where the machine could not keep up, and the same in virtual time."""
    from testbed.stream.prediction.clairvoyant import stream_outcome

    plan, _, _ = sender_plan(point)
    run, invalid = valid_run(plan, fabric, 3)
    return {**asdict(stream_outcome(plan, run)), "invalid": invalid, "virtual": measure_simulated(point)}


def judge(rows: Rows) -> Verdict:
    """Overhead as in virtual time; the senders that adapt late with at most a tenth of what no code is late with."""
    checks = []
    for at in dict.fromkeys(row["at"] for row in rows):
        own = {row["sender"]: row for row in where(rows, at=at)}
        checks += [
            Claim(f"period {at:g} s, {sender}: overhead on switches against virtual time")
            .equal(row["virtual"]["overhead"], row["overhead"], SLACK)
            .against(own[RIVALS[sender]]["virtual"]["overhead"], RIVALS[sender])
            .noting(f"late {100 * row['late']:.2f} %, in virtual time {100 * row['virtual']['late']:.2f} %")
            for sender, row in own.items()
        ]
        checks += [_late_check(own, at, sender) for sender in ("diagnosing", "estimating")]
        checks.append(decode_check(f"period {at:g} s", own["diagnosing"]["first_decode_s"], at / 2))
    return verdict_of(rows, checks)


def _late_check(own: Mapping[str, Row], at: float, sender: str) -> Check:
    lost = own["none"]["virtual"]["lost"]
    return (
        Claim(f"period {at:g} s, {sender}: source packets late or lost, over those that the failures take")
        .at_most(0.1, own[sender]["late"] / lost)
        .against(own["none"]["late"] / lost, "no code")
        .noting(f"N at rest: {own['fixed, at rest']['late'] / lost:.2f}")
    )


STUDY = Study.of_module(
    __name__,
    title="Redundancy that adapts, fixed and none, on switches and in virtual time",
    answers="the study of adaptive redundancy on the fabric, held against virtual time",
    figures=lambda rows: outcome_figures(rows, PATTERNS, SENDERS),
    emulation=True,
)
