# mytopo: 2 hosts, 1 switches, 2 cables; 
from mininet.topo import Topo


class MyTopo(Topo):
    def __init__(self):
        Topo.__init__(self)
        switch = self.addSwitch("s1")
        for name in ("h1", "h2"):
            self.addLink(self.addHost(name), switch, bw=1)


topos = {"mytopo": MyTopo}
