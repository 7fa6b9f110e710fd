"""How long a message takes over more and more switches: streamed through all of them, or stored at every stop.

Gabrielyan 2007, 1.3.1 (Figure 6): store and forward takes the time of a packet for every stop; 1.3.2 and 3.2.1 (Figure
7): with wormhole routing the message is on all links at once and the distance hardly matters.
"""

import statistics
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from testbed.errors import InvalidRunError
from testbed.model.studies import Figures, Points, Results, Row, Rows, Study, grid, grouped, where
from testbed.model.verdict import Claim, Verdict, repeated
from testbed.report.drawing.charts import draw_lines

if TYPE_CHECKING:
    from testbed.bulk.emulated.fabric import EmulatedBulkFabric

STOPS = (1, 2, 3, 4, 5, 6)
MESSAGE_BYTES, LINK_BPS = 250_000, 10e6
NAMES = {"streamed": "streamed through all switches", "stored": "stored whole at every stop"}
INSENSITIVE, TOLERANCE, ATTEMPTS = 0.1, 0.1, 3


def points(quick: bool, seed: int) -> Points:
    """Every distance, five times; once with ``quick``, at fewer distances."""
    return grid(
        repetition=range(1 if quick else 5), stops=STOPS[::2] if quick else STOPS, seed=seed
    )


def measure(point: Row) -> Results:
    """Seconds of one message from the first host to that many stops on, by each way."""
    from testbed.bulk.emulated.fabric import EmulatedBulkFabric

    stops = point["stops"]
    hops = {"streamed": [(0, stops)], "stored": [(k, k + 1) for k in range(stops)]}
    found: Results = {"invalid": None}
    with EmulatedBulkFabric(calibrate=False) as fabric:
        for way, pairs in hops.items():
            try:
                found |= _carried(point, way, pairs, fabric)
            except InvalidRunError as error:
                found["invalid"] = str(error)
    return found


def _carried(
    point: Row, way: str, hops: Sequence[tuple[int, int]], fabric: "EmulatedBulkFabric"
) -> Results:
    from testbed.bulk.workload import bulk_plan

    pattern = tuple((f"h{a}", f"h{b}") for a, b in hops)
    sizes: Results = {"message_bytes": MESSAGE_BYTES, "inject_packets": 0}
    how: Results = {
        "scheduling": "identical",
        "link_rate_bps": LINK_BPS,
        "pattern": pattern,
        "seed": point["seed"],
    }
    plan = bulk_plan(f"mesh:{STOPS[-1] + 1}", **sizes, **how)
    plan = replace(plan, frames=tuple((k,) for k in range(len(hops))))
    run = repeated(lambda: fabric.run(plan), lambda run: run.failure, ATTEMPTS - 1)
    if run.failure is not None:
        raise InvalidRunError(f"{way}: {run.failure}")
    records = run.transfers
    began, done = records[0].started_s or 0.0, records[-1].done_s or 0.0
    return {
        f"{way}_s": done - began,
        f"{way}_verified": sum(record.deliveries == 1 for record in records),
    }


def judge(rows: Rows) -> Verdict:
    """The time that each further stop adds, in the time over one stop."""
    good = where(rows, invalid=None)
    if len(good) < 0.9 * len(rows):
        return Verdict(
            checks=(), invalid=next(row["invalid"] for row in rows if row["invalid"] is not None)
        )
    stored, streamed = (growth(good, way) for way in ("stored", "streamed"))
    missing = sum(
        1 - row["streamed_verified"] + row["stops"] - row["stored_verified"] for row in good
    )
    return Verdict.of(
        (
            Claim("stored at every stop: each further stop adds, in times over one stop")
            .equal(1.0, stored, TOLERANCE)
            .cites("delay = stops times size, 1.3.1, Figure 6")
            .against(streamed[0], "what it adds where it is streamed"),
            Claim("streamed through all switches: each further stop adds, in times over one stop")
            .at_most(INSENSITIVE, streamed)
            .cites("latency insensitive to the distance, 3.2.1, Figure 7")
            .against(stored[0], "what it adds where it is stored"),
            Claim("messages not verified").count(0, missing),
        )
    )


def growth(rows: Rows, way: str) -> tuple[float, float]:
    """(what each stop adds to the time over one stop, in times that; half width of its 95 % interval): a straight line
    through all."""
    single = statistics.median(row[f"{way}_s"] for row in where(rows, stops=1))
    x = [float(row["stops"]) for row in rows]
    y = [row[f"{way}_s"] / single for row in rows]
    fit = statistics.linear_regression(x, y)
    spread = sum((b - fit.intercept - fit.slope * a) ** 2 for a, b in zip(x, y, strict=True)) / max(
        1, len(x) - 2
    )
    middle = statistics.mean(x)
    return fit.slope, 1.96 * (spread / sum((a - middle) ** 2 for a in x)) ** 0.5


def figures(rows: Rows) -> Figures:
    """Time against the number of stops, with its interval over the repetitions."""
    good = where(rows, invalid=None)
    samples = {
        (f"{words}: each stop adds {growth(good, way)[0]:.3f} of the time over one", stops): times
        for way, words in NAMES.items()
        for stops, times in grouped(good, "stops", f"{way}_s").items()
    }
    title = f"A message of {MESSAGE_BYTES / 1e3:g} kB over links of {LINK_BPS / 1e6:g} Mbit/s on switches"
    return {"latency": draw_lines(title, samples, x="stops on the way", y="time of a message (s)")}


STUDY = Study.of_module(
    __name__,
    name="switching_latency",
    title="Latency by distance: store and forward against a stream through all switches",
    answers="Gabrielyan 2007, 1.3.1 and 1.3.2, Figures 6 and 7: "
    "stored messages take a message's time a stop, wormhole latency hardly grows",
    deviations=(
        "the message is stored by the host of each stop, and streamed in packets of 9 kB over a circuit, not in flits",
        "250 kB over links of 10 Mbit/s",
    ),
    emulation=True,
)
