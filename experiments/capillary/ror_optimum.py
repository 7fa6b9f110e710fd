"""How far capillary routing and the others are from the route of least ROR: exact on small graphs, convex on mobile
networks.

The claim to be tested speaks of "connected random graphs of at most 10 nodes, seeds 0 to 19" and leaves the generator
open. Sparse graphs (``sparse_graph``: a random tree and some edges) were judged first, and one of 20 was above the
bound (1.517 by eq. 23); ``random_graph`` was chosen afterwards, as the plainest reading of the words: every connected
graph on the nodes is equally likely (each pair joined with probability 1/2, drawn again until connected), both ways of
an edge are links, and the end points are the first node and the last, a random pair since nodes are drawn alike. Both
families are judged now. 6 to 10 nodes: on fewer there is hardly a choice between routes. M = 20 and DER = 1e-5 are the
thesis'; the tolerance of 5 % is in its range of 3.6 to 7.8 %, and the ratio hardly depends on it. What 20 graphs show
is a matter of luck in its last digits, so more of the same kind are reported next to them (20 for short blocks, 180 for
large ones).
"""

import os
import random
import statistics
import sys
from collections.abc import Iterator, Sequence, Set
from contextlib import contextmanager

from experiments.capillary.mobile_pairs import mobile_pair
from fec import ror
from testbed.model.code_description import describe_code
from testbed.model.studies.samples import half_width
from testbed.model.studies.study import Figures, Points, Results, Row, Rows, Study, where
from testbed.model.verdict import Check, Claim, Verdict
from testbed.report.drawing.charts import BLUE, GREEN, INK, ORANGE, draw_dots, panels, ticks
from testbed.routing import route_by_name
from testbed.routing.redundancy.coding import Coding
from testbed.routing.redundancy.least_fec import LeastFec, least_fec_route, least_fec_route_small
from topologies.network import Link, Network, Node

METHODS = ("ecmp", "disjoint-2", "disjoint-all", "max-flow", "capillary:1", "capillary:3", "capillary")
TOLERANCE = 0.05
CODING = Coding(tolerance=TOLERANCE, source_packets=20, decoding_error_rate=1e-5)
MOST = 1.5
JUDGED = ("small", "sparse")
RIVAL = "disjoint-2"
"""The multipath routing of the literature that the document names (section 4.1)."""
EXACT_GRAPHS = 40
"""Random graphs whose optimum for short blocks is sought: an integer programme of some seconds each."""
KINDS = {"small": "random graphs", "more": "more of them", "sparse": "sparse graphs", "mobile": "mobile networks"}
PANELS = (
    *((kind, "short") for kind in ("small", "more", "sparse")),
    *((kind, "large") for kind in ("mobile", "small", "more", "sparse")),
)
EQUATIONS = {"short": "blocks of M = 20 (eq. 23)", "large": "large blocks (eq. 29)"}


def points(quick: bool, seed: int) -> Points:
    """20 small random graphs (seeds 0 to 19 whatever ``seed``), more of them, sparse ones, then mobile networks of 115
    nodes."""
    ranges = {
        "small": range(6 if quick else 20),
        "more": range(20, 22 if quick else 200),
        "sparse": range(2 if quick else 20),
        "mobile": range(seed, seed + (2 if quick else 12)),
    }
    return [{"kind": kind, "graph": k} for kind, graphs in ranges.items() for k in graphs]


def random_graph(seed: int) -> Network:
    """A connected graph on 6 to 10 nodes, each equally likely, every edge both ways."""
    generator = random.Random(f"connected/{seed}")
    nodes = generator.randint(6, 10)
    while True:
        edges = {(a, b) for b in range(nodes) for a in range(b) if generator.random() < 0.5}
        if is_connected(nodes, edges):
            return _both_directions(f"random-{nodes}-{seed}", nodes, edges)


def is_connected(nodes: int, edges: Set[tuple[int, int]]) -> bool:
    """Whether every one of the nodes 0, 1, ... can be reached from node 0."""
    reached, grown = {0}, True
    while grown:
        more = {b for a, b in edges if a in reached} | {a for a, b in edges if b in reached}
        grown = not more <= reached
        reached |= more
    return len(reached) == nodes


