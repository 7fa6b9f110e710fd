"""Mininet itself, whose hosts, switches and links are made in batches; a user's topology, classes and parameters as
Mininet takes them."""

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

_CONNECT_MS = 5000
_IPERF_REST_S = 15.0
_BEFORE_SWITCH, _BEFORE_CONTROLLER = 1, 3
"""Positional arguments of Mininet's before these two."""


class TestbedMininet(Mininet):  # type: ignore[misc]
    """Mininet, inside the sandbox. ``requests``: where its nodes send theirs (default: a ``Batch`` with ``mtu`` bytes a
    cable); all else as Mininet's documentation says. Without a switch class and a controller its switches learn.

        net = TestbedMininet(topo=TreeTopo(depth=2, fanout=3))
        net.start()
        net.pingAll()
        net.stop()

    CapabilityError where the kernel or Open vSwitch refuses, InputError while another network of the program runs.
    """

    __test__ = False  # of pytest

    def __init__(
        self, *args: object, requests: Requests | None = None, mtu: int = 1500, **options: object
    ) -> None:
        before = Requests.current
        if requests is None and isinstance(before, Batch) and not before.closed:
            if before.running and _is_referenced(before):
                raise InputError(
                    "the program's first network still runs; call net.stop() before it makes another"
                )
            before.close()
        self.requests = Batch(mtu=mtu) if requests is None else requests
        self.requests.owner = weakref.ref(self)
        alone = len(args) <= _BEFORE_CONTROLLER and options.setdefault("controller", None) is None
        if alone and len(args) <= _BEFORE_SWITCH:
            options.setdefault("switch", OVSBridge)
        try:
            with refusals():
                super().__init__(*args, **options)
        except BaseException:
            self.requests.close()
            raise

    def buildFromTopo(self, topo: Topo | None = None) -> None:  # noqa: N802 - Mininet's name
        """All names are known before the first object: namespaces and switch daemons begin meanwhile."""
        assert topo is not None
        tops = {name: max(topo.ports.get(name, ()), default=0) for name in topo.nodes()}
        hosts, switches = topo.hosts(), topo.switches()
        if not self.requests.devices:
            devices = device_names(
                {name: tops[name] for name in hosts}, {name: tops[name] for name in switches}
            )
            self.requests.devices.update(devices)
        own = [name for name in hosts if topo.nodeInfo(name).get("inNamespace", True)]
        self.requests.begin(
            own, {name: [("", port) for port in topo.ports.get(name, ())] for name in switches}
        )
        super().buildFromTopo(topo)

    def addHost(self, name: str, cls: type | None = None, **params: object) -> Node:  # noqa: N802 - Mininet's name
        """Made with all others, or at once while the network runs."""
        Requests.current = self.requests
        host = super().addHost(name, cls=late(cls or self.host), **params)
        self.nameToNode.setdefault(host.name, host)
        return host

    def addSwitch(self, name: str, cls: type | None = None, **params: object) -> Node:  # noqa: N802 - Mininet's name
        """Likewise; while the network runs it begins with its ``start``."""
        Requests.current = self.requests
        switch = super().addSwitch(name, cls=late(cls or self.switch), **params)
        self.nameToNode.setdefault(switch.name, switch)
        return switch

    def addController(  # noqa: N802
        self, name: object = "c0", controller: object = None, **params: object
    ) -> object:
        """As Mininet's; none where there is no class of them."""
        Requests.current = self.requests
        if isinstance(name, str) and controller is None and self.controller is None:
            return None
        return super().addController(name, controller=late(controller or self.controller), **params)

    def start(self) -> None:
        """Controllers, then all switches at once. What was made is taken down again where a step fails."""
        try:
            with refusals():
                super().start()
                self.requests.flush()  # a network without switches starts none
        except BaseException:
            self.stop()
            raise
        self.requests.running = True

    def stop(self) -> None:
        """Take everything down, however far it was built."""
        if not self.requests.closed:
            super().stop()
            self.requests.close()

    def made(self) -> JsonObject:
        """Mininet's version, and its classes with how many of each."""
        objects = Counter(
            type(one).__name__
            for one in (*self.controllers, *self.hosts, *self.switches, *self.links)
        )
        return {"mininet": VERSION, "classes": dict(objects)}

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
        client, server = hosts or (self.hosts[:1] + self.hosts[-1:])
        if client is server or client not in self.hosts or server not in self.hosts:
            error(f"iperf measures between two hosts; {client} and {server} are not\n")
            return []
        output(f"*** Iperf: testing {l4Type} bandwidth between {client} and {server}\n")
        listening = server.popen(
            ["iperf3", "-s", "-1", "-p", str(port), "--forceflush"], stderr=subprocess.STDOUT
        )
        words = ["iperf3", "-c", server.IP(), "-p", str(port), "-t", str(seconds), "-J"]
        words += [
            "--connect-timeout",
            str(_CONNECT_MS),
            *(("-u", "-b", udpBw) if l4Type == "UDP" else ()),
        ]
        try:
            listening.stdout.readline()
            said, _ = client.popen(
                ["timeout", f"{seconds + _IPERF_REST_S:g}", *words]
            ).communicate()
        finally:
            listening.kill()
            listening.communicate()
        rates, why = _judged(said)
        result = ([udpBw] if l4Type == "UDP" else []) + rates
        if not rates:
            error(f"iperf from {client} to {server} measured nothing: {why}\n")
            return []
        output(f"*** Results: {result}\n")
        return result


class ScriptedMininet(TestbedMininet):
    """With a controller unless a script gives another, or none, as Mininet's documentation says."""

    def __init__(self, *args: object, **options: Any) -> None:
        if len(args) <= _BEFORE_CONTROLLER:
            options.setdefault("controller", mininet.node.findController())
        super().__init__(*args, **options)


def _is_referenced(requests: Requests) -> bool:
    """Return whether the script still has the network: a failed test leaves one that runs."""
    gc.collect()
    return requests.owner() is not None


def _judged(report: bytes) -> tuple[list[str], str]:
    """Receiver's and sender's rate from iperf3's JSON, as text; where it has none, why."""
    try:
        said = json.loads(report)
    except ValueError:
        return [], report.decode(errors="replace").strip() or "it took too long"
    end = said.get("end", {})
    parts = [end.get(name) or end.get("sum") for name in ("sum_received", "sum_sent")]
    if None in parts:
        return [], str(said.get("error", report.decode(errors="replace").strip()))
    return [f"{part['bits_per_second'] / 1e6:.2f} Mbits/sec" for part in parts], ""
