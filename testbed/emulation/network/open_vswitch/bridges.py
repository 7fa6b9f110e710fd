"""Bridges and ports of a wiring as one transaction for the switch database.

Everything is created at once: the daemon configures all bridges in one pass instead of one a command.
"""

from collections.abc import Mapping, Sequence

from testbed.model.wiring import WiredSwitch, Wiring, WiringPart
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
        for device, interface, port in (
            (cable.a, cable.a_interface, cable.a_port),
            (cable.b, cable.b_interface, cable.b_port),
        ):
            if device in found:
                found[device].append((interface, port))
    return found


def shares_of(ports: PortsOfBridges, most_ports: int, share_ports: int) -> tuple[tuple[str, ...], ...]:
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


def bridge_operations(
    switches: Sequence[WiredSwitch], ports: PortsOfBridges, datapath_type: str, controller_port: int | None
) -> list[JsonObject]:
    """RFC 7047 operations that create these bridges with their ports.

    Bridges speak OpenFlow 1.3, keep their rules without a controller (fail mode secure), and forward nothing unasked.
    """
    operations: list[JsonObject] = []
    bridges = []
    for number, switch in enumerate(switches):
        made = [_port(f"b{number}", switch.device, None)]
        made += [_port(f"b{number}p{port}", name, port) for name, port in ports[switch.name]]
        for operation_pair, _ in made:
            operations += operation_pair
        row: JsonObject = {
            "name": switch.device,
            "ports": ["set", [reference for _, reference in made]],
            "datapath_type": datapath_type,
            "fail_mode": "secure",
            "protocols": "OpenFlow13",
            "other_config": ["map", [["datapath-id", f"{switch.dpid:016x}"], ["disable-in-band", "true"]]],
        }
        if controller_port is not None:
            operations.append(_insert("Controller", f"c{number}", _controller(controller_port)))
            row["controller"] = ["named-uuid", f"c{number}"]
        operations.append(_insert("Bridge", f"br{number}", row))
        bridges.append(["named-uuid", f"br{number}"])
    mutation = ["bridges", "insert", ["set", bridges]]
    operations.append({"op": "mutate", "table": "Open_vSwitch", "where": [], "mutations": [mutation]})
    return operations


def _port(key: str, name: str, number: int | None) -> tuple[list[JsonObject], list[str]]:
    """The two rows of one port, and the reference to it; ``number`` None: the bridge's own internal port."""
    interface: JsonObject = {"name": name, "type": "internal"} if number is None else {"name": name, "type": ""}
    if number is not None:
        interface["ofport_request"] = number
    port = {"name": name, "interfaces": ["named-uuid", f"i{key}"]}
    return [_insert("Interface", f"i{key}", interface), _insert("Port", f"p{key}", port)], ["named-uuid", f"p{key}"]


def _controller(port: int) -> JsonObject:
    return {
        "target": f"tcp:127.0.0.1:{port}",
        "max_backoff": _MAX_BACKOFF_MS,
        "inactivity_probe": _PROBE_MS,
        "connection_mode": "out-of-band",
    }


def _insert(table: str, name: str, row: JsonObject) -> JsonObject:
    return {"op": "insert", "table": table, "uuid-name": name, "row": row}
