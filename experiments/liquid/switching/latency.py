"""Latency of a message over the number of switches: streamed through them, or stored at each stop.

Gabrielyan 2007, 1.3.1 (Figure 6): store and forward takes the time of a packet for every stop.
Gabrielyan 2007, 1.3.2 and 3.2.1 (Figure 7): with wormhole routing the message is on all links at
once, and its latency hardly depends on the distance.
"""

import statistics
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from experiments.liquid.rows import column
from testbed.errors import InvalidRunError
from testbed.model.studies import Figures, Points, Results, Row, Rows, Study, grid, grouped, where
from testbed.model.verdict import Claim, Verdict, repeated
from testbed.report.drawing.charts import draw_lines

if TYPE_CHECKING:
    from testbed.bulk.emulated.fabric import EmulatedBulkFabric

STOPS = (1, 2, 3, 4, 5, 6)
REPETITIONS = 5
MESSAGE_BYTES = 250_000
LINK_BPS = 10e6
NAMES = {"streamed": "streamed through all switches", "stored": "stored whole at every stop"}

# The checks are about the additional time per stop, as a share of the time over one stop. Streamed
# messages: the largest share that counts as none. Stored messages: the tolerance, because 1 is
# expected.
INSENSITIVE = 0.1
TOLERANCE = 0.1

# How often a message is sent at most, if the run fails.
ATTEMPTS = 3

# The smallest share of valid points in a valid study.
MIN_VALID = 0.9


def points(quick: bool, seed: int) -> Points:
    """Return every distance five times, or fewer distances once for a quick run."""
    if quick:
        return grid(repetition=range(1), stops=STOPS[::2], seed=seed)
    return grid(repetition=range(REPETITIONS), stops=STOPS, seed=seed)


def measure(point: Row) -> Results:
    """Measure the latency of a message over a number of stops, both streamed and stored."""
    from testbed.bulk.emulated.fabric import EmulatedBulkFabric

    stops = point["stops"]
    single_hops = [(hop, hop + 1) for hop in range(stops)]
    results: Results = {"invalid": None}
    with EmulatedBulkFabric(calibrate=False) as fabric:
        for way, hops in (("streamed", [(0, stops)]), ("stored", single_hops)):
            try:
                results |= _send(point, way, hops, fabric)
            except InvalidRunError as error:
                results["invalid"] = str(error)
    return results


def _send(
    point: Row, way: str, hops: Sequence[tuple[int, int]], fabric: "EmulatedBulkFabric"
) -> Results:
    """Send a message hop by hop, and return its latency.

    Args:
        point: The parameters of the point.
        way: "streamed" or "stored".
        hops: Numbers of the hosts between which the message is sent. A hop begins when the previous
            one is complete.
        fabric: The network, which is running.

    Raises:
        InvalidRunError: All attempts failed.
    """
    from testbed.bulk.workload import bulk_plan

    plan = bulk_plan(
        f"mesh:{STOPS[-1] + 1}",
        message_bytes=MESSAGE_BYTES,
        inject_packets=0,
        scheduling="identical",
        link_rate_bps=LINK_BPS,
        pattern=tuple((f"h{sender}", f"h{receiver}") for sender, receiver in hops),
        seed=point["seed"],
    )
    plan = replace(plan, frames=tuple((hop,) for hop in range(len(hops))))
    run = repeated(lambda: fabric.run(plan), lambda run: run.failure, ATTEMPTS - 1)
    if run.failure is not None:
        raise InvalidRunError(f"{way}: {run.failure}")
    start_s = run.transfers[0].started_s or 0.0
    end_s = run.transfers[-1].done_s or 0.0
    verified = [record for record in run.transfers if record.deliveries == 1]
    return {f"{way}_s": end_s - start_s, f"{way}_verified": len(verified)}


def judge(rows: Rows) -> Verdict:
    """Check the time that each further stop adds, as a share of the time over one stop."""
    valid = where(rows, invalid=None)
    if len(valid) < MIN_VALID * len(rows):
        reason = next(row["invalid"] for row in rows if row["invalid"] is not None)
        return Verdict(checks=(), invalid=reason)
    stored = growth(valid, "stored")
    streamed = growth(valid, "streamed")
    not_verified = 0
    for row in valid:
        not_verified += 1 - row["streamed_verified"]
        not_verified += row["stops"] - row["stored_verified"]
    checks = (
        Claim("stored at every stop: each further stop adds, in times over one stop")
        .equal(1.0, stored, TOLERANCE)
        .cites("delay = stops times size, 1.3.1, Figure 6")
        .against(streamed[0], "what it adds where it is streamed"),
        Claim("streamed through all switches: each further stop adds, in times over one stop")
        .at_most(INSENSITIVE, streamed)
        .cites("latency insensitive to the distance, 3.2.1, Figure 7")
        .against(stored[0], "what it adds where it is stored"),
        Claim("messages not verified").count(0, not_verified),
    )
    return Verdict.of(checks)


def growth(rows: Rows, way: str) -> tuple[float, float]:
    """Return the time that each stop adds, as a share of the median time over one stop.

    It is the slope of a straight line through all points.

    Returns:
        The share, and half the width of its 95 % confidence interval.
    """
    one_stop_s = statistics.median(column(where(rows, stops=1), f"{way}_s"))
    stops = [float(row["stops"]) for row in rows]
    times = [row[f"{way}_s"] / one_stop_s for row in rows]
    fit = statistics.linear_regression(stops, times)
    mean_stops = statistics.mean(stops)
    squared_residuals = []
    squared_deviations = []
    for x, y in zip(stops, times, strict=True):
        squared_residuals.append((y - fit.intercept - fit.slope * x) ** 2)
        squared_deviations.append((x - mean_stops) ** 2)
    variance = sum(squared_residuals) / max(1, len(stops) - 2)
    standard_error = (variance / sum(squared_deviations)) ** 0.5
    return fit.slope, 1.96 * standard_error


def figures(rows: Rows) -> Figures:
    """Draw the latency over the number of stops, with its interval over the repetitions."""
    valid = where(rows, invalid=None)
    samples = {}
    for way, name in NAMES.items():
        added_share, _ = growth(valid, way)
        label = f"{name}: each stop adds {added_share:.3f} of the time over one"
        for stops, times_s in grouped(valid, "stops", f"{way}_s").items():
            samples[label, stops] = times_s
    title = (
        f"A message of {MESSAGE_BYTES / 1e3:g} kB over links of {LINK_BPS / 1e6:g} Mbit/s "
        "on switches"
    )
    return {"latency": draw_lines(title, samples, x="stops on the way", y="time of a message (s)")}


STUDY = Study.of_module(
    __name__,
    name="switching_latency",
    title="Latency by distance: store and forward against a stream through all switches",
    answers="Gabrielyan 2007, 1.3.1 and 1.3.2, Figures 6 and 7: "
    "stored messages take a message's time a stop, wormhole latency hardly grows",
    deviations=(
        "the message is stored by the host of each stop, and streamed in packets of 9 kB over a "
        "circuit, not in flits",
        "250 kB over links of 10 Mbit/s",
    ),
    emulation=True,
)
