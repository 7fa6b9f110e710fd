# mytopo: error: line 7 is not Python 3: 'print "Simple topology"'; the file is Python 2: run 2to3 -w on it
from mininet.topo import Topo


class MyTopo(Topo):
    def build(self):
        print "Simple topology"


topos = {"mytopo": MyTopo}
