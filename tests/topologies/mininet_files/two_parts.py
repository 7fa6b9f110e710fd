# lab: 3 hosts, 0 switches, 2 cables; no path joins h1 and h2: r has several cables and does not forward
from mininet.net import Mininet


def lab():
    net = Mininet(controller=None)
    r = net.addHost("r")
    for i in (1, 2):
        net.addLink(net.addHost(f"h{i}"), r)
    return net
