"""Mininet's own network class, whose hosts, switches and links are built in batches.

A user's topology, classes and parameters work as they do with Mininet.
"""

import gc
import json
import subprocess
import weakref
from collections import Counter
from collections.abc import Sequence
from typing import Any

import mininet.node
from mininet.log import error, output
from mininet.net import VERSION, Mininet
from mininet.node import Node, OVSBridge
from mininet.topo import Topo

from testbed.emulation.network.mininet_network.batch import Batch, refusals
from testbed.emulation.network.mininet_network.nodes import late
from testbed.emulation.network.mininet_network.requests import Requests
from testbed.errors import InputError
from testbed.model.naming.device_names import device_names
from topologies.text.json_types import JsonObject

# Time limit for the connection of a measurement by iperf, and for all of it but the measurement.
_CONNECT_MS = 5000
_IPERF_EXTRA_S = 15.0

# Number of Mininet's positional arguments before these two parameters.
_BEFORE_SWITCH = 1
_BEFORE_CONTROLLER = 3


class TestbedMininet(Mininet):  # type: ignore[misc]
    """Mininet, inside the sandbox.

    Without a switch class and a controller, its switches learn. Everything else is as Mininet's
    documentation says.

        net = TestbedMininet(topo=TreeTopo(depth=2, fanout=3))
        net.start()
        net.pingAll()
        net.stop()

    Args:
        args: Positional arguments of Mininet.
        requests: The requests of its nodes; by default a new ``Batch``.
        mtu: MTU of every cable of the new batch, in bytes.
        options: Keyword arguments of Mininet.

    Raises:
        CapabilityError: The kernel or Open vSwitch refuses.
        InputError: Another network of the program is running.
    """

    # pytest takes classes whose names begin with "Test" for tests.
    __test__ = False

    def __init__(
        self, *args: object, requests: Requests | None = None, mtu: int = 1500, **options: object
    ) -> None:
        previous = Requests.current
        if requests is None and isinstance(previous, Batch) and not previous.closed:
            if previous.running and _is_referenced(previous):
                raise InputError(
                    "the program's first network still runs; call net.stop() before it makes "
                    "another"
                )
            previous.close()
        self.requests = Batch(mtu=mtu) if requests is None else requests
        self.requests.owner = weakref.ref(self)
        controller_not_given = len(args) <= _BEFORE_CONTROLLER
        if controller_not_given and options.setdefault("controller", None) is None:
            if len(args) <= _BEFORE_SWITCH:
                options.setdefault("switch", OVSBridge)
        try:
            with refusals():
                super().__init__(*args, **options)
        except BaseException:
            self.requests.close()
            raise

    def buildFromTopo(self, topo: Topo | None = None) -> None:  # noqa: N802 - Mininet's name
        """Build a topology.

        All names are known before the first object is created. So namespaces and switch daemons
        start while Mininet creates its objects.
        """
        assert topo is not None
        ports = {name: list(topo.ports.get(name, ())) for name in topo.nodes()}
        hosts = topo.hosts()
        switches = topo.switches()
        if not self.requests.devices:
            highest_port = {name: max(ports[name], default=0) for name in topo.nodes()}
            devices = device_names(
                {name: highest_port[name] for name in hosts},
                {name: highest_port[name] for name in switches},
            )
            self.requests.devices.update(devices)
        hosts_with_namespaces = [
            name for name in hosts if topo.nodeInfo(name).get("inNamespace", True)
        ]
        ports_of_bridges = {}
        for name in switches:
            # Only the numbers of the ports matter now.
            ports_of_bridges[name] = [("", port) for port in ports[name]]
        self.requests.begin(hosts_with_namespaces, ports_of_bridges)
        super().buildFromTopo(topo)

    def addHost(  # noqa: N802 - Mininet's name
        self, name: str, cls: type | None = None, **params: object
    ) -> Node:
        """Add a host, which is built with all others, or at once while the network runs."""
        Requests.current = self.requests
        host = super().addHost(name, cls=late(cls or self.host), **params)
        self.nameToNode.setdefault(host.name, host)
        return host

    def addSwitch(  # noqa: N802 - Mininet's name
        self, name: str, cls: type | None = None, **params: object
    ) -> Node:
        """Add a switch; while the network runs, it begins with its ``start``."""
        Requests.current = self.requests
        switch = super().addSwitch(name, cls=late(cls or self.switch), **params)
        self.nameToNode.setdefault(switch.name, switch)
        return switch

    def addController(  # noqa: N802
        self, name: object = "c0", controller: object = None, **params: object
    ) -> object:
        """Add a controller, or return None if the network has no controller class."""
        Requests.current = self.requests
        if isinstance(name, str) and controller is None and self.controller is None:
            return None
        return super().addController(name, controller=late(controller or self.controller), **params)

    def start(self) -> None:
        """Start the controllers, and then all switches at once.

        If a step fails, what was built is taken down.
        """
        try:
            with refusals():
                super().start()
                # In a network without switches, nothing has been carried out yet.
                self.requests.flush()
        except BaseException:
            self.stop()
            raise
        self.requests.running = True

    def stop(self) -> None:
        """Take everything down, however much of it was built."""
        if not self.requests.closed:
            super().stop()
            self.requests.close()

    def composition(self) -> JsonObject:
        """Return Mininet's version, and the number of its objects by class."""
        objects = (*self.controllers, *self.hosts, *self.switches, *self.links)
        counts = Counter(type(thing).__name__ for thing in objects)
        return {"mininet": VERSION, "classes": dict(counts)}

    def iperf(
        self,
        hosts: Sequence[Node] | None = None,
        l4Type: str = "TCP",  # noqa: N803 - Mininet's name
        udpBw: str = "10M",  # noqa: N803
        fmt: str | None = None,
        seconds: int = 5,
        port: int = 5001,
    ) -> list[str]:
        """Measure the goodput between two hosts by iperf3, and print it.

        Mininet's own method waits permanently for text that iperf 2.1 does not print.

        Args:
            hosts: Client and server; by default the first and the last host.
            l4Type: ``"TCP"`` or ``"UDP"``.
            udpBw: Rate of UDP in iperf's notation.
            fmt: Ignored; Mininet has this parameter.
            seconds: Duration of the measurement in seconds.
            port: Port of the server.

        Returns:
            The rates at the server and at the client as text; for UDP, the requested rate comes
            first. The list is empty if the hosts do not reach each other, or if the measurement
            takes 15 s longer than ``seconds``; Mininet's log then says why.
        """
        client, server = hosts or (self.hosts[:1] + self.hosts[-1:])
        if client is server or client not in self.hosts or server not in self.hosts:
            error(f"iperf measures between two hosts; {client} and {server} are not\n")
            return []
        output(f"*** Iperf: testing {l4Type} bandwidth between {client} and {server}\n")
        listening = server.popen(
            ["iperf3", "-s", "-1", "-p", str(port), "--forceflush"], stderr=subprocess.STDOUT
        )
        argv = ["timeout", f"{seconds + _IPERF_EXTRA_S:g}"]
        argv += ["iperf3", "-c", server.IP(), "-p", str(port), "-t", str(seconds), "-J"]
        argv += ["--connect-timeout", str(_CONNECT_MS)]
        if l4Type == "UDP":
            argv += ["-u", "-b", udpBw]
        try:
            # The server listens when it prints its first line.
            listening.stdout.readline()
            report, _ = client.popen(argv).communicate()
        finally:
            listening.kill()
            listening.communicate()
        rates, reason = _rates(report)
        if not rates:
            error(f"iperf from {client} to {server} measured nothing: {reason}\n")
            return []
        result = [udpBw, *rates] if l4Type == "UDP" else rates
        output(f"*** Results: {result}\n")
        return result


class ScriptedMininet(TestbedMininet):
    """Mininet as scripts expect it.

    As Mininet's documentation says, it has a controller unless the script gives another one or
    None.
    """

    def __init__(self, *args: object, **options: Any) -> None:
        if len(args) <= _BEFORE_CONTROLLER:
            options.setdefault("controller", mininet.node.findController())
        super().__init__(*args, **options)


def _is_referenced(requests: Requests) -> bool:
    """Return whether the program can still use the network of these requests.

    A test that failed may have left a running network behind.
    """
    gc.collect()
    return requests.owner() is not None


def _rates(report: bytes) -> tuple[list[str], str]:
    """Return the receiver's and the sender's rate from iperf3's JSON report.

    Returns:
        The rates as text, or an empty list and the reason why there are none.
    """
    text = report.decode(errors="replace").strip()
    try:
        document = json.loads(report)
    except ValueError:
        return [], text or "it took too long"
    end = document.get("end", {})
    rates = []
    for name in ("sum_received", "sum_sent"):
        totals = end.get(name) or end.get("sum")
        if totals is None or "bits_per_second" not in totals:
            return [], str(document.get("error", text))
        rates.append(f"{totals['bits_per_second'] / 1e6:.2f} Mbits/sec")
    return rates, ""
