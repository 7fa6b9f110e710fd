# lab: 2 hosts, 1 switches, 2 cables; the program failed after its network was built (line 8: ValueError: invalid literal
from mininet.net import Mininet
from mininet.topo import SingleSwitchTopo


def lab():
    net = Mininet(topo=SingleSwitchTopo(2), controller=None)
    print("processes:", int(net["h1"].cmd("ps | wc -l")))
    net.start()
