# mytopo: 1 hosts, 1 switches, 1 cables; topos['mytopo'] is a tuple, which mn itself refuses
from mininet.topo import Topo


class MyTopo(Topo):
    def build(self):
        self.addLink(self.addHost("h1"), self.addSwitch("s1"), bw=1)


topos = {"mytopo": (MyTopo, {})}
