"""``testbed demands``: compares routings of a demand matrix, that is, of all pairs at once.

The comparison is by link load, throughput and redundancy.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

from testbed.commands.answer import Answer
from testbed.commands.arguments import add_answer_options, add_options, adder, read_options
from testbed.errors import UndecidedError
from testbed.model.code_description import describe_coding
from testbed.model.options import kinds
from testbed.model.options.option import ENDS, ROUTED, RUN, SENT, Only
from testbed.report.answers import Part, Table, table_of_rows
from testbed.report.column_units import seconds_in_words
from testbed.report.comparison import Comparison, compare_methods, draw_comparison
from testbed.report.drawing.stream_figures import loaded_figure
from testbed.report.progress_bar import spinner
from testbed.report.wording import counted
from testbed.routing.redundancy.coding import Coding, RatedCoding
from topologies import Json, JsonObject, label_of, load_network

if TYPE_CHECKING:
    from testbed.routing.demands.matrix import RoutedDemands

CANNOT_TELL = UndecidedError.exit_code
# Number of methods whose loads are drawn.
MAX_DRAWN = 4
# Smaller utilisations are printed with four digits, because six decimals would be too few.
SMALL = 1e-3
# Time to find an order of labels for a pair if no other pair has the same shares, in seconds.
LAYOUT_S = 0.2
DESCRIPTION = (
    "Route a demand matrix by several methods, and compare each with the proved multicommodity "
    "optimum: its greatest link utilisation (MLU), max-min-fair throughput and total ROR. "
    "Methods are those of testbed route, for each pair separately; ksp:K (equal parts over the "
    "K shortest paths), semi-ksp:K (the same paths, rates by linear programme), raecke "
    "(oblivious trees), smore:K (the K heaviest paths of these trees, rates by linear "
    "programme), optimum, fair (max-min-fair utilisation), and least-ror:B (lowest ROR within B "
    "times the optimum's MLU). Every answer is checked independently. Coding is end to end, not "
    "at intermediate nodes."
)


def _has_end_points(args: argparse.Namespace) -> bool:
    """Return whether the matrix is computed for end points that can be chosen."""
    return args.matrix in ("uniform", "gravity")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command to its parser."""
    add = adder(parser)
    add(
        "network",
        metavar="NETWORK",
        help="network: a catalogue name (topohub:sndlib/abilene, swiss-t1, ...) or a file",
    )
    add = adder(parser, SENT)
    add(
        "--matrix",
        default="gravity",
        metavar="uniform|gravity|own|FILE",
        help="demand matrix (default: gravity). own: the demands that topohub has for the "
        "network (SNDlib's are measured or planned); FILE: JSON, CSV, REPETITA or SNDlib",
    )
    add(
        "--total-rate",
        dest="total",
        type=kinds.rate_bps,
        metavar="RATE",
        help="scale the matrix to this total rate (default: no scaling; uniform and gravity "
        "have 1Mbps per pair)",
    )
    add = adder(parser, ENDS)
    add(
        "--end-points",
        dest="between",
        choices=("switches", "hosts"),
        default="switches",
        help="end points of the matrices uniform and gravity (default: switches)",
        only=Only(when=_has_end_points, needs="--matrix uniform or gravity"),
    )
    add = adder(parser, ROUTED)
    add(
        "--routing",
        dest="method",
        action="append",
        metavar="METHOD",
        help="routing method (repeatable; default: single, ecmp, capillary, ...)",
    )
    add_options(parser, RatedCoding)
    add = adder(parser, RUN)
    add(
        "--seed",
        type=kinds.seed,
        default=1,
        help="seed of the routing trees (default: 1)",
    )
    add(
        "--show-links",
        dest="links",
        action="store_true",
        help="also list the load of every link",
    )
    add_answer_options(parser)


def run(args: argparse.Namespace) -> Answer:
    """Route by every method and compare them with the optimum.

    The exit code is 1 if the independent check of a routing fails, and 5 if the optimum is not
    proved.

    Raises:
        InputError, TopologyError: The input is bad.
        UndecidedError: The solver failed.
    """
    from testbed.routing.demands.demands_document import demands_document, read_matrix
    from testbed.routing.demands.methods import USUAL_METHODS, demand_routing

    coding = read_options(args, RatedCoding)
    methods = args.method or list(USUAL_METHODS)
    # A wrong method is reported before the network is read, which may take long.
    for method in methods:
        demand_routing(method)
    network = load_network(args.network)
    matrix = read_matrix(network, args.network, args.matrix, args.between, args.total)
    with spinner(_progress_text(len(matrix.pairs), len(methods), coding)):
        document, routed = demands_document(
            matrix, methods, coding, seed=args.seed, links=args.links, now=time.perf_counter
        )
    exit_code = 0 if document["optimum"]["proved"] else CANNOT_TELL
    if any(method["violations"] for method in document["methods"]):
        exit_code = 1
    return Answer(
        document,
        partial(_show, document),
        exit_code,
        title=f"{network.name}: {counted(len(matrix.pairs), 'demand')}, {matrix.name}",
        figures=partial(_figures, document, routed),
    )


