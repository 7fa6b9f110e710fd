# __main__: 2 hosts, 1 switches, 2 cables; commands are not run: the file: service openvswitch-switch start
import os
import time

from mininet.log import setLogLevel
from mininet.net import Mininet
from mininet.node import Controller
from mininet.topo import SingleSwitchTopo

setLogLevel("info")
os.system("service openvswitch-switch start")
print("a file may print")
net = Mininet(topo=SingleSwitchTopo(2), controller=Controller)
net.start()
time.sleep(1000)
net.pingAll()
net.stop()
