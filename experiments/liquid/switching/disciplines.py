"""Wormhole switching, its hardware remedies and liquid schedules over the same traffic.

The remedies are memories for complete messages (virtual cut-through), virtual links, and messages
that are divided into blocks. The document says that memories and virtual links solve contention
only in part (Gabrielyan 2007, 3.1.2 and 3.2.1), and that flows become liquid as blocks become small
while each block costs overhead (Gabrielyan and Hersch 2002, section 1).
"""

import statistics
from collections.abc import Sequence

from experiments.liquid.rows import column, line, ratios
from experiments.liquid.swiss_t1_traffic import draw_patterns, points, traffic_of
from testbed.model.studies import Check, Claim, Figures, Results, Row, Rows, Study, Verdict
from testbed.report.drawing.charts import Figure, draw_lines, ticks
from testbed.scheduling.baselines import sending_rounds
from testbed.scheduling.methods import schedule_by_name
from testbed.scheduling.wormhole import run_queues, run_virtual_links, run_wormhole

SHARE = "throughput over liquid throughput"

# Virtual links of each link.
VIRTUAL_LINKS = (2, 4)

# Blocks of each message.
BLOCKS = (1, 2, 4, 8, 16)

# Messages are divided only in patterns that have at most this number of transfers with the largest
# number of blocks. These are patterns of up to 13 nodes.
BLOCK_TRANSFERS = 3_000

# Cost of each block, in the time of an undivided message.
OVERHEAD = 0.02

# Contention counts as solved from this share of the liquid throughput on.
SOLVED = 0.95

# A remedy must multiply the throughput by at least this factor.
GAIN = 1.1

NAMES = {
    "liquid": "liquid schedule over a wormhole network",
    "cut-through": "virtual cut-through: switches store blocked messages",
    "store-and-forward": "store and forward of whole messages",
    "virtual-4": "wormhole, 4 virtual links a link",
    "virtual-2": "wormhole, 2 virtual links a link",
    "wormhole": "wormhole",
}


def measure(point: Row) -> Results:
    """Return the share of the liquid throughput with each kind of switching, and in blocks.

    All of them send round robin, except the liquid schedule. ``wormhole-blocks`` and
    ``cut-through-blocks`` have one value per number in ``BLOCKS``, or are None if the traffic is
    too large. The blocks are sent in passes, with one block of each message per pass, and have no
    overhead.
    """
    traffic = traffic_of(point["allocation"])
    paths = traffic.paths()
    load = traffic.bottleneck_load
    schedule = schedule_by_name(traffic, "liquid", seed=point["seed"])
    rounds = sending_rounds(paths, "round-robin")
    results: Results = {
        "transfers": len(paths),
        "bottleneck_load": load,
        "liquid": load / run_wormhole(paths, schedule.frames, barrier=True).duration,
        "wormhole": load / run_wormhole(paths, rounds, barrier=False).duration,
    }
    for number in VIRTUAL_LINKS:
        run = run_virtual_links(paths, rounds, number=number)
        results[f"virtual-{number}"] = load / run.duration
    results["cut-through"] = load / max(run_queues(paths, rounds, stored_fraction=0.0))
    results["store-and-forward"] = load / max(run_queues(paths, rounds, stored_fraction=1.0))

    results["wormhole-blocks"] = None
    results["cut-through-blocks"] = None
    if len(paths) * BLOCKS[-1] <= BLOCK_TRANSFERS:
        wormhole_shares = []
        cut_through_shares = []
        for number in BLOCKS:
            block_paths = paths * number
            passes = _passes(rounds, number, transfer_count=len(paths))
            run = run_wormhole(block_paths, passes, barrier=False)
            wormhole_shares.append(load * number / run.duration)
            arrivals = run_queues(block_paths, passes, stored_fraction=0.0)
            cut_through_shares.append(load * number / max(arrivals))
        results["wormhole-blocks"] = wormhole_shares
        results["cut-through-blocks"] = cut_through_shares
    return results


def _passes(
    rounds: Sequence[Sequence[int]], number: int, *, transfer_count: int
) -> list[list[int]]:
    """Repeat the rounds once for each block of the messages.

    Block k of message i is transfer ``i + k * transfer_count``.
    """
    passes = []
    for block in range(number):
        offset = block * transfer_count
        for transfers in rounds:
            passes.append([transfer + offset for transfer in transfers])
    return passes


def with_overhead(shares: Sequence[float], overhead: float = OVERHEAD) -> list[float]:
    """Return the shares of ``BLOCKS`` if every block has an overhead.

    Args:
        shares: Share of the liquid throughput without overhead, for each number of blocks.
        overhead: Additional time of each block, in the time of an undivided message.
    """
    return [share / (1 + number * overhead) for number, share in zip(BLOCKS, shares, strict=True)]


