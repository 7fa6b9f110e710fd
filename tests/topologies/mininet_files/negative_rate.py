# mytopo: error: links[0]: bw -5 is not a rate; give Mbit/s above 0, as bw=10
from mininet.topo import Topo


class MyTopo(Topo):
    def build(self):
        self.addLink(self.addHost("h1"), self.addSwitch("s1"), bw=-5)


topos = {"mytopo": MyTopo}
