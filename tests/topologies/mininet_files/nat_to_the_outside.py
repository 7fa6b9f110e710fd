# __main__: 3 hosts, 1 switches, 3 cables; forwarding nat0
from mininet.net import Mininet
from mininet.topo import SingleSwitchTopo

net = Mininet(topo=SingleSwitchTopo(2))
net.addNAT().configDefault()
net.start()
