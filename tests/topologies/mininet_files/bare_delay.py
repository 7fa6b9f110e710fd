# mytopo: 2 hosts, 1 switches, 2 cables; delay=1 has no unit: Mininet's tc reads microseconds; write '1ms'
from mininet.topo import Topo


class MyTopo(Topo):
    def build(self):
        switch = self.addSwitch("s1")
        for name in ("h1", "h2"):
            self.addLink(self.addHost(name), switch, bw=10, delay=1)


topos = {"mytopo": MyTopo}
