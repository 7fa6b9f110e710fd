"""``testbed route``: the exact fractions into which a routing method splits a flow."""

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import SupportsFloat, TypeVar

from testbed.commands.answer import Answer
from testbed.commands.arguments import add_answer_options, adder
from testbed.commands.parsing import read_ends
from testbed.errors import InputError
from testbed.model.naming.names import read_pair
from testbed.model.options import kinds
from testbed.model.options.option import ENDS, ROUTED, Only
from testbed.model.route_names import list_routes
from testbed.model.routes import SplitRoute
from testbed.report.answers import Part, Table
from testbed.report.column_units import cell, column
from testbed.report.drawing.stream_figures import loaded_figure
from testbed.report.wording import counted
from testbed.routing import capillary_route, routing_method
from topologies import Json, JsonObject, Network, label_of, link_fields, load_network

L = TypeVar("L", bound=SupportsFloat)
DESCRIPTION = (
    f"Compute what fraction of one flow each directed link carries. Methods: {list_routes()}. "
    "Loads are exact fractions (--float: floats); utilisation is load over capacity relative to "
    "the network's largest capacity."
)
# A longer fraction, such as a solver returns, is shown as a decimal number.
MAX_DIGITS = 24
# Number of flows that the title names.
_TITLE_PAIRS = 4


def _is_capillary(args: argparse.Namespace) -> bool:
    return bool(args.method.partition(":")[0] == "capillary")


