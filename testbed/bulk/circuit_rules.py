"""Circuits as rules: a transfer's packets find a way through the switches only while its circuit stands.

Acknowledgements go the data's way back over standing rules; what has no circuit matches no rule, and is dropped.
"""

from collections.abc import Mapping, Sequence
from typing import Literal

from testbed.bulk.plan import Pair
from testbed.errors import InputError
from testbed.model.wiring import Wiring
from testbed.openflow.rules import ETH_IPV4, FlowRule, HostRoute, Match, path_routes
from topologies import LinkId, label_of, reverse_of

PROTOCOL_TCP = 6
BULK_PORT = 7117
"""TCP port of every receiver, for the first parts of messages; the next port is the second parts', and so on."""
Paths = Mapping[Pair, Sequence[LinkId]]
CIRCUIT_PRIORITY, STANDING_PRIORITY = 400, 300


def circuit_rules(
    wiring: Wiring,
    pair: Pair,
    path: Sequence[LinkId],
    *,
    priority: int = CIRCUIT_PRIORITY,
    part: int = 0,
) -> tuple[FlowRule, ...]:
    """The rules that let that part of the pair's data (TCP to BULK_PORT + part) along the path: one a switch, the
    sink's first.

    Raises InputError where the path does not lead from the one host to the other over nodes that forward.
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
    """The standing rules of the part's acknowledgements (TCP from its port) over the reverse of the data's path.

    Raises InputError where a link of the path has no link back.
    """
    for link in reversed(path):
        if reverse_of(link) not in wiring.network.link_index:
            raise InputError(
                f"link {label_of(link)}: no link leads back, so no acknowledgement of {pair[0]} to {pair[1]}; add it"
            )
    back = [reverse_of(link) for link in reversed(path)]
    return _along(wiring, (pair[1], pair[0]), back, ("tcp_src", BULK_PORT + part), priority)


def shared_return_rules(
    wiring: Wiring, paths: Mapping[Pair, Sequence[LinkId]], part: int = 0
) -> tuple[FlowRule, ...]:
    """``return_rules`` of all pairs, in few rules: where acknowledgements to one sender leave a switch through one port
    whoever sends them, one rule without a source does, below those of the pairs that go another way.

    A switch looks up each new flow once; flows that share a rule share that too.
    """
    every: dict[tuple[int, str], dict[int, list[FlowRule]]] = {}
    for pair, path in paths.items():
        for rule in return_rules(wiring, pair, path, part=part):
            every.setdefault((rule.dpid, pair[0]), {}).setdefault(rule.out_port, []).append(rule)
    found: list[FlowRule] = []
    for (dpid, _), by_port in every.items():
        common = max(by_port, key=lambda out: (len(by_port[out]), -out))
        match = tuple(field for field in by_port[common][0].match if field[0] != "ipv4_src")
        found.append(
            FlowRule(dpid=dpid, priority=STANDING_PRIORITY - 1, match=match, out_port=common)
        )
        found += [rule for out, rules in by_port.items() if out != common for rule in rules]
    return tuple(found)


def packet_switching_rules(wiring: Wiring, paths: Paths, part: int = 0) -> tuple[FlowRule, ...]:
    """Packet switching: the data of every pair finds its way at any time (acknowledgements: ``return_rules``)."""
    return tuple(
        rule
        for pair, path in paths.items()
        for rule in circuit_rules(wiring, pair, path, priority=STANDING_PRIORITY, part=part)
    )


def _along(
    wiring: Wiring,
    pair: Pair,
    path: Sequence[LinkId],
    port: tuple[Literal["tcp_src", "tcp_dst"], int],
    priority: int,
) -> tuple[FlowRule, ...]:
    """Rules for TCP packets of the pair with that ``port``."""
    at = pair[0]
    for link in path:
        if link[0] != at or (at != pair[0] and not wiring.network.node(at).forwards):
            raise InputError(
                f"path of {pair[0]} to {pair[1]}: {label_of(link)} does not start at {at}, which forwards"
            )
        at = link[1]
    if at != pair[1]:
        raise InputError(
            f"path of {pair[0]} to {pair[1]} ends at {at}; give one that ends at {pair[1]}"
        )
    match: Match = (
        ("eth_type", ETH_IPV4),
        ("ip_proto", PROTOCOL_TCP),
        ("ipv4_src", wiring.host_at(pair[0]).ip),
        ("ipv4_dst", wiring.host_at(pair[1]).ip),
        port,
    )
    return tuple(
        FlowRule(
            dpid=wiring.switch_at(link[0]).dpid,
            priority=priority,
            match=match,
            out_port=wiring.out_port(link),
        )
        for link in reversed(path[1:])
        if wiring.network.node(link[0]).kind == "switch"
    )


def pair_routes(wiring: Wiring, pair: Pair, path: Sequence[LinkId]) -> tuple[HostRoute, ...]:
    """What hosts do with the pair's packets there and back, where one has several cables or forwards."""
    if not wiring.routed:
        return ()
    back = [reverse_of(link) for link in reversed(path)]
    return (*path_routes(wiring, *pair, path), *path_routes(wiring, pair[1], pair[0], back))
