"""Wormhole switching, its hardware remedies and liquid schedules over the same traffic, and messages cut into blocks.

The document says that memories for whole messages (virtual cut-through) and virtual links solve the contention only in
part (Gabrielyan 2007, 3.1.2 and 3.2.1), and that flows become liquid as blocks become small while each block costs
overhead (Gabrielyan and Hersch 2002, section 1).
"""

import statistics
from collections.abc import Sequence

from experiments.liquid.swiss_t1_traffic import draw_patterns, points, traffic_of
from testbed.model.studies import Check, Claim, Figures, Results, Row, Rows, Study, Verdict
from testbed.report.drawing.charts import Figure, draw_lines, ticks
from testbed.scheduling.baselines import sending_rounds
from testbed.scheduling.methods import schedule_by_name
from testbed.scheduling.wormhole import run_queues, run_virtual_links, run_wormhole

SHARE = "throughput over liquid throughput"
VIRTUAL_LINKS = (2, 4)
BLOCKS = (1, 2, 4, 8, 16)
BLOCK_TRANSFERS = 3_000
"""Only patterns of at most so many transfers in the most blocks are cut: about 13 nodes."""
OVERHEAD = 0.02
"""What each block costs, in the time that a whole message takes."""
SOLVED, GAIN = 0.95, 1.1
"""Of the liquid throughput, what counts as contention solved; and what a remedy must gain to count as one."""
NAMES = {
    "liquid": "liquid schedule over a wormhole network",
    "cut-through": "virtual cut-through: switches store blocked messages",
    "store-and-forward": "store and forward of whole messages",
    "virtual-4": "wormhole, 4 virtual links a link",
    "virtual-2": "wormhole, 2 virtual links a link",
    "wormhole": "wormhole",
}


def measure(point: Row) -> Results:
    """Share of the liquid throughput by each discipline, round robin but for the liquid schedule; and that of messages
    in blocks.

    ``wormhole-blocks`` and ``cut-through-blocks``: one value for each number of ``BLOCKS``, None where the traffic is
    too large; the blocks go in passes, one of each message a pass, and cost nothing by themselves.
    """
    traffic = traffic_of(point["allocation"])
    paths, load = traffic.paths(), traffic.bottleneck_load
    schedule = schedule_by_name(traffic, "liquid", seed=point["seed"])
    rounds = sending_rounds(paths, "round-robin")
    small = len(paths) * BLOCKS[-1] <= BLOCK_TRANSFERS
    return {
        "transfers": len(paths),
        "bottleneck_load": load,
        "liquid": load / run_wormhole(paths, schedule.frames, barrier=True).duration,
        "wormhole": load / run_wormhole(paths, rounds, barrier=False).duration,
        **{
            f"virtual-{n}": load / run_virtual_links(paths, rounds, number=n).duration
            for n in VIRTUAL_LINKS
        },
        "cut-through": load / max(run_queues(paths, rounds, stored_fraction=0.0)),
        "store-and-forward": load / max(run_queues(paths, rounds, stored_fraction=1.0)),
        "wormhole-blocks": [_in_blocks(paths, rounds, load, n, worm=True) for n in BLOCKS]
        if small
        else None,
        "cut-through-blocks": [_in_blocks(paths, rounds, load, n, worm=False) for n in BLOCKS]
        if small
        else None,
    }


def _in_blocks(
    paths: Sequence[Sequence[int]],
    rounds: Sequence[Sequence[int]],
    load: int,
    number: int,
    *,
    worm: bool,
) -> float:
    copies = [path for _ in range(number) for path in paths]
    passes = [[i + k * len(paths) for i in round_] for k in range(number) for round_ in rounds]
    if worm:
        return load * number / run_wormhole(copies, passes, barrier=False).duration
    return load * number / max(run_queues(copies, passes, stored_fraction=0.0))


def with_overhead(shares: Sequence[float], overhead: float = OVERHEAD) -> list[float]:
    """The shares of ``BLOCKS`` when every block takes ``overhead`` of a whole message's time in addition."""
    return [share / (1 + number * overhead) for number, share in zip(BLOCKS, shares, strict=True)]


