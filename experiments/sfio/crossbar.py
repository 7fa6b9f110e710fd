"""All to all on a full crossbar: plain messages (Figure 16) and a striped file (Figure 18).

Source: Gabrielyan 2007.
"""

from collections.abc import Mapping
from math import log
from typing import NamedTuple

from experiments.sfio.figures import TOGETHER, finish, throughputs
from experiments.sfio.runs import measure_access, measure_exchange, verdict_of_runs
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

# From this number of nodes on, a point is written as often as in a quick run.
LARGE_NODES = 25

LINK_RATE_BPS = 5e6
# The striped file of the document.
FILE_BYTES = 2_000_000_000
STRIPE_UNIT = 200


class Size(NamedTuple):
    """The size of a study.

    Attributes:
        halves: Numbers of nodes, half of which send plain messages to the other half.
        nodes: Numbers of nodes that write a striped file.
        one_link: Those of ``nodes`` for which the file is also written with a single link per node,
            which its two processors share.
        message_bytes: Bytes of a plain message.
        pair_bytes: Bytes of the striped file for each pair of nodes.
        repetitions: Number of writes of a point, for the average and the peak.
    """

    halves: tuple[int, ...]
    nodes: tuple[int, ...]
    one_link: tuple[int, ...]
    message_bytes: int
    pair_bytes: int
    repetitions: int


FULL = Size(
    halves=(2, 4, 8, 12, 16, 24, 32),
    nodes=(2, 4, 8, 10, 12, 14, 16, 18, 24, 31),
    one_link=(4, 12, 24, 31),
    message_bytes=250_000,
    pair_bytes=100_000,
    repetitions=5,
)
QUICK = Size(
    halves=(4, 8, 16),
    nodes=(2, 4, 8, 12, 16),
    one_link=(4, 12),
    message_bytes=120_000,
    pair_bytes=60_000,
    repetitions=3,
)

# Smallest accepted throughput over the rate of all links: of plain messages whose senders do not
# wait for others, and of a striped file by a liquid schedule.
MIN_FREE = 0.5
MIN_SCHEDULED = 0.8

# In the document, the throughput of a striped file falls beyond this number of nodes.
FALL_FROM = 12

# Section 2.10 quotes 291 Mbit/s with 18 processors of another system. The share is the throughput
# of one processor over the rate of its Fast Ethernet link (100 Mbit/s).
OTHER_SYSTEM_NODES = 18
OTHER_SYSTEM_SHARE = 291e6 / (OTHER_SYSTEM_NODES * 100e6)

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
    """Size of a striped file, and number of its writes."""

    pair_bytes: int | None = option(
        default=None,
        kind=kinds.bytes_up_to(FILE_BYTES),
        help="bytes of the striped file for each pair of nodes; a file has at most 2 GB "
        "(default 100kB; 60kB with --quick)",
    )
    repetitions: int | None = option(
        default=None,
        kind=kinds.whole(1, 99),
        metavar="N",
        help="number of writes of each point (default 5; 3 at 31 nodes and with --quick)",
    )


def points(quick: bool, seed: int, options: Options | None = None) -> Points:
    """Return the points of Figure 16 and of Figure 18.

    For Figure 16, half of the nodes send plain messages to the other half. For Figure 18, each node
    writes and stores a part of a striped file.
    """
    size = QUICK if quick else FULL
    messages = grid(nodes=size.halves, series=MESSAGES, message_bytes=size.message_bytes, seed=seed)
    return messages + _striped_points(size, seed, options or Options())


