"""Bridges and ports of a wiring as one transaction for the switch database.

Everything is created at once: the daemon configures all bridges in one pass instead of one a command.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from testbed.model.parts import Part
from testbed.model.wiring import Wiring

_MAX_BACKOFF_MS = 1000


def bridge_operations(
    wiring: Wiring, datapath: str, controller_port: int | None, part: Part | None = None
) -> list[dict[str, Any]]:
    """RFC 7047 operations that create every bridge (of the part) with its ports; port numbers are those of the wiring.

    Bridges speak OpenFlow 1.3, keep their rules without a controller (fail mode secure), and forward nothing unasked.
    """
    here = [one for one in wiring.switches if part is None or one.name in part.devices]
    ports: dict[str, list[tuple[str, int]]] = {switch.name: [] for switch in here}
    for cable in wiring.cables:
        for device, interface, port in (
            (cable.a, cable.a_interface, cable.a_port),
            (cable.b, cable.b_interface, cable.b_port),
        ):
            if device in ports:
                ports[device].append((interface, port))
    operations: list[dict[str, Any]] = []
    bridges = []
    for number, switch in enumerate(here):
        made = [_port(f"b{number}", switch.name, None)]
        made += [_port(f"b{number}p{port}", name, port) for name, port in ports[switch.name]]
        for operation_pair, _ in made:
            operations += operation_pair
        row: dict[str, Any] = {
            "name": switch.name,
            "ports": _set(reference for _, reference in made),
            "datapath_type": "system" if datapath == "kernel" else "netdev",
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


def _port(key: str, name: str, number: int | None) -> tuple[list[dict[str, Any]], list[str]]:
    """The two rows of one port, and the reference to it; ``number`` None: the bridge's own internal port."""
    interface: dict[str, Any] = {"name": name, "type": "internal"} if number is None else {"name": name, "type": ""}
    if number is not None:
        interface["ofport_request"] = number
    port = {"name": name, "interfaces": ["named-uuid", f"i{key}"]}
    return [_insert("Interface", f"i{key}", interface), _insert("Port", f"p{key}", port)], ["named-uuid", f"p{key}"]


def _controller(port: int) -> dict[str, Any]:
    return {"target": f"tcp:127.0.0.1:{port}", "max_backoff": _MAX_BACKOFF_MS, "connection_mode": "out-of-band"}


def _insert(table: str, name: str, row: dict[str, Any]) -> dict[str, Any]:
    return {"op": "insert", "table": table, "uuid-name": name, "row": row}


def _set(references: Iterable[list[str]]) -> list[Any]:
    return ["set", list(references)]
