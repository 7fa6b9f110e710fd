"""Traffics of a network: all-to-all and listed pairs over its static routing, with the translations of tori."""

import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from testbed.errors import InputError
from testbed.model.json_values import is_file, read_json
from testbed.model.naming.names import read_pairs
from testbed.model.schemas import refuse_unknown
from testbed.model.traffic import IntArray, Traffic
from topologies.network import LinkId, Network, label_of, reverse_of
from topologies.routing_tables import balanced_parts, static_routing

_PLACED = re.compile("[a-z][0-9]+(_[0-9]+)*")
"""A node of a torus: a letter and its place."""

Route = Callable[[str, str], Sequence[LinkId]]


def processors(network: Network) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(senders, receivers) in the network's order: hosts by their role where they have one (Swiss-T1's t and r), else
    all.

    Raises InputError for a network without them.
    """
    roles = [(node.id, node.attributes.get("role")) for node in network.hosts]
    senders = tuple(host for host, role in roles if role != "receiver")
    receivers = tuple(host for host, role in roles if role != "sender")
    if not senders or not receivers:
        raise InputError(f"network {network.name!r} has no host to send or receive; choose one with hosts")
    return senders, receivers


def all_to_all(network: Network, *routes: Route) -> Traffic:
    """Every sender to every receiver over the static routing, itself included (over the first switch and back): n * n
    transfers.

    Raises InputError without hosts, NoPathError where no path leads.
    """
    return traffic_of(network, list(itertools.product(*processors(network))), *routes)


def other_pairs(network: Network) -> tuple[tuple[str, str], ...]:
    """Every sender with every receiver but itself. InputError without hosts."""
    senders, receivers = processors(network)
    return tuple((a, b) for a in senders for b in receivers if a != b)


def all_to_others(network: Network, *routes: Route) -> Traffic:
    """``other_pairs``, as bulk transfers send it. Raises InputError and NoPathError as ``all_to_all``."""
    return traffic_of(network, list(other_pairs(network)), *routes)


def all_switches(network: Network, *routes: Route) -> Traffic:
    """Every switch to every other: all-to-others where no host's link is the bottleneck."""
    return traffic_of(network, list(itertools.permutations([switch.id for switch in network.switches], 2)), *routes)


NAMED = {"all-to-all": all_to_all, "all-to-others": all_to_others, "all-switches": all_switches}


def routes_of(network: Network, routing: str | None, parts: int = 1) -> tuple[Route, ...]:
    """A route for each of the equal parts of every message: balanced ones, or all as the static routing of that name
    (None: the network's own, and balanced ones for more than one part)."""
    if routing == "balanced" or (routing is None and parts > 1):
        return tuple(balanced_parts(network, parts))
    return (static_routing(network, routing),) * parts


def traffic_of(network: Network, pairs: Sequence[tuple[str, str]], *routes: Route) -> Traffic:
    """One transfer a pair over each of the routes, parts of its message (default: the network's static routing); a host
    to itself over its first switch."""

    def with_own(static: Route) -> Route:
        def path(source: str, sink: str) -> Sequence[LinkId]:
            if source != sink:
                return static(source, sink)
            out = network.links[network.out_links(source)[0]]
            return out.id, reverse_of(out.id)

        return path

    first, *others = map(with_own, routes or (static_routing(network),))
    return with_translations(network, Traffic.from_paths(pairs, first, label_of, *others))


def with_translations(network: Network, traffic: Traffic) -> Traffic:
    """The traffic with the torus' translations as permutations of its links; unchanged where some link has no image."""
    shape: Any = network.attributes.get("shape")
    if not network.attributes.get("wraps") or not isinstance(shape, list):
        return traffic
    if not all(_PLACED.fullmatch(node.id) for node in network.nodes):
        return traffic
    place = {node.id: (node.id[0], [int(part) for part in node.id[1:].split("_")]) for node in network.nodes}
    named = {(kind, *at): node for node, (kind, at) in place.items()}
    number = {network.link_of_label[name]: i for i, name in enumerate(traffic.links)}
    found: list[IntArray] = []
    for step in itertools.product(*map(range, shape)):
        moved = {
            node: named[kind, *((part + by) % side for part, by, side in zip(at, step, shape, strict=True))]
            for node, (kind, at) in place.items()
        }
        images = [number.get((moved[a], moved[b], key), -1) for a, b, key in number]
        if -1 in images:
            return traffic
        found.append(np.array(images, dtype=np.int32))
    return replace(traffic, symmetries=tuple(found), symmetry_shape=tuple(shape))


def parse_pairs(document: object, network: Network, where: str) -> list[tuple[str, str]]:
    """Pairs of a pattern file, ``[["h0", "h1"], ...]`` or ``{"pairs": [...]}``. InputError names the pair that is
    none."""
    refuse_unknown(document, "pattern", where)
    listed = document.get("pairs") if isinstance(document, dict) else document
    if not isinstance(listed, list) or not listed:
        raise InputError(f'{where}: give {{"pairs": [["h0", "h1"], ...]}}, one pair or more')
    for number, pair in enumerate(listed):
        if not isinstance(pair, list) or len(pair) != 2 or not all(isinstance(end, str) for end in pair):
            raise InputError(f"{where}: pair {number} is {str(pair)[:60]}; give two names of nodes")
        for end in pair:
            network.node(end)
    return [(a, b) for a, b in listed]


def read_pattern(file: str, network: Network) -> tuple[tuple[str, str], ...]:
    """The pairs of nodes of a ``--pattern``: a file, or ``A:B,C:D`` itself; InputError or TopologyError names the pair
    that is none."""
    where = f"--pattern {file}"
    if ":" in file and not is_file(file):
        return read_pairs(file, network, "--pattern")
    return tuple(
        parse_pairs(read_json(file, where, hint="give all-to-all, A:B,C:D or a file of pairs"), network, where)
    )
