"""Circuits as OpenFlow rules: switches forward a transfer's packets only while its circuit exists.

Acknowledgements take the reverse path over standing rules. Packets without a circuit match no rule,
and are dropped.
"""

from collections.abc import Mapping, Sequence
from typing import Literal

from testbed.bulk.plan import Pair
from testbed.errors import InputError
from testbed.model.wiring import Wiring
from testbed.openflow.rules import ETH_IPV4, FlowRule, HostRoute, Match, path_routes
from topologies import LinkId, label_of, reverse_of

# The protocol number of TCP in the IP header.
PROTOCOL_TCP = 6
# TCP port of every receiver for the first parts of messages. The second parts have the next port,
# and so on.
BULK_PORT = 7117
# The path of the data of each pair.
Paths = Mapping[Pair, Sequence[LinkId]]
# Circuits take precedence over standing rules, which exist during the complete run.
CIRCUIT_PRIORITY = 400
STANDING_PRIORITY = 300


def circuit_rules(
    wiring: Wiring,
    pair: Pair,
    path: Sequence[LinkId],
    *,
    priority: int = CIRCUIT_PRIORITY,
    part: int = 0,
) -> tuple[FlowRule, ...]:
    """Return the rules that forward the data of a pair along a path.

    There is one rule per switch. The rule nearest to the sink comes first, so that no packet enters
    an incomplete circuit.

    Args:
        wiring: The switches and their ports.
        pair: The sending and the receiving host.
        path: The links from the one to the other.
        priority: The priority of the rules.
        part: The part of the messages; it decides the destination port, BULK_PORT + part.

    Raises:
        InputError: The path does not connect the hosts, or crosses a node that does not forward.
    """
    return _along(wiring, pair, path, ("tcp_dst", BULK_PORT + part), priority)


def return_rules(
    wiring: Wiring,
    pair: Pair,
    path: Sequence[LinkId],
    *,
    priority: int = STANDING_PRIORITY,
    part: int = 0,
) -> tuple[FlowRule, ...]:
    """Return the standing rules of the acknowledgements, over the reverse of the data's path.

    Args:
        wiring: The switches and their ports.
        pair: The sender and the receiver of the data.
        path: The path of the data.
        priority: The priority of the rules.
        part: The part of the messages; it decides the source port, BULK_PORT + part.

    Raises:
        InputError: A link of the path has no reverse link.
    """
    for link in reversed(path):
        if reverse_of(link) not in wiring.network.link_index:
            raise InputError(
                f"link {label_of(link)} has no reverse link, which the acknowledgements of"
                f" {pair[1]} to {pair[0]} need; add it"
            )
    return _along(
        wiring, (pair[1], pair[0]), _reversed_path(path), ("tcp_src", BULK_PORT + part), priority
    )


def shared_return_rules(
    wiring: Wiring, paths: Mapping[Pair, Sequence[LinkId]], part: int = 0
) -> tuple[FlowRule, ...]:
    """Return the return rules of all pairs, with shared rules at a lower priority.

    At each switch, one rule without a source address sends the acknowledgements to one sender
    through their most frequent port. Pairs that use another port have their own rules above it. A
    switch looks up each new flow once, and flows that share a rule also share the look-up.

    Args:
        wiring: The switches and their ports.
        paths: The path of the data of each pair.
        part: The part of the messages.
    """
    rules_by_sender: dict[tuple[int, str], dict[int, list[FlowRule]]] = {}
    for pair, path in paths.items():
        for rule in return_rules(wiring, pair, path, part=part):
            by_port = rules_by_sender.setdefault((rule.dpid, pair[0]), {})
            by_port.setdefault(rule.out_port, []).append(rule)
    rules: list[FlowRule] = []
    for (dpid, _), by_port in rules_by_sender.items():
        # Of equally frequent ports, the one with the lowest number is shared.
        most_rules = max(len(rules_of_port) for rules_of_port in by_port.values())
        shared_port = min(port for port in by_port if len(by_port[port]) == most_rules)
        match = tuple(field for field in by_port[shared_port][0].match if field[0] != "ipv4_src")
        shared = FlowRule(
            dpid=dpid, priority=STANDING_PRIORITY - 1, match=match, out_port=shared_port
        )
        rules.append(shared)
        for port, rules_of_port in by_port.items():
            if port != shared_port:
                rules += rules_of_port
    return tuple(rules)


def packet_switching_rules(wiring: Wiring, paths: Paths, part: int = 0) -> tuple[FlowRule, ...]:
    """Return standing rules for the data of every pair, so that it needs no circuit.

    The rules of the acknowledgements (``return_rules``) are not included.
    """
    rules: list[FlowRule] = []
    for pair, path in paths.items():
        rules += circuit_rules(wiring, pair, path, priority=STANDING_PRIORITY, part=part)
    return tuple(rules)


def _along(
    wiring: Wiring,
    pair: Pair,
    path: Sequence[LinkId],
    port: tuple[Literal["tcp_src", "tcp_dst"], int],
    priority: int,
) -> tuple[FlowRule, ...]:
    """Return the rules for TCP packets of a pair with this port, the one nearest the sink first."""
    source, sink = pair
    node = source
    for link in path:
        forwards = node == source or wiring.network.node(node).forwards
        if link[0] != node or not forwards:
            raise InputError(
                f"path of {source} to {sink}: {label_of(link)} does not start at {node}, which "
                "forwards"
            )
        node = link[1]
    if node != sink:
        raise InputError(f"path of {source} to {sink} ends at {node}; give one that ends at {sink}")
    match: Match = (
        ("eth_type", ETH_IPV4),
        ("ip_proto", PROTOCOL_TCP),
        ("ipv4_src", wiring.host_at(source).ip),
        ("ipv4_dst", wiring.host_at(sink).ip),
        port,
    )
    rules = []
    for link in reversed(path[1:]):
        if wiring.network.node(link[0]).kind == "switch":
            dpid = wiring.switch_at(link[0]).dpid
            out_port = wiring.out_port(link)
            rules.append(FlowRule(dpid=dpid, priority=priority, match=match, out_port=out_port))
    return tuple(rules)


def pair_routes(wiring: Wiring, pair: Pair, path: Sequence[LinkId]) -> tuple[HostRoute, ...]:
    """Return the routes of hosts for a pair's packets in both directions.

    Hosts need routes only if a host of the network has several cables or forwards packets.
    """
    if not wiring.routed:
        return ()
    data_routes = path_routes(wiring, pair[0], pair[1], path)
    return_routes = path_routes(wiring, pair[1], pair[0], _reversed_path(path))
    return (*data_routes, *return_routes)


def _reversed_path(path: Sequence[LinkId]) -> list[LinkId]:
    return [reverse_of(link) for link in reversed(path)]
