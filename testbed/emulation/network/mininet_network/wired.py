"""A wiring as Mininet's topology and network: the same names, ports, addresses and datapath ids."""

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial

from mininet.link import Intf, Link
from mininet.node import Host, OVSSwitch, RemoteController
from mininet.topo import Topo

from testbed.emulation.network.cables import CableEnd, CablePlan
from testbed.emulation.network.mininet_network.net import TestbedMininet
from testbed.emulation.network.mininet_network.nodes import LateNode
from testbed.emulation.network.mininet_network.requests import MakeInterfaces, Requests
from testbed.model.naming.device_names import interface_name
from testbed.model.wiring import Wiring
from topologies import Json, LinkId

SetCables = Callable[[str, str, bool], object]
"""(node, node, up): cut the cables between the two, or bring them back."""
WordsAt = Callable[[str, Sequence[str]], list[str]]
"""(node's name, program and arguments) -> the words that run it there."""
_PREFIX = 8


class WiringTopo(Topo):  # type: ignore[misc]
    """``document``: as of ``testbed.model.wiring.wiring_document`` with its cables; ``here``: of these nodes alone, and
    the cables between them (None: all)."""

    def build(self, document: Json, here: Collection[str] | None = None) -> None:
        """In the wiring's order; a host has one MAC address, whatever the interface."""
        macs = {host["name"]: host["mac"] for host in document["hosts"]}
        for switch in document["switches"]:
            if here is None or switch["name"] in here:
                self.addSwitch(
                    switch["name"], dpid=f"{switch['dpid']:016x}", protocols="OpenFlow13"
                )
        for host in document["hosts"]:
            if here is None or host["name"] in here:
                self.addHost(host["name"], ip=f"{host['ip']}/{_PREFIX}", mac=host["mac"])
        for cable in document["cables"]:
            (a, port1, _), (b, port2, _) = cable["a"], cable["b"]
            if here is None or (a in here and b in here):
                self.addLink(a, b, port1=port1, port2=port2, addr1=macs.get(a), addr2=macs.get(b))

    @staticmethod
    def sorted(items: Iterable[str]) -> list[str]:
        """As they are: Mininet's order needs names that it can take apart."""
        return list(items)

    def links(self, sort: bool = False, **options: object) -> object:
        """Likewise."""
        return super().links(**options)


class RunningController(LateNode, RemoteController):  # type: ignore[misc]
    """A controller that runs already, on 127.0.0.1."""

    def checkListening(self) -> None:  # noqa: N802 - Mininet's name
        """It does."""


class WiredMininet(TestbedMininet):
    """The network of a wiring, built with its hosts and cables when it is made, with the rest when it starts.

    ``outgoing``: cables to nodes that are not ``here``, as (node, port, how its one interface is made);
    ``controller_port``: of the controller that the switches obey, None for none.
    """

    def __init__(
        self,
        document: Json,
        requests: Requests,
        *,
        set_cables: SetCables,
        here: Collection[str] | None = None,
        outgoing: Sequence[tuple[str, int, MakeInterfaces]] = (),
        controller_port: int | None = None,
    ) -> None:
        self._set_cables, self._outgoing = set_cables, outgoing
        self._macs = {host["name"]: host["mac"] for host in document["hosts"]}
        requests.devices.update(
            {one["name"]: one["device"] for one in (*document["hosts"], *document["switches"])}
        )
        topo = WiringTopo(document=document, here=here)
        controller = (
            None if controller_port is None else partial(RunningController, port=controller_port)
        )
        super().__init__(topo, OVSSwitch, Host, controller, Link, requests=requests)

    def buildFromTopo(self, topo: Topo | None = None) -> None:  # noqa: N802 - Mininet's name
        """An interface without a link, as Mininet attaches those of hardware, is what goes to another machine."""
        super().buildFromTopo(topo)
        for name, port, make in self._outgoing:
            node, mac = self[name], self._macs.get(name)
            interface = interface_name(node.device, port)
            self.requests.add_interfaces((interface, node.host, mac), make=make)
            Intf(interface, node, port=port, mac=mac, moveIntfFn=lambda *_: None)

    def configHosts(self) -> None:  # noqa: N802 - Mininet's name
        """Hosts and cables are made; the addresses are noted only, for whom each knows is the network's to say."""
        for host in self.hosts:
            if host.intfs:
                first = host.intf()
                first.ip, first.prefixLen = host.params["ip"].split("/")
        self.requests.flush()

    def configLinkStatus(self, src: str, dst: str, status: str) -> None:  # noqa: N802
        """Every cable between the two nodes, up or down."""
        a, b = (self[name].given if name in self else name for name in (src, dst))
        self._set_cables(a, b, status == "up")

    def cable_plan(self, wiring: Wiring) -> CablePlan:
        """Which interface sends, and which receives, the packets of each link."""
        sending: dict[LinkId, CableEnd] = {}
        receiving: dict[LinkId, CableEnd] = {}
        hosts: dict[str, dict[int, CableEnd]] = {}
        for cable in wiring.cables:
            sides = (
                (cable.a, cable.a_port, cable.forward),
                (cable.b, cable.b_port, cable.backward),
            )
            ends = [self._end(wiring, *side) for side in sides]
            for (_, port, link), near, far in zip(sides, ends, ends[::-1], strict=True):
                if link is not None and near is not None:
                    sending[link] = near
                if link is not None and far is not None:
                    receiving[link] = far
                if near is not None and near.host is not None:
                    hosts.setdefault(near.host, {})[port] = near
        return CablePlan(wiring=wiring, sending=sending, receiving=receiving, hosts=hosts)

    def _end(self, wiring: Wiring, name: str, port: int, link: LinkId | None) -> CableEnd | None:
        """The interface; None where its node is on another machine."""
        node = self.nameToNode.get(name)
        if node is None:
            return None
        interface = node.intfs[port]
        sent = None if link is None else wiring.network.link(*link)
        return CableEnd(interface=interface.name, index=interface.index, host=node.host, link=sent)


def described_mininet(document: Json, words_at: WordsAt, set_cables: SetCables) -> WiredMininet:
    """A network that stands already, maybe in another process: its nodes run commands by ``words_at(name, argv)``."""
    requests = Requests(words_at)
    net = WiredMininet(document, requests, set_cables=set_cables)
    requests.takes_settings = False  # what is set from now on is set by commands
    return net
