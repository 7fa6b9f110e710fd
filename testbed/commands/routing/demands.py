"""``testbed demands``: all pairs of a network at once; what each routing loads, lets through and asks for in
redundancy."""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from testbed.commands.answer import Answer
from testbed.commands.arguments import add_answer_options, add_options, adder, read_options
from testbed.errors import InputError
from testbed.model.code_description import describe_coding
from testbed.model.options import kinds
from testbed.model.options.option import ENDS, ROUTED, RUN, SENT, Only
from testbed.renamed import renames
from testbed.report.answers import Part, table_of_rows
from testbed.report.column_units import seconds_in_words
from testbed.report.comparison import Comparison, compare_methods, draw_comparison
from testbed.report.drawing.session_figures import loaded_figure
from testbed.report.progress_bar import spinner
from testbed.report.wording import counted
from testbed.routing.redundancy.coding import Coding, RatedCoding
from topologies import JsonObject, Network, label_of, link_fields, load_network
from topologies.files.formats import read_topohub_demands

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from testbed.routing.demands.matrix import DemandMatrix, RoutedDemands

MOST_DRAWN = 4
"""Methods whose loads are drawn."""
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
    """Every routing beside the optimum; exit code 1 where the independent check of a routing fails. Bad input raises
    InputError or TopologyError."""
    from testbed.routing.demands.methods import USUAL_METHODS, demand_routing

    coding = read_options(args, RatedCoding)
    methods = args.method or list(USUAL_METHODS)
    for method in methods:
        demand_routing(method)
    network = load_network(args.network)
    matrix = read_matrix(network, args)
    with spinner(_announced(len(matrix.pairs), len(methods), coding)):
        document, routed = demands_document(matrix, methods, coding, args)
    sound = all(not one["violations"] for one in document["methods"])
    title = f"{network.name}: {counted(len(matrix.pairs), 'demand')}, {matrix.name}"
    drawn, former = partial(_figures, document, routed), renames("Keys of JSON", "demands")
    return Answer(document, partial(_show, document), 0 if sound else 1, former, title, drawn)


def _announced(pairs: int, methods: int, coding: Coding) -> str:
    """What is to be done, and where orders of labels are sought, how long that may take."""
    said = (
        f"{counted(pairs, 'pair')} by {counted(methods, 'method')}, ROR for {coding.labels} labels"
    )
    if coding.labels == "random":
        return said
    return f"{said} (up to {seconds_in_words(LAYOUT_S * pairs * methods)}; --label-order random: at once)"


def read_matrix(network: Network, args: argparse.Namespace) -> DemandMatrix:
    """The matrix of --matrix, --end-points and --total-rate."""
    from testbed.routing.demands.matrix import given_matrix, gravity_matrix, uniform_matrix
    from testbed.routing.demands.matrix_files import read_matrix_file

    ends = [node.id for node in (network.hosts if args.between == "hosts" else network.switches)]
    if args.matrix in ("uniform", "gravity"):
        if len(ends) < 2:
            raise InputError(
                f"network {network.name!r} has {len(ends)} {args.between}; choose other ends by --end-points"
            )
        matrix = (uniform_matrix if args.matrix == "uniform" else gravity_matrix)(network, ends)
    elif args.matrix == "own":
        family, _, key = args.network.partition(":")
        demands = read_topohub_demands(key) if family == "topohub" else {}
        if not demands:
            raise InputError(
                f"--matrix own: {args.network} has no demands; take one of topohub:sndlib/..., or --matrix gravity"
            )
        matrix = given_matrix(network, "own", demands)
    else:
        hint = "give uniform, gravity, own or a file of demands"
        matrix = read_matrix_file(args.matrix, network, hint)
    return matrix if args.total is None else matrix.scaled_to(args.total)


