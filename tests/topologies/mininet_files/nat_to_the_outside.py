# __main__: 3 hosts, 1 switches, 3 cables; nat0 is an ordinary host: nothing leads out of the sandbox
from mininet.net import Mininet
from mininet.topo import SingleSwitchTopo

net = Mininet(topo=SingleSwitchTopo(2))
net.addNAT().configDefault()
net.start()
