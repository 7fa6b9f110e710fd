"""Mininet's objects over a network that is up.

Kept apart so that a streaming run, which never opens the prompt, does not load Mininet at all.
"""

from testbed.emulation.network.mininet_objects.late_shell import WordsAt
from testbed.emulation.network.mininet_objects.nodes import (
    BuiltHost,
    BuiltInterface,
    BuiltLink,
    BuiltMininet,
    BuiltSwitch,
    SetCables,
)
from topologies.text.json_types import Json


def mininet_view(described: Json, words_at: WordsAt, set_cables: SetCables) -> BuiltMininet:
    """Hosts, switches and cables as Mininet objects, called as the network calls them.

    ``described``: as of ``testbed.model.wiring.wiring_document`` with its cables; ``words_at(name, argv)``: the words
    that run a program in a host or next to a switch; ``set_cables(a, b, up)``: cut the cables between two nodes, or
    bring them back.
    """
    view = BuiltMininet(set_cables)
    addresses = {host["name"]: (host["mac"], host["ip"]) for host in described["hosts"]}
    for host in described["hosts"]:
        view.add_node(BuiltHost(host["name"], words_at))
    for switch in described["switches"]:
        view.add_node(BuiltSwitch(switch["name"], words_at, device=switch["device"], dpid=switch["dpid"]))
    for cable in described["cables"]:
        ends: list[BuiltInterface] = []
        for name, port, interface in (cable["a"], cable["b"]):
            mac, ip = addresses.get(name, (None, None)) if port == 0 else (None, None)
            ends.append(BuiltInterface(interface, view[name], port, mac=mac, ip=ip))
        view.links.append(BuiltLink(*ends))
    return view
