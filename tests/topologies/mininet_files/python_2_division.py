# mytopo: error: line 7: TypeError: 'float' object cannot be interpreted as an integer; in Python 3 / gives a fraction: write //
from mininet.topo import Topo


class FatTree(Topo):
    def build(self, k=4):
        for number in range(k / 2):
            self.addSwitch("s%d" % number)


topos = {"mytopo": FatTree}
