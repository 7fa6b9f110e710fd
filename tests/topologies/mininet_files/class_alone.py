# Star: 3 hosts, 1 switches, 3 cables; 
from mininet.topo import Topo


class Star(Topo):
    def build(self, n=3):
        centre = self.addSwitch("s1")
        for i in range(n):
            self.addLink(self.addHost(f"h{i}"), centre, bw=100)
