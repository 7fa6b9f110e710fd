"""Networks of the testbed for Mininet's own ``mn``, and a controller for them.

    sudo mn --custom THIS_FILE --topo swiss_t1 --controller testbed --test pingall

``testbed python --mn`` prints the path of this file. The file runs under the Python of ``mn``,
which need not have the testbed: it asks the testbed's own Python for the description of a network.
``mn --custom`` replaces its own globals by all globals of the file, so all except the tables for
``mn`` begin with ``_``.

    python -m testbed.emulation.network.mininet_network.for_mn describe NETWORK
    python -m testbed.emulation.network.mininet_network.for_mn serve [-v] ptcp:PORT [NETWORK]

The controller (OpenFlow 1.0) gives each switch its rules once, when it connects: shortest paths
between the hosts of NETWORK. Without NETWORK it makes each switch a learning switch, as Mininet's
reference controller does.
"""

import json as _json
import os as _os
import shlex as _shlex
import socket as _socket
import socketserver as _socketserver
import struct as _struct
import subprocess as _subprocess
import sys as _sys
from pathlib import Path as _Path
from typing import Any as _Any

from mininet.node import Controller as _Controller
from mininet.topo import Topo as _Topo

# ``mn --custom`` executes the file without ``__file__``.
_FILE = _Path(_sys._getframe().f_code.co_filename).resolve()
_ROOT = _FILE.parents[4]
_MODULE = "testbed.emulation.network.mininet_network.for_mn"

# OpenFlow 1.0: the header (version, type, length, id of the transaction) and types of messages.
_HEADER = "!BBHI"
_VERSION = 1
_HELLO = 0
_ECHO_REQUEST = 2
_ECHO_REPLY = 3
_FEATURES_REQUEST = 5
_FEATURES_REPLY = 6
_PACKET_IN = 10
_PACKET_OUT = 13
_FLOW_MOD = 14

# The port that processes a packet as an ordinary learning switch would, and special values.
_NORMAL = 0xFFFA
_NO_PORT = 0xFFFF
_NO_BUFFER = 0xFFFFFFFF

# Wildcards of a match: all fields, and the bits of single fields.
_ANY = 0x3FFFFF
_DL_DST = 1 << 3
_DL_TYPE = 1 << 4
_NW_DST = 0x3F << 14
_ETHERTYPES = {"ip": 0x0800, "arp": 0x0806}

# struct ofp_match, and the rest of struct ofp_flow_mod with one output action.
_MATCH = "!IH6s6sHBxHBBxx4s4sHH"
_OUTPUT = "!QHHHHIHHHHHH"

# TCLink refuses higher rates.
_MAX_MBPS = 1000

# As many switches may connect at the same time.
_BACKLOG = 1024


def _python() -> str:
    """Return the testbed's Python: of the virtual environment that contains this file."""
    for parent in _FILE.parents:
        for folder in (".venv", ""):
            path = parent / folder / "bin/python3"
            if path.exists():
                return str(path)
    return _sys.executable


class _Network(_Topo):  # type: ignore[misc]
    """A network of the catalogue; its values follow its name in ``mn --topo``: ``torus,4x4``.

    Attributes:
        family: Name of the network in the catalogue, without values.
        described: Name and values of the network that ``mn`` builds.
    """

    family = ""
    described = ""

    def build(self, *words: object, **named: object) -> None:
        """Add hosts, switches and cables; with ``--link tc`` also the cables' rates and delays."""
        values = [str(value) for value in words]
        values += [f"{name}={value}" for name, value in named.items()]
        _Network.described = self.family
        if values:
            _Network.described += ":" + ",".join(values)
        command = [_python(), "-P", "-m", _MODULE, "describe", _Network.described]
        environment = {**_os.environ, "PYTHONPATH": str(_ROOT)}
        finished = _subprocess.run(command, stdout=_subprocess.PIPE, env=environment)
        if finished.returncode:
            raise SystemExit(finished.returncode)
        description = _json.loads(finished.stdout)
        for name, ip, mac in description["hosts"]:
            self.addHost(name, ip=ip, mac=mac)
        for name, dpid in description["switches"]:
            self.addSwitch(name, dpid=dpid)
        for a, port1, b, port2, shaping in description["links"]:
            self.addLink(a, b, port1=port1, port2=port2, **shaping)


class _ShortestPathController(_Controller):  # type: ignore[misc]
    """The controller of this file, for the network that ``--topo`` names."""

    def __init__(self, name: str, **params: object) -> None:
        arguments = (
            f"PYTHONPATH={_shlex.quote(str(_ROOT))} {_shlex.quote(_python())} "
            f"-P -m {_MODULE} serve ptcp:%d {_shlex.quote(_Network.described)}"
        )
        super().__init__(name, command="env", cargs=arguments, **params)


# The names of networks for ``mn``, which must be names of Python, and those of the catalogue.
_FAMILIES = {
    "swiss_t1": "swiss-t1",
    "optical_cloud": "optical-cloud",
    "fat_tree": "fat-tree",
    "manet": "manet",
    "torus": "torus",
}
topos = {name: type(name, (_Network,), {"family": family}) for name, family in _FAMILIES.items()}
controllers = {"testbed": _ShortestPathController}


def _wiring(network: str) -> _Any:
    """Return the wiring of a network, given by name and values or as a file."""
    from testbed.model.wiring import wire
    from topologies import load_network

    return wire(load_network(network))


