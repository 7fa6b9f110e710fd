# lab: 3 hosts, 0 switches, 2 cables; forwarding r
from mininet.net import Mininet


def lab():
    net = Mininet(controller=None)
    r = net.addHost("r")
    for i in (1, 2):
        net.addLink(net.addHost(f"h{i}"), r)
    net.start()
    r.pexec("sysctl -w net/ipv4/ip_forward=1")
    net.pingAll()