def _striped_points(size: Size, seed: int, options: Options) -> Points:
    pair_bytes = options.pair_bytes or size.pair_bytes
    result = []
    for nodes in size.nodes:
        for series in STRIPED:
            if series == "striped-one-link" and nodes not in size.one_link:
                continue
            result.append(
                {
                    "nodes": nodes,
                    "series": series,
                    # The file must not be larger than that of the document.
                    "pair_bytes": min(pair_bytes, FILE_BYTES // nodes**2),
                    "seed": seed,
                    "repetitions": _repetitions(nodes, series, size, options),
                }
            )
    return result


def _repetitions(nodes: int, series: str, size: Size, options: Options) -> int:
    if series == "striped-in-turns":
        return 1
    if options.repetitions is not None:
        return options.repetitions
    return QUICK.repetitions if nodes >= LARGE_NODES else size.repetitions


def measure(point: Row) -> Results:
    """Measure one exchange of all nodes."""
    nodes = point["nodes"]
    series = point["series"]
    if series in MESSAGES:
        return measure_exchange(
            f"crossbar:{nodes // 2}",
            free=series == "halves-free",
            message_bytes=point["message_bytes"],
            link_rate_bps=LINK_RATE_BPS,
            seed=point["seed"],
        )
    network = f"crossbar:{nodes}"
    scheduling = "none"
    switching = "packet"
    if series == "striped-one-link":
        network = f"fat-tree:{nodes},1"
    elif series == "striped-in-turns":
        scheduling = "liquid"
        switching = "circuit"
    return measure_access(
        network,
        point,
        nodes=nodes,
        link_rate_bps=LINK_RATE_BPS,
        stripe_unit=STRIPE_UNIT,
        file_bytes=nodes * nodes * point["pair_bytes"],
        scheduling=scheduling,
        switching=switching,
    )


def links_of(row: Row) -> float:
    """Return the number of links that can be full at once: one per sender."""
    nodes: int = row["nodes"]
    return nodes / 2 if row["series"] in MESSAGES else float(nodes)


def _smallest_share(rows: Rows, series: str) -> float:
    """Return the smallest share of the rate of all links that a series has."""
    shares: list[float] = []
    for row in where(rows, series=series):
        shares.append(row["throughput_bps"] / (links_of(row) * LINK_RATE_BPS))
    return min(shares)


def _mean_bps(rows: Rows, series: str) -> dict[int, float]:
    """Return the average throughput of a series by the number of nodes."""
    return {row["nodes"]: row["mean_bps"] for row in where(rows, series=series)}


def judge(rows: Rows) -> Verdict:
    """Check that the throughput of messages grows with the nodes, but not that of a striped file.

    A crossbar has no bottleneck except the links of the hosts.
    """
    striped = _mean_bps(rows, "striped")
    one_link = _mean_bps(rows, "striped-one-link")
    checks = [
        *_message_checks(rows),
        _fall_check("striped file, all at once", striped),
        Claim("striped file in turns: share of all links, worst number of nodes")
        .at_least(MIN_SCHEDULED, _smallest_share(rows, "striped-in-turns"))
        .against(_smallest_share(rows, "striped"), "all at once, worst number of nodes"),
        _node_share_check(striped),
    ]
    if max(one_link, default=0) > FALL_FROM:
        checks.append(_fall_check("striped file, one link for both processors", one_link))
    return verdict_of_runs(rows, checks)


def _message_checks(rows: Rows) -> list[Check]:
    """Check the throughput of free plain messages."""
    free = {row["nodes"]: row["throughput_bps"] for row in where(rows, series="halves-free")}
    few = min(free)
    many = max(free)
    exponent = log(free[many] / free[few]) / log(many / few)
    return [
        Claim(f"plain messages, nobody waits: exponent of throughput over nodes, {few} to {many}")
        .equal(1.0, exponent, 0.2)
        .cites("linear scaling, Figure 16")
        .against(0.0, "a shared medium: no growth"),
        Claim("plain messages, nobody waits: share of all links, worst number of nodes")
        .at_least(MIN_FREE, _smallest_share(rows, "halves-free"))
        .cites("each pair contributes a single link capacity, section 2.8.1")
        .against(1 / (many // 2), "one link for all"),
    ]


def _fall_check(subject: str, mean_bps: Mapping[int, float]) -> Check:
    """Check that the largest number of nodes has no more throughput than ``FALL_FROM`` nodes.

    Args:
        subject: What is written, to begin the name of the check.
        mean_bps: Average throughput by the number of nodes.
    """
    largest = max(mean_bps)
    return (
        Claim(f"{subject}: average throughput at {largest} nodes over that at {FALL_FROM}")
        .at_most(1.0, mean_bps[largest] / mean_bps[FALL_FROM])
        .cites("decreases once nodes exceed 12, Figure 18; MPICH of 2001 suspected")
        .against(largest / FALL_FROM, "goes on in proportion to the nodes")
    )


def _node_share_check(mean_bps: Mapping[int, float]) -> Check:
    """Compare a node's share of its link with that of the other system that section 2.10 quotes."""
    nodes = min(mean_bps, key=_distance_to_other_system)
    return (
        Claim(f"striped file, all at once, {nodes} nodes: a node's share of its link")
        .at_least(1.5 * OTHER_SYSTEM_SHARE, mean_bps[nodes] / nodes / LINK_RATE_BPS)
        .cites(
            "competitive with 291 Mbit/s of 18 processors, section 2.10 "
            "(0.16 of Fast Ethernet's link each)"
        )
        .against(OTHER_SYSTEM_SHARE, "as that system")
    )


def _distance_to_other_system(nodes: int) -> int:
    return abs(nodes - OTHER_SYSTEM_NODES)


def figures(rows: Rows) -> Figures:
    """Draw the throughput over the number of nodes, as Figures 16 and 18.

    The figure of the striped file shows the average and the peak.
    """
    messages = [row for row in rows if row["series"] in MESSAGES]
    striped = [row for row in rows if row["series"] in STRIPED]
    averages = [{**row, "throughput_bps": row["mean_bps"]} for row in striped]
    peaks = {}
    for row in where(striped, series="striped"):
        peaks["peak of all at once", row["nodes"]] = (row["peak_bps"] / 1e6, 0.0)
    return {
        "messages": _figure(
            "Plain messages", messages, {}, "nodes, half of which send to the other half"
        ),
        "striped": _figure(
            "A striped file",
            averages,
            peaks,
            "compute nodes, and as many I/O nodes",
            (FALL_FROM, "beyond it the document's falls"),
        ),
    }


def _figure(
    subject: str,
    rows: Rows,
    more_samples: Samples[float],
    x_label: str,
    upright: Mark | None = None,
) -> Figure:
    """Draw the throughput over the number of nodes, beside the rate of all links together.

    Args:
        subject: What is sent, to begin the title.
        rows: The rows.
        more_samples: Further lines.
        x_label: Label of the x axis.
        upright: A number of nodes that is drawn as a vertical line.
    """
    names = MESSAGES | STRIPED
    samples = throughputs(rows, "nodes", lambda row: names[row["series"]])
    for row in rows:
        links_mbps = links_of(row) * LINK_RATE_BPS / 1e6
        samples["all links together", row["nodes"]] = (links_mbps, 0.0)
    title = f"{subject} on a full crossbar, 5 Mbit/s links"
    figure = draw_lines(title, {**samples, **more_samples}, x=x_label, y=TOGETHER, upright=upright)
    return finish(figure, rows, "nodes")


STUDY = Study.of_module(
    __name__,
    name="sfio_crossbar",
    title="All to all on a full crossbar: plain messages (Figure 16) and a striped file "
    "(Figure 18)",
    answers="Gabrielyan 2007, Figures 16 and 18, sections 2.8.1 and 2.10: throughput grows "
    "linearly; a striped file's falls beyond 12 nodes",
    deviations=(
        "100 kB a pair of nodes (--quick: 60 kB), 96 MB at 31 nodes, not one file of 2 GB for "
        "every number; --pair-size 10MB: up to that",
        "a node's two processors have a link each, and at 4, 12, 24 and 31 nodes (--quick: 4, 12) "
        "one for both as well",
        "links of 5 Mbit/s instead of 100, so that 31 of them fit this machine",
        "clients are threads that speak TCP at once; the document's used collective operations of "
        "MPICH of 2001",
        "average and peak are of 5 writes (3 at 31 nodes and with --quick); in turns it is written "
        "once; no disks",
    ),
    emulation=True,
)
