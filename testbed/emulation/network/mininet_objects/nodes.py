"""Mininet's hosts, switches and interfaces for a network that is already up: objects only, no command at their
making."""

import json
import subprocess
from collections.abc import Callable, Sequence

from mininet.link import Intf, Link
from mininet.net import Mininet
from mininet.node import Node, OVSSwitch

from testbed.emulation.network.mininet_objects.late_shell import LateShell, WordsAt
from testbed.model.naming.printable import printable
from topologies.text.json_types import Json

SetCables = Callable[[str, str, bool], object]
_CONNECT_MS = 5000
_IPERF_REST_S = 15.0


class BuiltInterface(Intf):  # type: ignore[misc]
    """An interface that exists and is configured; its addresses are known, never requested."""

    def __init__(self, name: str, node: Node, port: int, *, mac: str | None = None, ip: str | None = None) -> None:
        super().__init__(name, node=node, port=port, mac=mac, moveIntfFn=lambda name, node: None)
        self.ip, self.prefixLen = ip, None if ip is None else 8

    def config(self, **_params: object) -> dict[str, object]:
        """Nothing is left to do."""
        return {}

    def updateIP(self) -> str | None:  # noqa: N802 - Mininet's name
        """The address it was given."""
        return str(self.ip) if self.ip else None


class BuiltLink(Link):  # type: ignore[misc]
    """A cable between two interfaces that exist."""

    def __init__(self, intf1: BuiltInterface, intf2: BuiltInterface) -> None:
        self.intf1, self.intf2 = intf1, intf2
        intf1.link = intf2.link = self


class BuiltHost(LateShell, Node):  # type: ignore[misc]
    """A host that exists."""

    def __init__(self, name: str, words_at: WordsAt) -> None:
        super().__init__(printable(name), inNamespace=True)
        self.given, self.words_at = name, words_at


class BuiltSwitch(LateShell, OVSSwitch):  # type: ignore[misc]
    """A bridge that exists; ``device``: its own name."""

    OVSVersion = "3.0"

    def __init__(self, name: str, words_at: WordsAt, *, device: str, dpid: int) -> None:
        # inNamespace keeps Mininet from configuring the loopback interface by a command; the bridge itself is outside.
        options = {"dpid": f"{dpid:016x}", "failMode": "secure", "protocols": "OpenFlow13"}
        super().__init__(printable(name), inNamespace=True, **options)
        self.inNamespace = False
        self.given, self.device, self.words_at = name, device, words_at
        self.controlIntf = BuiltInterface("lo", self, 0, ip="127.0.0.1")

    def dpctl(self, *args: str) -> str:
        """ovs-ofctl on this bridge, in the OpenFlow version that it speaks."""
        return str(self.cmd("ovs-ofctl", "-O", "OpenFlow13", args[0], self.device, *args[1:]))


class BuiltMininet(Mininet):  # type: ignore[misc]
    """A Mininet over nodes that exist. ``set_cables`` carries out its ``link a b up|down``."""

    def __init__(self, set_cables: SetCables) -> None:
        Mininet.inited = True  # Mininet's own start-up would change limits of the whole machine
        super().__init__(topo=None, controller=None, build=False)
        self._set_cables = set_cables
        self.built = True

    def add_node(self, node: Node) -> None:
        """Add a host or switch that exists; it is found by its name as given, and as printed."""
        (self.switches if isinstance(node, BuiltSwitch) else self.hosts).append(node)
        self.nameToNode[node.given] = node
        self.nameToNode.setdefault(node.name, node)

    def iperf(
        self,
        hosts: Sequence[Node] | None = None,
        l4Type: str = "TCP",  # noqa: N803 - Mininet's name
        udpBw: str = "10M",  # noqa: N803
        fmt: str | None = None,
        seconds: int = 5,
        port: int = 5001,
    ) -> list[str]:
        """Goodput between two hosts by iperf3; Mininet's own waits permanently on what iperf 2.1 prints.

        Returns the rates at the server and the client (first the asked one for UDP), and prints them. Nothing, and why
        on Mininet's log, where they do not reach each other, or it is not over 15 seconds after ``seconds``.
        """
        from mininet.log import error, output

        client, server = hosts or (self.hosts[:1] + self.hosts[-1:])
        if client is server or client not in self.hosts or server not in self.hosts:
            error(f"iperf measures between two hosts; {client} and {server} are not\n")
            return []
        output(f"*** Iperf: testing {l4Type} bandwidth between {client} and {server}\n")
        listening = server.popen(["iperf3", "-s", "-1", "-p", str(port), "--forceflush"], stderr=subprocess.STDOUT)
        words = ["iperf3", "-c", server.IP(), "-p", str(port), "-t", str(seconds), "-J"]
        words += ["--connect-timeout", str(_CONNECT_MS), *(("-u", "-b", udpBw) if l4Type == "UDP" else ())]
        try:
            said = listening.stdout.readline()
            measuring = client.popen(words)
            try:
                said, _ = measuring.communicate(timeout=seconds + _IPERF_REST_S)
            finally:
                measuring.kill()
                measuring.communicate()
        except subprocess.TimeoutExpired:
            said = b""
        finally:
            listening.kill()
            listening.communicate()
        rates = _goodput(said)
        result = ([udpBw] if l4Type == "UDP" else []) + rates
        if not rates:
            error(f"iperf from {client} to {server} measured nothing: {_reason(said)}\n")
            return []
        output(f"*** Results: {result}\n")
        return result

    def configLinkStatus(self, src: str, dst: str, status: str) -> None:  # noqa: N802
        """Every cable between the two nodes, up or down."""
        a, b = (self[name].given if name in self else name for name in (src, dst))
        self._set_cables(a, b, status == "up")


def _goodput(report: bytes) -> list[str]:
    """Receiver's and sender's rate from iperf3's JSON, as text; empty where it has none."""
    try:
        end = json.loads(report)["end"]
        sent = end.get("sum_sent") or end["sum"]
        received = end.get("sum_received") or end["sum"]
    except (ValueError, KeyError):
        return []
    return [f"{part['bits_per_second'] / 1e6:.2f} Mbits/sec" for part in (received, sent)]


def _reason(report: bytes) -> str:
    """What iperf3 said instead of rates."""
    try:
        return str(json.loads(report)["error"])
    except (ValueError, KeyError, TypeError):
        return report.decode(errors="replace").strip() or "it took too long"


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
