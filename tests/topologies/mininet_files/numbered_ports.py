# mytopo: 2 hosts, 1 switches, 2 cables; 
from mininet.topo import Topo


class MyTopo(Topo):
    def build(self):
        switch = self.addSwitch("s1")
        for number, name in enumerate(("h1", "h2")):
            self.addLink(self.addHost(name), switch, port2=9 - number, bw=1)


topos = {"mytopo": MyTopo}
