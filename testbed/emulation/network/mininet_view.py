"""Mininet's objects over a running emulated network.

Kept apart so that a streaming run, which never opens the prompt, does not load Mininet at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from testbed.emulation.network.mininet_nodes import BuiltHost, BuiltInterface, BuiltLink, BuiltMininet, BuiltSwitch
from testbed.model.wiring import Wiring
from topologies.network import LinkId

if TYPE_CHECKING:
    from testbed.emulation.network.emulated_network import EmulatedNetwork


def mininet_view(network: EmulatedNetwork) -> BuiltMininet:
    """Hosts, switches and cables as Mininet objects; a node's own id is a second name for it where nothing else has it."""
    wiring = network.wiring
    cables_between = _links_between(wiring)

    def set_link(a: str, b: str, up: bool) -> None:
        for link in cables_between.get(frozenset((a, b)), ()):
            network.set_link(link, up)

    view = BuiltMininet(set_link)
    for host in wiring.hosts:
        view.take(BuiltHost(host.name, namespace_pid=network.host_pid(host.name)))
    for switch in wiring.switches:
        view.take(BuiltSwitch(switch.name, dpid=switch.dpid, datapath=network.datapath))
    addresses = {host.name: host for host in wiring.hosts}
    for cable in wiring.cables:
        ends: list[BuiltInterface] = []
        for device, port, name in (
            (cable.a, cable.a_port, cable.a_interface),
            (cable.b, cable.b_port, cable.b_interface),
        ):
            known = addresses.get(device) if port == 0 else None
            mac, ip = (None, None) if known is None else (known.mac, known.ip)
            ends.append(BuiltInterface(name, view[device], port, mac=mac, ip=ip))
        view.links.append(BuiltLink(*ends))
    for node, device in _second_names(wiring).items():
        view.nameToNode.setdefault(node, view[device])
    return view


def _links_between(wiring: Wiring) -> dict[frozenset[str], list[LinkId]]:
    """Two device names -> one directed link of every cable between them (cables outside the model have none)."""
    found: dict[frozenset[str], list[LinkId]] = {}
    for cable in wiring.cables:
        link = cable.forward or cable.backward
        if link is not None:
            found.setdefault(frozenset((cable.a, cable.b)), []).append(link)
    return found


def _second_names(wiring: Wiring) -> dict[str, str]:
    switches = {switch.node: switch.name for switch in wiring.switches}
    return switches | {host.node: host.name for host in wiring.hosts if not host.outside}
