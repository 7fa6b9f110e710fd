# mytopo: 2 hosts, 2 switches, 3 cables; 3 of 3 links have no bw, which Mininet does not limit
"""As custom/topo-2sw-2host.py of Mininet: the first file that everybody writes."""
from mininet.topo import Topo


class MyTopo(Topo):
    def build(self):
        left, right = self.addSwitch("s3"), self.addSwitch("s4")
        self.addLink(self.addHost("h1"), left)
        self.addLink(left, right)
        self.addLink(right, self.addHost("h2"))


topos = {"mytopo": (lambda: MyTopo())}
