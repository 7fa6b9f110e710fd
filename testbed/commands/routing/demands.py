"""``testbed demands``: all pairs of a network at once; what each routing loads, lets through and asks for in
redundancy."""

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
from testbed.report.answers import Part, table_of_rows
from testbed.report.column_units import seconds_in_words
from testbed.report.comparison import Comparison, compare_methods, draw_comparison
from testbed.report.drawing.stream_figures import loaded_figure
from testbed.report.progress_bar import spinner
from testbed.report.wording import counted
from testbed.routing.redundancy.coding import Coding, RatedCoding
from topologies import JsonObject, label_of, load_network

if TYPE_CHECKING:
    from testbed.routing.demands.matrix import RoutedDemands

CANNOT_TELL = UndecidedError.exit_code
MOST_DRAWN = 4
"""Methods whose loads are drawn."""
# Utilisations below are printed with four digits.
SMALL = 1e-3
LAYOUT_S = 0.2
"""To seek an order of labels for a pair, where no other has the same."""
DESCRIPTION = (
    "Route a demand matrix: greatest link utilisation (MLU), max-min-fair throughput and total ROR of each routing "
    "beside the multicommodity optimum, which is proved. Methods: those of testbed route, each pair by itself; ksp:K "
    "(equal parts of the K shortest paths), semi-ksp:K (the same paths, rates by linear programme), raecke (oblivious "
    "trees), smore:K (their K heaviest paths, rates by linear programme), optimum, fair (max-min-fair utilisation), "
    "least-ror:B (least ROR within B times the optimum's MLU). Every answer is checked independently. Coding is end to "
    "end; coding at intermediate nodes is left out."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Those of the command."""
    add, ends, sent, routed, running = (
        adder(parser, group) for group in (None, ENDS, SENT, ROUTED, RUN)
    )
    add(
        "network",
        metavar="NETWORK",
        help="a catalogue name (topohub:sndlib/abilene, swiss-t1, ...) or a file",
    )
    sent(
        "--matrix",
        default="gravity",
        metavar="uniform|gravity|own|FILE",
        help="default gravity; own: topohub's demands of the network (SNDlib's are measured or planned); a file: JSON, "
        "CSV, REPETITA, SNDlib",
    )
    ends(
        "--end-points",
        dest="between",
        choices=("switches", "hosts"),
        default="switches",
        help="end points of uniform and gravity",
        only=Only(
            when=lambda a: a.matrix in ("uniform", "gravity"), needs="--matrix uniform or gravity"
        ),
    )
    sent(
        "--total-rate",
        dest="total",
        type=kinds.rate_bps,
        metavar="RATE",
        help="scale the matrix to this sum (default: as it is; 1Mbps a pair)",
    )
    routed(
        "--routing",
        dest="method",
        action="append",
        metavar="METHOD",
        help="may be repeated (default: single, ecmp, capillary, ...)",
    )
    add_options(parser, RatedCoding)
    running("--seed", type=kinds.seed, default=1, help="random seed, of the routing trees")
    running(
        "--show-links", dest="links", action="store_true", help="list the load of every link too"
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
    for method in methods:
        demand_routing(method)
    network = load_network(args.network)
    matrix = read_matrix(network, args.network, args.matrix, args.between, args.total)
    with spinner(_announced(len(matrix.pairs), len(methods), coding)):
        document, routed = demands_document(
            matrix, methods, coding, seed=args.seed, links=args.links, now=time.perf_counter
        )
    code = 0 if document["optimum"]["proved"] else CANNOT_TELL
    if any(one["violations"] for one in document["methods"]):
        code = 1
    title = f"{network.name}: {counted(len(matrix.pairs), 'demand')}, {matrix.name}"
    drawn = partial(_figures, document, routed)
    return Answer(document, partial(_show, document), code, title=title, figures=drawn)


def _announced(pairs: int, methods: int, coding: Coding) -> str:
    """What is to be done, and where orders of labels are sought, how long that may take."""
    said = (
        f"{counted(pairs, 'pair')} by {counted(methods, 'method')}, ROR for {coding.labels} labels"
    )
    if coding.labels == "random":
        return said
    return f"{said} (up to {seconds_in_words(LAYOUT_S * pairs * methods)}; --label-order random: at once)"


def _show(document: JsonObject) -> Iterator[Part]:
    best, total, links = (
        document["optimum"],
        document["total_bps"],
        "links" in document["methods"][0],
    )
    left_out = (
        f", {counted(document['omitted_pairs'], 'pair')} that no path joins left out"
        if document["omitted_pairs"]
        else ""
    )
    yield (
        f"{document['network']}, {document['matrix']}: {counted(document['pairs'], 'pair')}, {total / 1e6:.4g} Mbit/s{left_out}; "
        + (
            "optimum {}, proved lower bound {}"
            if best["proved"]
            else "cannot tell the optimum: {} is not proved, it is at least {}"
        ).format(_decimals(best["utilisation"]), _decimals(best["bound"]))
    )
    rows = [
        {
            "method": one["method"],
            "MLU": float(_decimals(one["utilisation"])),
            "/optimum": round(one["over_optimum"], 6),
            "fair": one["throughput_bps"] / total * best["utilisation"],
            "exposed": one["exposed_pairs"],
            "ROR": math.inf if one["ror"] is None else one["ror"],
            "of the others": one["ror_without_exposed"],
            "s": one["seconds"],
        }
        for one in document["methods"]
    ]
    spare = ("s", "fair", "of the others", "/optimum", "exposed")
    yield table_of_rows(rows, "methods", spare=spare, summary=links)
    yield (
        "MLU: greatest link utilisation; fair: max-min-fair throughput, in what the optimum can carry of the matrix; "
        "exposed: pairs all on a link that they could avoid; of the others: ROR without those"
    )
    yield f"ROR: {describe_coding(document['coding'])}; shares and loads of every method checked"
    for one in document["methods"]:
        yield from (f"WRONG {one['method']}: {violation}" for violation in one["violations"])
        loads = [
            {
                "link": label_of((link["source"], link["target"], link["key"])),
                "load (bit/s)": link["load_bps"],
            }
            | {"utilisation": link["utilisation"]}
            for link in one.get("links", ())
        ]
        if loads:
            yield table_of_rows(loads, "links", title=one["method"])
    if (methods := _compared(document)) is not None:
        yield methods.as_table()


def _decimals(utilisation: float) -> str:
    """Return six decimals, or four digits of a utilisation for which they are too few."""
    return f"{utilisation:.6f}" if utilisation >= SMALL else f"{utilisation:.4g}"


def _compared(document: JsonObject) -> Comparison | None:
    fields = ("utilisation", "throughput_bps", "ror_without_exposed", "exposed_pairs")
    return compare_methods("demands", document["methods"], fields)


def _figures(document: JsonObject, routed: Mapping[str, RoutedDemands]) -> JsonObject:
    """The methods beside each other, and how full each makes the links."""
    from testbed.routing.demands.demands_document import link_list

    compared = _compared(document)
    drawn = {} if compared is None else {"methods": draw_comparison(compared, "methods")}
    for method, one in list(routed.items())[:MOST_DRAWN]:
        caption = f"{method}: how full each link is, as wide; the fullest, {one.greatest_utilisation:.1%}, is widest."
        links = link_list(one)["links"]
        drawn[f"loads-{method}"] = loaded_figure(
            one.matrix.network, links, of="utilisation", caption=caption
        )
    return drawn
