"""Lists the running networks of this user, with their age, size and owner."""

import os
import pwd
import socket
from contextlib import suppress
from pathlib import Path

from testbed.emulation.attach.client import receive_reply
from testbed.emulation.attach.protocol import send
from testbed.emulation.sandbox.control_socket import connect, network_names, owner_pid
from testbed.errors import TestbedError
from topologies import JsonObject

# A network that is busy for longer is listed without its size.
_ANSWER_TIMEOUT_S = 2.0


def running_networks() -> list[JsonObject]:
    """Return name, age, size and owner of each running network, in the order of their names.

    Returns:
        A row for each network, as values for JSON. ``age_s``, ``hosts``, ``switches`` and
        ``cables`` are None if the network does not answer in time; ``pid`` and ``command`` are None
        if its process cannot be seen from here.
    """
    rows = []
    for name in network_names():
        # The network may have ended in the meantime.
        with suppress(TestbedError):
            rows.append(_running(name))
    return rows


def _running(name: str) -> JsonObject:
    """Return the row of one network."""
    row: JsonObject = {"name": name, "age_s": None, "hosts": None, "switches": None, "cables": None}
    with connect(name) as sock:
        pid = owner_pid(sock)
        row |= {
            "owner": pwd.getpwuid(os.geteuid()).pw_name,
            "pid": pid or None,
            "command": _command_of(pid),
        }
        # The network may be busy, or not describe itself.
        with suppress(OSError, TestbedError):
            row |= _size(sock)
    return row


def _size(sock: socket.socket) -> JsonObject:
    """Return the age and size that a network reports."""
    sock.settimeout(_ANSWER_TIMEOUT_S)
    send(sock, {"do": "describe", "cables": True})
    description = receive_reply(sock).header
    switches = {switch["node"] for switch in description["switches"]}
    # A host at a switch is outside the model, and so is its cable.
    hosts = [host for host in description["hosts"] if host["node"] not in switches]
    cables = [cable for cable in description["cables"] if cable["link"] is not None]
    # A network of an earlier version does not report its age.
    up_s = description.get("up_s")
    age_s = None if up_s is None else round(float(up_s), 1)
    return {
        "age_s": age_s,
        "hosts": len(hosts),
        "switches": len(switches),
        "cables": len(cables),
    }


def _command_of(pid: int) -> str | None:
    """Return the command line of a process, or None if it cannot be read."""
    try:
        content = Path(f"/proc/{pid}/cmdline").read_bytes() if pid else b""
    except OSError:
        return None
    arguments = content.rstrip(b"\0").split(b"\0")
    return b" ".join(arguments).decode(errors="replace") or None
