"""Nodes of Swiss-T1 taken at random, as a job launcher would: what the network lets through of 53 placements of each
size (Gabrielyan 2007, figure 21), and of half of the nodes sending to the other half (figure 19). Computed;
``sfio_placed_writes`` writes some of them on switches."""

import random
import statistics
from collections.abc import Mapping, Sequence

from experiments.sfio.figures import TOGETHER, finish
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
    grouped,
    where,
)
from testbed.report.drawing.charts import HUES, Figure, draw_dots, draw_lines
from topologies.swiss_t1 import NODES_PER_SWITCH, SWITCHES, core_users

PLACEMENTS = 53
"""Measurements of each number of nodes in Figure 21."""
NODES = (*range(2, 31, 2), 31, 32)
QUICK_NODES = (8, 10, 12, 16, 18, 24, 26, 31, 32)
DRAWS, QUICK_DRAWS = 2000, 300
"""Of half of the nodes sending to the other half, of each number of nodes."""
STRIPE_UNIT, LINK_RATE_BPS, PAIR_BYTES = 200, 5e6, 40_000
NODES_OF_SWITCHES = tuple(switch for switch in range(SWITCHES) for _ in range(NODES_PER_SWITCH))
STEPS = ((8, 10), (16, 18), (24, 26))
FREE_NODES, CROWDED_NODES, MAX_CROWDED = 12, 24, 0.8
"""From half of the machine on the network is a major bottleneck: what a node gets at 24 nodes over what it gets at
12."""
DOCUMENT_LINKS = (150 / 86, 350 / 50)
"""150 to 350 MB/s at 31 nodes (section 2.10) in links of Swiss-T1: of 86 MB/s (3.8.1) the least, of 50 MB/s (2.8.2) the
most."""


def random_allocation(nodes: int, placement: int, seed: int) -> str:
    """Nodes of each switch when any ``nodes`` of the 32 are taken, each as likely.

    >>> random_allocation(32, 0, 1)
    '4-4-4-4-4-4-4-4'
    """
    taken = random.Random(f"{seed}/{nodes}/{placement}").sample(NODES_OF_SWITCHES, nodes)
    return "-".join(str(taken.count(switch)) for switch in range(SWITCHES))


def points(quick: bool, seed: int) -> Points:
    """Every placement of every number of nodes, and the halves of each even number."""
    sizes = QUICK_NODES if quick else NODES
    placed = [
        {**placed_point(nodes, k, seed), "draws": None}
        for k in range(PLACEMENTS)
        for nodes in sizes
    ]
    draws = QUICK_DRAWS if quick else DRAWS
    return placed + [
        {"nodes": nodes, "draws": draws, "seed": seed} for nodes in sizes if nodes % 2 == 0
    ]


def placed_point(nodes: int, placement: int, seed: int) -> Results:
    """What names one placement, and what is written."""
    allocation = random_allocation(nodes, placement, seed)
    return {
        "nodes": nodes,
        "allocation": allocation,
        "placement": placement,
        "pair_bytes": PAIR_BYTES,
        "seed": seed,
    }


def placed_options(point: Row, schedule: str) -> Results:
    """Of a collective write of the placement."""
    nodes, seed = point["nodes"], point["seed"] * 1000 + point["placement"]
    file = {"stripe_unit": STRIPE_UNIT, "file_bytes": nodes**2 * point["pair_bytes"]}
    network = {"switching": "circuit", "link_rate_bps": LINK_RATE_BPS, "host_selection": "random"}
    return {
        "compute_nodes": nodes,
        "io_nodes": nodes,
        **file,
        **network,
        "scheduling": schedule,
        "seed": seed,
    }


