"""Nodes that walk, on real switches: is the loss of every frame what the labels on the vanished links say?

The plan is replaced after links vanished without warning, or before they do; random failures come on top.
"""

from experiments.stream.failures.failing_streams import campaign_row, predictions_check
from testbed.faults.fault import PoissonFaults
from testbed.model.studies import (
    Check,
    Claim,
    Figures,
    Points,
    Results,
    Row,
    Rows,
    Study,
    Verdict,
    verdict_of,
    where,
)
from testbed.report.drawing.charts import draw_lines


def points(quick: bool, seed: int) -> Points:
    """Both handovers; quick: 20 nodes, 4 frames; full: 115 nodes, 12 frames, random failures besides in one."""
    size = {"nodes": 20, "step": 0.02, "frames": 4, "frame_s": 2.0, "rate_pps": 200.0, "walk": 1}
    if not quick:
        size = {
            "nodes": 115,
            "step": 0.004,
            "frames": 12,
            "frame_s": 5.0,
            "rate_pps": 50.0,
            "walk": 5,
        }
    runs = (("before", 0.0), ("after", 0.0), ("after", 0.01))
    return [
        {**size, "handover": handover, "rate_per_s": rate, "seed": seed} for handover, rate in runs
    ]


def measure(point: Row, fabric: str = "emulation") -> Results:
    """One run; repeated once where the machine could not keep up."""
    from testbed.stream.fabric import open_fabric
    from testbed.stream.run_in_turn import run_and_judge
    from testbed.stream.workload import mobility_plan

    name = f"manet:nodes={point['nodes']},degree=5.6,step={point['step']},seed={point['walk']}"
    faults = (
        PoissonFaults(rate_per_s=point["rate_per_s"], lasts_s=1.0) if point["rate_per_s"] else ()
    )
    settings = {key: point[key] for key in ("frame_s", "handover", "rate_pps", "seed")}
    settings |= {
        "count": point["frames"],
        "playback_s": 0.4 * 1000.0 / point["rate_pps"],
        "faults": faults,
    }
    plan = mobility_plan(name, "n0", f"n{point['nodes'] - 1}", **settings)
    session = run_and_judge(plan, open_fabric(fabric), repeats_if_invalid=1)
    found, campaign = campaign_row(session)
    named = ("faults", "undecodable", "longest_change_s")
    return (
        found | {"frames_measured": campaign["frames"]} | {name: campaign[name] for name in named}
    )


def judge(rows: Rows) -> Verdict:
    """Each run's own verdict; with a warning nothing may be lost."""
    checks = []
    for row in rows:
        name = _name(row)
        why = "none: predictions are counted, each with a rival or a tolerance of its own"
        more = f"longest change {row['longest_change_s']:.2f} s; {row['faults']} failures"
        checks.append(predictions_check(f"every prediction, {name}", why, [row], more))
        checks += _frame_checks(row, name)
        if row["handover"] == "before" and not row["faults"]:
            lost = max(frame["measured_loss"] for frame in row["frames_measured"])
            late = [other for other in where(rows, handover="after") if not other["faults"]]
            checks.append(
                Claim(f"loss, {name}")
                .equal(0, lost)
                .against(
                    max(
                        (part["measured_loss"] for one in late for part in one["frames_measured"]),
                        default=None,
                    ),
                    "the plan is replaced after links vanish, most of a frame",
                )
            )
    return verdict_of(rows, checks)


def _frame_checks(row: Row, name: str) -> list[Check]:
    """How far a frame's loss is off its prediction; none where no loss is predicted."""
    frames = row["frames_measured"]
    most = max(frame["predicted_loss"] for frame in frames)
    if most == 0:
        return []
    return [
        Claim(f"frame whose loss is furthest off its prediction, {name}")
        .at_most(
            max(frame["tolerance"] for frame in frames),
            max(abs(frame["measured_loss"] - frame["predicted_loss"]) for frame in frames),
        )
        .against(most, "nothing is lost in any frame")
    ]


def figures(rows: Rows) -> Figures:
    """Loss frame by frame."""
    samples = {
        (f"{name}, {_name(row)}", frame["frame"]): (100 * frame[f"{name}_loss"], 0.0)
        for row in rows
        for name in ("predicted", "measured")
        for frame in row["frames_measured"]
    }
    title = f"{rows[0]['nodes']} nodes, a frame every {rows[0]['frame_s']:g} s"
    x = "frame (links that vanish at its end are counted in it)"
    return {"loss": draw_lines(title, samples, x=x, y="packets lost, %")}


def _name(row: Row) -> str:
    failing = f", {row['rate_per_s']:g} failures a cable and second" if row["rate_per_s"] else ""
    return f"plan replaced {row['handover']} links vanish{failing}"


STUDY = Study.of_module(
    __name__,
    title="Nodes that walk: what each frame loses while the plan follows the links",
    deviations=(
        "The document computes each frame alone; here they follow on switches, losses between plans are measured.",
        "Walks, network and rates are ours: 115 nodes and 12 frames at full size, 20 and 4 in the quick one.",
    ),
    answers="Gabrielyan 2007, section 4.4, on frames that follow one another: "
    "losses between the change of links and the new plan",
    emulation=True,
)
