"""``testbed route``: how a flow is split over a network by capillary routing or another method, in exact fractions."""

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
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
    f"Compute what fraction of one flow each directed link carries. Methods: {list_routes()}. Loads are exact "
    "fractions (--float: floats); utilisation is load over capacity relative to the network's largest capacity."
)
MAX_DIGITS = 24
"""Longer fractions (solvers make them) are shown by their float alone."""


CAPILLARY = Only(
    when=lambda a: a.method.partition(":")[0] == "capillary", needs="--routing capillary"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Those of the command."""
    add, ends, routed = (adder(parser, group) for group in (None, ENDS, ROUTED))
    add("network", metavar="NETWORK", help="a catalogue name (swiss-t1, torus:8x8, ...) or a file")
    ends("--from", dest="source", metavar="NODE", help="where the flow starts")
    ends("--to", dest="sink", metavar="NODE", help="where it ends")
    ends(
        "--flow",
        dest="also",
        action="append",
        default=[],
        metavar="A:B",
        help="a further flow of one unit; may be repeated",
    )
    routed(
        "--float",
        dest="floats",
        action="store_true",
        help="capillary loads in floats: many times faster",
    )
    routed(
        "--routing", dest="method", default="capillary", metavar="METHOD", help="how to split it"
    )
    routed(
        "--layers",
        type=kinds.count,
        metavar="K",
        help="keep to the first K capillary layers",
        only=CAPILLARY,
    )
    routed(
        "--certify", action="store_true", help="prove the full capillary route by the certificate"
    )
    add_answer_options(parser)


def run(args: argparse.Namespace) -> Answer:
    """The routes; exit code 1 where a certificate is requested and refused."""
    if (args.source is None) != (args.sink is None) or (args.source is None and not args.also):
        raise InputError(
            "say where the flow starts and ends: --from NODE --to NODE, or --flow A:B (repeatable)"
        )
    if args.floats and (args.method != "capillary" or args.layers or args.certify):
        raise InputError(
            "--float is for the full capillary route, without --layers and --certify: leave those out"
        )
    routing_method(
        args.method, args.layers
    )  # a wrong method is reported before the network is read
    network = load_network(args.network)
    read_ends(args, network)
    pairs = [] if args.source is None else [(args.source, args.sink)]
    pairs += [read_pair(word, network, "--flow") for word in args.also]
    if args.floats:
        documents = _float_documents(network, pairs)
        routes: list[SplitRoute] = []
    else:
        routes = [routing_method(args.method, args.layers)(network, *pair) for pair in pairs]
        requested = f"capillary:{args.layers}" if args.layers else args.method
        documents = [route_document(route, requested) for route in routes]
    if args.certify:
        for route, document in zip(routes, documents, strict=True):
            document["certificate"] = _certify(route)
    certified = all(one.get("certificate", {}).get("valid", True) for one in documents)
    whole = documents[0] if len(documents) == 1 else {"routes": documents}
    title = f"{network.name}, {', '.join(f'{source} to {sink}' for source, sink in pairs[:4])}: {args.method} route"
    drawn = partial(route_figures, network, documents)
    return Answer(
        whole, partial(_show, network, documents), 0 if certified else 1, title=title, figures=drawn
    )


def _float_documents(network: Network, pairs: Sequence[tuple[str, str]]) -> list[JsonObject]:
    """The objects of ``testbed route --float --json``, one a pair: loads in floats, no layers."""
    from testbed.routing.capillary.kernel import FloatRouter

    router, documents = FloatRouter(network), []
    for source, sink in pairs:
        loads = router.loads(source, sink).tolist()
        links = _link_rows(network, loads, [0] * len(loads), repr)
        if not links:
            raise InputError(
                f"--float: capacities of {network.name!r} differ too much for floats; leave it out"
            )
        ends = {"network": network.name, "source": source, "sink": sink, "method": "capillary"}
        documents.append(ends | {"note": None, "links": links, "layers": []})
    return documents


def route_document(route: SplitRoute, requested: str) -> JsonObject:
    """The JSON object of a route; ``asked`` is the method as the user named it.

    ``note`` is one line where the route is less than that: disjoint paths that do not exist. Otherwise None.
    """
    network = route.network
    layers = route.link_layers or (0,) * len(route.loads)
    return {
        "network": network.name,
        "source": route.source,
        "sink": route.sink,
        "method": requested,
        "note": _shortfall(route, requested),
        "links": _link_rows(network, route.loads, layers, str),
        "layers": [
            {
                "load": str(layer.load),
                "load_float": float(layer.load),
                "factor": str(layer.factor),
                "factor_float": float(layer.factor),
                "bottlenecks": [link_fields(link) for link in layer.bottlenecks],
            }
            for layer in route.layers
        ],
    }


def _link_rows(
    network: Network, loads: Sequence[L], layers: Sequence[int], write: Callable[[L], str]
) -> list[JsonObject]:
    """A row a loaded link; ``write`` gives the load as text."""
    largest = max((link.capacity_bps for link in network.links), default=1.0)
    return [
        link_fields(link.id)
        | {"load": write(load), "load_float": float(load)}
        | {"utilisation": float(load) * largest / link.capacity_bps, "layer": layer}
        for link, load, layer in zip(network.links, loads, layers, strict=True)
        if float(load) > 0
    ]


def _shortfall(route: SplitRoute, requested: str) -> str | None:
    name, _, number = requested.replace("disjoint-2", "disjoint:2").partition(":")
    if name == "disjoint" and route.method != f"disjoint:{int(number)}":
        found = route.method.partition(":")[2]
        return f"only {found} link-disjoint path{'s' if found != '1' else ''} exist{'s' if found == '1' else ''}"
    return None


def _certify(route: SplitRoute) -> JsonObject:
    """Full routes by their own certificate; K layers by the full route's, with which the K layers must agree."""
    from testbed.routing.capillary.certificate import check_certificate

    if route.method.partition(":")[0] != "capillary":
        raise InputError(
            f"--certify: requires capillary routes, not {route.method!r}; leave it out"
        )
    full = (
        route
        if route.method == "capillary"
        else capillary_route(route.network, route.source, route.sink)
    )
    found = check_certificate(full.network, full.source, full.sink, full.loads)
    violations = list(found.violations)
    if full is not route:
        lowest = float(route.layers[-1].load)
        for i, (layer, true) in enumerate(zip(route.link_layers, full.link_layers, strict=True)):
            label = route.network.links[i].label
            if layer and (layer != true or route.loads[i] != full.loads[i]):
                violations.append(
                    f"link {label}: its load {route.loads[i]} is not that of layer {layer}"
                )
            elif not layer and route.utilisations[i] > lowest * (1 + 1e-12):
                violations.append(
                    f"link {label}: its load {route.loads[i]} is above the last layer's"
                )
    return {"valid": not violations, "levels": len(found.levels), "violations": violations}


def _show(network: Network, documents: list[JsonObject]) -> Iterator[Part]:
    for document in documents:
        links, layers = document["links"], document["layers"]
        of = f"{document['method']} route {document['source']} -> {document['sink']} over {document['network']}"
        fullest = max(links, key=lambda entry: entry["utilisation"])
        busiest = _exact(max(links, key=lambda entry: entry["load_float"])).replace("1.0", "1")
        busiest = "all" if busiest == "1" else busiest
        scale, heading = _use(network, links)
        line = (
            f"{document['source']} -> {document['sink']}: {counted(len(links), 'link')}, "
            f"the busiest carries {busiest} of the flow"
        )
        if scale is not None:
            name = label_of((fullest["source"], fullest["target"], fullest["key"]))
            line += f", {name} is full first"
        yield line + (f"; {counted(len(layers), 'layer')}" if layers else "")
        rows = []
        data = []
        for one in links:
            name = label_of((one["source"], one["target"], one["key"]))
            use = () if scale is None else (one["utilisation"] * scale,)
            layer = (one["layer"] or "rest",) if layers else ()
            rows.append((name, _exact(one), *use, *layer))
            data.append((name, _exact(one), one["utilisation"], *layer))
        last = ("layer",) if layers else ()
        used = () if scale is None else (heading,)
        numbers = Table(name="links", headings=("link", "load", "utilisation", *last), rows=data)
        heads = ("link", "load", *used, *last)
        yield Table(
            name="links", title=of, headings=heads, rows=rows, data=replace(numbers, title=of)
        )
        if layers:
            yield _layers_table(document, scale, heading, f"layers, {of}")
        if document["note"]:
            yield f"note: {document['note']}"
        if "certificate" in document:
            certificate = document["certificate"]
            yield f"certificate: {'holds' if certificate['valid'] else 'REFUSED'} ({certificate['levels']} levels)"
            yield from (f"  {violation}" for violation in certificate["violations"])


def _use(network: Network, links: Sequence[Json]) -> tuple[float | None, str]:
    """Return by what a utilisation is multiplied to be per cent of capacity, and the heading.

    The flow is taken to be as large as the route can carry, so that no link is above 100 %. None if
    all links have the same capacity: then the load says the same.
    """
    if len({link.capacity_bps for link in network.links}) == 1:
        return None, ""
    fullest = max(one["utilisation"] for one in links)
    largest = max(link.capacity_bps for link in network.links)
    heading, factor = column("flow_bps", [largest / fullest])
    unit = heading.removeprefix("flow (").removesuffix(")")
    return 100 / fullest, f"% of capacity at {cell(largest / fullest / factor)} {unit}"


def _layers_table(document: Json, scale: float | None, heading: str, title: str) -> Table:
    rows = []
    for number, layer in enumerate(document["layers"], 1):
        load = _exact(layer) if scale is None else layer["load_float"] * scale
        rows.append((number, load, layer["factor"], len(layer["bottlenecks"])))
    headings = ("layer", heading or "load", "factor F", "bottlenecks")
    return Table(
        name="layers", title=title, headings=headings, rows=rows, spare=("factor F",), summary=True
    )


def route_figures(network: Network, documents: Sequence[Json], links: str = "links") -> JsonObject:
    """A drawing of each document's ``links`` with their loads."""
    drawn = {}
    for number, one in enumerate(documents, 1):
        ends = (one["source"], one["sink"])
        caption = f"{one['method']} route from {ends[0]} to {ends[1]}."
        drawn[f"route-{number}"] = loaded_figure(network, one[links], ends=ends, caption=caption)
    return drawn


def _exact(entry: JsonObject) -> str:
    """The load as a fraction, as a number where that is long."""
    return str(entry["load"]) if len(entry["load"]) <= MAX_DIGITS else f"{entry['load_float']:.4g}"
