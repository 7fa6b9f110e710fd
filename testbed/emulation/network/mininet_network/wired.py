"""A wiring as Mininet's topology and network.

Names, ports, addresses and datapath ids are those of the wiring.
"""

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

# Cuts all cables between two nodes, or restores them: node, node, and whether they shall be up.
SetCables = Callable[[str, str, bool], object]

# Returns the command line that runs a program: the node's name, and the program with its arguments.
WordsAt = Callable[[str, Sequence[str]], list[str]]

# All hosts are in one subnet, 10.0.0.0/8.
_PREFIX = 8


class WiringTopo(Topo):  # type: ignore[misc]
    """A wiring as a topology of Mininet's.

    Args:
        document: The wiring (``testbed.model.wiring.wiring_document`` with its cables).
        local_nodes: Build only these nodes and the cables between them; None for all.
    """

    def build(self, document: Json, local_nodes: Collection[str] | None = None) -> None:
        """Add the nodes and cables in the wiring's order.

        All interfaces of a host have the same MAC address.
        """
        macs = {host["name"]: host["mac"] for host in document["hosts"]}
        for switch in document["switches"]:
            if local_nodes is None or switch["name"] in local_nodes:
                dpid = f"{switch['dpid']:016x}"
                self.addSwitch(switch["name"], dpid=dpid, protocols="OpenFlow13")
        for host in document["hosts"]:
            if local_nodes is None or host["name"] in local_nodes:
                self.addHost(host["name"], ip=f"{host['ip']}/{_PREFIX}", mac=host["mac"])
        for cable in document["cables"]:
            a, port1, _ = cable["a"]
            b, port2, _ = cable["b"]
            if local_nodes is None or (a in local_nodes and b in local_nodes):
                self.addLink(a, b, port1=port1, port2=port2, addr1=macs.get(a), addr2=macs.get(b))

    @staticmethod
    def sorted(items: Iterable[str]) -> list[str]:
        """Return the items as they are; Mininet's order requires names that end with a number."""
        return list(items)

    def links(self, sort: bool = False, **options: object) -> object:
        """Return the links in the wiring's order, even if Mininet wants them sorted."""
        return super().links(**options)


class RunningController(LateNode, RemoteController):  # type: ignore[misc]
    """A controller that already runs, on 127.0.0.1."""

    def checkListening(self) -> None:  # noqa: N802 - Mininet's name
        """Do nothing, because the controller listens."""


class WiredMininet(TestbedMininet):
    """The network of a wiring.

    Hosts and cables are built when the object is created, and the rest when it starts.

    Args:
        document: The wiring (``testbed.model.wiring.wiring_document`` with its cables).
        requests: Collects the parts that the nodes request, until they are built.
        set_cables: Cuts or restores the cables between two nodes.
        local_nodes: Build only these nodes; None for all.
        outgoing: For each cable to a node on another machine: the node and the port at this end,
            and the function that returns the netlink messages that create the interface.
        controller_port: TCP port of the controller; None for no controller.
    """

    def __init__(
        self,
        document: Json,
        requests: Requests,
        *,
        set_cables: SetCables,
        local_nodes: Collection[str] | None = None,
        outgoing: Sequence[tuple[str, int, MakeInterfaces]] = (),
        controller_port: int | None = None,
    ) -> None:
        self._set_cables = set_cables
        self._outgoing = outgoing
        self._macs = {host["name"]: host["mac"] for host in document["hosts"]}
        for node in (*document["hosts"], *document["switches"]):
            requests.devices[node["name"]] = node["device"]
        topo = WiringTopo(document=document, local_nodes=local_nodes)
        controller = None
        if controller_port is not None:
            controller = partial(RunningController, port=controller_port)
        super().__init__(topo, OVSSwitch, Host, controller, Link, requests=requests)

    def buildFromTopo(self, topo: Topo | None = None) -> None:  # noqa: N802 - Mininet's name
        """Build the topology, and the interfaces of cables to other machines.

        Each of these is an interface without a link, as Mininet attaches hardware interfaces.
        """
        super().buildFromTopo(topo)
        for name, port, make in self._outgoing:
            node = self[name]
            mac = self._macs.get(name)
            interface = interface_name(node.device, port)
            self.requests.add_interfaces((interface, node.host, mac), make=make)
            # The interface is created in the namespace of its node, so it need not be moved.
            Intf(interface, node, port=port, mac=mac, moveIntfFn=lambda *_: None)

    def configHosts(self) -> None:  # noqa: N802 - Mininet's name
        """Build hosts and cables.

        The addresses are only recorded: the network decides which hosts know each other
        (``HostAddresses``).
        """
        for host in self.hosts:
            if host.intfs:
                first = host.intf()
                first.ip, first.prefixLen = host.params["ip"].split("/")
        self.requests.flush()

    def configLinkStatus(self, src: str, dst: str, status: str) -> None:  # noqa: N802
        """Set every cable between two nodes up or down, as Mininet's ``link`` command does."""
        self._set_cables(self._network_name(src), self._network_name(dst), status == "up")

    def _network_name(self, name: str) -> str:
        """Return the name in the wiring of the node with this Mininet name."""
        return str(self[name].given) if name in self else name

    def cable_plan(self, wiring: Wiring) -> CablePlan:
        """Return which interface sends, and which receives, the packets of each link."""
        sending: dict[LinkId, CableEnd] = {}
        receiving: dict[LinkId, CableEnd] = {}
        hosts: dict[str, dict[int, CableEnd]] = {}
        for cable in wiring.cables:
            end_a = self._end(wiring, cable.a, cable.a_port, cable.forward)
            end_b = self._end(wiring, cable.b, cable.b_port, cable.backward)
            directions = (
                (cable.a_port, cable.forward, end_a, end_b),
                (cable.b_port, cable.backward, end_b, end_a),
            )
            for port, link, near, far in directions:
                if link is not None and near is not None:
                    sending[link] = near
                if link is not None and far is not None:
                    receiving[link] = far
                if near is not None and near.host is not None:
                    hosts.setdefault(near.host, {})[port] = near
        return CablePlan(wiring=wiring, sending=sending, receiving=receiving, hosts=hosts)

    def _end(self, wiring: Wiring, name: str, port: int, link: LinkId | None) -> CableEnd | None:
        """Return one end of a cable, or None if its node is on another machine.

        Args:
            wiring: The wiring.
            name: The node at this end.
            port: The port of the node.
            link: The link that the end sends, if any.
        """
        node = self.nameToNode.get(name)
        if node is None:
            return None
        interface = node.intfs[port]
        sent = None if link is None else wiring.network.link(*link)
        return CableEnd(interface=interface.name, index=interface.index, host=node.host, link=sent)


def described_mininet(document: Json, words_at: WordsAt, set_cables: SetCables) -> WiredMininet:
    """Return a Mininet network that describes a running network, maybe of another process.

    Args:
        document: The wiring (``testbed.model.wiring.wiring_document`` with its cables).
        words_at: Returns the command line that runs a program in a node.
        set_cables: Cuts or restores the cables between two nodes.
    """
    requests = Requests(words_at)
    net = WiredMininet(document, requests, set_cables=set_cables)
    # The network exists, so settings from now on are commands.
    requests.takes_settings = False
    return net