def sparse_graph(seed: int) -> Network:
    """Connected, 6 to 10 nodes: a random tree and a half to one and a half as many more edges, each both ways."""
    generator = random.Random(f"optimum/{seed}")
    nodes = generator.randint(6, 10)
    edges = {(generator.randrange(i), i) for i in range(1, nodes)}
    required = len(edges) + generator.randint(nodes // 2, nodes + nodes // 2)
    while len(edges) < required and len(edges) < nodes * (nodes - 1) // 2:
        a, b = sorted(generator.sample(range(nodes), 2))
        edges.add((a, b))
    return _both_directions(f"sparse-{nodes}-{seed}", nodes, edges)


def _both_directions(name: str, nodes: int, edges: Set[tuple[int, int]]) -> Network:
    return Network(
        name=name,
        nodes=tuple(Node(id=str(i), kind="switch") for i in range(nodes)),
        links=tuple(Link(source=str(a), target=str(b)) for x, y in sorted(edges) for a, b in ((x, y), (y, x))),
    )


def measure(point: Row) -> Results:
    """ROR of each method and of the optimum; links that every route must load fully count for none."""
    if point["kind"] != "mobile":
        network = (sparse_graph if point["kind"] == "sparse" else random_graph)(point["graph"])
        ends = ("0", network.nodes[-1].id)
        least = {"large": least_fec_route(network, *ends, TOLERANCE)}
        if point["kind"] != "more" or point["graph"] < EXACT_GRAPHS:
            with _solver_talks_to_stderr():
                least["short"] = least_fec_route_small(network, *ends, CODING, limit_s=1200)
    else:
        network, *pair = mobile_pair(115, point["graph"])
        ends = (pair[0], pair[1])
        least = {"large": least_fec_route(network, *ends, TOLERANCE)}
    found: Results = {"nodes": len(network.nodes), "links": len(network.links)}
    for equation, optimum in least.items():
        found[equation] = _rated(network, ends, equation == "large", optimum)
    return found


@contextmanager
def _solver_talks_to_stderr() -> Iterator[None]:
    """HiGHS writes a line now and then on the process's standard output, which belongs to ``--json``."""
    sys.stdout.flush()
    retained = os.dup(1)
    try:
        os.dup2(2, 1)
        yield
    finally:
        os.dup2(retained, 1)
        os.close(retained)


def _rated(network: Network, ends: tuple[str, str], large: bool, least: LeastFec) -> dict[str, float | None]:
    """None where infinite: a link that need not carry everything does."""
    figures: dict[str, float | None] = {"optimum": least.ror, "bound": least.bound}
    for method in METHODS:
        route = route_by_name(network, *ends, method)
        loads = [load for i, load in enumerate(route.loads) if i not in least.forced]
        value = ror(
            loads,
            tolerance=TOLERANCE,
            source_packets=CODING.source_packets,
            decoding_error_rate=CODING.decoding_error_rate,
            large_blocks=large,
        )
        figures[method] = value if value < float("inf") else None
    return figures


def ratios(rows: Rows, kind: str, equation: str, method: str) -> list[float]:
    """ROR over the optimum's, where both are finite and the optimum is above none."""
    found = _found(rows, kind, equation)
    return [each[method] / each["optimum"] for each in found if each[method] is not None and each["optimum"] > 1e-9]


def _found(rows: Rows, kind: str, equation: str) -> list[Row]:
    return [row[equation] for row in where(rows, kind=kind) if equation in row]


def comparable(rows: Rows, kind: str, equation: str) -> int:
    """Networks of which the best route has any ROR at all; where every link it loads is one that every route must, none
    has."""
    return sum(each["optimum"] > 1e-9 for each in _found(rows, kind, equation))


def judge(rows: Rows) -> Verdict:
    """On small graphs capillary routing should never be above one and a half times the optimum, which is to be proved;
    on mobile networks it should be nearer to it than layer 1."""
    checks, notes = [], []
    for kind, equation in PANELS:
        own = ratios(rows, kind, equation, "capillary")
        if not own:
            continue
        name = f"{KINDS[kind]}, {EQUATIONS[equation]}"
        if kind != "more":
            checks.append(_distance_check(rows, kind, equation, own))
        notes.append(
            f"{name}: capillary is at most {max(own):.3f} times the optimum, median {statistics.median(own):.3f}; "
            f"above {MOST:g} times in {sum(ratio > MOST for ratio in own)} of {len(own)}"
        )
        gaps = [each["optimum"] - each["bound"] for each in _found(rows, kind, equation)]
        if kind in ("more", "sparse"):  # reported only: a busy machine's time limit must not decide the verdict
            notes.append(f"{name}: optimum not proved in {sum(gap > 1e-3 for gap in gaps)} of {len(gaps)}")
        else:
            checks.append(
                Claim(f"{name}: optimum less its proved lower bound, worst")
                .at_most(1e-3, max(gaps))
                .against(None, "none: the bound is the solver's proof")
            )
        total = comparable(rows, kind, equation)
        for method in METHODS:
            others = ratios(rows, kind, equation, method)
            if others:
                notes.append(
                    f"{name}, {method}: median {statistics.median(others):.2f} times the optimum, infinite in "
                    f"{total - len(others)} of {total}"
                )
    return Verdict.of(checks, notes)


def _distance_check(rows: Rows, kind: str, equation: str, own: Sequence[float]) -> Check:
    name = f"{KINDS[kind]}, {EQUATIONS[equation]}"
    middle = statistics.median(own)
    if kind == "mobile":
        layer_1 = statistics.median(ratios(rows, kind, equation, "capillary:1"))
        check = Claim(f"{name}: median ROR of capillary over the optimum").at_most(MOST, middle)
        check = check.against(layer_1, "that of layer 1: further layers gain nothing")
        return check.plus_minus(half_width(own)).noting(f"greatest {max(own):.3f}")
    rival = max(ratios(rows, kind, equation, RIVAL), default=None)
    check = Claim(f"{name}: greatest ROR of capillary over the optimum").at_most(MOST, max(own))
    check = check.against(rival, "the greatest of two disjoint paths")
    return check.noting(f"{MOST:g} at most; median {middle:.3f} of {len(own)}")


def figures(rows: Rows) -> Figures:
    """ROR over the optimum's by method: every network a dot, the median a bar."""
    figure, all_axes = panels(14, 9, rows=2, columns=4, sharey=True)
    for axes, (kind, equation) in zip(all_axes, PANELS, strict=False):
        total = comparable(rows, kind, equation)
        for at, method in enumerate(METHODS):
            values = ratios(rows, kind, equation, method)
            if values:
                draw_dots(axes, at, values, BLUE, alpha=0.7)
                axes.plot([at - 0.3, at + 0.3], [statistics.median(values)] * 2, color=INK, linewidth=2)
            if len(values) < total:
                infinite = f"{total - len(values)} infinite"
                axes.annotate(infinite, (at, 16), ha="center", va="top", fontsize=7, rotation=90)
        axes.axhline(1, color=GREEN, linewidth=1, label="optimum")
        claimed = f"{MOST:g} times (claimed for small graphs)"
        axes.axhline(MOST, color=ORANGE, linewidth=1, linestyle="--", label=claimed)
        axes.set_xticks(range(len(METHODS)), METHODS, rotation=40, ha="right", fontsize=8)
        ticks(axes, [1, 1.5, 2, 3, 5, 10, 20], axis="y")
        axes.set_title(f"{total} {KINDS[kind]}, {EQUATIONS[equation]}", fontsize=9)
        axes.grid(visible=False, axis="x")
    for first in (0, 4):
        figure.axes[first].set_ylabel(f"ROR over that of the best route (t = {TOLERANCE:.0%})")
    figure.axes[len(PANELS)].axis("off")
    figure.axes[len(PANELS)].legend(*figure.axes[0].get_legend_handles_labels(), loc="center")
    return {"distance-to-the-optimum": figure}


STUDY = Study.of_module(
    __name__,
    title="Capillary routing's distance to the least redundancy there is",
    ror_code=describe_code(
        labels="random", m=CODING.source_packets, tolerance=TOLERANCE, der=CODING.decoding_error_rate
    ),
    answers="what Gabrielyan 2007 leaves open: how far capillary routing is from the least redundancy possible",
)
