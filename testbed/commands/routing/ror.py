"""``testbed ror``: the redundancy that a routing of a flow asks its sender for, link by link, for one method or
several."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

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
    "Redundancy overall requirement (ROR): the sum, over the links of a route, of the extra packets that the sender "
    "needs while that link is down. Infinite where a link carries everything. Methods: those of testbed route, and "
    "least-fec (the route of least ROR for large blocks at the given tolerance)."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Those of the command."""
    add, ends, routed, coded, failing, running = (
        adder(parser, group) for group in (None, ENDS, ROUTED, CODE, FAULTS, RUN)
    )
    add(
        "network",
        metavar="NETWORK",
        help="a catalogue name (swiss-t1, manet:nodes=115, ...) or a file",
    )
    ends("--from", dest="source", required=True, metavar="NODE", help="where the flow starts")
    ends("--to", dest="sink", required=True, metavar="NODE", help="where it ends")
    routed(
        "--routing",
        dest="method",
        action="append",
        metavar="METHOD",
        help="how to split it (default capillary); may be repeated",
    )
    routed(
        "--layers",
        type=kinds.count,
        metavar="K",
        help="capillary: only the first K layers",
        only=Only(
            when=lambda a: "capillary" in (a.method or ["capillary"]), needs="--routing capillary"
        ),
    )
    add_options(parser, RatedCoding)
    coded(
        "--code",
        choices=CODES,
        default="any",
        help="refuse blocks too long for the code",
    )
    failing(
        "--down",
        dest="failed",
        action="append",
        default=[],
        metavar="LINK",
        help="also the loss while LINK (a-b) and all others given are down",
    )
    failing(
        "--failure-duration",
        dest="failure_s",
        type=kinds.interval,
        metavar="TIME",
        help="with --failure-interval: weigh overlapping failures that last TIME each",
    )
    failing(
        "--failure-interval",
        dest="between_s",
        type=kinds.interval,
        metavar="TIME",
        help="mean time between two failures of one link",
    )
    running(
        "--show-links", dest="links", action="store_true", help="list every link of each route too"
    )
    add_answer_options(parser)


def run(args: argparse.Namespace) -> Answer:
    """ROR link by link; bad input raises InputError or TopologyError."""
    coding = read_options(args, RatedCoding)
    durations = failure_durations(args.failure_s, args.between_s)
    methods = args.method or ["capillary"]
    names = {}
    for method in methods:
        layers = args.layers if method == "capillary" else None
        names[method] = full_method_name(method, coding, layers)
    for name in names.values():
        routing_method(name)  # a wrong method is reported before the network is read
    network = load_network(args.network)
    read_ends(args, network)
    documents = []
    for method, name in names.items():
        route = route_by_name(network, args.source, args.sink, name)
        documents.append(
            ror_document(
                route,
                method,
                coding,
                code=args.code,
                failed=args.failed,
                durations=durations,
            )
        )
    whole = documents[0] if len(documents) == 1 else {"methods": documents}
    for document in documents:
        if document["note"]:
            print(f"note: {document['method']}: {document['note']}", file=sys.stderr)
    title = f"{network.name}, {args.source} to {args.sink}: redundancy of {', '.join(methods)}"
    drawn = partial(_figures, network, documents)
    show = partial(_show, documents, args.links)
    return Answer(whole, show, title=title, figures=drawn)


def _show(documents: list[JsonObject], every_link: bool) -> Iterator[Part]:
    """The answer, of several methods their comparison, then what makes up each ROR."""
    if (methods := _compared(documents)) is not None:
        summary = _summary(documents)
        yield _best(summary, documents[0])
        yield table_of_rows(summary, "methods", title="methods", spare=_SPARE, summary=True)
        yield methods.as_table()
    for document in documents:
        yield _answer(document)
        if methods is None and not every_link:
            yield _terms(document)
        yield _links(document, shown=every_link)
        for name in ("failure", "overlap"):
            if name in document:
                yield f"{name}: " + ", ".join(
                    f"{key} {value:.6g}" if isinstance(value, float) else f"{key} {value}"
                    for key, value in document[name].items()
                )
    yield describe_coding(documents[0]) + _sizes_at_rest(documents)
    if not every_link:
        yield "--show-links lists every link"


def _sizes_at_rest(documents: Sequence[Json]) -> str:
    """Return the block size without failures, of each method if they differ."""
    sizes = {document["method"]: f"{document['fec_tolerance']:.6g}" for document in documents}
    if len(set(sizes.values())) == 1:
        return f"; N without failures {next(iter(sizes.values()))}"
    listed = ", ".join(f"{size} ({method})" for method, size in sizes.items())
    return f"; N without failures {listed}"


