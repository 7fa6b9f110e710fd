"""The worked examples of the documents, computed.

They are two switches, a traffic without a liquid schedule, and two lightpaths over one fibre. All
figures are exact counts: loads, frames, and the edges of the congestion graph by the links that
cause them (Figure 62).
"""

from typing import NamedTuple

from testbed.model.studies import Check, Claim, Figures, Points, Results, Row, Rows, where
from testbed.model.traffic import Traffic
from testbed.report.drawing.charts import BLUE, ORANGE, chart
from testbed.scheduling.baselines import sending_rounds, split_rounds
from testbed.scheduling.methods import schedule_by_name
from testbed.scheduling.traffic.patterns import all_to_all, traffic_of
from testbed.wavelengths.assignment import assign_wavelengths, lightpaths_between
from topologies import Network, load_network

TWO_SWITCHES = "two-switch"
THREE_SWITCHES = "three-switch"
SHARED_FIBRE = "shared-fibre"

# Source and sink of the transfers on each network. None: all to all.
PAIRS = {
    TWO_SWITCHES: None,
    THREE_SWITCHES: (("t1", "r1"), ("t2", "r2"), ("t3", "r3")),
    SHARED_FIBRE: (("A", "B"), ("C", "D")),
}

# Link rate of the example of Gabrielyan and Hersch 2002, whose packets have 1 MB.
LINK_MB_S = 100.0

# The links between the two switches, in both directions.
FORWARD_LINK = "s_a->s_b"
BACKWARD_LINK = "s_b->s_a"


class EdgeStyle(NamedTuple):
    """The style of an edge of the congestion graph; the width is in points."""

    colour: str
    width: float


# Styles of the edges by the link that causes them. "": other links.
EDGE_STYLES = {
    FORWARD_LINK: EdgeStyle(BLUE, 2.4),
    BACKWARD_LINK: EdgeStyle(ORANGE, 2.4),
    "": EdgeStyle("#aab0b6", 0.6),
}


def points(seed: int) -> Points:
    """Return one point per network."""
    return [{"network": name, "seed": seed} for name in PAIRS]


def measure(point: Row) -> Results:
    """Return loads, schedules and the edges of the congestion graph.

    For the shared fibre, also return the rounds by number of wavelengths.
    """
    name = point["network"]
    network = load_network(name)
    pairs = PAIRS[name]
    traffic = all_to_all(network) if pairs is None else traffic_of(network, pairs)
    paths = traffic.paths()
    exact = schedule_by_name(traffic, "exact", seed=point["seed"])
    results: Results = {
        "transfers": len(traffic),
        "bottleneck_load": traffic.bottleneck_load,
        "bottlenecks": sorted(traffic.links[index] for index in traffic.bottlenecks),
        "round_robin_frames": len(split_rounds(paths, sending_rounds(paths, "round-robin"))),
        "shortest": exact.length,
        "proved": exact.proved,
        "edges": _edges(traffic),
    }
    if name == SHARED_FIBRE:
        results["rounds"] = [_round_count(network, 1), _round_count(network, 2)]
    return results


def _round_count(network: Network, wavelengths: int) -> int:
    """Return the number of rounds of the lightpaths over the shared fibre."""
    lightpaths = lightpaths_between(network, PAIRS[SHARED_FIBRE] or ())
    plan = assign_wavelengths(network, lightpaths, wavelengths=wavelengths, switching="wsxc")
    return len(plan.rounds)


def _edges(traffic: Traffic) -> list[tuple[str, str, list[str]]]:
    """Return the edges of the congestion graph: two transfers, and the links that both use."""
    edges = []
    for first, second in traffic.congestion_graph():
        shared_links = set(traffic.transfer(first)) & set(traffic.transfer(second))
        first_name = "-".join(traffic.ends[first])
        second_name = "-".join(traffic.ends[second])
        edges.append((first_name, second_name, sorted(shared_links)))
    return edges


def edge_count(row: Row, link: str) -> int:
    """Return the number of edges of the congestion graph that a link causes."""
    return len([edge for edge in row["edges"] if link in edge[2]])


def example_checks(rows: Rows) -> list[Check]:
    """Compare each number with the one that the documents print."""
    two_switches = where(rows, network=TWO_SWITCHES)[0]
    three_switches = where(rows, network=THREE_SWITCHES)[0]
    shared_fibre = where(rows, network=SHARED_FIBRE)[0]
    return [
        *_two_switch_checks(two_switches),
        *_three_switch_checks(three_switches),
        _exact_check(
            "A to B and C to D: rounds with one wavelength",
            2,
            shared_fibre["rounds"][0],
            "different timeslots, 3.2.2",
        ),
        _exact_check(
            "A to B and C to D: rounds with two wavelengths",
            1,
            shared_fibre["rounds"][1],
            "two wavelengths, 3.2.2",
        ),
    ]


