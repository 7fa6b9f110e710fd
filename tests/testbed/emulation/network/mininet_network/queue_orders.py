"""A Mininet script: networks built in every order of calls, and what the kernel says of their interfaces.

It prints a line ``LOST ...`` for every parameter that the kernel does not have, and at the end how many it compared.
"""

import itertools
import re
import subprocess
import sys

from mininet.link import Link, OVSLink, TCIntf, TCLink
from mininet.net import Mininet
from mininet.node import Host, OVSBridge, RemoteController
from mininet.topo import Topo


class EthtoolHost(Host):
    """A host whose configuration runs a command, as those of P4 tutorials do."""

    def config(self, **params):
        result = super().config(**params)
        self.cmd(f"ethtool -K {self.defaultIntf()} tx off")
        return result


class ShapedLink(Link):
    """A link whose interfaces are limited by a class that the script names itself."""

    def __init__(self, *args, **options):
        super().__init__(*args, cls1=TCIntf, cls2=TCIntf, **options)


class Orders(Topo):
    """Hosts and switches with a link of each class, each with a rate of its own."""

    def build(self, host):
        s1, s2, s3 = (self.addSwitch(name) for name in ("s1", "s2", "s3"))
        h1, h2, h3 = (self.addHost(name, cls=host) for name in ("h1", "h2", "h3"))
        self.addLink(h1, s1, cls=TCLink, bw=11)
        self.addLink(h2, s2, cls=ShapedLink, bw=12, max_queue_size=30)
        self.addLink(h3, s3, cls=Link, intf=TCIntf, bw=13)
        self.addLink(s1, s2, cls=TCLink, bw=14, delay="2ms")
        self.addLink(s2, s3, cls=OVSLink, intf=TCIntf, params1={"bw": 15}, params2={"bw": 16})


CONTROLLERS = {
    "default": {},
    "none": {"controller": None},
    "remote": {"controller": RemoteController},
    "bridge": {"controller": None, "switch": OVSBridge},
}


def _popen(net):
    net["h1"].popen(["true"]).wait()


def _removed(net):
    net.delLink(net.addLink(net["h1"], net["s3"], cls=TCLink, bw=23))


def _readdress(net):
    net["h1"].setIP("10.0.1.1/8")
    net["h1"].setMAC("02:00:00:00:01:01")


CALLS = {
    "nothing": lambda net: None,
    "cmd of a host": lambda net: net["h1"].cmd("ip link"),
    "cmd of a switch": lambda net: net["s2"].cmd("ip link"),
    "pexec": lambda net: net["h3"].pexec("true"),
    "popen": _popen,
    "addresses": _readdress,
    "removed link": _removed,
    "host class": lambda net: None,
    "one switch first": lambda net: net["s1"].start(net.controllers),
    "built by hand": lambda net: (net.build(), net["h1"].cmd("ip link")),
}


def change(net):
    """Add links and nodes to a network that runs, and change those that it has."""
    h4 = net.addHost("h4")
    late = net.addLink(h4, net["s1"], cls=TCLink, bw=17, delay="3ms")
    net["s1"].attach(late.intf2)
    h4.setIP("10.0.0.4/8")
    by_command = net.addLink(net["h3"], net["s1"], cls=TCLink, bw=22)
    net["s1"].cmd(f"ovs-vsctl add-port s1 {by_command.intf2}")
    net.delLink(net.addLink(net["h3"], net["s1"], cls=TCLink, bw=23))
    s4 = net.addSwitch("s4")
    net.addLink(s4, net["h2"], cls=TCLink, bw=18)
    s4.start(net.controllers)
    between = net["s2"].connectionsTo(net["s3"])[0]
    for intf in between:
        intf.config(bw=19)
    net.configLinkStatus("s1", "s2", "down")
    net.configLinkStatus("s1", "s2", "up")
    net["s3"].stop(deleteIntfs=False)
    net["s3"].start(net.controllers)
    net["h3"].intf().config(bw=20, delay="1ms")
    net["h3"].intf().config(bw=21)


def expected(intf):
    """Return the rate of an interface and whether it delays, by the parameters that the script gave last."""
    parameters = CHANGED.get(intf.name) or intf.params
    return parameters.get("bw"), parameters.get("delay")


CHANGED = {}


def lost(net):
    """Yield each parameter that the kernel does not have."""
    for node in (*net.hosts, *net.switches):
        queues = node.cmd("tc qdisc show")
        links = node.cmd("ip -o link; ip -o -4 address")
        for intf in node.intfList():
            if intf.name == "lo":
                continue
            bw, delay = expected(intf)
            lines = [line for line in queues.splitlines() if f"dev {intf.name} " in line]
            COMPARED.append(intf.name)
            if bw and not any(f"rate {bw}Mbit" in line for line in lines):
                yield f"{intf.name}: rate {bw}: {lines}"
            if delay and not any("netem" in line or "clsact" in line for line in lines):
                yield f"{intf.name}: delay {delay}: {lines}"
            if f"{intf.name}@" in links and intf.MAC() and intf.MAC() not in links:
                yield f"{intf.name}: MAC {intf.MAC()}: {links}"
            if intf.IP() and not re.search(rf"{intf.name} +inet {intf.IP()}/", links):
                yield f"{intf.name}: address {intf.IP()}: {links}"


COMPARED = []


def cases(everything):
    """Return the pairs of controller and call: all of them, or every call once."""
    if everything:
        return list(itertools.product(CONTROLLERS, CALLS))
    return list(zip(itertools.cycle(CONTROLLERS), CALLS))


def main(everything):
    """Make each call before the start, look, change the running network and look again."""
    running = subprocess.Popen(["controller", "ptcp:6633"])
    for controller, call in cases(everything):
        CHANGED.clear()
        host = EthtoolHost if call == "host class" else Host
        by_hand = call == "built by hand"
        net = Mininet(topo=Orders(host=host), build=not by_hand, **CONTROLLERS[controller])
        CALLS[call](net)
        net.start()
        for parameter in lost(net):
            print("LOST", controller, "|", call, "|", "started", "|", parameter)
        change(net)
        CHANGED.update({"s2-eth3": {"bw": 19}, "s3-eth2": {"bw": 19}, "h3-eth0": {"bw": 21}})
        for parameter in lost(net):
            print("LOST", controller, "|", call, "|", "changed", "|", parameter)
        net.stop()
    running.kill()
    print("COMPARED", len(COMPARED))


main(everything="all" in sys.argv)
