"""What random failures cost a stream of ten minutes on real switches, in packets, against D x P x ROR (Gabrielyan 2007,
eq. 21 and 22)."""

from experiments.stream.failures.failing_streams import PLAYBACK_S, cost_figures, failing_plan
from experiments.stream.failures.failure_cost import CABLES, before_any_failure, figures, judge
from experiments.stream.networks import NETWORKS, points_over
from testbed.model.code_description import describe_code
from testbed.model.studies.study import Points, Results, Row, Study
from testbed.stream.plan import StreamParameters

STREAM = StreamParameters(rate_pps=200.0, playback_s=PLAYBACK_S, symbol_bytes=256)


def points(quick: bool, seed: int) -> Points:
    """Pieces of a minute and a half with shorter and with longer failures, then ten minutes (quick: half a minute of
    each)."""
    short, long, whole = (180, 2.0, 95.0), (160, 8.0, 95.0), (120, 4.0, 580.0)
    runs = [(1, short), (2, short), (4, long), (5, long), (0, whole)]
    if quick:
        runs = [(0, (900, 1.0, 30.0)), (1, (360, 4.0, 30.0))]
    names, found = ("failures_an_hour", "lasts_s", "duration_s"), []
    for k, values in runs:
        found += points_over([NETWORKS[0].ends], **dict(zip(names, values, strict=True)), seed=seed + k)
    return found


def measure(point: Row, fabric: str = "emulation") -> Results:
    """One stream, repeated once where the machine could not keep up. ``believed``: what the sender took for broken from
    when on, whether it was certain, and N."""
    from testbed.stream.fabric import open_fabric
    from testbed.stream.prediction.failure_candidates import DIAGNOSES
    from testbed.stream.run_in_turn import run_and_judge

    plan, faults = failing_plan(point, STREAM)
    session = run_and_judge(plan, open_fabric(fabric), repeats_if_invalid=1)
    run, invalid = session.run, session.verdict.invalid
    believed = [(e["at_s"], e["names"], e["certain"], e["block_size"]) for e in run.counters.get(DIAGNOSES, ())]
    return {**cost_figures(plan, run), **before_any_failure(plan, faults), "invalid": invalid, "believed": believed}


STUDY = Study.of_module(
    __name__,
    title="What ten minutes of failures cost in packets on switches",
    ror_code=describe_code(labels="stratified", m=20, tolerance=0.05, der=1e-5),
    answers="Gabrielyan 2007, eq. 21 and 22, on switches: D x P x ROR is what the sender really adds; "
    "rivals as those of failure_cost",
    emulation=True,
    judge=judge,
    figures=figures,
    deviations=("Minutes, not a long communication: failures are more frequent, so that some are seen.", CABLES),
)
