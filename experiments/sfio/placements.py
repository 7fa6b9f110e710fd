"""Nodes of Swiss-T1 taken at random, as by a job launcher (Gabrielyan 2007, Figures 19 and 21).

The throughput of the network is computed for 53 placements of each number of nodes (Figure 21), and
for half of the nodes that send to the other half (Figure 19). ``sfio_placed_writes`` writes some
of the placements on switches.
"""

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

# Measurements of each number of nodes in Figure 21.
PLACEMENTS = 53

NODES = (*range(2, 31, 2), 31, 32)
QUICK_NODES = (8, 10, 12, 16, 18, 24, 26, 31, 32)

# Number of random draws of the nodes whose first half sends to the other half.
DRAWS = 2000
QUICK_DRAWS = 300

STRIPE_UNIT = 200
LINK_RATE_BPS = 5e6
# Bytes of the file for each pair of a compute node and an I/O node.
PAIR_BYTES = 40_000

# The switch of each node.
SWITCH_OF_NODE = tuple(node // NODES_PER_SWITCH for node in range(SWITCHES * NODES_PER_SWITCH))

# Numbers of nodes between which two more switches are used, if switches are filled in pairs.
STEPS = ((8, 10), (16, 18), (24, 26))

# The document says that the network is a major bottleneck from half of the machine on. Therefore
# the throughput per node with 24 nodes must be at most this share of that with 12 nodes.
FREE_NODES = 12
CROWDED_NODES = 24
MAX_CROWDED = 0.8

# 150 to 350 MB/s at 31 nodes (section 2.10), in links of Swiss-T1: at least in links of 86 MB/s
# (3.8.1), at most in links of 50 MB/s (2.8.2).
DOCUMENT_LINKS = (150 / 86, 350 / 50)


def random_allocation(nodes: int, placement: int, seed: int) -> str:
    """Return the number of nodes of each switch, if all nodes are equally likely to be taken.

    Args:
        nodes: Number of nodes that are taken.
        placement: Number of the placement.
        seed: Seed of the study.

    >>> random_allocation(32, 0, 1)
    '4-4-4-4-4-4-4-4'
    """
    rng = random.Random(f"{seed}/{nodes}/{placement}")
    return allocation_text(rng.sample(SWITCH_OF_NODE, nodes))


def allocation_text(switches: Sequence[int]) -> str:
    """Return the number of nodes of each switch as text, from the switch of each node.

    >>> allocation_text([0, 0, 2])
    '2-0-1-0-0-0-0-0'
    """
    return "-".join(str(switches.count(switch)) for switch in range(SWITCHES))


def points(quick: bool, seed: int) -> Points:
    """Return every placement of every number of nodes, and the halves of each even number."""
    node_counts = QUICK_NODES if quick else NODES
    result = []
    for placement in range(PLACEMENTS):
        for nodes in node_counts:
            result.append({**placed_point(nodes, placement, seed), "draws": None})
    draws = QUICK_DRAWS if quick else DRAWS
    for nodes in node_counts:
        if nodes % 2 == 0:
            result.append({"nodes": nodes, "draws": draws, "seed": seed})
    return result


def placed_point(nodes: int, placement: int, seed: int) -> Results:
    """Return the parameters of a placement: its nodes, and the size of what they write."""
    return {
        "nodes": nodes,
        "allocation": random_allocation(nodes, placement, seed),
        "placement": placement,
        "pair_bytes": PAIR_BYTES,
        "seed": seed,
    }


def placed_options(point: Row, scheduling: str) -> Results:
    """Return the options of a collective write with a placement.

    Args:
        point: The parameters of the placement.
        scheduling: "liquid", or "none" for circuits in the order of their requests.
    """
    nodes = point["nodes"]
    return {
        "compute_nodes": nodes,
        "io_nodes": nodes,
        "stripe_unit": STRIPE_UNIT,
        "file_bytes": nodes**2 * point["pair_bytes"],
        "switching": "circuit",
        "link_rate_bps": LINK_RATE_BPS,
        "host_selection": "random",
        "scheduling": scheduling,
        "seed": point["seed"] * 1000 + point["placement"],
    }


def measure(point: Row) -> Results:
    """Predict the throughput of a placement, or of halves of random nodes.

    The prediction of a placement is of circuits in the order of their requests, in virtual time.
    It is returned beside the liquid throughput, which no order exceeds.
    """
    if point["draws"] is not None:
        links = half_throughputs(point["nodes"], point["draws"], point["seed"])
        return {"halves_deciles": statistics.quantiles(links, n=10)}
    from testbed.striping.measurements import MTU_BYTES
    from testbed.striping.prediction import predict
    from testbed.striping.workload import striping_plan

    network = f"swiss-t1:allocation={point['allocation']}"
    plan = striping_plan(network, **placed_options(point, "none"))
    prediction = predict(plan, MTU_BYTES)
    assert prediction is not None
    return {
        "predicted_bps": prediction.throughput_bps,
        "liquid_bps": prediction.liquid_throughput_bps,
        "liquid_links": plan.liquid_links,
    }


def filled_in_pairs(nodes: int) -> list[int]:
    """Return the nodes (0 to 31) that are taken if switches are filled two by two.

    They are spread evenly over two switches up to 8 nodes, over four switches up to 16, over six up
    to 24, and over eight above.

    >>> filled_in_pairs(10)
    [0, 1, 2, 4, 5, 6, 8, 9, 12, 13]
    """
    switches = 2 * -(-nodes // 8)
    nodes_per_switch, remaining = divmod(nodes, switches)
    taken: list[int] = []
    for switch in range(switches):
        first = NODES_PER_SWITCH * switch
        count = nodes_per_switch
        if switch < remaining:
            count += 1
        taken.extend(range(first, first + count))
    return taken


def ordered_links(nodes: int) -> float:
    """Return ``half_links`` of the nodes that ``filled_in_pairs`` takes."""
    switches = [SWITCH_OF_NODE[node] for node in filled_in_pairs(nodes)]
    return half_links(switches[: nodes // 2], switches[nodes // 2 :])


def half_throughputs(nodes: int, draws: int, seed: int) -> list[float]:
    """Return ``half_links`` of random nodes, in ascending order.

    Args:
        nodes: Number of nodes, the first half of which sends to the other half.
        draws: Number of random draws.
        seed: Seed of the study.
    """
    rng = random.Random(f"halves/{seed}/{nodes}")
    links = []
    for _ in range(draws):
        switches = rng.sample(SWITCH_OF_NODE, nodes)
        links.append(half_links(switches[: nodes // 2], switches[nodes // 2 :]))
    return sorted(links)


def half_links(senders: Sequence[int], receivers: Sequence[int]) -> float:
    """Return the liquid throughput, in links, if all senders send to all receivers.

    Args:
        senders: The switch (0 to 7) of each sending node.
        receivers: The switch of each receiving node.

    >>> half_links([0, 0], [1, 1])
    1.0
    """
    sending_nodes = [senders.count(switch) for switch in range(SWITCHES)]
    receiving_nodes = [receivers.count(switch) for switch in range(SWITCHES)]
    loads = [len(senders), len(receivers)]
    for switch_pairs in core_users().values():
        load = 0
        for source_switch, target_switch in switch_pairs:
            load += sending_nodes[source_switch] * receiving_nodes[target_switch]
        loads.append(load)
    return len(senders) * len(receivers) / max(loads)


def judge(rows: Rows) -> Verdict:
    """Check that throughput scales with the nodes, until the network limits it.

    The network must limit it from half of the machine on, and throughput must depend on the
    placement.
    """
    links = spread(rows, "liquid_links")
    node_links = {nodes: statistics.median(values) / nodes for nodes, values in links.items()}
    unscheduled_bps = spread(rows, "predicted_bps")
    checks = [
        scaling_check(
            {nodes: statistics.median(values) for nodes, values in unscheduled_bps.items()}
        ),
        Claim(f"liquid throughput of a node, {CROWDED_NODES} over {FREE_NODES} nodes, medians")
        .at_most(MAX_CROWDED, node_links[CROWDED_NODES] / node_links[FREE_NODES])
        .cites("a major bottleneck once half of the nodes are allocated, section 2.8.2")
        .against(1.0, "no bottleneck in the network"),
        Claim("liquid throughput of a node at 8 nodes, a quarter of the machine, in links, median")
        .at_least(0.9, node_links[8])
        .cites("a bottleneck only from half of the nodes on, section 2.8.2")
        .against(node_links[CROWDED_NODES], f"as at {CROWDED_NODES} nodes"),
        Claim("16 nodes: highest over lowest liquid throughput of the placements")
        .at_least(1.2, max(links[16]) / min(links[16]))
        .cites("varies with the node allocation, section 2.8.2")
        .against(1.0, "the same for every allocation"),
        links_check(statistics.median(bps / LINK_RATE_BPS for bps in unscheduled_bps[31])),
        *_halves_checks(rows),
    ]
    return Verdict.of(checks)


def _halves_checks(rows: Rows) -> list[Check]:
    """Check that halves of random nodes do not have the steps of switches filled in pairs."""
    medians = {}
    for row in rows:
        if row["draws"] is not None:
            medians[row["nodes"]] = row["halves_deciles"][4]
    checks = []
    for before, after in STEPS:
        if before not in medians or after not in medians:
            continue
        name = (
            "half of random nodes sending to the other half: median throughput at "
            f"{after} over {before} nodes"
        )
        checks.append(
            Claim(name)
            .at_most(1.25, medians[after] / medians[before])
            .cites(
                "a significant increase, section 2.8.2, which does not say which nodes were taken"
            )
            .against(
                ordered_links(after) / ordered_links(before),
                "the step of switches that are filled two by two",
            )
        )
    return checks


def spread(rows: Rows, field: str) -> dict[int, list[float]]:
    """Return the values of a field by the number of nodes, for the rows that have it."""
    with_field = [row for row in rows if row.get(field) is not None]
    return dict(sorted(grouped(with_field, "nodes", field).items()))


def figures(rows: Rows) -> Figures:
    """Draw Figure 21, with every placement as a point and medians as lines."""
    title = (
        f"All to all on Swiss-T1, {PLACEMENTS} random placements of each number of nodes, "
        "5 Mbit/s links"
    )
    placed = where(rows, draws=None)
    return {"placements": placement_figure(placed, {}, title=title)}


def placement_figure(rows: Rows, measured: Mapping[str, Rows], *, title: str) -> Figure:
    """Draw the throughput over the number of nodes, with placements as points and medians as lines.

    The figure shows the liquid throughput, circuits in the order of their requests in virtual time,
    and measurements.

    Args:
        rows: The rows with predictions.
        measured: The measured rows of each series, by its name.
        title: Title of the figure.
    """
    series = {
        "liquid throughput": spread(rows, "liquid_bps"),
        "circuits as they come, virtual time": spread(rows, "predicted_bps"),
    }
    drawn_rows = list(rows)
    for name, measured_rows in measured.items():
        series[f"{name}, measured"] = spread(measured_rows, "throughput_bps")
        drawn_rows += measured_rows
    medians = {}
    for name, bps_by_nodes in series.items():
        for nodes, values in bps_by_nodes.items():
            medians[f"{name}: median", nodes] = (statistics.median(values) / 1e6, 0.0)
    figure = draw_lines(
        title,
        medians,
        x="nodes, each of which computes and keeps a subfile",
        y=TOGETHER,
        upright=(16, "half of the machine"),
    )
    for bps_by_nodes, hue in zip(series.values(), HUES, strict=False):
        for nodes, values in bps_by_nodes.items():
            draw_dots(figure.axes[0], nodes, [value / 1e6 for value in values], hue)
    return finish(figure, drawn_rows, "nodes")


def scaling_check(median_bps: Mapping[int, float]) -> Check:
    """Check that more nodes have more throughput, with circuits in the order of their requests.

    Args:
        median_bps: Median throughput by the number of nodes.
    """
    first = min(median_bps)
    last = max(median_bps)
    return (
        Claim(f"circuits as they come: median throughput at {last} nodes over {first}")
        .at_least(1.5, median_bps[last] / median_bps[first])
        .cites("scales well when increasing the number of nodes, section 2.8.2")
        .against(1.0, "throughput does not scale")
    )


def links_check(links: float) -> Check:
    """Check that the median throughput of 31 nodes, in links, is in the range of the document."""
    return (
        Claim("31 nodes, circuits as they come: throughput in links, median")
        .at_least(DOCUMENT_LINKS[1], links)
        .cites("150 to 350 MB/s, which are 1.7 to 7 links of 50 to 86 MB/s, section 2.10")
        .against(DOCUMENT_LINKS[0], "150 MB/s over links of 86")
    )


STUDY = Study.of_module(
    __name__,
    name="sfio_placements",
    title="Nodes of Swiss-T1 taken at random: 53 placements of each number (Figure 21), and halves "
    "of them (Figure 19)",
    answers="Gabrielyan 2007, Figures 19 and 21 and section 2.10: 53 random placements of each "
    "number of nodes; the network binds from half of the machine on",
    deviations=(
        "computed: liquid throughput, and circuits as they come; sfio_placed_writes writes some on "
        "switches",
        "40 kB a pair, not 1 GB a subfile: a frame's change costs 8 ms, larger messages would come "
        "nearer the links",
        "links of 5 Mbit/s instead of 50 to 86 MB/s, the same for all; throughput is compared in "
        "links",
        "even numbers of nodes, and 31, instead of every number from 1 to 31",
    ),
)
