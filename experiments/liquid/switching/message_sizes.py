"""Messages of different size over circuits and in packets on switches: what each message costs, and what small pieces
gain.

Gabrielyan and Hersch 2002, section 1: "Due to the message overhead, communication cost increases with the decrease of
the message size. However, smaller messages allow a more progressive utilization of network links."
"""

from typing import Any

from experiments.liquid.switching.valid_exchange import valid_exchange
from testbed.errors import InvalidRunError
from testbed.model.studies.study import Figures, Points, Results, Row, Rows, Study, grid, where
from testbed.model.verdict import Claim, Verdict
from testbed.report.drawing.charts import BLUE, GREEN, ORANGE, chart, ticks

ALLOCATION = "0-0-1-3-3-2-3-4"
SIZES, QUICK_SIZES = (25_000, 50_000, 100_000, 200_000, 400_000), (25_000, 200_000)
RUNS = {
    "liquid": ("liquid", True, "circuit"),
    "circuits": ("round-robin", False, "circuit"),
    "packets": ("round-robin", False, "packet"),
}
LOOKS = {
    "liquid": (BLUE, "o", "liquid schedule over circuits"),
    "packets": (GREEN, "s", "round robin in packets of 9 kB"),
    "circuits": (ORANGE, "^", "round robin over circuits, a message at a time"),
}
COST, GAIN = 0.97, 1.1
"""The smallest messages carry less than this share of what the largest do; packets carry so many times what whole
messages do."""


def points(quick: bool, seed: int) -> Points:
    """One a size, twice; once with ``quick``."""
    sizes = QUICK_SIZES if quick else SIZES
    return grid(allocation=ALLOCATION, repetition=range(1 if quick else 2), message_bytes=sizes, seed=seed)


def measure(point: Row) -> Results:
    """Share of the liquid throughput by each way, on one network."""
    from testbed.bulk.emulated.fabric import EmulatedBulkFabric

    found: Results = {"invalid": None}
    with EmulatedBulkFabric() as fabric:
        for name in RUNS:
            try:
                found |= _carried(point, name, fabric)
            except InvalidRunError as error:
                found["invalid"] = str(error)
    return found


def _carried(point: Row, name: str, fabric: Any) -> Results:
    from testbed.bulk.workload import bulk_plan

    method, barrier, switching = RUNS[name]
    how: Results = {"scheduling": method, "barrier": barrier, "switching": switching, "seed": point["seed"]}
    network, size = f"swiss-t1:allocation={point['allocation']}", point["message_bytes"]
    plan = bulk_plan(network, message_bytes=size, **how)
    row = valid_exchange(plan, fabric)[0].document
    retained = {f"{name}_{key}": row[key] for key in ("seconds", "throughput_bps", "goodput_bps", "messages_verified")}
    # Of the links' rate, not of this size's own goodput, which has the message's cost in it already.
    share = row["throughput_bps"] / (row["liquid_links"] * row["link_rate_bps"])
    return {**retained, f"{name}_share": share, "transfers": row["transfers"]}


def judge(rows: Rows) -> Verdict:
    """Small messages cost, and small pieces use the links better."""
    good = where(rows, invalid=None)
    if len(good) < 0.75 * len(rows):
        return Verdict(checks=(), invalid=next(row["invalid"] for row in rows if row["invalid"] is not None))
    small, large = (pick(row["message_bytes"] for row in good) for pick in (min, max))
    missing = sum(row["transfers"] - row[f"{name}_messages_verified"] for row in good for name in RUNS)
    return Verdict.of(
        (
            Claim(f"liquid schedule: throughput of messages of {small / 1e3:g} kB over that of {large / 1e3:g} kB")
            .at_most(COST, share(good, "liquid", small) / share(good, "liquid", large))
            .cites("cost rises as messages become smaller (2002, section 1)")
            .against(1.0, "no cost a message"),
            Claim(f"round robin of {large / 1e3:g} kB: throughput in packets over that of whole messages")
            .at_least(GAIN, share(good, "packets", large) / share(good, "circuits", large))
            .cites("smaller pieces use the links better (2002, section 1)")
            .against(1.0, "nothing gained"),
            Claim(f"liquid schedule of {large / 1e3:g} kB: throughput over that of round robin in packets")
            .at_least(1.02, share(good, "liquid", large) / share(good, "packets", large))
            .cites("congestion keeps the throughput below the liquid one (2002, section 1)")
            .against(1.0, "packets are liquid already"),
            Claim("messages not verified").count(0, missing),
        )
    )


def share(rows: Rows, name: str, size: int) -> float:
    """Mean over the repetitions."""
    own = [row[f"{name}_share"] for row in where(rows, message_bytes=size)]
    return float(sum(own) / len(own))


def figures(rows: Rows) -> Figures:
    """Share of the liquid throughput against the size of the messages."""
    good = where(rows, invalid=None)
    sizes = sorted({row["message_bytes"] for row in good})
    title = f"Overhead against fluidity on switches: Swiss-T1, allocation {ALLOCATION}, links of 20 Mbit/s"
    y = "throughput over liquid throughput at the links' rate"
    figure, axes = chart(title, size=(8, 4.6), xlabel="size of a message (kB)", ylabel=y, ylim=(0, 1.02))
    kilobytes = [size / 1e3 for size in sizes]
    for name, (colour, mark, label) in LOOKS.items():
        shares = [share(good, name, size) for size in sizes]
        axes.plot(kilobytes, shares, color=colour, marker=mark, label=label)
    ticks(axes, kilobytes)
    axes.legend()
    return {"message-sizes": figure}


STUDY = Study.of_module(
    __name__,
    name="switching_message_sizes",
    title="Overhead against fluidity: the size of messages on switches",
    answers="Gabrielyan and Hersch 2002, section 1: small messages cost more, and use the links more progressively",
    deviations=(
        "the document has no figure of it; one message a pair of each size, over links of 20 Mbit/s",
        "the small pieces are packets of 9 kB under TCP",
    ),
    emulation=True,
)
