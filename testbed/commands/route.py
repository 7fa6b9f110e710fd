"""``testbed route``: how a flow is split over a network by capillary routing or another method, in exact fractions."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from testbed.model.routes import SplitRoute
    from topologies.network import Link, LinkId, Network

DESCRIPTION = (
    "Compute what fraction of one flow each directed link carries. Methods: single, ecmp, disjoint-2, disjoint:k, "
    "max-flow, capillary, capillary:K (the first K layers, the rest over the fewest links). Loads are exact fractions; "
    "utilisation is load over capacity relative to the network's largest capacity."
)


def add_parser(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Adds the command to the parser."""
    parser = subparsers.add_parser("route", help="split a flow over a network", description=DESCRIPTION)
    parser.add_argument("network", metavar="NETWORK", help="a catalogue name (swiss-t1, torus:8x8, ...) or a file")
    parser.add_argument("--from", dest="source", required=True, metavar="NODE", help="where the flow starts")
    parser.add_argument("--to", dest="sink", required=True, metavar="NODE", help="where it ends")
    parser.add_argument("--method", default="capillary", help="how to split it (default: capillary)")
    parser.add_argument("--layers", type=_layer_count, metavar="K", help="keep to the first K capillary layers")
    parser.add_argument("--certify", action="store_true", help="prove the full capillary route by the certificate")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of the table")
    parser.set_defaults(run=run)


def _layer_count(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} must be a whole number of at least 1")
    return int(text)


def run(args: argparse.Namespace) -> int:
    """Exit code 0; 1 where a certificate is asked for and refused."""
    from testbed.routing import route_by_name, routing_method
    from topologies import load_network

    routing_method(args.method, args.layers)  # a wrong method is reported before the network is read
    route = route_by_name(load_network(args.network), args.source, args.sink, args.method, args.layers)
    document = route_document(route, f"capillary:{args.layers}" if args.layers else args.method)
    if args.certify:
        document["certificate"] = _certify(route)
    if args.json:
        print(json.dumps(document))
    else:
        _print_table(route, document)
    return 0 if document.get("certificate", {}).get("valid", True) else 1


def route_document(route: SplitRoute, asked: str) -> dict[str, Any]:
    """The JSON object of a route; ``asked`` is the method as the user named it.

    ``note`` is one line where the route is less than that: disjoint paths that do not exist. Otherwise None.
    """
    network = route.network
    layers = route.link_layers or (0,) * len(route.loads)
    utilisations = route.utilisations
    return {
        "network": network.name,
        "source": route.source,
        "sink": route.sink,
        "method": asked,
        "note": _shortfall(route, asked),
        "links": [
            _link_names(network.links[i])
            | {
                "load": str(route.loads[i]),
                "load_float": float(route.loads[i]),
                "utilisation": utilisations[i],
                "layer": layers[i],
            }
            for i in route.loaded
        ],
        "layers": [
            {
                "load": str(layer.load),
                "load_float": float(layer.load),
                "factor": str(layer.factor),
                "factor_float": float(layer.factor),
                "bottlenecks": [_bottleneck(network, link) for link in layer.bottlenecks],
            }
            for layer in route.layers
        ],
    }


def _link_names(link: Link) -> dict[str, Any]:
    return {"source": link.source, "target": link.target, "key": link.key}


def _bottleneck(network: Network, link: LinkId) -> dict[str, Any]:
    return _link_names(network.link(*link))


def _shortfall(route: SplitRoute, asked: str) -> str | None:
    name, _, number = asked.replace("disjoint-2", "disjoint:2").partition(":")
    if name == "disjoint" and route.method != f"disjoint:{int(number)}":
        found = route.method.partition(":")[2]
        return f"only {found} link-disjoint path{'s' if found != '1' else ''} exist{'s' if found == '1' else ''}"
    return None


def _certify(route: SplitRoute) -> dict[str, Any]:
    from testbed.errors import InputError
    from testbed.routing.certificate import check_certificate

    if route.method != "capillary":
        raise InputError(
            f"--certify: a certificate is for the full capillary route, not for {route.method!r}; leave it out"
        )
    found = check_certificate(route.network, route.source, route.sink, route.loads)
    return {"valid": found.valid, "levels": len(found.levels), "violations": list(found.violations)}


def _print_table(route: SplitRoute, document: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    table = Table(title=f"{route.method} route {route.source} -> {route.sink} over {route.network.name}")
    table.add_column("link")
    for heading in ("load", "load", "utilisation"):
        table.add_column(heading, justify="right")
    if route.layers:
        table.add_column("layer", justify="right")
    for i, entry in zip(route.loaded, document["links"], strict=True):
        cells = [route.network.links[i].label, entry["load"], _short(entry["load_float"]), _short(entry["utilisation"])]
        if route.layers:
            cells.append(str(entry["layer"]) if entry["layer"] else "rest")
        table.add_row(*cells)
    console.print(table)
    if route.layers:
        console.print(_layer_table(document["layers"]))
    if document["note"]:
        console.print(f"note: {document['note']}")
    if "certificate" in document:
        certificate = document["certificate"]
        console.print(f"certificate: {'holds' if certificate['valid'] else 'REFUSED'} ({certificate['levels']} levels)")
        for violation in certificate["violations"]:
            console.print(f"  {violation}", soft_wrap=True)


def _layer_table(layers: list[dict[str, Any]]) -> Any:
    from rich.table import Table

    table = Table(title="layers")
    for heading in ("layer", "load", "load", "factor F", "bottlenecks"):
        table.add_column(heading, justify="right")
    for number, layer in enumerate(layers, 1):
        table.add_row(
            str(number), layer["load"], _short(layer["load_float"]), layer["factor"], str(len(layer["bottlenecks"]))
        )
    return table


def _short(value: float) -> str:
    return f"{value:.4g}"
