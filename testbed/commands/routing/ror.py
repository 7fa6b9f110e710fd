"""``testbed ror``: redundancy that a routing requires of the sender, link by link.

One or several routing methods are evaluated for one flow.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from operator import itemgetter

from testbed.commands.answer import Answer
from testbed.commands.arguments import add_answer_options, add_options, adder, read_options
from testbed.commands.parsing import read_ends
from testbed.commands.routing.route import MAX_DIGITS, route_figures
from testbed.model.code_description import describe_coding
from testbed.model.options import kinds
from testbed.model.options.option import CODE, ENDS, FAULTS, ROUTED, RUN, Only
from testbed.model.studies.samples import grouped
from testbed.report.answers import Part, Table, table_of_rows
from testbed.report.column_units import cell
from testbed.report.comparison import Comparison, compare_methods, draw_comparison
from testbed.routing import route_by_name, routing_method
from testbed.routing.redundancy.coding import RatedCoding
from testbed.routing.redundancy.ror_document import (
    CODES,
    failure_durations,
    full_method_name,
    ror_document,
)
from topologies import Json, JsonObject, Network, label_of, load_network

DESCRIPTION = (
    "Compute the redundancy overall requirement (ROR): the sum, over the links of a route, of "
    "the extra packets that the sender needs while that link is down. It is infinite if a link "
    "carries the whole flow. Methods are those of testbed route, and least-fec (the route with "
    "the lowest ROR for large blocks at the given tolerance)."
)
_RANDOM = "ROR, random labels"
# Columns that a narrow terminal leaves out first.
_SPARE = ("largest load", _RANDOM, "worst overhead", "links")


def _is_capillary(args: argparse.Namespace) -> bool:
    return "capillary" in (args.method or ["capillary"])


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command to its parser."""
    add = adder(parser)
    add(
        "network",
        metavar="NETWORK",
        help="network: a catalogue name (swiss-t1, manet:nodes=115, ...) or a file",
    )
    add = adder(parser, ENDS)
    add(
        "--from",
        dest="source",
        required=True,
        metavar="NODE",
        help="source of the flow",
    )
    add(
        "--to",
        dest="sink",
        required=True,
        metavar="NODE",
        help="sink of the flow",
    )
    add = adder(parser, ROUTED)
    add(
        "--routing",
        dest="method",
        action="append",
        metavar="METHOD",
        help="routing method (default: capillary; repeatable)",
    )
    add(
        "--layers",
        type=kinds.count,
        metavar="K",
        help="use only the first K layers (capillary routing only)",
        only=Only(when=_is_capillary, needs="--routing capillary"),
    )
    add_options(parser, RatedCoding)
    add = adder(parser, CODE)
    add(
        "--code",
        choices=CODES,
        default="any",
        help="refuse blocks that are too long for this erasure code (default: any)",
    )
    _add_faults(parser)
    add = adder(parser, RUN)
    add(
        "--show-links",
        dest="links",
        action="store_true",
        help="also list every link of each route",
    )
    add_answer_options(parser)


def _add_faults(parser: argparse.ArgumentParser) -> None:
    add = adder(parser, FAULTS)
    add(
        "--down",
        dest="failed",
        action="append",
        default=[],
        metavar="LINK",
        help="also compute the loss while this link (a-b) and the other --down links fail "
        "together (repeatable)",
    )
    add(
        "--failure-duration",
        dest="failure_s",
        type=kinds.interval,
        metavar="TIME",
        help="duration of each failure; with --failure-interval, overlapping failures are "
        "weighted by their probability",
    )
    add(
        "--failure-interval",
        dest="between_s",
        type=kinds.interval,
        metavar="TIME",
        help="mean time between two failures of a link",
    )


def run(args: argparse.Namespace) -> Answer:
    """Compute the ROR of each method, link by link.

    Raises:
        InputError, TopologyError: The input is bad.
    """
    coding = read_options(args, RatedCoding)
    durations = failure_durations(args.failure_s, args.between_s)
    methods = args.method or ["capillary"]
    full_names: dict[str, str] = {}
    for method in methods:
        layers = None
        if method == "capillary":
            layers = args.layers
        full_names[method] = full_method_name(method, coding, layers)
    # A wrong method is reported before the network is read, which may take long.
    for name in full_names.values():
        routing_method(name)
    network = load_network(args.network)
    read_ends(args, network)
    documents: list[JsonObject] = []
    for method, name in full_names.items():
        route = route_by_name(network, args.source, args.sink, name)
        document = ror_document(
            route, method, coding, code=args.code, failed=args.failed, durations=durations
        )
        documents.append(document)
    for document in documents:
        if document["note"]:
            print(f"note: {document['method']}: {document['note']}", file=sys.stderr)
    return Answer(
        documents[0] if len(documents) == 1 else {"methods": documents},
        partial(_show, documents, args.links),
        title=f"{network.name}, {args.source} to {args.sink}: redundancy of {', '.join(methods)}",
        figures=partial(_figures, network, documents),
    )


def _show(documents: list[JsonObject], every_link: bool) -> Iterator[Part]:
    """Yield the comparison of several methods, then the ROR of each method and its parts."""
    if (comparison := _compared(documents)) is not None:
        summary = _summary(documents)
        yield _best(summary, documents[0])
        yield table_of_rows(summary, "methods", title="methods", spare=_SPARE, summary=True)
        yield comparison.as_table()
    for document in documents:
        yield _ror_line(document)
        if comparison is None and not every_link:
            yield _terms(document)
        yield _links(document, shown=every_link)
        for name in ("failure", "overlap"):
            if name in document:
                yield f"{name}: {_values_text(document[name])}"
    yield describe_coding(documents[0]) + _sizes_at_rest(documents)
    if not every_link:
        yield "--show-links lists every link"