def _progress_text(pairs: int, methods: int, coding: Coding) -> str:
    """Return what is being computed, and how long it may take if orders of labels are searched."""
    text = (
        f"{counted(pairs, 'pair')} by {counted(methods, 'method')}, ROR for {coding.labels} labels"
    )
    if coding.labels == "random":
        return text
    longest = seconds_in_words(LAYOUT_S * pairs * methods)
    return f"{text} (up to {longest}; --label-order random: at once)"


def _show(document: JsonObject) -> Iterator[Part]:
    lists_links = "links" in document["methods"][0]
    yield _headline(document)
    yield _methods_table(document, summary=lists_links)
    yield (
        "MLU: greatest link utilisation; fair: max-min-fair throughput, in what the optimum can "
        "carry of the matrix; exposed: pairs all on a link that they could avoid; of the others: "
        "ROR without those"
    )
    yield f"ROR: {describe_coding(document['coding'])}; shares and loads of every method checked"
    for method in document["methods"]:
        for violation in method["violations"]:
            yield f"WRONG {method['method']}: {violation}"
        if method.get("links"):
            yield _links_table(method)
    if (comparison := _compared(document)) is not None:
        yield comparison.as_table()


def _headline(document: Json) -> str:
    """Return the line with the matrix, its total rate and the optimum."""
    pairs = counted(document["pairs"], "pair")
    line = (
        f"{document['network']}, {document['matrix']}: {pairs}, "
        f"{document['total_bps'] / 1e6:.4g} Mbit/s"
    )
    if document["omitted_pairs"]:
        line += f", {counted(document['omitted_pairs'], 'pair')} that no path joins left out"
    optimum = document["optimum"]
    utilisation = _decimals(optimum["utilisation"])
    bound = _decimals(optimum["bound"])
    if optimum["proved"]:
        return f"{line}; optimum {utilisation}, proved lower bound {bound}"
    return f"{line}; cannot tell the optimum: {utilisation} is not proved, it is at least {bound}"


def _methods_table(document: Json, *, summary: bool) -> Table:
    rows: list[JsonObject] = []
    for method in document["methods"]:
        # The throughput in units of what the optimum can carry of the matrix.
        matrix_share = method["throughput_bps"] / document["total_bps"]
        row = {
            "method": method["method"],
            "MLU": float(_decimals(method["utilisation"])),
            "/optimum": round(method["over_optimum"], 6),
            "fair": matrix_share * document["optimum"]["utilisation"],
            "exposed": method["exposed_pairs"],
            "ROR": method["ror"],
            "of the others": method["ror_without_exposed"],
            "s": method["seconds"],
        }
        # JSON has no infinity.
        if row["ROR"] is None:
            row["ROR"] = math.inf
        rows.append(row)
    spare = ("s", "fair", "of the others", "/optimum", "exposed")
    return table_of_rows(rows, "methods", spare=spare, summary=summary)


def _links_table(method: Json) -> Table:
    rows: list[JsonObject] = []
    for link in method["links"]:
        row = {
            "link": label_of((link["source"], link["target"], link["key"])),
            "load (bit/s)": link["load_bps"],
            "utilisation": link["utilisation"],
        }
        rows.append(row)
    return table_of_rows(rows, "links", title=method["method"])


def _decimals(utilisation: float) -> str:
    """Return a utilisation with six decimals, or with four digits if it is small."""
    return f"{utilisation:.6f}" if utilisation >= SMALL else f"{utilisation:.4g}"


def _compared(document: JsonObject) -> Comparison | None:
    fields = ("utilisation", "throughput_bps", "ror_without_exposed", "exposed_pairs")
    return compare_methods("demands", document["methods"], fields)


def _figures(document: JsonObject, routed: Mapping[str, RoutedDemands]) -> JsonObject:
    """Draw a comparison of the methods, and the utilisation of the links by each method."""
    from testbed.routing.demands.demands_document import link_list

    comparison = _compared(document)
    figures: JsonObject = {}
    if comparison is not None:
        figures["methods"] = draw_comparison(comparison, "methods")
    for method, demands in list(routed.items())[:MAX_DRAWN]:
        caption = (
            f"{method}: how full each link is, as wide; the fullest, "
            f"{demands.greatest_utilisation:.1%}, is widest."
        )
        network = demands.matrix.network
        links = link_list(demands)["links"]
        figure = loaded_figure(network, links, of="utilisation", caption=caption)
        figures[f"loads-{method}"] = figure
    return figures
