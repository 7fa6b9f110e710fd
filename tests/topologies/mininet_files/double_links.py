# mytopo: 2 hosts, 2 switches, 4 cables; 
from mininet.topo import Topo


class MyTopo(Topo):
    def build(self):
        s1, s2 = self.addSwitch("s1"), self.addSwitch("s2")
        for host, switch in (("h1", s1), ("h2", s2)):
            self.addLink(self.addHost(host), switch, bw=20)
        for _ in range(2):
            self.addLink(s1, s2, bw=20, delay="10ms", loss=9, max_queue_size=400, use_htb=True)


topos = {"mytopo": MyTopo}
