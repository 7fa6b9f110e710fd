"""``testbed topology list | show | draw | export``: which networks there are, what one is made of, one as a picture or
file."""

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
    actions = parser.add_subparsers(
        dest="action", metavar="ACTION", required=True, parser_class=type(parser)
    )
    listing = actions.add_parser(
        "list", help="every family of networks, with parameters and defaults"
    )
    listing.add_argument(
        "family", metavar="FAMILY", nargs="?", help="one family alone; of topohub, its keys"
    )
    add_options(listing, TableOptions)
    listing.set_defaults(run=run_list)
    show = actions.add_parser("show", help="what a network is made of")
    network = (
        "a catalogue name, a file (JSON node-link, GraphML, GML, DOT, SNDlib, REPETITA, containerlab, MiniEdit), or "
        "FILE.py:NAME of a Mininet file"
    )
    show.add_argument("network", metavar="NETWORK", help=network)
    show.add_argument(
        "--json", action="store_true", help="the node-link document on standard output"
    )
    show.add_argument("--nodes", action="store_true", help="the names of its nodes, one a line")
    show.add_argument(
        "--links", action="store_true", help="the names of its links, a->b, one a line"
    )
    show.add_argument("--plot", metavar="FILE", help="draw it: .svg, .png or .pdf")
    show.set_defaults(run=run_show)
    draw = actions.add_parser("draw", help="draw a network into a file")
    draw.add_argument("network", metavar="NETWORK", help=network)
    draw.add_argument("plot", metavar="FILE", help=".svg, .png or .pdf")
    draw.set_defaults(run=run_show, json=False, nodes=False, links=False)
    export = actions.add_parser("export", help="write a network to a file")
    export.add_argument("network", metavar="NETWORK", help=network)
    export.add_argument("file", metavar="FILE", help=".json (node-link)")
    export.set_defaults(run=run_export)


def run_list(args: argparse.Namespace) -> Answer:
    """The catalogue, as a table or as JSON: ``networks`` with name, pattern, description and parameters. Of one
    family its row; of topohub its keys."""
    families = catalogue_document()
    if args.family is not None:
        families = [one for one in families if one["name"] == args.family]
        if not families:
            raise InputError(
                f"family {args.family!r}: {nearest(args.family, [one.name for one in catalogue()])}"
            )
    if args.family == "topohub":
        from topologies.files.formats import topohub_keys

        names = [f"topohub:{key}" for key in topohub_keys()]
        return Answer({"networks": names}, partial(print, "\n".join(names)))
    return Answer({"networks": families}, partial(_show_families, families))


def _show_families(families: list[dict[str, Any]]) -> Iterator[Part]:
    from testbed.report.answers import Table

    rows = []
    for family in families:
        parameters = [
            p["name"] if p["default"] is None else f"{p['name']}={p['default']}"
            for p in family["parameters"]
        ]
        name = family["name"] if "=" in family["pattern"] else family["pattern"]
        rows.append((name, family["description"], " ".join(parameters)))
    headings = ("name", "what it is", "parameter=default")
    yield Table(name="networks", headings=headings, rows=rows, blocks=True)
    yield f"All but topohub also take {', '.join(f'{p.name}={p.default}' for p in COMMON)}."
    yield (
        "Write name:parameter=value,... or a file (JSON node-link, GraphML, GML, DOT, SNDlib, REPETITA, containerlab, "
        "MiniEdit), or FILE.py:NAME of a Mininet file."
    )


def catalogue_document() -> list[JsonObject]:
    """The catalogue as JSON values."""
    return [
        {
            "name": entry.name,
            "pattern": entry.pattern,
            "description": entry.description,
            "parameters": [asdict(parameter) for parameter in entry.parameters],
        }
        for entry in catalogue()
    ]


def run_show(args: argparse.Namespace) -> int:
    """Print the node-link document, the names requested or a summary; with ``--plot``, draw the network first."""
    network = load_network(args.network)
    if args.plot:
        from testbed.report.drawing.network_drawing import draw_network

        draw_network(network, args.plot)
    if args.json:
        from topologies.files.node_link import write_document

        print(write_document(network), end="")
        return 0
    known = network.attributes.get("family") == "topohub"
    names = [_with_city(node) if known else node.id for node in network.nodes] * args.nodes
    names += [_with_length(link) if known else link.label for link in network.links] * args.links
    for name in names:
        print(printable(name))
    for name, value in [] if args.nodes or args.links else summary(network):
        print(f"{name:<14} {printable(value)}")
    if args.plot:
        print(f"{'drawn in':<14} {args.plot}")
    return 0


def _with_city(node: Node) -> str:
    """The node's id, and its city."""
    city = node.attributes.get("name")
    return node.id + (f"   {city}" if isinstance(city, str) and city != node.id else "")


def _with_length(link: Link) -> str:
    """The link's name, its length and its delay."""
    length = link.attributes.get("dist")
    if not isinstance(length, (int, float)):
        return link.label
    return f"{link.label}   {length:g} km" + (f", {_seconds(link.delay_s)}" if link.delay_s else "")


def run_export(args: argparse.Namespace) -> int:
    """Write the file and say what is in it."""
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
    """(name, value) lines that describe a network for people."""
    one_way = sum(reverse_of(link.id) not in network.link_index for link in network.links)
    return [
        ("network", network.name),
        ("switches", f"{len(network.switches)}{_examples([*network.switch_ids])}"),
        ("hosts", f"{len(network.hosts)}{_examples([n.id for n in network.hosts])}"),
        (
            "links",
            f"{len(network.links)} directed, {len(network.core)} of them between switches, {one_way} unidirectional",
        ),
        ("capacity", _spread([k.capacity_bps for k in network.links], _rate)),
        ("delay", _spread([k.delay_s for k in network.links], _seconds)),
        *_impaired(network),
        ("neighbours", _neighbours(network)),
        ("parts", _parts(network)),
        ("routing", str(network.attributes.get("routing", "shortest-path"))),
    ]


def _impaired(network: Network) -> list[tuple[str, str]]:
    """Which links do something to packets besides, and what."""
    found = lists_by_key(
        (to_text(link.impaired_by), link.label) for link in network.links if link.impairments
    )
    return [("impaired", f"{words}{_examples(labels)}") for words, labels in found.items()]


def _examples(names: list[str]) -> str:
    if not names:
        return ""
    return (
        f"   {', '.join(names)}"
        if len(names) <= 4
        else f"   {names[0]}, {names[1]}, ... {names[-1]}"
    )


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
    return f"{min(counts)} to {max(counts)} switches next to a switch, {sum(counts) / len(counts):.2f} on average"


def _parts(network: Network) -> str:
    """How many parts the network falls into, links taken both ways."""
    import networkx as nx

    joined = nx.Graph((link.source, link.target) for link in network.links)
    joined.add_nodes_from(node.id for node in network.nodes)
    sizes = [len(part) for part in nx.connected_components(joined)]
    if len(sizes) <= 1:
        return "1: connected" if sizes else "none"
    return f"{len(sizes)}, without a path between them; the largest has {max(sizes)} of {len(network.nodes)} nodes"