CAPILLARY = Only(when=_is_capillary, needs="--routing capillary")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command to its parser."""
    add = adder(parser)
    add(
        "network",
        metavar="NETWORK",
        help="network: a catalogue name (swiss-t1, torus:8x8, ...) or a file",
    )
    _add_ends(parser)
    add = adder(parser, ROUTED)
    add(
        "--float",
        dest="floats",
        action="store_true",
        help="compute capillary loads in floats, which is many times faster",
    )
    add(
        "--routing",
        dest="method",
        default="capillary",
        metavar="METHOD",
        help="routing method (default: capillary)",
    )
    add(
        "--layers",
        type=kinds.count,
        metavar="K",
        help="use only the first K layers (capillary routing only)",
        only=CAPILLARY,
    )
    add(
        "--certify",
        action="store_true",
        help="check the certificate of the full capillary route",
    )
    add_answer_options(parser)


def _add_ends(parser: argparse.ArgumentParser) -> None:
    add = adder(parser, ENDS)
    add(
        "--from",
        dest="source",
        metavar="NODE",
        help="source of the flow",
    )
    add(
        "--to",
        dest="sink",
        metavar="NODE",
        help="sink of the flow",
    )
    add(
        "--flow",
        dest="also",
        action="append",
        default=[],
        metavar="A:B",
        help="another flow of one unit from A to B (repeatable)",
    )


def run(args: argparse.Namespace) -> Answer:
    """Compute the routes. The exit code is 1 if a requested certificate is refused."""
    if (args.source is None) != (args.sink is None) or (args.source is None and not args.also):
        raise InputError("no flow; give --from NODE --to NODE, or --flow A:B (repeatable)")
    if args.floats and (args.method != "capillary" or args.layers or args.certify):
        raise InputError(
            "--float computes the full capillary route, without --layers and --certify; "
            "leave those out"
        )
    # A wrong method is reported before the network is read, which may take long.
    route_flow = routing_method(args.method, args.layers)
    network = load_network(args.network)
    read_ends(args, network)
    pairs: list[tuple[str, str]] = []
    if args.source is not None:
        pairs.append((args.source, args.sink))
    pairs += [read_pair(text, network, "--flow") for text in args.also]
    if args.floats:
        documents = _float_documents(network, pairs)
    else:
        requested = args.method
        if args.layers:
            requested = f"capillary:{args.layers}"
        documents = []
        for source, sink in pairs:
            route = route_flow(network, source, sink)
            document = route_document(route, requested)
            if args.certify:
                document["certificate"] = _certify(route)
            documents.append(document)
    refused = False
    for document in documents:
        if "certificate" in document and not document["certificate"]["valid"]:
            refused = True
    flows = ", ".join(f"{source} to {sink}" for source, sink in pairs[:_TITLE_PAIRS])
    return Answer(
        documents[0] if len(documents) == 1 else {"routes": documents},
        partial(_show, network, documents),
        exit_code=1 if refused else 0,
        title=f"{network.name}, {flows}: {args.method} route",
        figures=partial(route_figures, network, documents),
    )


def _float_documents(network: Network, pairs: Sequence[tuple[str, str]]) -> list[JsonObject]:
    """Return the JSON object of each flow for ``--float``: loads in floats, and no layers."""
    from testbed.routing.capillary.kernel import FloatRouter

    router = FloatRouter(network)
    documents: list[JsonObject] = []
    for source, sink in pairs:
        loads = router.loads(source, sink).tolist()
        links = _link_rows(network, loads, [0] * len(loads), repr)
        if not links:
            raise InputError(
                f"--float: capacities of {network.name!r} differ too much for floats; leave it out"
            )
        document: JsonObject = {
            "network": network.name,
            "source": source,
            "sink": sink,
            "method": "capillary",
            "note": None,
            "links": links,
            "layers": [],
        }
        documents.append(document)
    return documents


def route_document(route: SplitRoute, requested: str) -> JsonObject:
    """Return the JSON object of a route.

    Its ``note`` is a line of text if the route is less than what was requested, because there are
    too few disjoint paths. Otherwise it is None.

    Args:
        route: The route.
        requested: The method as the user named it.
    """
    network = route.network
    layers = route.link_layers or (0,) * len(route.loads)
    layer_documents: list[JsonObject] = []
    for layer in route.layers:
        document: JsonObject = {
            "load": str(layer.load),
            "load_float": float(layer.load),
            "factor": str(layer.factor),
            "factor_float": float(layer.factor),
            "bottlenecks": [link_fields(link) for link in layer.bottlenecks],
        }
        layer_documents.append(document)
    return {
        "network": network.name,
        "source": route.source,
        "sink": route.sink,
        "method": requested,
        "note": _missing_paths(route, requested),
        "links": _link_rows(network, route.loads, layers, str),
        "layers": layer_documents,
    }


def _link_rows(
    network: Network, loads: Sequence[L], layers: Sequence[int], write: Callable[[L], str]
) -> list[JsonObject]:
    """Return a JSON object for each link with a load.

    Args:
        network: The network.
        loads: The load of each link.
        layers: The capillary layer of each link, 0 for none.
        write: Converts a load to text.
    """
    largest_bps = max((link.capacity_bps for link in network.links), default=1.0)
    rows: list[JsonObject] = []
    for link, load, layer in zip(network.links, loads, layers, strict=True):
        if float(load) > 0:
            fields: JsonObject = {**link_fields(link.id)}
            fields |= {"load": write(load), "load_float": float(load)}
            fields |= {"utilisation": float(load) * largest_bps / link.capacity_bps, "layer": layer}
            rows.append(fields)
    return rows


def _missing_paths(route: SplitRoute, requested: str) -> str | None:
    """Return a note if there are fewer disjoint paths than requested, or None."""
    name, _, number = requested.replace("disjoint-2", "disjoint:2").partition(":")
    if name != "disjoint" or route.method == f"disjoint:{int(number)}":
        return None
    existing = route.method.partition(":")[2]
    if existing == "1":
        return "only 1 link-disjoint path exists"
    return f"only {existing} link-disjoint paths exist"


def _certify(route: SplitRoute) -> JsonObject:
    """Check a capillary route, and return the JSON object of its certificate.

    A full route is checked by its certificate. The first K layers are compared with the full route,
    which is checked by its certificate.
    """
    from testbed.routing.capillary.certificate import check_certificate

    if route.method.partition(":")[0] != "capillary":
        raise InputError(
            f"--certify: requires capillary routes, not {route.method!r}; leave it out"
        )
    full = route
    if route.method != "capillary":
        full = capillary_route(route.network, route.source, route.sink)
    certificate = check_certificate(full.network, full.source, full.sink, full.loads)
    violations = list(certificate.violations)
    if full is not route:
        violations += _layer_violations(route, full)
    return {"valid": not violations, "levels": len(certificate.levels), "violations": violations}


def _layer_violations(route: SplitRoute, full: SplitRoute) -> Iterator[str]:
    """Yield the links on which the first K layers disagree with the full route."""
    lowest = float(route.layers[-1].load)
    for i, (layer, full_layer) in enumerate(zip(route.link_layers, full.link_layers, strict=True)):
        load = route.loads[i]
        link = f"link {route.network.links[i].label}"
        if layer:
            if layer != full_layer or load != full.loads[i]:
                yield f"{link}: its load {load} is not that of layer {layer}"
        # Fractions are exact, but utilisations are floats.
        elif route.utilisations[i] > lowest * (1 + 1e-12):
            yield f"{link}: its load {load} is above the last layer's"


@dataclass(frozen=True)
class _UseColumn:
    """The column of a table with the use of each link's capacity.

    Attributes:
        heading: The heading.
        scale: Factor from a utilisation to per cent of the capacity.
    """

    heading: str
    scale: float


def _show(network: Network, documents: list[JsonObject]) -> Iterator[Part]:
    for document in documents:
        layers = document["layers"]
        ends = f"{document['source']} -> {document['sink']}"
        title = f"{document['method']} route {ends} over {document['network']}"
        use = _use_column(network, document["links"])
        yield _summary(document, use)
        yield _links_table(document, use, title)
        if layers:
            yield _layers_table(document, use, f"layers, {title}")
        if document["note"]:
            yield f"note: {document['note']}"
        if "certificate" in document:
            certificate = document["certificate"]
            levels = f"({certificate['levels']} levels)"
            if certificate["valid"]:
                yield f"certificate: holds {levels}"
            else:
                yield f"certificate: REFUSED {levels}"
            for violation in certificate["violations"]:
                yield f"  {violation}"


def _summary(document: Json, use: _UseColumn | None) -> str:
    """Return the line with the number of links, the highest load, and the link that is full."""
    links = document["links"]
    highest_load = _load_text(max(links, key=itemgetter("load_float")))
    if highest_load in ("1", "1.0"):
        highest_load = "all"
    line = (
        f"{document['source']} -> {document['sink']}: {counted(len(links), 'link')}, "
        f"the busiest carries {highest_load} of the flow"
    )
    if use is not None:
        fullest = max(links, key=itemgetter("utilisation"))
        line += f", {_link_name(fullest)} is full first"
    if document["layers"]:
        line += f"; {counted(len(document['layers']), 'layer')}"
    return line


def _link_name(link: Json) -> str:
    return label_of((link["source"], link["target"], link["key"]))


def _links_table(document: Json, use: _UseColumn | None, title: str) -> Table:
    """Return the table of links. Its stored form has the utilisation as a number."""
    rows: list[list[object]] = []
    stored_rows: list[list[object]] = []
    for link in document["links"]:
        start: list[object] = [_link_name(link), _load_text(link)]
        row = list(start)
        stored_row = [*start, link["utilisation"]]
        if use is not None:
            row.append(link["utilisation"] * use.scale)
        if document["layers"]:
            layer = link["layer"] or "rest"
            row.append(layer)
            stored_row.append(layer)
        rows.append(row)
        stored_rows.append(stored_row)
    headings = ["link", "load"]
    stored_headings = ["link", "load", "utilisation"]
    if use is not None:
        headings.append(use.heading)
    if document["layers"]:
        headings.append("layer")
        stored_headings.append("layer")
    stored = Table(
        name="links",
        title=title,
        headings=stored_headings,
        rows=stored_rows,
    )
    return Table(
        name="links",
        title=title,
        headings=headings,
        rows=rows,
        data=stored,
    )


def _use_column(network: Network, links: Sequence[Json]) -> _UseColumn | None:
    """Return the column with the use of each link, in per cent of its capacity.

    The flow is as large as the route can carry, so that no link is above 100 %. The result is None
    if all links have the same capacity, because the load says the same then.
    """
    if len({link.capacity_bps for link in network.links}) == 1:
        return None
    highest_utilisation = max(link["utilisation"] for link in links)
    flow_bps = max(link.capacity_bps for link in network.links) / highest_utilisation
    heading, factor = column("flow_bps", [flow_bps])
    unit = heading.removeprefix("flow (").removesuffix(")")
    return _UseColumn(
        heading=f"% of capacity at {cell(flow_bps / factor)} {unit}",
        scale=100 / highest_utilisation,
    )


def _layers_table(document: Json, use: _UseColumn | None, title: str) -> Table:
    rows: list[tuple[object, ...]] = []
    for number, layer in enumerate(document["layers"], 1):
        load: object = _load_text(layer)
        if use is not None:
            load = layer["load_float"] * use.scale
        rows.append((number, load, layer["factor"], len(layer["bottlenecks"])))
    headings = ["layer", "load", "factor F", "bottlenecks"]
    if use is not None:
        headings[1] = use.heading
    return Table(
        name="layers", title=title, headings=headings, rows=rows, spare=("factor F",), summary=True
    )


def route_figures(network: Network, documents: Sequence[Json], links: str = "links") -> JsonObject:
    """Draw the loads of each document on the network.

    Args:
        network: The network.
        documents: The JSON objects of routes.
        links: The key of their lists of links.
    """
    figures: JsonObject = {}
    for number, document in enumerate(documents, 1):
        ends = (document["source"], document["sink"])
        caption = f"{document['method']} route from {ends[0]} to {ends[1]}."
        figure = loaded_figure(network, document[links], ends=ends, caption=caption)
        figures[f"route-{number}"] = figure
    return figures


def _load_text(entry: Json) -> str:
    """Return a load as a fraction, or as a decimal number if the fraction is long."""
    fraction = str(entry["load"])
    return fraction if len(fraction) <= MAX_DIGITS else f"{entry['load_float']:.4g}"
