# NetworkTopo: 3 hosts, 2 switches, 4 cables; forwarding r0
"""As examples/linuxrouter.py: a router that is a host with the kernel's forwarding on, subnets of its own."""
from mininet.node import Node
from mininet.topo import Topo


class LinuxRouter(Node):
    def config(self, **params):
        super().config(**params)
        self.cmd("sysctl net.ipv4.ip_forward=1")

    def terminate(self):
        self.cmd("sysctl net.ipv4.ip_forward=0")
        super().terminate()


class NetworkTopo(Topo):
    def build(self, **_opts):
        router = self.addNode("r0", cls=LinuxRouter, ip="192.168.1.1/24")
        s1, s2 = self.addSwitch("s1"), self.addSwitch("s2")
        self.addLink(s1, router, intfName2="r0-eth1", params2={"ip": "192.168.1.1/24"}, bw=1)
        self.addLink(s2, router, intfName2="r0-eth2", params2={"ip": "172.16.0.1/12"}, bw=1)
        h1 = self.addHost("h1", ip="192.168.1.100/24", defaultRoute="via 192.168.1.1")
        h2 = self.addHost("h2", ip="172.16.0.100/12", defaultRoute="via 172.16.0.1")
        self.addLink(h1, s1, bw=1)
        self.addLink(h2, s2, bw=1)
