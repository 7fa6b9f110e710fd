# own: 3 hosts, 1 switches, 3 cables; commands are not run: h2: nice
"""Link and interface classes of one's own, as older Mininet's TCLink was written."""
from mininet.link import Link, TCIntf
from mininet.topo import Topo


class SymmetricLink(Link):
    def __init__(self, node1, node2, port1=None, port2=None, intfName1=None, intfName2=None, **params):
        ours = {"cls1": TCIntf, "cls2": TCIntf, "params1": params, "params2": params}
        Link.__init__(self, node1, node2, port1, port2, intfName1, intfName2, **ours)


class HalfIntf(TCIntf):
    def config(self, bw=None, **params):
        if self.node.name != "s1":
            self.cmd("nice", self.name)
        return TCIntf.config(self, bw=bw / 2, **params)


class HalfLink(Link):
    def __init__(self, node1, node2, **params):
        Link.__init__(self, node1, node2, **{**params, "intf": HalfIntf})


class Own(Topo):
    def build(self):
        switch = self.addSwitch("s1")
        self.addLink(self.addHost("h1"), switch, cls=SymmetricLink, bw=4)
        self.addLink(self.addHost("h2"), switch, cls=HalfLink, bw=8)
        self.addLink(self.addHost("h3"), switch, bw=4, addr1="02:00:00:00:00:33", intfName1="lan")


topos = {"own": Own}
