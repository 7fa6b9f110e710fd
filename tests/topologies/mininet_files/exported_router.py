# myNetwork: 2 hosts, 1 switches, 2 cables; forwarding: r5
"""As MiniEdit exports a legacy router."""
from mininet.cli import CLI
from mininet.net import Mininet
from mininet.node import Host, Node, OVSKernelSwitch


def myNetwork():
    net = Mininet(topo=None, build=False, ipBase="10.0.0.0/8")
    s1 = net.addSwitch("s1", cls=OVSKernelSwitch, failMode="standalone")
    r5 = net.addHost("r5", cls=Node, ip="0.0.0.0")
    r5.cmd("sysctl -w net.ipv4.ip_forward=1")
    h1 = net.addHost("h1", cls=Host, ip="no ip defined/8", defaultRoute=None)
    net.addLink(h1, s1)
    net.addLink(r5, s1)
    net.build()
    CLI(net)
    net.stop()