def _terms(document: Json) -> Table:
    """Links of one load and block size in a row; their overheads add up to the ROR."""
    groups = grouped(document["per_link"], ("load", "block_size", "overhead"))
    rows = []
    for (load, size, overhead), links in groups.items():
        each = _finite(overhead)
        shown = load if len(load) <= MAX_DIGITS else cell(float(load))
        rows.append((len(links), shown, size, each, each * len(links)))
    rows.sort(key=lambda row: row[3], reverse=True)
    headings = ("links", "load of each", "block size N", "overhead of each", "of all")
    return Table(name="terms", headings=headings, rows=rows, summary=True)


def _links(document: Json, *, shown: bool) -> Table:
    title = f"{document['method']} route {document['source']} -> {document['sink']} over {document['network']}"
    rows = []
    for one in document["per_link"]:
        row = {
            "link": label_of((one["source"], one["target"], one["key"])),
            "load": one["load_float"],
            "block size N": one["block_size"],
        }
        if document["labels"] == "stratified":
            row["least any order needs"] = one["block_size_lower_bound"]
        rows.append(row | {"overhead": _finite(one["overhead"])})
    table = table_of_rows(rows, "links", title=title, spare=("least any order needs", "load"))
    return replace(table, wide=not shown)


_RANDOM = "ROR, random labels"
_SPARE = ("largest load", _RANDOM, "worst overhead", "links")


def _best(summary: Sequence[Json], document: Json) -> str:
    """Return the line that names the method of least ROR, for random labels too if that is another."""
    best = min(summary, key=lambda row: row["ROR"])
    if math.isinf(best["ROR"]):
        return "every route has a link that carries the whole flow: ROR infinite"
    line = f"least redundancy: {best['method']}, ROR {cell(best['ROR'])}{_with_labels(document)}"
    if _RANDOM in best:
        other = min(summary, key=lambda row: row[_RANDOM])
        if other[_RANDOM] < best[_RANDOM]:
            line += f"; with random labels {other['method']}, {cell(other[_RANDOM])}"
    return line


def _with_labels(document: Json) -> str:
    """Return for which labels, or by which equation, the ROR is."""
    if document["large_blocks"]:
        return " (large blocks, equation 29)"
    return f" ({document['labels']} labels)"


def _ror(document: Json) -> float:
    """Return the ROR of the label order in use, without the links that carry everything."""
    order = document["ror_label_order"]
    ror: float = document["ror_eq23"] if order is None else order
    return ror


def _summary(documents: Sequence[Json]) -> list[JsonObject]:
    """A row a method: its redundancy, the link that asks for most, how many links it loads."""
    rows = []
    for document in documents:
        links, forced = document["per_link"], document["ror"] is None
        worst = max(links, key=lambda one: _finite(one["overhead"]))
        row = {"method": document["method"], "ROR": math.inf if forced else _ror(document)}
        if document["ror_label_order"] is not None:
            row[_RANDOM] = math.inf if forced else document["ror_eq23"]
        row["worst link"] = label_of((worst["source"], worst["target"], worst["key"]))
        row |= {"worst overhead": _finite(worst["overhead"]), "links": len(links)}
        rows.append(row | {"largest load": max(one["load_float"] for one in links)})
    return rows


def _finite(overhead: float | None) -> float:
    """What JSON writes as null: infinite."""
    return math.inf if overhead is None else overhead


def _compared(documents: Sequence[Json]) -> Comparison | None:
    return compare_methods("ror", _summary(documents), ("ROR", _RANDOM, "worst overhead", "links"))


def _figures(network: Network, documents: Sequence[Json]) -> JsonObject:
    """Several methods beside each other, and the loads of each on the network."""
    routes = route_figures(network, documents, "per_link")
    compared = _compared(documents)
    return (
        routes if compared is None else {"methods": draw_comparison(compared, "methods"), **routes}
    )


def _answer(document: Json) -> str:
    """The redundancy of one method in a line: the ROR of the label order in use comes first."""
    forced = document["infinite_links"]
    both = document["ror_label_order"] is not None
    random = f"; {cell(document['ror_eq23'])} with random labels (equation 23)" if both else ""
    figure = f"{cell(_ror(document))}{_with_labels(document)}{random}"
    if forced:
        carry = "carries" if len(forced) == 1 else "carry"
        figure = (
            f"infinite: {', '.join(forced)} {carry} the whole flow, so no code survives the failure; "
            f"of the other links {figure}"
        )
    return f"{document['method']}: ROR {figure}"
