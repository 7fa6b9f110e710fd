# myNetwork: 2 hosts, 2 switches, 3 cables; controllers are left out: the testbed's own
"""As MiniEdit exports a network."""
from mininet.cli import CLI
from mininet.link import TCLink
from mininet.net import Mininet
from mininet.node import Controller, Host, OVSKernelSwitch, RemoteController


def myNetwork():
    net = Mininet(topo=None, build=False, ipBase="10.0.0.0/8")
    c0 = net.addController(name="c0", controller=RemoteController, ip="127.0.0.1", protocol="tcp", port=6633)
    s1 = net.addSwitch("s1", cls=OVSKernelSwitch)
    s2 = net.addSwitch("s2", cls=OVSKernelSwitch)
    h1 = net.addHost("h1", cls=Host, ip="10.0.0.1", defaultRoute=None)
    h2 = net.addHost("h2", cls=Host, ip="10.0.0.2", defaultRoute=None)
    net.addLink(h1, s1)
    net.addLink(s1, s2, cls=TCLink, bw=10, delay="3ms")
    net.addLink(s2, h2)
    net.build()
    for controller in net.controllers:
        controller.start()
    net.get("s1").start([c0])
    net.get("s2").start([c0])
    CLI(net)
    net.stop()


if __name__ == "__main__":
    myNetwork()
