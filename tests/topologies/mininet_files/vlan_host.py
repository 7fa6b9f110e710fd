# mytopo: 1 hosts, 1 switches, 1 cables; commands are not run: h1: vconfig add h1-eth0 100
from mininet.node import Host
from mininet.topo import Topo


class VLANHost(Host):
    def config(self, vlan=100, **params):
        super().config(**params)
        self.cmd("vconfig add %s %d" % (self.defaultIntf(), vlan))


class MyTopo(Topo):
    def build(self):
        self.addLink(self.addHost("h1", cls=VLANHost, vlan=100), self.addSwitch("s1"), bw=1)


topos = {"mytopo": MyTopo}
