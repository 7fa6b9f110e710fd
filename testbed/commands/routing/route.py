"""``testbed route``: how a flow is split over a network by capillary routing or another method, in exact fractions."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from testbed.commands.answer import Answer
from testbed.commands.arguments import adder
from testbed.commands.parsing import read_ends
from testbed.model.options import kinds
from testbed.model.options.option import ENDS, ROUTED, RUN, Only

if TYPE_CHECKING:
    from testbed.model.routes import SplitRoute
    from topologies.network import Network

DESCRIPTION = (
    "Compute what fraction of one flow each directed link carries. Methods: single, ecmp, disjoint-2, disjoint:k, "
    "disjoint-all, max-flow, min-cost, capillary, capillary:K (the first K layers, the rest over the fewest links), "
    "thesis-loop, least-fec:T (least redundancy at tolerance T). Loads are exact "
    "fractions (--float: floats); utilisation is load over capacity relative to the network's largest capacity."
)
MAX_DIGITS = 24
"""Longer fractions (solvers make them) are shown by their float alone."""


CAPILLARY = Only(when=lambda a: a.method.partition(":")[0] == "capillary", needs="--routing capillary")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Those of the command."""
    add, ends, routed, running = (adder(parser, group) for group in (None, ENDS, ROUTED, RUN))
    add("network", metavar="NETWORK", help="a catalogue name (swiss-t1, torus:8x8, ...) or a file")
    ends("--from", dest="source", metavar="NODE", help="where the flow starts")
    ends("--to", dest="sink", metavar="NODE", help="where it ends")
    ends(
        "--flow",
        dest="also",
        action="append",
        default=[],
        former=("--pair {}:{}",),
        metavar="A:B",
        help="a further flow of one unit; may be repeated",
    )
    routed("--float", dest="floats", action="store_true", help="capillary loads in floats: many times faster")
    routed("--routing", dest="method", default="capillary", metavar="METHOD", help="how to split it")
    routed("--layers", type=kinds.count, metavar="K", help="keep to the first K capillary layers", only=CAPILLARY)
    routed("--certify", action="store_true", help="prove the full capillary route by the certificate")
    running("--json", action="store_true", help="print one JSON object instead of the table")


def run(args: argparse.Namespace) -> Answer:
    """The routes; exit code 1 where a certificate is requested and refused."""
    from testbed.errors import InputError
    from testbed.model.naming.names import read_pair
    from testbed.routing import routing_method
    from topologies import load_network

    if (args.source is None) != (args.sink is None) or (args.source is None and not args.also):
        raise InputError("say where the flow starts and ends: --from NODE --to NODE, or --flow A:B (repeatable)")
    if args.floats and (args.method != "capillary" or args.layers or args.certify):
        raise InputError("--float is for the full capillary route, without --layers and --certify: leave those out")
    routing_method(args.method, args.layers)  # a wrong method is reported before the network is read
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
    return Answer(whole, partial(_print_tables, documents), 0 if certified else 1)


def _float_documents(network: Network, pairs: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
    """The objects of ``testbed route --float --json``, one a pair: loads in floats, no layers."""
    from testbed.routing.capillary.kernel import FloatRouter

    router, documents = FloatRouter(network), []
    for source, sink in pairs:
        loads = router.loads(source, sink).tolist()
        links = _link_rows(network, loads, [0] * len(loads), repr)
        ends = {"network": network.name, "source": source, "sink": sink, "method": "capillary"}
        documents.append(ends | {"note": None, "links": links, "layers": []})
    return documents


def route_document(route: SplitRoute, requested: str) -> dict[str, Any]:
    """The JSON object of a route; ``asked`` is the method as the user named it.

    ``note`` is one line where the route is less than that: disjoint paths that do not exist. Otherwise None.
    """
    from topologies.network import link_fields

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
    network: Network, loads: Sequence[Any], layers: Sequence[int], write: Callable[[Any], str]
) -> list[dict[str, Any]]:
    """A row a loaded link; ``write`` gives the load as text."""
    from topologies.network import link_fields

    largest = max((link.capacity_bps for link in network.links), default=1.0)
    return [
        link_fields(link.id)
        | {"load": write(load), "load_float": float(load)}
        | {"utilisation": float(load) * largest / link.capacity_bps, "layer": layer}
        for link, load, layer in zip(network.links, loads, layers, strict=True)
        if load > 0
    ]


def _shortfall(route: SplitRoute, requested: str) -> str | None:
    name, _, number = requested.replace("disjoint-2", "disjoint:2").partition(":")
    if name == "disjoint" and route.method != f"disjoint:{int(number)}":
        found = route.method.partition(":")[2]
        return f"only {found} link-disjoint path{'s' if found != '1' else ''} exist{'s' if found == '1' else ''}"
    return None


def _certify(route: SplitRoute) -> dict[str, Any]:
    """Full routes by their own certificate; K layers by the full route's, with which the K layers must agree."""
    from testbed.errors import InputError
    from testbed.routing import capillary_route
    from testbed.routing.capillary.certificate import check_certificate

    if route.method.partition(":")[0] != "capillary":
        raise InputError(f"--certify: requires capillary routes, not {route.method!r}; leave it out")
    full = route if route.method == "capillary" else capillary_route(route.network, route.source, route.sink)
    found = check_certificate(full.network, full.source, full.sink, full.loads)
    violations = list(found.violations)
    if full is not route:
        lowest = float(route.layers[-1].load)
        for i, (layer, true) in enumerate(zip(route.link_layers, full.link_layers, strict=True)):
            label = route.network.links[i].label
            if layer and (layer != true or route.loads[i] != full.loads[i]):
                violations.append(f"link {label}: its load {route.loads[i]} is not that of layer {layer}")
            elif not layer and route.utilisations[i] > lowest * (1 + 1e-12):
                violations.append(f"link {label}: its load {route.loads[i]} is above the last layer's")
    return {"valid": not violations, "levels": len(found.levels), "violations": violations}


def _print_tables(documents: list[dict[str, Any]]) -> None:
    for document in documents:
        _print_table(document)


def _print_table(document: dict[str, Any]) -> None:
    from testbed.report.terminal import Terminal
    from topologies.network import label_of

    console = Terminal()
    title = f"{document['method']} route {document['source']} -> {document['sink']} over {document['network']}"
    rows = []
    for entry in document["links"]:
        label = label_of((entry["source"], entry["target"], entry["key"]))
        cells = [label, _exact(entry), _short(entry["utilisation"])]
        rows.append([*cells, str(entry["layer"]) if entry["layer"] else "rest"] if document["layers"] else cells)
    columns = ("link", "load", "utilisation", *(("layer",) if document["layers"] else ()))
    console.print_table(columns, rows, title)
    if document["layers"]:
        layers = [
            (str(number), _exact(layer), layer["factor"], str(len(layer["bottlenecks"])))
            for number, layer in enumerate(document["layers"], 1)
        ]
        console.print_table(("layer", "utilisation", "factor F", "bottlenecks"), layers, "layers")
    if document["note"]:
        console.print(f"note: {document['note']}")
    if "certificate" in document:
        certificate = document["certificate"]
        console.print(f"certificate: {'holds' if certificate['valid'] else 'REFUSED'} ({certificate['levels']} levels)")
        for violation in certificate["violations"]:
            console.print(f"  {violation}", soft_wrap=True)


def _exact(entry: dict[str, Any]) -> str:
    """The load as a fraction, as a number where that is long."""
    return str(entry["load"]) if len(entry["load"]) <= MAX_DIGITS else _short(entry["load_float"])


def _short(value: float) -> str:
    return f"{value:.4g}"
