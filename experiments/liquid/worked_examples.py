"""The documents' worked examples, computed: two switches, a traffic without a liquid schedule, two lightpaths over one
fibre.

Everything is an exact count: loads, frames, the edges of the congestion graph by the links that cause them (Figure 62).
"""

from testbed.model.studies import Check, Claim, Figures, Points, Results, Row, Rows, where
from testbed.model.traffic import Traffic
from testbed.report.drawing.charts import BLUE, ORANGE, chart
from testbed.scheduling.baselines import sending_rounds, split_rounds
from testbed.scheduling.methods import schedule_by_name
from testbed.scheduling.traffic.patterns import all_to_all, traffic_of
from testbed.wavelengths.assignment import assign_wavelengths, lightpaths_between
from topologies import load_network

PAIRS = {
    "two-switch": None,
    "three-switch": (("t1", "r1"), ("t2", "r2"), ("t3", "r3")),
    "shared-fibre": (("A", "B"), ("C", "D")),
}
LINK_MB_S = 100.0
"""Of a link in the example of Gabrielyan and Hersch 2002; packets of 1 MB."""


def points(seed: int) -> Points:
    """One a network."""
    return [{"network": name, "seed": seed} for name in PAIRS]


def measure(point: Row) -> Results:
    """Loads, schedules, and each edge of the congestion graph with the links that its two transfers share; rounds by
    wavelengths."""
    name = point["network"]
    network, pairs = load_network(name), PAIRS[name]
    traffic = all_to_all(network) if pairs is None else traffic_of(network, pairs)
    paths, exact = traffic.paths(), schedule_by_name(traffic, "exact", seed=point["seed"])
    found: Results = {
        "transfers": len(traffic),
        "bottleneck_load": traffic.bottleneck_load,
        "bottlenecks": sorted(traffic.links[k] for k in traffic.bottlenecks),
        "round_robin_frames": len(split_rounds(paths, sending_rounds(paths, "round-robin"))),
        "shortest": exact.length,
        "proved": exact.proved,
        "edges": _edges(traffic),
    }
    if name == "shared-fibre":
        lightpaths = lightpaths_between(network, pairs or ())
        found["rounds"] = [
            len(assign_wavelengths(network, lightpaths, wavelengths=w, switching="wsxc").rounds)
            for w in (1, 2)
        ]
    return found


def _edges(traffic: Traffic) -> list[tuple[str, str, list[str]]]:
    """(transfer, transfer, links that both use) of every two that congest."""
    found = []
    for one, other in traffic.congestion_graph():
        shared = sorted(set(traffic.transfer(one)) & set(traffic.transfer(other)))
        found.append(("-".join(traffic.ends[one]), "-".join(traffic.ends[other]), shared))
    return found


def bold(row: Row, link: str) -> int:
    """Edges of the congestion graph that this link causes."""
    return sum(link in shared for _, _, shared in row["edges"])


def example_checks(rows: Rows) -> list[Check]:
    """Each number as the documents print it."""
    two, three, fibre = (where(rows, network=name)[0] for name in PAIRS)
    liquid, robin = (
        _mb_s(two, two[frames]) for frames in ("bottleneck_load", "round_robin_frames")
    )
    none = "no liquid schedule, Figure 37"
    return [
        _exact("two switches: liquid throughput, MB/s", 416.67, liquid, "416.67 (2002, section 1)"),
        _exact(
            "two switches: throughput by round robin, MB/s",
            357.14,
            robin,
            "357.14 (2002, section 1)",
        ),
        _exact(
            "two switches: frames by round robin", 7, two["round_robin_frames"], "7, section 3.3"
        ),
        _exact("two switches: frames of a liquid schedule", 6, two["shortest"], "6, Figure 35"),
        *(
            _exact(
                f"two switches: edges of the congestion graph by {link}",
                15,
                bold(two, link),
                "15, Figure 62",
            )
            for link in ("s_a->s_b", "s_b->s_a")
        ),
        _exact(
            "three switches: bottleneck load",
            2,
            three["bottleneck_load"],
            "three bottlenecks, Figure 36",
        ),
        _exact(
            "three switches: bottlenecks",
            3,
            len(three["bottlenecks"]),
            "three bottlenecks, Figure 36",
        ),
        _exact("three switches: frames of the shortest schedule", 3, three["shortest"], none),
        Check(
            name="three switches: proved that there is no liquid schedule",
            passed=three["proved"] == "no-liquid-schedule",
            document="no liquid schedule, Figure 37",
            rival_note="none: a proof",
        ),
        _exact(
            "A to B and C to D: rounds with one wavelength",
            2,
            fibre["rounds"][0],
            "different timeslots, 3.2.2",
        ),
        _exact(
            "A to B and C to D: rounds with two wavelengths",
            1,
            fibre["rounds"][1],
            "two wavelengths, 3.2.2",
        ),
    ]


def _mb_s(row: Row, frames: int) -> float:
    return round(float(row["transfers"]) / frames * LINK_MB_S, 2)


def _exact(name: str, predicted: float, measured: float, stated: str) -> Check:
    return (
        Claim(name).equal(predicted, measured).cites(stated).against(None, "none: an exact count")
    )


def figures(rows: Rows) -> Figures:
    """Figure 62: the transfers of the two switches in a circle, edges by bottlenecks in bold."""
    import networkx as nx

    two = where(rows, network="two-switch")[0]
    names = list(dict.fromkeys(name for edge in two["edges"] for name in edge[:2]))
    ab = {name for *both, shared in two["edges"] for name in both if "s_a->s_b" in shared}
    ba = {name for *both, shared in two["edges"] for name in both if "s_b->s_a" in shared}
    names.sort(key=lambda name: (0 if name in ab else 2 if name in ba else 1, name))
    styles = {"s_a->s_b": (BLUE, 2.4), "s_b->s_a": (ORANGE, 2.4), "": ("#aab0b6", 0.6)}
    chosen = [
        next((link for link in shared if link in styles), "") for _, _, shared in two["edges"]
    ]
    looks = [styles[link] for link in chosen]
    figure, axes = chart("Congestion graph of the two-switch example (Figure 62)", size=(8, 7))
    graph = nx.Graph()
    graph.add_nodes_from(names)
    pairs, places = [edge[:2] for edge in two["edges"]], nx.circular_layout(graph)
    hues, widths = zip(*looks, strict=True)
    nx.draw_networkx_edges(graph, places, pairs, ax=axes, edge_color=list(hues), width=list(widths))
    nx.draw_networkx_labels(graph, places, ax=axes, font_size=8)
    for link, (colour, width) in styles.items():
        label = (
            f"{link or 'other links alone'}: {bold(two, link) if link else chosen.count('')} edges"
        )
        axes.plot([], [], color=colour, linewidth=width, label=label)
    axes.set_axis_off()
    axes.legend(loc="lower right")
    return {"62-congestion-graph": figure}
