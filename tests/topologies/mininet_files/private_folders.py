# mytopo: 1 hosts, 1 switches, 1 cables; h1: no private directories here; it sees those of all
from mininet.topo import Topo


class MyTopo(Topo):
    def build(self):
        self.addLink(self.addHost("h1", privateDirs=["/var/log"]), self.addSwitch("s1"), bw=1)


topos = {"mytopo": MyTopo}
