"""All to all on a full crossbar, plain messages (Gabrielyan 2007, figure 16) and a striped file (figure 18)."""

from collections.abc import Mapping
from math import log

from experiments.sfio.figures import TOGETHER, finish, throughputs
from experiments.sfio.runs import accessed, judged, transferred
from testbed.model.options import kinds
from testbed.model.options.option import option, options
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
    grid,
    where,
)
from testbed.report.drawing.charts import Figure, Mark, Samples, draw_lines

NODES, QUICK_NODES = (2, 4, 8, 10, 12, 14, 16, 18, 24, 31), (2, 4, 8, 12, 16)
HALVES, QUICK_HALVES = (2, 4, 8, 12, 16, 24, 32), (4, 8, 16)
ONE_LINK, QUICK_ONE_LINK = (4, 12, 24, 31), (4, 12)
"""Numbers of nodes with one link for both of their processors."""
REPEAT, QUICK_REPEAT = 5, 3
"""Writes of one point, of which average and peak are taken."""
LINK_RATE_BPS = 5e6
PAIR_BYTES, QUICK_PAIR_BYTES = 100_000, 60_000
FILE_BYTES = 2_000_000_000
"""The document's striped file."""
MESSAGE_BYTES, QUICK_MESSAGE_BYTES = 250_000, 120_000
STRIPE_UNIT = 200
MIN_FREE, MIN_SCHEDULED = 0.5, 0.8
FALL_FROM = 12
ALI05 = 291e6 / (18 * 100e6)
"""291 Mbit/s with 18 processors, which section 2.10 quotes of another system: a processor's share of a Fast Ethernet
link."""
MESSAGES = {
    "halves-free": "plain messages, half send to half, nobody waits (Figure 16)",
    "halves": "the same in turns over circuits",
}
STRIPED = {
    "striped-in-turns": "striped file, in turns over circuits",
    "striped": "striped file, all at once, average (Figure 18)",
    "striped-one-link": "the same, one link for both processors of a node (Figure 17), average",
}


@options
class Options:
    """How much is written of a striped file, and how often."""

    pair_bytes: int | None = option(
        default=None,
        kind=kinds.bytes_up_to(FILE_BYTES),
        help="size of the striped file per pair of nodes, at most 2 GB per file (default: "
        "100kB; 60kB with --quick)",
    )
    repetitions: int | None = option(
        default=None,
        kind=kinds.whole(1, 99),
        metavar="N",
        help="writes of each point (default: 5; 3 with 31 nodes)",
    )


