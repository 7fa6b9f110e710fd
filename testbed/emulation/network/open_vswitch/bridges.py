"""Bridges and their ports as one transaction for the switch database.

Everything is created at once: the daemon configures all bridges in one pass instead of one a command.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from testbed.model.naming.printable import printable
from testbed.model.wiring import Wiring, WiringPart
from topologies.text.json_types import JsonObject

_MAX_BACKOFF_MS = 1000
_PROBE_MS = 60_000
"""Of silence, before a bridge asks whether its controller still lives and gives it up: busy with the rules of 2000
switches, it needed more than Open vSwitch's 5 s, and lost a fifth of them. A controller that dies is known at once: its
connections are closed."""


PortsOfBridges = Mapping[str, Sequence[tuple[str, int]]]
"""Name of a switch -> its bridge's ports: interface and number; in the wiring's order."""


def ports_of_bridges(wiring: Wiring, part: WiringPart | None = None) -> PortsOfBridges:
    """Of every bridge that is here (of the part), as the wiring numbers them."""
    found: dict[str, list[tuple[str, int]]] = {
        one.name: [] for one in wiring.switches if part is None or one.name in part.devices
    }
    for cable in wiring.cables:
        for (device, port), interface in zip(
            cable.ends, (cable.a_interface, cable.b_interface), strict=True
        ):
            if device in found:
                found[device].append((interface, port))
    return found


def shares_of(
    ports: PortsOfBridges, most_ports: int, share_ports: int
) -> tuple[tuple[str, ...], ...]:
    """Bridges in shares, in order: one where there are ``most_ports`` ports or fewer, else of about ``share_ports``
    each.

    A bridge's own port counts as one. A share has a bridge at least, however many ports that has.
    """
    weights = {name: 1 + len(own) for name, own in ports.items()}
    total = sum(weights.values())
    count = 1 if total <= most_ports else min(len(weights), -(-total // share_ports))
    shares: list[list[str]] = [[] for _ in range(count)]
    done = 0
    for name, weight in weights.items():
        shares[min(count - 1, (2 * done + weight) * count // (2 * total))].append(name)
        done += weight
    return tuple(tuple(share) for share in shares if share) or ((),)


@dataclass(frozen=True, kw_only=True)
class Bridge:
    """What one bridge is to be. ``ports``: interface and number; ``controllers``: targets as Open vSwitch writes them
    (tcp:127.0.0.1:6653); ``protocols``: versions of OpenFlow, none for all that it knows; ``learns``: forwards by
    itself where it has no controller, else what its rules say alone."""

    name: str
    device: str
    dpid: int
    ports: Sequence[tuple[str, int]]
    controllers: Sequence[str] = ()
    protocols: Sequence[str] = ("OpenFlow13",)
    learns: bool = False
    spanning_tree: bool = False


def bridge_operations(bridges: Sequence[Bridge], datapath_type: str) -> list[JsonObject]:
    """RFC 7047 operations that create these bridges with their ports.

    Without a controller they keep their rules (fail mode secure), and forward nothing unasked, but for those that
    learn.
    """
    operations: list[JsonObject] = []
    references = []
    for number, bridge in enumerate(bridges):
        made = [_port(f"b{number}", bridge.device, None)]
        made += [_port(f"b{number}p{port}", name, port) for name, port in bridge.ports]
        for operation_pair, _ in made:
            operations += operation_pair
        other = {
            "datapath-id": f"{bridge.dpid:016x}",
            "disable-in-band": "true",
            "dp-desc": printable(bridge.name),
        }
        row: JsonObject = {
            "name": bridge.device,
            "ports": ["set", [reference for _, reference in made]],
            "datapath_type": datapath_type,
            "fail_mode": "standalone" if bridge.learns else "secure",
            "other_config": ["map", [list(pair) for pair in other.items()]],
            "stp_enable": bridge.spanning_tree,
        }
        if bridge.protocols:
            row["protocols"] = ["set", list(bridge.protocols)]
        keys = [f"c{number}x{k}" for k in range(len(bridge.controllers))]
        operations += [
            _insert("Controller", key, _controller(target))
            for key, target in zip(keys, bridge.controllers, strict=True)
        ]
        row["controller"] = ["set", [["named-uuid", key] for key in keys]]
        operations.append(_insert("Bridge", f"br{number}", row))
        references.append(["named-uuid", f"br{number}"])
    mutation = ["bridges", "insert", ["set", references]]
    operations.append(
        {"op": "mutate", "table": "Open_vSwitch", "where": [], "mutations": [mutation]}
    )
    return operations


def port_operations(device: str, interface: str, number: int) -> list[JsonObject]:
    """RFC 7047 operations that give a bridge which is there another port."""
    operations, reference = _port("new", interface, number)
    mutation = ["ports", "insert", ["set", [reference]]]
    where = [["name", "==", device]]
    return [
        *operations,
        {"op": "mutate", "table": "Bridge", "where": where, "mutations": [mutation]},
    ]


def _port(key: str, name: str, number: int | None) -> tuple[list[JsonObject], list[str]]:
    """The two rows of one port, and the reference to it; ``number`` None: the bridge's own internal port."""
    interface: JsonObject = (
        {"name": name, "type": "internal"} if number is None else {"name": name, "type": ""}
    )
    if number is not None:
        interface["ofport_request"] = number
    port = {"name": name, "interfaces": ["named-uuid", f"i{key}"]}
    return [_insert("Interface", f"i{key}", interface), _insert("Port", f"p{key}", port)], [
        "named-uuid",
        f"p{key}",
    ]


def _controller(target: str) -> JsonObject:
    return {
        "target": target,
        "max_backoff": _MAX_BACKOFF_MS,
        "inactivity_probe": _PROBE_MS,
        "connection_mode": "out-of-band",
    }


def _insert(table: str, name: str, row: JsonObject) -> JsonObject:
    return {"op": "insert", "table": table, "uuid-name": name, "row": row}
