"""The networks of this user that are up: how old and how large each is, and whose."""

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

#: A network that is busy is listed without its size after this time.
_ANSWER_TIMEOUT_S = 2.0


def running_networks() -> list[JsonObject]:
    """Return name, age, size and owner of each network that is up, in the order of their names.

    Returns:
        ``age_s``, ``hosts``, ``switches`` and ``cables`` are None if the network does not answer in
        time, ``pid`` and ``command`` if its process cannot be seen from here.
    """
    rows = []
    for name in network_names():
        with suppress(TestbedError):  # it has ended in the meantime
            rows.append(_running(name))
    return rows


def _running(name: str) -> JsonObject:
    row: JsonObject = {"name": name, "age_s": None, "hosts": None, "switches": None, "cables": None}
    with connect(name) as sock:
        pid = owner_pid(sock)
        row |= {
            "owner": pwd.getpwuid(os.geteuid()).pw_name,
            "pid": pid or None,
            "command": _command_of(pid),
        }
        with suppress(OSError, TestbedError):
            row |= _size(sock)
    return row


def _size(sock: socket.socket) -> JsonObject:
    sock.settimeout(_ANSWER_TIMEOUT_S)
    send(sock, {"do": "describe", "cables": True})
    description = receive_reply(sock).header
    switches = {switch["node"] for switch in description["switches"]}
    # A host at a switch is outside the model, and so is its cable.
    hosts = [host for host in description["hosts"] if host["node"] not in switches]
    cables = [cable for cable in description["cables"] if cable["link"] is not None]
    up_s = description.get("up_s")  # a network of an earlier version does not tell its age
    return {
        "age_s": None if up_s is None else round(float(up_s), 1),
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
    words = content.rstrip(b"\0").split(b"\0")
    return b" ".join(words).decode(errors="replace") or None
