# __main__: 2 hosts, 1 switches, 2 cables; controllers are left out
import sys

from mininet.net import Mininet
from mininet.topo import SingleSwitchTopo

net = Mininet(topo=SingleSwitchTopo(2))
try:
    net.start()
    net.pingAll()
except:  # noqa: E722
    net.stop()
    sys.exit(1)
