"""Converts a round of a wavelength plan to flow rules.

A wavelength is represented by a VLAN id. The rules of a cross-connect match only the port and the
wavelength of a packet. Packets that match no rule of the round are dropped and counted for each
fibre, by rules that remain installed for the complete run.
"""

from itertools import pairwise

from testbed.errors import InputError
from testbed.model.wiring import WiredHost, Wiring
from testbed.openflow.rules import DROP, FlowRule, Match
from testbed.wavelengths.plan import LitPath, WavelengthPlan
from topologies import LinkId, Network

# Priorities of rules, from high to low: packets on a lit wavelength; packets that a source sends on
# another wavelength than its path has; all other packets.
LIT_PRIORITY = 300
MISTUNED_PRIORITY = 200
DARK_PRIORITY = 100
# The bit of ``vlan_vid`` by which OpenFlow 1.3 distinguishes "VLAN 0" from "no VLAN".
VLAN_PRESENT = 0x1000
# Matches packets with any VLAN id.
_ANY_WAVELENGTH = ("vlan_vid", (VLAN_PRESENT, VLAN_PRESENT))
# The VLAN ids that can represent a wavelength.
FIRST_VLAN = 1
LAST_VLAN = 4094
# Largest number of wavelengths of a plan on real switches. One VLAN id is reserved for probes on a
# wavelength that no fibre has.
MAX_FABRIC_WAVELENGTHS = LAST_VLAN - FIRST_VLAN


def vlan_of(wavelength: int) -> int:
    """Return the VLAN id of a wavelength; that of wavelength 0 is 1."""
    return FIRST_VLAN + wavelength


def vlan_match(wavelength: int) -> tuple[str, int]:
    """Return the match field, and its value, for packets on a wavelength."""
    return ("vlan_vid", VLAN_PRESENT | vlan_of(wavelength))


def client_of(network: Network, end_point: str) -> str:
    """Return the client of an end point of lightpaths: the node whose host sends and receives.

    It is the first host connected to an edge router. Other end points are their own clients.
    """
    node = network.node(end_point)
    if node.attributes.get("role") == "edge-router":
        for index in network.out_links(end_point):
            target = network.links[index].target
            if network.node(target).kind == "host":
                return target
    return end_point


def dark_rules(wiring: Wiring, fibres: frozenset[LinkId]) -> tuple[FlowRule, ...]:
    """Return the rules that drop and count packets on wavelengths that are not lit.

    There is one rule for each fibre, at the switch to which it leads. All rules of rounds have
    higher priorities.
    """
    rules = []
    for link in wiring.network.links:
        if link.id in fibres and wiring.network.node(link.target).kind == "switch":
            dpid = wiring.switch_at(link.target).dpid
            match = (("in_port", wiring.in_port(link.id)), _ANY_WAVELENGTH)
            rules.append(FlowRule(dpid=dpid, priority=DARK_PRIORITY, match=match, out_port=DROP))
    return tuple(rules)


def round_rules(wiring: Wiring, plan: WavelengthPlan, number: int) -> tuple[FlowRule, ...]:
    """Return the rules that light all paths of a round.

    Cross-connects match the port and the wavelength alone. They set the wavelength of the next
    fibre if it differs (WIXC).

    An edge router forwards packets of its client to the host at the other end into the first fibre.
    A second rule, with a lower priority, does the same for all other wavelengths. The edge router
    thus behaves like a laser that may be mistuned, and the cross-connect drops the packet.

    Args:
        wiring: The wiring of the plan's network.
        plan: The plan.
        number: Index of the round.

    Raises:
        InputError: The plan has more wavelengths than there are VLAN ids.
    """
    if plan.wavelengths > MAX_FABRIC_WAVELENGTHS:
        raise InputError(
            f"{plan.wavelengths} wavelengths: one is a VLAN on the fabric;"
            f" give at most {MAX_FABRIC_WAVELENGTHS}"
        )
    # Two lightpaths may need the same rule; a dictionary keeps it once.
    rules: dict[FlowRule, None] = {}
    for lit in plan.rounds[number]:
        rules |= dict.fromkeys(_lightpath_rules(wiring, plan, lit))
    return tuple(rules)


def _lightpath_rules(wiring: Wiring, plan: WavelengthPlan, lit: LitPath) -> list[FlowRule]:
    """Return the rules of one lightpath, at its source, the cross-connects and its target."""
    path = plan.lightpaths[lit.lightpath]
    wavelengths = lit.wavelengths
    network = wiring.network
    rules: list[FlowRule] = []
    if network.node(path.source).kind == "switch":
        rules += _source_rules(wiring, plan, lit)
    for k, (link_before, link) in enumerate(pairwise(path.links)):
        match: Match = (("in_port", wiring.in_port(link_before)), vlan_match(wavelengths[k]))
        set_fields: tuple[tuple[str, int], ...] = ()
        if wavelengths[k + 1] != wavelengths[k]:
            set_fields = (vlan_match(wavelengths[k + 1]),)
        rule = FlowRule(
            dpid=wiring.switch_at(link[0]).dpid,
            priority=LIT_PRIORITY,
            match=match,
            out_port=wiring.out_port(link),
            set_fields=set_fields,
        )
        rules.append(rule)
    if network.node(path.target).kind == "switch":
        match = (("in_port", wiring.in_port(path.links[-1])), vlan_match(wavelengths[-1]))
        rule = FlowRule(
            dpid=wiring.switch_at(path.target).dpid,
            priority=LIT_PRIORITY,
            match=match,
            out_port=_client_port(wiring, path.target),
        )
        rules.append(rule)
    return rules


def _source_rules(wiring: Wiring, plan: WavelengthPlan, lit: LitPath) -> list[FlowRule]:
    """Return the rules of a lightpath at the switch at which it begins."""
    path = plan.lightpaths[lit.lightpath]
    far_host = wiring.host_at(client_of(wiring.network, path.target))
    addressed: Match = (
        ("in_port", _client_port(wiring, path.source)),
        ("eth_dst", far_host.mac),
    )
    conditions: tuple[tuple[int, Match], ...] = (
        (LIT_PRIORITY, (*addressed, vlan_match(lit.wavelengths[0]))),
        (MISTUNED_PRIORITY, (*addressed, _ANY_WAVELENGTH)),
    )
    dpid = wiring.switch_at(path.source).dpid
    out_port = wiring.out_port(path.links[0])
    return [
        FlowRule(dpid=dpid, priority=priority, match=match, out_port=out_port)
        for priority, match in conditions
    ]


def _client_port(wiring: Wiring, end_point: str) -> int:
    """Return the port that leads from an end point of lightpaths, a switch, to its client."""
    client: WiredHost = wiring.host_at(client_of(wiring.network, end_point))
    if client.outside:
        port = wiring.access_port(client)
        assert port is not None
        return port
    for i in wiring.network.out_links(end_point):
        link = wiring.network.links[i]
        if link.target == client.node:
            return wiring.out_port(link.id)
    raise AssertionError(f"{end_point} has no link to its client {client.node}")
