"""Networks of the testbed for Mininet's own ``mn``, and a controller for them:

    sudo mn --custom THIS_FILE --topo swiss_t1 --controller testbed --test pingall

``testbed python --mn`` prints where this file is. It runs under the Python of ``mn``, which need not have the testbed:
what a network is made of is asked of the testbed's own Python. ``mn --custom`` puts every global of the file over its
own: all but its tables begin with ``_``.

    python -m testbed.emulation.network.mininet_network.for_mn describe NETWORK
    python -m testbed.emulation.network.mininet_network.for_mn serve [-v] ptcp:PORT [NETWORK]

The controller (OpenFlow 1.0) gives each switch its rules once, when it connects: shortest paths between the hosts of
NETWORK; without one, that it learns by itself, as the reference controller has it do.
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

_FILE = _Path(
    _sys._getframe().f_code.co_filename
).resolve()  # mn --custom executes it without __file__
_ROOT = _FILE.parents[4]
_MODULE = "testbed.emulation.network.mininet_network.for_mn"
_HEADER, _HELLO, _ECHO, _FEATURES, _PACKET_IN = "!BBHI", 0, 2, 6, 10
_NORMAL, _NO_PORT, _NO_BUFFER = 0xFFFA, 0xFFFF, 0xFFFFFFFF
_MOST_MBPS = 1000  # of TCLink
_TYPES = {"ip": 0x0800, "arp": 0x0806}
_ANY, _DL_DST, _DL_TYPE, _NW_DST = 0x3FFFFF, 1 << 3, 1 << 4, 0x3F << 14
_MATCH, _OUTPUT = "!IH6s6sHBxHBBxx4s4sHH", "!QHHHHIHHHHHH"


def _python() -> str:
    """The testbed's: of the virtual environment that this file lies in, or beside."""
    found = (
        parent / folder / "bin/python3" for parent in _FILE.parents for folder in (".venv", "")
    )
    return next((str(path) for path in found if path.exists()), _sys.executable)


class _Network(_Topo):  # type: ignore[misc]
    """A network of the catalogue, by the values that follow its name there: ``torus,4x4``."""

    family = described = ""

    def build(self, *words: object, **named: object) -> None:
        """Its hosts, switches and cables; with ``--link tc`` the cables' rates and delays."""
        values = ",".join([*map(str, words), *(f"{name}={value}" for name, value in named.items())])
        _Network.described = f"{self.family}:{values}" if values else self.family
        command = [_python(), "-P", "-m", _MODULE, "describe", _Network.described]
        done = _subprocess.run(
            command, stdout=_subprocess.PIPE, env={**_os.environ, "PYTHONPATH": str(_ROOT)}
        )
        if done.returncode:
            raise SystemExit(done.returncode)
        said = _json.loads(done.stdout)
        for name, ip, mac in said["hosts"]:
            self.addHost(name, ip=ip, mac=mac)
        for name, dpid in said["switches"]:
            self.addSwitch(name, dpid=dpid)
        for a, port1, b, port2, shaping in said["links"]:
            self.addLink(a, b, port1=port1, port2=port2, **shaping)


class _Ready(_Controller):  # type: ignore[misc]
    """The controller of this file, for the network that ``--topo`` names."""

    def __init__(self, name: str, **params: object) -> None:
        words = f"PYTHONPATH={_shlex.quote(str(_ROOT))} {_shlex.quote(_python())} -P -m {_MODULE} serve ptcp:%d "
        super().__init__(
            name, command="env", cargs=words + _shlex.quote(_Network.described), **params
        )


_FAMILIES = {"swiss_t1": "swiss-t1", "optical_cloud": "optical-cloud", "fat_tree": "fat-tree"}
topos = {
    name: type(name, (_Network,), {"family": _FAMILIES.get(name, name)})
    for name in (*_FAMILIES, "manet", "torus")
}
controllers = {"testbed": _Ready}


def _wired(words: str) -> _Any:
    from testbed.model.wiring import wire
    from topologies import load_network

    return wire(load_network(words))


