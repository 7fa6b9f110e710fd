# topo: 3 hosts, 2 switches, 4 cables; forwarding nat1
"""As examples/natnet.py."""
from mininet.nodelib import NAT
from mininet.topo import Topo


class Behind(Topo):
    def build(self):
        core = self.addSwitch("s0")
        self.addLink(core, self.addHost("h0"))
        nat = self.addNode("nat1", cls=NAT, subnet="192.168.1.0/24", inetIntf="nat1-eth0")
        inner = self.addSwitch("s1")
        self.addLink(nat, core, intfName1="nat1-eth0")
        self.addLink(nat, inner, intfName1="nat1-eth1", params1={"ip": "192.168.1.1/24"})
        self.addLink(self.addHost("h1", ip="192.168.1.100/24"), inner)


topos = {"topo": Behind}
