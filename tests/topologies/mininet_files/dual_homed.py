# mytopo: 2 hosts, 2 switches, 4 cables; 
from mininet.topo import Topo


class MyTopo(Topo):
    def build(self):
        switches = [self.addSwitch(name) for name in ("s1", "s2")]
        for host in ("h1", "h2"):
            self.addHost(host)
            for switch in switches:
                self.addLink(host, switch, bw=10)


topos = {"mytopo": MyTopo}