def _described(words: str) -> str:
    """The network as JSON. Its nodes are called as their devices are: Mininet calls interfaces after its nodes."""
    wiring = _wired(words)
    device = {one.name: one.device for one in (*wiring.hosts, *wiring.switches)}
    links = []
    for cable in wiring.cables:
        link = wiring.network.link(*(cable.forward or cable.backward))
        shaping = {"bw": link.capacity_bps / 1e6} if link.capacity_bps <= _MOST_MBPS * 1e6 else {}
        shaping |= {"delay": f"{link.delay_s * 1e6:g}us"} if link.delay_s else {}
        links.append((device[cable.a], cable.a_port, device[cable.b], cable.b_port, shaping))
    hosts = [(one.device, f"{one.ip}/8", one.mac) for one in wiring.hosts]
    switches = [(one.device, f"{one.dpid:016x}") for one in wiring.switches]
    return _json.dumps({"hosts": hosts, "switches": switches, "links": links})


def _rules(words: str) -> dict[int, bytes]:
    """Datapath id -> the messages that give the switch its rules."""
    from testbed.openflow.shortest_paths import ShortestPaths

    wiring = _wired(words)
    known, ports = {host.name: host for host in wiring.hosts}, ShortestPaths(wiring).ports
    return {
        switch.dpid: b"".join(
            _rule(port, kind, known[host].mac, known[host].ip)
            for host, port in ports[switch.name].items()
            for kind in _TYPES
        )
        for switch in wiring.switches
    }


def _rule(port: int, kind: str = "", mac: str = "", ip: str = "") -> bytes:
    """A flow message: to the port what goes to the MAC address (``ip``), or asks for the address (``arp``); "": all."""
    wildcards = _ANY & ~{"": 0, "ip": _DL_TYPE | _DL_DST, "arp": _DL_TYPE | _NW_DST}[kind]
    to = bytes.fromhex(mac.replace(":", "")) if kind == "ip" else bytes(6)
    asked = _socket.inet_aton(ip) if kind == "arp" else bytes(4)
    match = _struct.pack(
        _MATCH, wildcards, 0, bytes(6), to, 0, 0, _TYPES.get(kind, 0), 0, 0, bytes(4), asked, 0, 0
    )
    body = match + _struct.pack(_OUTPUT, 0, 0, 0, 0, 1, _NO_BUFFER, _NO_PORT, 0, 0, 8, port, 0)
    return _struct.pack(_HEADER, 1, 14, 8 + len(body), 0) + body


def _sent_on(packet_in: bytes) -> bytes:
    """The message that has the switch forward a packet that it sent here."""
    buffer, _, port = _struct.unpack("!IHH", packet_in[:8])
    body = _struct.pack("!IHHHHHH", buffer, port, 8, 0, 8, _NORMAL, 0) + packet_in[10:]
    return _struct.pack(_HEADER, 1, 13, 8 + len(body), 0) + body


class _Switch(_socketserver.StreamRequestHandler):
    """One switch's connection."""

    rules: dict[int, bytes] | None = None

    def handle(self) -> None:
        """Ask which one it is, give it its rules, and answer its echoes as long as it is there.

        A switch that learns sends no packet here until a script deletes its rule: it gets both again.
        """
        self.wfile.write(_struct.pack(_HEADER, 1, 0, 8, 0))
        while header := self.rfile.read(8):
            _, kind, length, number = _struct.unpack(_HEADER, header)
            body = self.rfile.read(length - 8)
            if kind == _HELLO:
                self.wfile.write(_struct.pack(_HEADER, 1, 5, 8, 0))
            elif kind == _ECHO:
                self.wfile.write(_struct.pack(_HEADER, 1, 3, length, number) + body)
            elif self.rules is None and kind in (_FEATURES, _PACKET_IN):
                self.wfile.write(_rule(_NORMAL) + (_sent_on(body) if kind == _PACKET_IN else b""))
            elif self.rules is not None and kind == _FEATURES:
                self.wfile.write(self.rules.get(int.from_bytes(body[:8]), b""))


class _Server(_socketserver.ThreadingTCPServer):
    allow_reuse_address, daemon_threads, request_queue_size = True, True, 1024


def _main(words: list[str]) -> int:
    if words[0] == "describe":
        print(_described(words[1]))
        return 0
    _Path("/proc/self/comm").write_text("controller")  # by which Mininet's clean-up ends it
    port, *network = [word for word in words[1:] if word != "-v"]
    _Switch.rules = _rules(network[0]) if network else None
    _Server(("127.0.0.1", int(port.removeprefix("ptcp:"))), _Switch).serve_forever()
    return 0


if __name__ == "__main__":
    _sys.exit(_main(_sys.argv[1:]))