def _values_text(values: Json) -> str:
    """Return keys and values in a line, floats with six digits."""
    texts: list[str] = []
    for key, value in values.items():
        if isinstance(value, float):
            texts.append(f"{key} {value:.6g}")
        else:
            texts.append(f"{key} {value}")
    return ", ".join(texts)


def _sizes_at_rest(documents: Sequence[Json]) -> str:
    """Return the block size without failures, of each method if they differ."""
    sizes = {document["method"]: f"{document['fec_tolerance']:.6g}" for document in documents}
    if len(set(sizes.values())) == 1:
        return f"; N without failures {next(iter(sizes.values()))}"
    listed = ", ".join(f"{size} ({method})" for method, size in sizes.items())
    return f"; N without failures {listed}"


def _terms(document: Json) -> Table:
    """Return the terms of the ROR: a row for all links with the same load and block size.

    The overheads in the last column add up to the ROR.
    """
    groups = grouped(document["per_link"], ("load", "block_size", "overhead"))
    rows: list[tuple[int, str, object, float, float]] = []
    for (load, size, overhead), links in groups.items():
        each = _overhead(overhead)
        shown_load = load
        if len(load) > MAX_DIGITS:
            shown_load = cell(float(load))
        rows.append((len(links), shown_load, size, each, each * len(links)))
    rows.sort(key=itemgetter(3), reverse=True)
    headings = ("links", "load of each", "block size N", "overhead of each", "of all")
    return Table(name="terms", headings=headings, rows=rows, summary=True)


def _links(document: Json, *, shown: bool) -> Table:
    """Return the table of links. If it is not shown on the terminal, it is on the page."""
    ends = f"{document['source']} -> {document['sink']}"
    title = f"{document['method']} route {ends} over {document['network']}"
    rows: list[JsonObject] = []
    for link in document["per_link"]:
        row: JsonObject = {
            "link": _link_name(link),
            "load": link["load_float"],
            "block size N": link["block_size"],
        }
        if document["labels"] == "stratified":
            row["least any order needs"] = link["block_size_lower_bound"]
        row["overhead"] = _overhead(link["overhead"])
        rows.append(row)
    table = table_of_rows(rows, "links", title=title, spare=("least any order needs", "load"))
    return replace(table, wide=not shown)


def _link_name(link: Json) -> str:
    return label_of((link["source"], link["target"], link["key"]))


def _best(summary: Sequence[Json], document: Json) -> str:
    """Return the line with the method of lowest ROR.

    If another method is better with random labels, the line names that one too.
    """
    best = min(summary, key=itemgetter("ROR"))
    if math.isinf(best["ROR"]):
        return "every route has a link that carries the whole flow: ROR infinite"
    line = f"least redundancy: {best['method']}, ROR {cell(best['ROR'])}{_with_labels(document)}"
    if _RANDOM in best:
        best_random = min(summary, key=itemgetter(_RANDOM))
        if best_random[_RANDOM] < best[_RANDOM]:
            line += f"; with random labels {best_random['method']}, {cell(best_random[_RANDOM])}"
    return line


def _with_labels(document: Json) -> str:
    """Return for which labels, or by which equation, the ROR was computed."""
    if document["large_blocks"]:
        return " (large blocks, equation 29)"
    return f" ({document['labels']} labels)"


def _ror(document: Json) -> float:
    """Return the ROR for the order of labels, without the links that carry everything."""
    ror = document["ror_label_order"]
    if ror is None:
        ror = document["ror_eq23"]
    return float(ror)


def _summary(documents: Sequence[Json]) -> list[JsonObject]:
    """Return a row per method: its ROR, the link with the highest overhead, and its links."""
    rows: list[JsonObject] = []
    for document in documents:
        links = document["per_link"]
        worst = max(links, key=lambda link: _overhead(link["overhead"]))
        row: JsonObject = {"method": document["method"]}
        row["ROR"] = _ror(document)
        if document["ror_label_order"] is not None:
            row[_RANDOM] = document["ror_eq23"]
        # These figures leave out the links that carry everything.
        if document["ror"] is None:
            for key in row.keys() & {"ROR", _RANDOM}:
                row[key] = math.inf
        row["worst link"] = _link_name(worst)
        row["worst overhead"] = _overhead(worst["overhead"])
        row["links"] = len(links)
        row["largest load"] = max(link["load_float"] for link in links)
        rows.append(row)
    return rows


def _overhead(overhead: float | None) -> float:
    """Return an overhead of a JSON document, in which null stands for infinity."""
    return math.inf if overhead is None else overhead


def _compared(documents: Sequence[Json]) -> Comparison | None:
    return compare_methods("ror", _summary(documents), ("ROR", _RANDOM, "worst overhead", "links"))


def _figures(network: Network, documents: Sequence[Json]) -> JsonObject:
    """Draw a comparison of several methods, and the loads of each method on the network."""
    figures: JsonObject = {}
    comparison = _compared(documents)
    if comparison is not None:
        figures["methods"] = draw_comparison(comparison, "methods")
    return {**figures, **route_figures(network, documents, "per_link")}


def _ror_line(document: Json) -> str:
    """Return the line with the ROR of a method. The ROR for its order of labels comes first."""
    text = f"{cell(_ror(document))}{_with_labels(document)}"
    if document["ror_label_order"] is not None:
        text += f"; {cell(document['ror_eq23'])} with random labels (equation 23)"
    full_links = document["infinite_links"]
    if full_links:
        carry = "carries" if len(full_links) == 1 else "carry"
        text = (
            f"infinite: {', '.join(full_links)} {carry} the whole flow, so no code survives the "
            f"failure; of the other links {text}"
        )
    return f"{document['method']}: ROR {text}"
