"""``testbed topology list | show | draw | export``: lists, describes and draws networks."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

from testbed.commands.answer import Answer
from testbed.commands.arguments import TableOptions, add_options
from testbed.errors import InputError
from testbed.model.naming.printable import printable
from topologies import (
    JsonObject,
    Link,
    Network,
    Node,
    catalogue,
    lists_by_key,
    load_network,
    nearest,
    reverse_of,
)
from topologies.catalog import COMMON
from topologies.impairments import to_text
from topologies.routing_relations import switch_neighbours

if TYPE_CHECKING:
    from testbed.report.answers import Part


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    actions = parser.add_subparsers(
        dest="action", metavar="ACTION", required=True, parser_class=type(parser)
    )
    listing = actions.add_parser(
        "list", help="list every family of networks, with its parameters and their defaults"
    )
    listing.add_argument(
        "family",
        metavar="FAMILY",
        nargs="?",
        help="list only this family; for topohub, list its keys",
    )
    add_options(listing, TableOptions)
    listing.set_defaults(run=run_list)
    show = actions.add_parser("show", help="describe a network")
    network = (
        "network: a catalogue name, a file (JSON node-link, GraphML, GML, DOT, SNDlib, "
        "REPETITA, containerlab, MiniEdit), or FILE.py:NAME of a Mininet file"
    )
    show.add_argument(
        "network",
        metavar="NETWORK",
        help=network,
    )
    show.add_argument(
        "--json",
        action="store_true",
        help="print the network as a node-link document",
    )
    show.add_argument(
        "--nodes",
        action="store_true",
        help="print the names of the nodes, one per line",
    )
    show.add_argument(
        "--links",
        action="store_true",
        help="print the names of the links, a->b, one per line",
    )
    show.add_argument(
        "--plot",
        metavar="FILE",
        help="draw the network in a file (.svg, .png or .pdf)",
    )
    show.set_defaults(run=run_show)
    draw = actions.add_parser("draw", help="draw a network in a file")
    draw.add_argument(
        "network",
        metavar="NETWORK",
        help=network,
    )
    draw.add_argument(
        "plot",
        metavar="FILE",
        help="file to write, with the suffix .svg, .png or .pdf",
    )
    draw.set_defaults(run=run_show, json=False, nodes=False, links=False)
    export = actions.add_parser("export", help="write a network to a file")
    export.add_argument(
        "network",
        metavar="NETWORK",
        help=network,
    )
    export.add_argument(
        "file",
        metavar="FILE",
        help="file to write, with the suffix .json (node-link)",
    )
    export.set_defaults(run=run_export)


def run_list(args: argparse.Namespace) -> Answer:
    """Return the families of the catalogue, one family, or the keys of topohub."""
    families = catalogue_document()
    if args.family is not None:
        families = [family for family in families if family["name"] == args.family]
        if not families:
            names = [entry.name for entry in catalogue()]
            raise InputError(f"family {args.family!r}: {nearest(args.family, names)}")
    if args.family == "topohub":
        from topologies.files.formats import topohub_keys

        names = [f"topohub:{key}" for key in topohub_keys()]
        return Answer({"networks": names}, partial(print, "\n".join(names)))
    return Answer({"networks": families}, partial(_show_families, families))


def _show_families(families: list[dict[str, Any]]) -> Iterator[Part]:
    from testbed.report.answers import Table

    rows = []
    for family in families:
        parameters: list[str] = []
        for parameter in family["parameters"]:
            text = parameter["name"]
            if parameter["default"] is not None:
                text += f"={parameter['default']}"
            parameters.append(text)
        name = family["pattern"]
        if "=" in name:
            name = family["name"]
        rows.append((name, family["description"], " ".join(parameters)))
    headings = ("name", "what it is", "parameter=default")
    yield Table(name="networks", headings=headings, rows=rows, blocks=True)
    yield f"All but topohub also take {', '.join(f'{p.name}={p.default}' for p in COMMON)}."
    yield (
        "Write name:parameter=value,... or a file (JSON node-link, GraphML, GML, DOT, SNDlib, "
        "REPETITA, containerlab, MiniEdit), or FILE.py:NAME of a Mininet file."
    )


def catalogue_document() -> list[JsonObject]:
    """Return the families of the catalogue with pattern, description and parameters, for JSON."""
    families: list[JsonObject] = []
    for entry in catalogue():
        families.append(
            {
                "name": entry.name,
                "pattern": entry.pattern,
                "description": entry.description,
                "parameters": [asdict(parameter) for parameter in entry.parameters],
            }
        )
    return families


def run_show(args: argparse.Namespace) -> int:
    """Draw the network if requested; print its node-link document, the names, or a summary."""
    network = load_network(args.network)
    if args.plot:
        from testbed.report.drawing.network_drawing import draw_network

        draw_network(network, args.plot)
    if args.json:
        from topologies.files.node_link import write_document

        print(write_document(network), end="")
        return 0
    # Networks of topohub have cities and lengths.
    has_map = network.attributes.get("family") == "topohub"
    if args.nodes:
        for node in network.nodes:
            text = _with_city(node) if has_map else node.id
            print(printable(text))
    if args.links:
        for link in network.links:
            text = _with_length(link) if has_map else link.label
            print(printable(text))
    if not args.nodes and not args.links:
        for name, value in summary(network):
            print(f"{name:<14} {printable(value)}")
    if args.plot:
        print(f"{'drawn in':<14} {args.plot}")
    return 0


def _with_city(node: Node) -> str:
    """Return the id of a node and its city."""
    city = node.attributes.get("name")
    if isinstance(city, str) and city != node.id:
        return f"{node.id}   {city}"
    return node.id


def _with_length(link: Link) -> str:
    """Return the name of a link, its length and its delay."""
    length_km = link.attributes.get("dist")
    if not isinstance(length_km, (int, float)):
        return link.label
    text = f"{link.label}   {length_km:g} km"
    return f"{text}, {_seconds(link.delay_s)}" if link.delay_s else text


def run_export(args: argparse.Namespace) -> int:
    """Write a network to a file and print its size."""
    from testbed.report.wording import counted
    from topologies.files.formats import write_network_file

    network = load_network(args.network)
    write_network_file(network, args.file)
    print(
        f"{args.file}: {counted(len(network.nodes), 'node')}, "
        f"{counted(len(network.links), 'directed link')} of {printable(network.name)}"
    )
    return 0


def summary(network: Network) -> list[tuple[str, str]]:
    """Return the lines that describe a network, as pairs of name and value."""
    one_way = [link for link in network.links if reverse_of(link.id) not in network.link_index]
    links = f"{len(network.links)} directed, {len(network.core)} of them between switches"
    return [
        ("network", network.name),
        ("switches", f"{len(network.switches)}{_examples([*network.switch_ids])}"),
        ("hosts", f"{len(network.hosts)}{_examples([n.id for n in network.hosts])}"),
        ("links", f"{links}, {len(one_way)} unidirectional"),
        ("capacity", _spread([k.capacity_bps for k in network.links], _rate)),
        ("delay", _spread([k.delay_s for k in network.links], _seconds)),
        *_impaired(network),
        ("neighbours", _neighbours(network)),
        ("parts", _parts(network)),
        ("routing", str(network.attributes.get("routing", "shortest-path"))),
    ]


def _impaired(network: Network) -> list[tuple[str, str]]:
    """Return a line for each impairment (such as loss or jitter), with the links that have it."""
    labels_by_impairment = lists_by_key(
        (to_text(link.impaired_by), link.label) for link in network.links if link.impairments
    )
    lines: list[tuple[str, str]] = []
    for impairment, labels in labels_by_impairment.items():
        lines.append(("impaired", f"{impairment}{_examples(labels)}"))
    return lines


def _examples(names: list[str]) -> str:
    if not names:
        return ""
    if len(names) <= 4:
        return f"   {', '.join(names)}"
    return f"   {names[0]}, {names[1]}, ... {names[-1]}"


def _spread(values: list[float], write: Callable[[float], str]) -> str:
    counts = Counter(values)
    if not counts:
        return "no link"
    if len(counts) == 1:
        return f"{write(values[0])} on every link"
    return f"{write(min(counts))} to {write(max(counts))}"


def _rate(bps: float) -> str:
    for size, unit in ((1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s")):
        if bps >= size:
            return f"{bps / size:g} {unit}"
    return f"{bps:g} bit/s"


def _seconds(value: float) -> str:
    return f"{value * 1000:g} ms" if value else "0"


def _neighbours(network: Network) -> str:
    counts = [len(set(near)) for near in switch_neighbours(network).values()]
    if not counts:
        return "no switch"
    if min(counts) == max(counts):
        return f"{counts[0]} switches next to every switch"
    mean = sum(counts) / len(counts)
    return f"{min(counts)} to {max(counts)} switches next to a switch, {mean:.2f} on average"


def _parts(network: Network) -> str:
    """Describe the connected components of a network, regardless of the direction of links."""
    import networkx as nx

    graph = nx.Graph((link.source, link.target) for link in network.links)
    graph.add_nodes_from(node.id for node in network.nodes)
    sizes = [len(component) for component in nx.connected_components(graph)]
    if len(sizes) <= 1:
        return "1: connected" if sizes else "none"
    largest = f"the largest has {max(sizes)} of {len(network.nodes)} nodes"
    return f"{len(sizes)}, without a path between them; {largest}"