def judge(rows: Rows) -> Verdict:
    """Check that each remedy gains, but that only the liquid schedule solves the contention.

    Smaller blocks must help until their overhead is larger than their gain.
    """
    medians = {name: statistics.median(column(rows, name)) for name in NAMES}
    checks = [
        Claim("liquid schedule, share of the liquid throughput, least")
        .at_least(1 - 1e-9, min(column(rows, "liquid")))
        .cites("the potential capacity is used, 3.2.1")
        .against(medians["wormhole"], "round robin over the wormhole network")
    ]
    for name in ("cut-through", "virtual-2", "virtual-4"):
        checks += [
            Claim(f"{NAMES[name]}: throughput over that of the plain wormhole network, median")
            .at_least(GAIN, statistics.median(ratios(rows, name, "wormhole")))
            .cites("contention solved partially, 3.1.2")
            .against(1.0, "nothing solved"),
            Claim(f"{NAMES[name]}: share of the liquid throughput, median")
            .at_most(SOLVED, medians[name])
            .cites("contention solved only partially, 3.1.2")
            .against(1.0, "contention solved"),
        ]
    return Verdict.of((*checks, *_block_checks(rows)))


def _with_blocks(rows: Rows) -> Rows:
    """Return the rows of patterns whose messages were divided into blocks."""
    return [row for row in rows if row["wormhole-blocks"] is not None]


def _mean_shares(divided: Rows, kind: str) -> list[float]:
    """Return the mean share of the liquid throughput for each number of blocks.

    Args:
        divided: Rows of patterns whose messages were divided.
        kind: "wormhole" or "cut-through".
    """
    shares_by_pattern = [row[f"{kind}-blocks"] for row in divided]
    return [statistics.mean(shares) for shares in zip(*shares_by_pattern, strict=True)]


def _block_checks(rows: Rows) -> list[Check]:
    divided = _with_blocks(rows)
    cut_through = _mean_shares(divided, "cut-through")
    cut_through_with_overhead = with_overhead(cut_through)
    best_share = max(cut_through_with_overhead)
    best_blocks = BLOCKS[cut_through_with_overhead.index(best_share)]
    best_name = f"best number of blocks where each costs {OVERHEAD:g} of a message"
    undivided_share = cut_through_with_overhead[0]
    return [
        _fluidity_check("virtual cut-through", cut_through, len(divided)),
        _fluidity_check("wormhole", _mean_shares(divided, "wormhole"), len(divided)),
        Claim(f"{best_name}, over whole messages: throughput by cut-through")
        .at_least(1.01, best_share / undivided_share)
        .cites("two opposite factors (2002, section 1)")
        .against(
            cut_through_with_overhead[-1] / undivided_share,
            f"{BLOCKS[-1]} blocks: the smaller the better",
        )
        .noting(f"best: {best_blocks} blocks"),
    ]


def _fluidity_check(name: str, mean_shares: Sequence[float], pattern_count: int) -> Check:
    """Check that messages in 16 blocks reach nearly the liquid throughput."""
    most_blocks = (
        f"{name} in {BLOCKS[-1]} blocks, share of the liquid throughput, "
        f"mean of {pattern_count} patterns"
    )
    return (
        Claim(most_blocks)
        .at_least(SOLVED, mean_shares[-1])
        .cites("liquid as the packet size tends to zero (2002, section 1)")
        .against(mean_shares[0], "whole messages")
    )


def figures(rows: Rows) -> Figures:
    """Draw the share of the liquid throughput over the patterns, and over the number of blocks."""
    title = "Round robin over several kinds of switches, and the liquid schedule (median)"
    series = {}
    for name, label in NAMES.items():
        shares = column(rows, name)
        series[f"{label}: {statistics.median(shares):.2f}"] = shares
    return {
        "disciplines": draw_patterns(rows, title, series, ylabel=SHARE, ylim=(0, 1.05)),
        "blocks": _blocks_figure(rows),
    }


def _blocks_figure(rows: Rows) -> Figure:
    divided = _with_blocks(rows)
    samples: dict[tuple[str, float], tuple[float, float]] = {}
    for kind in ("cut-through", "wormhole"):
        shares = _mean_shares(divided, kind)
        samples |= line(f"{kind}, each block costs nothing", BLOCKS, shares)
        label = f"{kind}, each block costs {OVERHEAD:g} of a message"
        samples |= line(label, BLOCKS, with_overhead(shares))
    title = f"Fluidity against overhead: round robin in blocks, mean of {len(divided)} patterns"
    figure = draw_lines(title, samples, x="blocks a message", y=SHARE, claim=(1.0, "liquid"))
    ticks(figure.axes[0], BLOCKS)
    return figure


STUDY = Study.of_module(
    __name__,
    points=points,
    name="switching_disciplines",
    title="Wormhole, virtual cut-through and virtual links against liquid schedules",
    answers="Gabrielyan 2007, 3.1.2 and 3.2.1: storing messages and virtual links solve contention "
    "only in part; Gabrielyan and Hersch 2002, section 1: overhead against fluidity",
    deviations=(
        "in virtual time; switches that store have room for every message, virtual links share "
        "their link evenly",
        "blocks on the patterns of at most 13 nodes; the document gives no overhead: 2 % of a "
        "message's time is taken",
    ),
)