def points(quick: bool, seed: int, options: Options | None = None) -> Points:
    """Plain messages between halves of the nodes, as Figure 16; a striped file that each node writes and keeps, as
    Figure 18."""
    options = options or Options()
    message, pair = (
        (QUICK_MESSAGE_BYTES, QUICK_PAIR_BYTES) if quick else (MESSAGE_BYTES, PAIR_BYTES)
    )
    halves, nodes, both = (
        (QUICK_HALVES, QUICK_NODES, QUICK_ONE_LINK) if quick else (HALVES, NODES, ONE_LINK)
    )
    every = grid(nodes=nodes, series=STRIPED, pair_bytes=options.pair_bytes or pair, seed=seed)
    striped = [
        point for point in every if point["series"] != "striped-one-link" or point["nodes"] in both
    ]
    for point in striped:
        point["pair_bytes"] = min(point["pair_bytes"], FILE_BYTES // point["nodes"] ** 2)
        several = options.repetitions or (QUICK_REPEAT if quick or point["nodes"] > 24 else REPEAT)
        point["repetitions"] = 1 if point["series"] == "striped-in-turns" else several
    return grid(nodes=halves, series=MESSAGES, message_bytes=message, seed=seed) + striped


def measure(point: Row) -> Results:
    """One all-to-all exchange."""
    nodes = point["nodes"]
    if point["series"] in MESSAGES:
        network, free = f"crossbar:{nodes // 2}", point["series"] == "halves-free"
        size = point["message_bytes"]
        return transferred(
            network, free=free, message_bytes=size, link_rate_bps=LINK_RATE_BPS, seed=point["seed"]
        )
    schedule, switching = (
        ("liquid", "circuit") if point["series"] == "striped-in-turns" else ("none", "packet")
    )
    network = (
        f"fat-tree:{nodes},1" if point["series"] == "striped-one-link" else f"crossbar:{nodes}"
    )
    order: Results = {"scheduling": schedule, "switching": switching}
    file = {"stripe_unit": STRIPE_UNIT, "file_bytes": nodes * nodes * point["pair_bytes"]}
    return accessed(network, point, nodes=nodes, link_rate_bps=LINK_RATE_BPS, **file, **order)


def links_of(row: Row) -> float:
    """The links that such a number of nodes could fill."""
    nodes: int = row["nodes"]
    return nodes / (2 if row["series"] in MESSAGES else 1)


def judge(rows: Rows) -> Verdict:
    """A crossbar has no bottleneck but its hosts' links: throughput grows with the nodes; and whether a striped file's
    falls."""
    free = {row["nodes"]: row["throughput_bps"] for row in where(rows, series="halves-free")}
    average = {
        series: {row["nodes"]: row["mean_bps"] for row in where(rows, series=series)}
        for series in ("striped", "striped-one-link")
    }
    share = {
        series: min(
            row["throughput_bps"] / (links_of(row) * LINK_RATE_BPS)
            for row in where(rows, series=series)
        )
        for series in {row["series"] for row in rows}
    }
    few, many = min(free), max(free)
    slope = log(free[many] / free[few]) / log(many / few)
    checks = [
        Claim(f"plain messages, nobody waits: exponent of throughput over nodes, {few} to {many}")
        .equal(1.0, slope, 0.2)
        .cites("linear scaling, Figure 16")
        .against(0.0, "a shared medium: no growth"),
        Claim("plain messages, nobody waits: share of all links, worst number of nodes")
        .at_least(MIN_FREE, share["halves-free"])
        .cites("each pair contributes a single link capacity, section 2.8.1")
        .against(1 / (many // 2), "one link for all"),
        _fall_check("striped file, all at once", average["striped"]),
        *_striped_checks(average["striped"], share),
    ]
    if max(average["striped-one-link"], default=0) > FALL_FROM:
        checks.append(
            _fall_check("striped file, one link for both processors", average["striped-one-link"])
        )
    return judged(rows, checks)


def _fall_check(what: str, average: Mapping[int, float]) -> Check:
    most = max(average)
    return (
        Claim(f"{what}: average throughput at {most} nodes over that at {FALL_FROM}")
        .at_most(1.0, average[most] / average[FALL_FROM])
        .cites("decreases once nodes exceed 12, Figure 18; MPICH of 2001 suspected")
        .against(most / FALL_FROM, "goes on in proportion to the nodes")
    )


def _striped_checks(average: Mapping[int, float], share: Mapping[str, float]) -> list[Check]:
    near = min(average, key=lambda nodes: abs(nodes - 18))
    return [
        Claim("striped file in turns: share of all links, worst number of nodes")
        .at_least(MIN_SCHEDULED, share["striped-in-turns"])
        .against(share["striped"], "all at once, worst number of nodes"),
        Claim(f"striped file, all at once, {near} nodes: a node's share of its link")
        .at_least(1.5 * ALI05, average[near] / near / LINK_RATE_BPS)
        .cites(
            "competitive with 291 Mbit/s of 18 processors, section 2.10 (0.16 of Fast Ethernet's link each)"
        )
        .against(ALI05, "as that system"),
    ]


def figures(rows: Rows) -> Figures:
    """Throughput over the number of nodes: Figure 16, and Figure 18 with average and peak."""
    plain, striped = (
        [row for row in rows if row["series"] in series] for series in (MESSAGES, STRIPED)
    )
    averages = [{**row, "throughput_bps": row["mean_bps"]} for row in striped]
    peaks = {
        ("peak of all at once", r["nodes"]): (r["peak_bps"] / 1e6, 0.0)
        for r in where(striped, series="striped")
    }
    falls = FALL_FROM, "beyond it the document's falls"
    return {
        "messages": _figure(
            "Plain messages", plain, {}, "nodes, half of which send to the other half"
        ),
        "striped": _figure(
            "A striped file", averages, peaks, "compute nodes, and as many I/O nodes", falls
        ),
    }


def _figure(
    what: str, rows: Rows, more: Samples[float], x: str, upright: Mark | None = None
) -> Figure:
    names = MESSAGES | STRIPED
    samples = {
        **throughputs(rows, "nodes", lambda row: names[row["series"]]),
        **{
            ("all links together", row["nodes"]): (links_of(row) * LINK_RATE_BPS / 1e6, 0.0)
            for row in rows
        },
        **more,
    }
    title = f"{what} on a full crossbar, 5 Mbit/s links"
    return finish(draw_lines(title, samples, x=x, y=TOGETHER, upright=upright), rows, "nodes")


STUDY = Study.of_module(
    __name__,
    name="sfio_crossbar",
    title="All to all on a full crossbar: plain messages (Figure 16) and a striped file (Figure 18)",
    answers="Gabrielyan 2007, Figures 16 and 18, sections 2.8.1 and 2.10: throughput grows linearly; "
    "a striped file's falls beyond 12 nodes",
    deviations=(
        "100 kB a pair of nodes (--quick: 60 kB), 96 MB at 31 nodes, not one file of 2 GB for every number; "
        "--pair-size 10MB: up to that",
        "a node's two processors have a link each, and at 4, 12, 24 and 31 nodes (--quick: 4, 12) one for both as well",
        "links of 5 Mbit/s instead of 100, so that 31 of them fit this machine",
        "clients are threads that speak TCP at once; the document's used collective operations of MPICH of 2001",
        "average and peak are of 5 writes (3 at 31 nodes and with --quick); in turns it is written once; no disks",
    ),
    emulation=True,
)