def _description(network: str) -> str:
    """Return the network as JSON.

    A node is called like its device, because Mininet calls interfaces after their nodes.
    """
    wiring = _wiring(network)
    nodes = (*wiring.hosts, *wiring.switches)
    device = {node.name: node.device for node in nodes}
    links = []
    for cable in wiring.cables:
        link = wiring.network.link(*(cable.forward or cable.backward))
        shaping: dict[str, _Any] = {}
        if link.capacity_bps <= _MAX_MBPS * 1e6:
            shaping["bw"] = link.capacity_bps / 1e6
        if link.delay_s:
            shaping["delay"] = f"{link.delay_s * 1e6:g}us"
        links.append((device[cable.a], cable.a_port, device[cable.b], cable.b_port, shaping))
    hosts = [(host.device, f"{host.ip}/8", host.mac) for host in wiring.hosts]
    switches = [(switch.device, f"{switch.dpid:016x}") for switch in wiring.switches]
    return _json.dumps({"hosts": hosts, "switches": switches, "links": links})


def _rules(network: str) -> dict[int, bytes]:
    """Return datapath id -> the messages that give the switch its rules."""
    from testbed.openflow.shortest_paths import ShortestPaths

    wiring = _wiring(network)
    hosts = {host.name: host for host in wiring.hosts}
    ports = ShortestPaths(wiring).ports
    rules = {}
    for switch in wiring.switches:
        messages = []
        for name, port in ports[switch.name].items():
            for kind in _ETHERTYPES:
                messages.append(_rule(port, kind, hosts[name].mac, hosts[name].ip))
        rules[switch.dpid] = b"".join(messages)
    return rules


def _rule(port: int, kind: str = "", mac: str = "", ip: str = "") -> bytes:
    """Return the message that adds a rule, which outputs packets to a port.

    Args:
        port: The port.
        kind: The packets: ``"ip"`` for IP packets to the MAC address, ``"arp"`` for ARP requests
            for the IP address, and ``""`` for all.
        mac: The MAC address.
        ip: The IP address.
    """
    destination = bytes(6)
    requested = bytes(4)
    matched_fields = 0
    if kind == "ip":
        matched_fields = _DL_TYPE | _DL_DST
        destination = bytes.fromhex(mac.replace(":", ""))
    elif kind == "arp":
        matched_fields = _DL_TYPE | _NW_DST
        requested = _socket.inet_aton(ip)
    wildcards = _ANY & ~matched_fields
    ethertype = _ETHERTYPES.get(kind, 0)
    fields = (wildcards, 0, bytes(6), destination, 0, 0, ethertype, 0, 0, bytes(4), requested, 0, 0)
    match = _struct.pack(_MATCH, *fields)
    output = _struct.pack(_OUTPUT, 0, 0, 0, 0, 1, _NO_BUFFER, _NO_PORT, 0, 0, 8, port, 0)
    return _message(_FLOW_MOD, match + output)


def _packet_out(packet_in: bytes) -> bytes:
    """Return the message by which a switch forwards a packet that it sent to the controller."""
    buffer, _, port = _struct.unpack("!IHH", packet_in[:8])
    action = _struct.pack("!IHHHHHH", buffer, port, 8, 0, 8, _NORMAL, 0)
    return _message(_PACKET_OUT, action + packet_in[10:])


def _message(kind: int, body: bytes = b"", transaction: int = 0) -> bytes:
    """Return a message of OpenFlow 1.0."""
    return _struct.pack(_HEADER, _VERSION, kind, 8 + len(body), transaction) + body


class _Switch(_socketserver.StreamRequestHandler):
    """The connection of one switch.

    Attributes:
        rules: Datapath id -> messages that give the switch its rules; None if switches learn.
    """

    rules: dict[int, bytes] | None = None

    def handle(self) -> None:
        """Ask the switch for its id, give it its rules, and answer its echo requests.

        A switch that learns sends no packet to the controller, unless a script deletes its rule. In
        this case it gets both the rule and the packet again.
        """
        self.wfile.write(_message(_HELLO))
        while header := self.rfile.read(8):
            _, kind, length, transaction = _struct.unpack(_HEADER, header)
            body = self.rfile.read(length - 8)
            if kind == _HELLO:
                self.wfile.write(_message(_FEATURES_REQUEST))
            elif kind == _ECHO_REQUEST:
                self.wfile.write(_message(_ECHO_REPLY, body, transaction))
            elif self.rules is None and kind == _FEATURES_REPLY:
                self.wfile.write(_rule(_NORMAL))
            elif self.rules is None and kind == _PACKET_IN:
                self.wfile.write(_rule(_NORMAL) + _packet_out(body))
            elif self.rules is not None and kind == _FEATURES_REPLY:
                dpid = int.from_bytes(body[:8])
                self.wfile.write(self.rules.get(dpid, b""))


class _Server(_socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = _BACKLOG


def _main(arguments: list[str]) -> int:
    if arguments[0] == "describe":
        print(_description(arguments[1]))
        return 0
    # Mininet's clean-up ends processes of this name.
    _Path("/proc/self/comm").write_text("controller")
    port, *networks = [argument for argument in arguments[1:] if argument != "-v"]
    _Switch.rules = _rules(networks[0]) if networks else None
    address = ("127.0.0.1", int(port.removeprefix("ptcp:")))
    _Server(address, _Switch).serve_forever()
    return 0


if __name__ == "__main__":
    _sys.exit(_main(_sys.argv[1:]))