def measure(point: Row) -> Results:
    """Of circuits requested as they come, in virtual time; and the liquid throughput, which no order exceeds."""
    if point["draws"] is not None:
        found = half_throughputs(point["nodes"], point["draws"], point["seed"])
        return {"halves_deciles": statistics.quantiles(found, n=10)}
    from testbed.striping.measurements import MTU_BYTES
    from testbed.striping.prediction import predict
    from testbed.striping.workload import striping_plan

    plan = striping_plan(
        f"swiss-t1:allocation={point['allocation']}", **placed_options(point, "none")
    )
    prediction = predict(plan, MTU_BYTES)
    assert prediction is not None
    return {
        "predicted_bps": prediction.throughput_bps,
        "liquid_bps": prediction.liquid_throughput_bps,
        "liquid_links": plan.liquid_links,
    }


def filled_in_pairs(nodes: int) -> list[int]:
    """The nodes (0 to 31) in use when switches are filled two by two: evenly over two switches up to 8 nodes, over four
    up to 16, over six, over eight.

    >>> filled_in_pairs(10)
    [0, 1, 2, 4, 5, 6, 8, 9, 12, 13]
    """
    switches = 2 * -(-nodes // 8)
    counts = [nodes // switches + (k < nodes % switches) for k in range(switches)]
    return [NODES_PER_SWITCH * k + i for k, count in enumerate(counts) for i in range(count)]


def ordered_links(nodes: int) -> float:
    """``half_links`` of the first half of those nodes sending to the other half."""
    switches = [node // NODES_PER_SWITCH for node in filled_in_pairs(nodes)]
    return half_links(switches[: nodes // 2], switches[nodes // 2 :])


def half_throughputs(nodes: int, draws: int, seed: int) -> list[float]:
    """Liquid throughput in links of ``nodes`` random nodes, of which the first half sends to all of the other half;
    sorted."""
    generator, found = random.Random(f"halves/{seed}/{nodes}"), []
    for _ in range(draws):
        taken = generator.sample(NODES_OF_SWITCHES, nodes)
        found.append(half_links(taken[: nodes // 2], taken[nodes // 2 :]))
    return sorted(found)


def half_links(senders: Sequence[int], receivers: Sequence[int]) -> float:
    """Liquid throughput in links of all ``senders`` sending to all ``receivers``, each given by its switch (0 to 7).

    >>> half_links([0, 0], [1, 1])
    1.0
    """
    sent = [senders.count(switch) for switch in range(SWITCHES)]
    received = [receivers.count(switch) for switch in range(SWITCHES)]
    loads = [sum(sent[i] * received[j] for i, j in users) for users in core_users().values()]
    return len(senders) * len(receivers) / max(*loads, len(senders), len(receivers))


def judge(rows: Rows) -> Verdict:
    """Throughput scales with the nodes, the network binds from half of the machine on, and it depends on the
    placement."""
    liquid, waiting = spread(rows, "liquid_links"), spread(rows, "predicted_bps")
    a_node = {nodes: statistics.median(values) / nodes for nodes, values in liquid.items()}
    in_links = {n: [bps / LINK_RATE_BPS for bps in values] for n, values in waiting.items()}
    checks = [
        scaling_check({nodes: statistics.median(values) for nodes, values in waiting.items()}),
        Claim(f"liquid throughput of a node, {CROWDED_NODES} over {FREE_NODES} nodes, medians")
        .at_most(MAX_CROWDED, a_node[CROWDED_NODES] / a_node[FREE_NODES])
        .cites("a major bottleneck once half of the nodes are allocated, section 2.8.2")
        .against(1.0, "no bottleneck in the network"),
        Claim("liquid throughput of a node at 8 nodes, a quarter of the machine, in links, median")
        .at_least(0.9, a_node[8])
        .cites("a bottleneck only from half of the nodes on, section 2.8.2")
        .against(a_node[CROWDED_NODES], f"as at {CROWDED_NODES} nodes"),
        Claim("16 nodes: highest over lowest liquid throughput of the placements")
        .at_least(1.2, max(liquid[16]) / min(liquid[16]))
        .cites("varies with the node allocation, section 2.8.2")
        .against(1.0, "the same for every allocation"),
        links_check(statistics.median(in_links[31])),
        *_halves_checks(rows),
    ]
    return Verdict.of(checks)


def _halves_checks(rows: Rows) -> list[Check]:
    medians = {row["nodes"]: row["halves_deciles"][4] for row in rows if row["draws"] is not None}
    return [
        Claim(
            f"half of random nodes sending to the other half: median throughput at {after} over {before} nodes"
        )
        .at_most(1.25, medians[after] / medians[before])
        .cites("a significant increase, section 2.8.2, which does not say which nodes were taken")
        .against(
            ordered_links(after) / ordered_links(before),
            "the step of switches that are filled two by two",
        )
        for before, after in STEPS
        if before in medians and after in medians
    ]


def spread(rows: Rows, key: str) -> dict[int, list[float]]:
    """Nodes -> values of the placements."""
    return dict(
        sorted(grouped([row for row in rows if row.get(key) is not None], "nodes", key).items())
    )


def figures(rows: Rows) -> Figures:
    """Figure 21: every placement a point, medians as lines."""
    title = f"All to all on Swiss-T1, {PLACEMENTS} random placements of each number of nodes, 5 Mbit/s links"
    placed = where(rows, draws=None)
    return {"placements": placement_figure(placed, {}, title=title)}


def placement_figure(rows: Rows, measured: Mapping[str, Rows], *, title: str) -> Figure:
    """Every placement a point, medians as lines: liquid throughput, circuits as they come, and ``measured``: name ->
    rows."""
    liquid, waiting = (spread(rows, key) for key in ("liquid_bps", "predicted_bps"))
    found = {"liquid throughput": liquid, "circuits as they come, virtual time": waiting}
    found |= {
        f"{name}, measured": spread(chosen, "throughput_bps") for name, chosen in measured.items()
    }
    medians = {
        (f"{name}: median", nodes): (statistics.median(values) / 1e6, 0.0)
        for name, by_nodes in found.items()
        for nodes, values in by_nodes.items()
    }
    x = "nodes, each of which computes and keeps a subfile"
    figure = draw_lines(title, medians, x=x, y=TOGETHER, upright=(16, "half of the machine"))
    for by_nodes, hue in zip(found.values(), HUES, strict=False):
        for nodes, values in by_nodes.items():
            draw_dots(figure.axes[0], nodes, [value / 1e6 for value in values], hue)
    return finish(
        figure, [*rows, *(row for chosen in measured.values() for row in chosen)], "nodes"
    )


def scaling_check(medians: Mapping[int, float]) -> Check:
    """Throughput, by nodes, of circuits as they come: more nodes, more throughput."""
    first, last = min(medians), max(medians)
    name = f"circuits as they come: median throughput at {last} nodes over {first}"
    check = (
        Claim(name)
        .at_least(1.5, medians[last] / medians[first])
        .against(1.0, "throughput does not scale")
    )
    return check.cites("scales well when increasing the number of nodes, section 2.8.2")


def links_check(links: float) -> Check:
    """The median throughput of 31 nodes, in links, is in the document's range."""
    return (
        Claim("31 nodes, circuits as they come: throughput in links, median")
        .at_least(DOCUMENT_LINKS[1], links)
        .cites("150 to 350 MB/s, which are 1.7 to 7 links of 50 to 86 MB/s, section 2.10")
        .against(DOCUMENT_LINKS[0], "150 MB/s over links of 86")
    )


STUDY = Study.of_module(
    __name__,
    name="sfio_placements",
    title="Nodes of Swiss-T1 taken at random: 53 placements of each number (Figure 21), and halves of them (Figure 19)",
    answers="Gabrielyan 2007, Figures 19 and 21 and section 2.10: 53 random placements of each number of nodes; "
    "the network binds from half of the machine on",
    deviations=(
        "computed: liquid throughput, and circuits as they come; sfio_placed_writes writes some on switches",
        "40 kB a pair, not 1 GB a subfile: a frame's change costs 8 ms, larger messages would come nearer the links",
        "links of 5 Mbit/s instead of 50 to 86 MB/s, the same for all; throughput is compared in links",
        "even numbers of nodes, and 31, instead of every number from 1 to 31",
    ),
)
