# mytopo: 2 hosts, 1 switches, 2 cables; 
from mininet.topo import Topo


class MyTopo(Topo):
    def build(self):
        switch = self.addSwitch("s1")
        for name in ("h1", "h2"):
            self.addLink(self.addHost(name), switch, params1={"bw": 2, "delay": "1ms"}, params2={"bw": 8})


topos = {"mytopo": MyTopo}
