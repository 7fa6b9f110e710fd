"""A round of a wavelength plan as flow rules: a wavelength is a VLAN id, a cross-connect knows nothing but (port,
wavelength).

Light that no rule of the round expects is dropped, and counted a fibre, by rules that stay for the whole run.
"""

from itertools import pairwise

from testbed.errors import InputError
from testbed.model.wiring import WiredHost, Wiring
from testbed.openflow.rules import DROP, FlowRule
from testbed.wavelengths.plan import LitPath, WavelengthPlan
from topologies import LinkId, Network

LIT_PRIORITY = 300
MISTUNED_PRIORITY = 200
DARK_PRIORITY = 100
VLAN_PRESENT = 0x1000
"""OpenFlow 1.3 tells "VLAN 0" from "no VLAN" by this bit of ``vlan_vid``."""
_ANY_WAVELENGTH = ("vlan_vid", (VLAN_PRESENT, VLAN_PRESENT))
FIRST_VLAN, LAST_VLAN = 1, 4094
MAX_FABRIC_WAVELENGTHS = LAST_VLAN - FIRST_VLAN
"""One VLAN id is left over: light outside the band, which no fibre carries."""


Field = tuple[str, int | str | tuple[int, int]]
Fields = tuple[tuple[str, int], ...]


def vlan_of(wavelength: int) -> int:
    """VLAN id of a wavelength: 1 for the first."""
    return FIRST_VLAN + wavelength


def vlan_match(wavelength: int) -> tuple[str, int]:
    """The match on packets of that wavelength."""
    return ("vlan_vid", VLAN_PRESENT | vlan_of(wavelength))


def client_of(network: Network, end_point: str) -> str:
    """Node whose host sends and receives for the end point: itself, or the host behind an edge router (its first)."""
    node = network.node(end_point)
    if node.attributes.get("role") == "edge-router":
        for index in network.out_links(end_point):
            target = network.links[index].target
            if network.node(target).kind == "host":
                return target
    return end_point


def dark_rules(wiring: Wiring, fibres: frozenset[LinkId]) -> tuple[FlowRule, ...]:
    """One rule a fibre, at the switch that it leads to: any tagged packet that no rule above expects is dropped and
    counted."""
    rules = []
    for link in wiring.network.links:
        if link.id in fibres and wiring.network.node(link.target).kind == "switch":
            dpid = wiring.switch_at(link.target).dpid
            match = (("in_port", wiring.in_port(link.id)), _ANY_WAVELENGTH)
            rules.append(FlowRule(dpid=dpid, priority=DARK_PRIORITY, match=match, out_port=DROP))
    return tuple(rules)


def round_rules(wiring: Wiring, plan: WavelengthPlan, number: int) -> tuple[FlowRule, ...]:
    """The rules that light every path of one round.

    Cross-connects match the port and the wavelength alone, and set the next fibre's wavelength where it differs (WIXC).
    An edge router sends what its client addresses to the far host into the first fibre: below the lit wavelength also
    on any other, as a mistuned laser would, so that it is the cross-connect that refuses it. Raises InputError where
    the plan has more wavelengths than VLANs.
    """
    if plan.wavelengths > MAX_FABRIC_WAVELENGTHS:
        raise InputError(
            f"{plan.wavelengths} wavelengths: one is a VLAN on the fabric; give at most {MAX_FABRIC_WAVELENGTHS}"
        )
    rules: dict[FlowRule, None] = {}
    for lit in plan.rounds[number]:
        rules.update(dict.fromkeys(_lightpath_rules(wiring, plan, lit)))
    return tuple(rules)


def _lightpath_rules(wiring: Wiring, plan: WavelengthPlan, lit: LitPath) -> list[FlowRule]:
    path, colours = plan.lightpaths[lit.lightpath], lit.wavelengths
    network = wiring.network
    rules: list[FlowRule] = []

    def add(
        node: str, out: int, *match: Field, priority: int = LIT_PRIORITY, changed: Fields = ()
    ) -> None:
        dpid = wiring.switch_at(node).dpid
        rules.append(
            FlowRule(dpid=dpid, priority=priority, match=match, out_port=out, set_fields=changed)
        )

    if network.node(path.source).kind == "switch":
        far = wiring.host_at(client_of(network, path.target))
        addressed = ("in_port", _client_port(wiring, path.source)), ("eth_dst", far.mac)
        for priority, colour in (
            (LIT_PRIORITY, vlan_match(colours[0])),
            (MISTUNED_PRIORITY, _ANY_WAVELENGTH),
        ):
            add(path.source, wiring.out_port(path.links[0]), *addressed, colour, priority=priority)
    for k, (before, link) in enumerate(pairwise(path.links)):
        changed = (vlan_match(colours[k + 1]),) if colours[k + 1] != colours[k] else ()
        entered = ("in_port", wiring.in_port(before))
        add(link[0], wiring.out_port(link), entered, vlan_match(colours[k]), changed=changed)
    if network.node(path.target).kind == "switch":
        entered = ("in_port", wiring.in_port(path.links[-1]))
        add(path.target, _client_port(wiring, path.target), entered, vlan_match(colours[-1]))
    return rules


def _client_port(wiring: Wiring, end_point: str) -> int:
    """Port of an end point that is a switch, towards its client."""
    client: WiredHost = wiring.host_at(client_of(wiring.network, end_point))
    if client.outside:
        port = wiring.access_port(client)
        assert port is not None
        return port
    index = wiring.network.out_links(end_point)
    link = next(
        wiring.network.links[i].id for i in index if wiring.network.links[i].target == client.node
    )
    return wiring.out_port(link)
