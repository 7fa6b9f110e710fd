"""Mininet's objects over a running emulated network.

Kept apart so that a streaming run, which never opens the prompt, does not load Mininet at all.
"""

from __future__ import annotations

from collections.abc import Callable

from testbed.emulation.network.mininet_objects.nodes import (
    BuiltHost,
    BuiltInterface,
    BuiltLink,
    BuiltMininet,
    BuiltSwitch,
)
from testbed.model.wiring import Wiring
from topologies.network import LinkId


def mininet_view(
    wiring: Wiring,
    *,
    datapath: str,
    host_pid: Callable[[str], int],
    set_link: Callable[[LinkId, bool], object],
) -> BuiltMininet:
    """Hosts, switches and cables as Mininet objects; a node's own id is a second name for it where nothing else has it.

    ``host_pid``: a process in the namespace of the host of that name. ``set_link`` cuts a link (False) or brings it back.
    """
    cables_between = _links_between(wiring)

    def set_links(a: str, b: str, up: bool) -> None:
        for link in cables_between.get(frozenset((a, b)), ()):
            set_link(link, up)

    view = BuiltMininet(set_links)
    for host in wiring.hosts:
        view.take(BuiltHost(host.name, namespace_pid=host_pid(host.name)))
    for switch in wiring.switches:
        view.take(BuiltSwitch(switch.name, dpid=switch.dpid, datapath=datapath))
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
