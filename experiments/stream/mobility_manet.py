"""Streams over a mobile network on real switches, and compares the loss of every frame with theory.

Links vanish when nodes move to the positions of the next frame. The packets whose labels take these
links are predicted to be lost. The route is replaced after links have vanished, or before, with a
warning. One run has random failures in addition.
"""

from collections.abc import Iterable

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

QUICK_SIZE = {
    "nodes": 20,
    "step": 0.02,
    "frames": 4,
    "frame_s": 2.0,
    "rate_pps": 200.0,
    "walk": 1,
}
FULL_SIZE = {
    "nodes": 115,
    "step": 0.004,
    "frames": 12,
    "frame_s": 5.0,
    "rate_pps": 50.0,
    "walk": 5,
}

# When the route is replaced (before or after links vanish), and failures per second of each cable.
RUNS = (("before", 0.0), ("after", 0.0), ("after", 0.01))


def points(quick: bool, seed: int) -> Points:
    """Return a run for each handover, and one with random failures.

    There are 115 nodes and 12 frames; ``quick``: 20 nodes and 4 frames.
    """
    size = QUICK_SIZE if quick else FULL_SIZE
    result: Points = []
    for handover, rate_per_s in RUNS:
        result.append({**size, "handover": handover, "rate_per_s": rate_per_s, "seed": seed})
    return result


def measure(point: Row, fabric: str = "emulation") -> Results:
    """Run a stream over moving nodes; repeat it once if the machine could not keep up."""
    from testbed.stream.fabric import open_fabric
    from testbed.stream.run_in_turn import run_and_judge
    from testbed.stream.workload import mobility_plan

    walk = f"manet:nodes={point['nodes']},degree=5.6,step={point['step']},seed={point['walk']}"
    faults: PoissonFaults | tuple[()] = ()
    if point["rate_per_s"]:
        faults = PoissonFaults(rate_per_s=point["rate_per_s"], lasts_s=1.0)
    plan = mobility_plan(
        walk,
        "n0",
        f"n{point['nodes'] - 1}",
        frame_s=point["frame_s"],
        handover=point["handover"],
        rate_pps=point["rate_pps"],
        seed=point["seed"],
        count=point["frames"],
        # 400 packets.
        playback_s=0.4 * 1000.0 / point["rate_pps"],
        faults=faults,
    )
    session = run_and_judge(plan, open_fabric(fabric), repeats_if_invalid=1)
    row, campaign = campaign_row(session)
    row["frames_measured"] = campaign["frames"]
    for name in ("faults", "undecodable", "longest_change_s"):
        row[name] = campaign[name]
    return row


def judge(rows: Rows) -> Verdict:
    """Check the verdict of each run, and that nothing is lost if links vanish with a warning."""
    checks = []
    for row in rows:
        name = _name(row)
        remark = f"longest change {row['longest_change_s']:.2f} s; {row['faults']} failures"
        checks.append(
            predictions_check(
                f"every prediction, {name}",
                "none: predictions are counted, each with a rival or a tolerance of its own",
                [row],
                remark,
            )
        )
        checks += _frame_checks(row, name)
        if row["handover"] == "before" and not row["faults"]:
            checks.append(_check_warned(row, name, where(rows, handover="after")))
    return verdict_of(rows, checks)


def _check_warned(row: Row, name: str, unwarned: Rows) -> Check:
    """Check that a run with warnings loses nothing.

    Args:
        row: The row of the run.
        name: Description of the run.
        unwarned: The rows of runs without warnings.
    """
    without_faults = [other for other in unwarned if not other["faults"]]
    return (
        Claim(f"loss, {name}")
        .equal(0, max(_losses([row])))
        .against(
            max(_losses(without_faults), default=None),
            "the plan is replaced after links vanish, most of a frame",
        )
    )


def _losses(rows: Rows) -> Iterable[float]:
    """Yield the measured loss of each frame."""
    for row in rows:
        for frame in row["frames_measured"]:
            yield frame["measured_loss"]


def _frame_checks(row: Row, name: str) -> list[Check]:
    """Return the check of the largest difference of a frame's loss from its prediction.

    There is no check if no loss is predicted in any frame.
    """
    frames = row["frames_measured"]
    largest_loss = max(frame["predicted_loss"] for frame in frames)
    if largest_loss == 0:
        return []
    tolerance = max(frame["tolerance"] for frame in frames)
    difference = max(abs(frame["measured_loss"] - frame["predicted_loss"]) for frame in frames)
    return [
        Claim(f"frame whose loss is furthest off its prediction, {name}")
        .at_most(tolerance, difference)
        .against(largest_loss, "nothing is lost in any frame")
    ]


def figures(rows: Rows) -> Figures:
    """Draw the predicted and measured loss of each frame."""
    samples = {}
    for row in rows:
        for kind in ("predicted", "measured"):
            for frame in row["frames_measured"]:
                label = f"{kind}, {_name(row)}"
                samples[label, frame["frame"]] = (100 * frame[f"{kind}_loss"], 0.0)
    figure = draw_lines(
        f"{rows[0]['nodes']} nodes, a frame every {rows[0]['frame_s']:g} s",
        samples,
        x="frame (links that vanish at its end are counted in it)",
        y="packets lost, %",
    )
    return {"loss": figure}


def _name(row: Row) -> str:
    name = f"plan replaced {row['handover']} links vanish"
    if row["rate_per_s"]:
        name += f", {row['rate_per_s']:g} failures a cable and second"
    return name


STUDY = Study.of_module(
    __name__,
    title="Moving nodes: losses of each frame while the plan follows the links",
    deviations=(
        "The document computes each frame alone; "
        "here they follow each other on switches, and losses between plans are measured.",
        "Walks, network and rates are ours: 115 nodes and 12 frames (quick: 20 and 4).",
    ),
    answers="Gabrielyan 2007, section 4.4, on frames that follow one another: "
    "losses between the change of links and the new plan",
    emulation=True,
)
