# mytopo: error: 'str' object is not callable
from mininet.topo import Topo


class MyTopo(Topo):
    def build(self):
        self.addSwitch("s1", cls="OVSBridge")


topos = {"mytopo": MyTopo}
