"""Bridges and their ports as one transaction of the switch database (OVSDB, RFC 7047).

Everything is created at once, so the daemon configures all bridges in one pass. With one command
per bridge, it would need one pass for each.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from testbed.model.naming.printable import printable
from testbed.model.wiring import Wiring, WiringPart
from topologies.text.json_types import JsonObject

# A bridge tries to connect to its controller at least once a second.
_MAX_BACKOFF_MS = 1000

# Silence after which a bridge probes its controller, and then gives it up. With Open vSwitch's
# default of 5 s, a controller that was busy with the rules of 2000 switches lost a fifth of them.
# A controller that dies is noticed at once, because its connections are closed.
_PROBE_MS = 60_000

# Name of a switch -> interface and number of each port of its bridge, in the wiring's order.
PortsOfBridges = Mapping[str, Sequence[tuple[str, int]]]


def ports_of_bridges(wiring: Wiring, part: WiringPart | None = None) -> PortsOfBridges:
    """Return the ports of every bridge of a wiring, or of a part of it."""
    ports: dict[str, list[tuple[str, int]]] = {}
    for switch in wiring.switches:
        if part is None or switch.name in part.devices:
            ports[switch.name] = []
    for cable in wiring.cables:
        interfaces = (cable.a_interface, cable.b_interface)
        for (device, port), interface in zip(cable.ends, interfaces, strict=True):
            if device in ports:
                ports[device].append((interface, port))
    return ports


def shares_of(
    ports: PortsOfBridges, most_ports: int, share_ports: int
) -> tuple[tuple[str, ...], ...]:
    """Divide bridges among several daemons.

    The own port of a bridge counts as one port. A share has at least one bridge, even if that has
    more ports than the share should have.

    Args:
        ports: The bridges with their ports.
        most_ports: One share has all bridges if they have at most this many ports.
        share_ports: Otherwise each share has about this many ports.

    Returns:
        The names of the bridges of each share, in order.
    """
    weights = {name: 1 + len(ports_of_bridge) for name, ports_of_bridge in ports.items()}
    total = sum(weights.values())
    if total <= most_ports:
        count = 1
    else:
        count = min(len(weights), -(-total // share_ports))
    shares: list[list[str]] = [[] for _ in range(count)]
    weight_before = 0
    for name, weight in weights.items():
        # A bridge belongs to the share in which its middle port lies.
        share = (2 * weight_before + weight) * count // (2 * total)
        shares[min(count - 1, share)].append(name)
        weight_before += weight
    return tuple(tuple(share) for share in shares if share) or ((),)


@dataclass(frozen=True, kw_only=True)
class Bridge:
    """A bridge to be created.

    Attributes:
        name: Name of the switch.
        device: Name of the bridge and of its own port.
        dpid: Its OpenFlow datapath id.
        ports: Interface and number of each port.
        controllers: Its controllers in Open vSwitch's notation (tcp:127.0.0.1:6653).
        protocols: Versions of OpenFlow; all that Open vSwitch has if empty.
        learns: Without a controller, forward like a learning switch; otherwise, forward only what
            rules say.
        spanning_tree: Use the spanning tree protocol.
    """

    name: str
    device: str
    dpid: int
    ports: Sequence[tuple[str, int]]
    controllers: Sequence[str] = ()
    protocols: Sequence[str] = ("OpenFlow13",)
    learns: bool = False
    spanning_tree: bool = False


def bridge_operations(bridges: Sequence[Bridge], datapath_type: str) -> list[JsonObject]:
    """Return the operations that create these bridges with their ports.

    Without a controller, a bridge keeps its rules (fail mode secure) and forwards only what they
    say, unless it learns.

    Args:
        bridges: The bridges.
        datapath_type: Open vSwitch's name for the kind of datapath.
    """
    operations: list[JsonObject] = []
    references = []
    for number, bridge in enumerate(bridges):
        operations += _operations_of_bridge(bridge, number, datapath_type)
        references.append(_reference(f"br{number}"))
    mutation = ["bridges", "insert", ["set", references]]
    operations.append(
        {"op": "mutate", "table": "Open_vSwitch", "where": [], "mutations": [mutation]}
    )
    return operations


def _operations_of_bridge(bridge: Bridge, number: int, datapath_type: str) -> list[JsonObject]:
    """Return the operations that insert one bridge, its ports and its controllers.

    Args:
        bridge: The bridge.
        number: Its number, from which the names of its rows are made.
        datapath_type: Open vSwitch's name for the kind of datapath.
    """
    operations = _port(f"b{number}", bridge.device, None)
    references = [_port_reference(f"b{number}")]
    for interface, port in bridge.ports:
        key = f"b{number}p{port}"
        operations += _port(key, interface, port)
        references.append(_port_reference(key))
    other_config = [
        ["datapath-id", f"{bridge.dpid:016x}"],
        ["disable-in-band", "true"],
        ["dp-desc", printable(bridge.name)],
    ]
    fail_mode = "standalone" if bridge.learns else "secure"
    row: JsonObject = {
        "name": bridge.device,
        "ports": ["set", references],
        "datapath_type": datapath_type,
        "fail_mode": fail_mode,
        "other_config": ["map", other_config],
        "stp_enable": bridge.spanning_tree,
    }
    if bridge.protocols:
        row["protocols"] = ["set", list(bridge.protocols)]
    controllers = []
    for k, target in enumerate(bridge.controllers):
        key = f"c{number}x{k}"
        operations.append(_insert("Controller", key, _controller(target)))
        controllers.append(_reference(key))
    row["controller"] = ["set", controllers]
    operations.append(_insert("Bridge", f"br{number}", row))
    return operations


def port_operations(device: str, interface: str, number: int) -> list[JsonObject]:
    """Return the operations that add a port to an existing bridge.

    Args:
        device: Name of the bridge.
        interface: Name of the interface.
        number: Number of the port.
    """
    mutation = ["ports", "insert", ["set", [_port_reference("new")]]]
    where = [["name", "==", device]]
    return [
        *_port("new", interface, number),
        {"op": "mutate", "table": "Bridge", "where": where, "mutations": [mutation]},
    ]


def _port(key: str, name: str, number: int | None) -> list[JsonObject]:
    """Return the operations that insert a port and its interface.

    Args:
        key: Key from which the names of the two rows are made.
        name: Name of port and interface.
        number: Number of the port; None for the bridge's own internal port.
    """
    interface: JsonObject = {"name": name, "type": "internal"}
    if number is not None:
        interface = {"name": name, "type": "", "ofport_request": number}
    port = {"name": name, "interfaces": _reference(f"i{key}")}
    return [_insert("Interface", f"i{key}", interface), _insert("Port", f"p{key}", port)]


def _port_reference(key: str) -> list[str]:
    return _reference(f"p{key}")


def _reference(row_name: str) -> list[str]:
    """Return a reference to a row that the same transaction inserts."""
    return ["named-uuid", row_name]


def _controller(target: str) -> JsonObject:
    return {
        "target": target,
        "max_backoff": _MAX_BACKOFF_MS,
        "inactivity_probe": _PROBE_MS,
        "connection_mode": "out-of-band",
    }


def _insert(table: str, name: str, row: JsonObject) -> JsonObject:
    return {"op": "insert", "table": table, "uuid-name": name, "row": row}
