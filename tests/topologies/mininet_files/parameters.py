# grid,3,bw=5: 3 hosts, 3 switches, 6 cables; 
from mininet.topo import Topo


class Ring(Topo):
    def build(self, count=2, bw=10):
        switches = [self.addSwitch(f"s{i + 1}") for i in range(count)]
        for i, switch in enumerate(switches):
            self.addLink(self.addHost(f"h{i + 1}"), switch, bw=bw)
            self.addLink(switch, switches[i - 1], bw=bw)


topos = {"grid": Ring}