def _two_switch_checks(row: Row) -> list[Check]:
    return [
        _exact_check(
            "two switches: liquid throughput, MB/s",
            416.67,
            _throughput_mb_s(row, row["bottleneck_load"]),
            "416.67 (2002, section 1)",
        ),
        _exact_check(
            "two switches: throughput by round robin, MB/s",
            357.14,
            _throughput_mb_s(row, row["round_robin_frames"]),
            "357.14 (2002, section 1)",
        ),
        _exact_check(
            "two switches: frames by round robin", 7, row["round_robin_frames"], "7, section 3.3"
        ),
        _exact_check(
            "two switches: frames of a liquid schedule", 6, row["shortest"], "6, Figure 35"
        ),
        _edge_check(row, FORWARD_LINK),
        _edge_check(row, BACKWARD_LINK),
    ]


def _throughput_mb_s(row: Row, frames: int) -> float:
    return round(float(row["transfers"]) / frames * LINK_MB_S, 2)


def _edge_check(row: Row, link: str) -> Check:
    name = f"two switches: edges of the congestion graph by {link}"
    return _exact_check(name, 15, edge_count(row, link), "15, Figure 62")


def _three_switch_checks(row: Row) -> list[Check]:
    return [
        _exact_check(
            "three switches: bottleneck load",
            2,
            row["bottleneck_load"],
            "three bottlenecks, Figure 36",
        ),
        _exact_check(
            "three switches: bottlenecks",
            3,
            len(row["bottlenecks"]),
            "three bottlenecks, Figure 36",
        ),
        _exact_check(
            "three switches: frames of the shortest schedule",
            3,
            row["shortest"],
            "no liquid schedule, Figure 37",
        ),
        Check(
            name="three switches: proved that there is no liquid schedule",
            passed=row["proved"] == "no-liquid-schedule",
            document="no liquid schedule, Figure 37",
            rival_note="none: a proof",
        ),
    ]


def _exact_check(name: str, predicted: float, measured: float, stated: str) -> Check:
    """Check that two numbers are equal; ``stated`` is the number and section of the document."""
    return (
        Claim(name).equal(predicted, measured).cites(stated).against(None, "none: an exact count")
    )


def figures(rows: Rows) -> Figures:
    """Draw Figure 62: the transfers of the two switches in a circle, and their congestion.

    Edges that a link between the switches causes are bold.
    """
    import networkx as nx

    row = where(rows, network=TWO_SWITCHES)[0]
    edges = [(first, second) for first, second, _ in row["edges"]]
    causes = [_cause(shared_links) for _, _, shared_links in row["edges"]]
    styles = [EDGE_STYLES[cause] for cause in causes]
    graph = nx.Graph()
    graph.add_nodes_from(_transfers_by_side(row))
    positions = nx.circular_layout(graph)
    figure, axes = chart("Congestion graph of the two-switch example (Figure 62)", size=(8, 7))
    nx.draw_networkx_edges(
        graph,
        positions,
        edges,
        ax=axes,
        edge_color=[style.colour for style in styles],
        width=[style.width for style in styles],
    )
    nx.draw_networkx_labels(graph, positions, ax=axes, font_size=8)
    for link, style in EDGE_STYLES.items():
        if link:
            label = f"{link}: {edge_count(row, link)} edges"
        else:
            label = f"other links alone: {causes.count('')} edges"
        # An empty line, for the legend.
        axes.plot([], [], color=style.colour, linewidth=style.width, label=label)
    axes.set_axis_off()
    axes.legend(loc="lower right")
    return {"62-congestion-graph": figure}


def _cause(shared_links: list[str]) -> str:
    """Return the first shared link that has a style of its own, or ""."""
    return next((link for link in shared_links if link in EDGE_STYLES), "")


def _transfers_by_side(row: Row) -> list[str]:
    """Return the names of the transfers.

    Those that congest on the forward link come first, and those that congest only on the backward
    link last.
    """
    forward = set()
    backward = set()
    transfers = set()
    for first, second, shared_links in row["edges"]:
        transfers |= {first, second}
        if FORWARD_LINK in shared_links:
            forward |= {first, second}
        if BACKWARD_LINK in shared_links:
            backward |= {first, second}

    def side_and_name(name: str) -> tuple[int, str]:
        if name in forward:
            return 0, name
        return (2 if name in backward else 1), name

    return sorted(transfers, key=side_and_name)