def demands_document(
    matrix: DemandMatrix, methods: Sequence[str], coding: Coding, args: argparse.Namespace
) -> tuple[JsonObject, dict[str, RoutedDemands]]:
    """The object of ``testbed demands --json``, and what each method routes."""
    from testbed.routing.demands.matrix import checked
    from testbed.routing.demands.methods import timed_routings
    from testbed.routing.demands.redundancy import unavoidable_links

    every = list(dict.fromkeys(("optimum", "capillary", *methods)))
    timed = {
        name: (routed, s)
        for name, routed, s in timed_routings(matrix, every, args.seed, time.perf_counter)
    }
    optimum, forced = timed["optimum"][0], unavoidable_links(timed["capillary"][0])
    rated, found = [], {}
    for method in methods:
        found[method], taken = timed[method]
        rated.append(
            _rated(found[method], method, taken, optimum, (coding, forced))
            | _link_list(found[method], args.links)
        )
    best = checked(optimum)
    document = {
        "network": matrix.network.name,
        "matrix": matrix.name,
        "pairs": len(matrix.pairs),
        "left_out": matrix.left_out,
        "total_bps": matrix.total_bps,
        "forced_pairs": int((forced.sum(axis=1) > 0).sum()),
        "optimum": {
            "utilisation": best.utilisation,
            "bound": best.bound,
            "proved": best.bound >= best.utilisation * (1 - 1e-5),
        },
        "coding": {
            "tolerance": coding.tolerance,
            "m": coding.source_packets,
            "der": coding.decoding_error_rate,
        }
        | {"labels": coding.labels, "large_blocks": coding.large_blocks},
        "methods": rated,
    }
    return document, found


def _rated(
    routed: RoutedDemands,
    method: str,
    seconds: float,
    optimum: RoutedDemands,
    rating: tuple[Coding, csr_array],
) -> JsonObject:
    from testbed.routing.demands.matrix import checked, fair_rates
    from testbed.routing.demands.redundancy import total_ror

    found, redundancy = checked(routed), total_ror(routed, *rating)
    rates = fair_rates(routed)
    return {
        "method": method,
        "utilisation": routed.greatest_utilisation,
        "over_optimum": routed.greatest_utilisation / optimum.greatest_utilisation,
        "mean_links": float(routed.loads_bps.sum()) / routed.matrix.total_bps,
        "throughput_bps": float(rates.sum()),
        "least_rate": float((rates / routed.matrix.rates).min()),
        "ror": None if redundancy.exposed else redundancy.total,
        "ror_of_others": redundancy.of_others,
        "ror_weighted": None if redundancy.exposed else redundancy.weighted,
        "exposed_pairs": redundancy.exposed,
        "seconds": round(seconds, 4),
        "violations": list(found.violations),
    }


def _link_list(routed: RoutedDemands, required: bool) -> JsonObject:
    if not required:
        return {}

    rows = zip(
        routed.matrix.network.links,
        routed.loads_bps.tolist(),
        routed.utilisations.tolist(),
        strict=True,
    )
    return {
        "links": [
            link_fields(link.id) | {"load_bps": load, "utilisation": used}
            for link, load, used in rows
        ]
    }


def _show(document: JsonObject) -> Iterator[Part]:
    best, total, links = (
        document["optimum"],
        document["total_bps"],
        "links" in document["methods"][0],
    )
    left_out = (
        f", {counted(document['left_out'], 'pair')} that no path joins left out"
        if document["left_out"]
        else ""
    )
    yield (
        f"{document['network']}, {document['matrix']}: {counted(document['pairs'], 'pair')}, {total / 1e6:.4g} Mbit/s{left_out}; "
        + (
            "optimum {:.6f}, proved lower bound {:.6f}"
            if best["proved"]
            else "optimum {:.6f}, NOT proved: bound {:.6f}"
        ).format(best["utilisation"], best["bound"])
    )
    rows = [
        {
            "method": one["method"],
            "MLU": round(one["utilisation"], 6),
            "/optimum": round(one["over_optimum"], 6),
            "fair": one["throughput_bps"] / total * best["utilisation"],
            "exposed": one["exposed_pairs"],
            "ROR": math.inf if one["ror"] is None else one["ror"],
            "of the others": one["ror_of_others"],
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


def _compared(document: JsonObject) -> Comparison | None:
    fields = ("utilisation", "throughput_bps", "ror_of_others", "exposed_pairs")
    return compare_methods("demands", document["methods"], fields)


def _figures(document: JsonObject, routed: Mapping[str, RoutedDemands]) -> JsonObject:
    """The methods beside each other, and how full each makes the links."""
    compared = _compared(document)
    drawn = {} if compared is None else {"methods": draw_comparison(compared, "methods")}
    for method, one in list(routed.items())[:MOST_DRAWN]:
        caption = f"{method}: how full each link is, as wide; the fullest, {one.greatest_utilisation:.1%}, is widest."
        links = _link_list(one, True)["links"]
        drawn[f"loads-{method}"] = loaded_figure(
            one.matrix.network, links, of="utilisation", caption=caption
        )
    return drawn