def judge(rows: Rows) -> Verdict:
    """Each remedy gains, none solves the contention, the liquid schedule does; blocks help until their overhead weighs
    more."""
    middle = {name: statistics.median(row[name] for row in rows) for name in NAMES}
    checks = [
        Claim("liquid schedule, share of the liquid throughput, least")
        .at_least(1 - 1e-9, min(row["liquid"] for row in rows))
        .cites("the potential capacity is used, 3.2.1")
        .against(middle["wormhole"], "round robin over the wormhole network")
    ]
    for name in ("cut-through", "virtual-2", "virtual-4"):
        checks += [
            Claim(f"{NAMES[name]}: throughput over that of the plain wormhole network, median")
            .at_least(GAIN, statistics.median(row[name] / row["wormhole"] for row in rows))
            .cites("contention solved partially, 3.1.2")
            .against(1.0, "nothing solved"),
            Claim(f"{NAMES[name]}: share of the liquid throughput, median")
            .at_most(SOLVED, middle[name])
            .cites("contention solved only partially, 3.1.2")
            .against(1.0, "contention solved"),
        ]
    return Verdict.of((*checks, *_block_checks(rows)))


def _block_checks(rows: Rows) -> list[Check]:
    cut = [row for row in rows if row["wormhole-blocks"] is not None]
    mean = {kind: _of_blocks(cut, kind) for kind in ("wormhole", "cut-through")}
    costly = with_overhead(mean["cut-through"])
    best = max(range(len(BLOCKS)), key=lambda k: costly[k])
    most = f"best number of blocks where each costs {OVERHEAD:g}"
    return [
        Claim(
            f"virtual cut-through in {BLOCKS[-1]} blocks, share of the liquid throughput, mean of {len(cut)} patterns"
        )
        .at_least(SOLVED, mean["cut-through"][-1])
        .cites("liquid as the packet size tends to zero (2002, section 1)")
        .against(mean["cut-through"][0], "whole messages"),
        Claim(
            f"wormhole in {BLOCKS[-1]} blocks, share of the liquid throughput, mean of {len(cut)} patterns"
        )
        .at_least(SOLVED, mean["wormhole"][-1])
        .cites("liquid as the packet size tends to zero (2002, section 1)")
        .against(mean["wormhole"][0], "whole messages"),
        Claim(f"{most} of a message, over whole messages: throughput by cut-through")
        .at_least(1.01, costly[best] / costly[0])
        .cites("two opposite factors (2002, section 1)")
        .against(costly[-1] / costly[0], f"{BLOCKS[-1]} blocks: the smaller the better")
        .noting(f"best: {BLOCKS[best]} blocks"),
    ]


def _of_blocks(cut: Rows, kind: str) -> list[float]:
    """Mean share of the patterns that were cut, by number of blocks."""
    return [statistics.mean(row[f"{kind}-blocks"][k] for row in cut) for k in range(len(BLOCKS))]


def figures(rows: Rows) -> Figures:
    """Shares of the liquid throughput over the patterns, and over the number of blocks."""
    title = "Round robin over several kinds of switches, and the liquid schedule (median)"
    series = {
        f"{words}: {statistics.median(row[name] for row in rows):.2f}": [row[name] for row in rows]
        for name, words in NAMES.items()
    }
    return {
        "disciplines": draw_patterns(rows, title, series, ylabel=SHARE, ylim=(0, 1.05)),
        "blocks": _blocks_figure(rows),
    }


def _blocks_figure(rows: Rows) -> Figure:
    cut = [row for row in rows if row["wormhole-blocks"] is not None]
    samples = {
        (f"{kind}, each block costs {words}", n): (share, 0.0)
        for kind in ("cut-through", "wormhole")
        for words, priced in (("nothing", list), (f"{OVERHEAD:g} of a message", with_overhead))
        for n, share in zip(BLOCKS, priced(_of_blocks(cut, kind)), strict=True)
    }
    title, claim = (
        f"Fluidity against overhead: round robin in blocks, mean of {len(cut)} patterns",
        (1.0, "liquid"),
    )
    figure = draw_lines(title, samples, x="blocks a message", y=SHARE, claim=claim)
    ticks(figure.axes[0], BLOCKS)
    return figure


STUDY = Study.of_module(
    __name__,
    points=points,
    name="switching_disciplines",
    title="Wormhole, virtual cut-through and virtual links against liquid schedules",
    answers="Gabrielyan 2007, 3.1.2 and 3.2.1: storing messages and virtual links solve contention only in part; "
    "Gabrielyan and Hersch 2002, section 1: overhead against fluidity",
    deviations=(
        "in virtual time; switches that store have room for every message, virtual links share their link evenly",
        "blocks on the patterns of at most 13 nodes; the document gives no overhead: 2 % of a message's time is taken",
    ),
)
