# mytopo: 2 hosts, 1 switches, 2 cables; root would be next to the switches (inNamespace=False)
from mininet.topo import Topo


class MyTopo(Topo):
    def build(self):
        switch = self.addSwitch("s1")
        self.addLink(self.addHost("h1"), switch, bw=1)
        self.addLink(self.addHost("root", inNamespace=False), switch, bw=1)


topos = {"mytopo": MyTopo}
