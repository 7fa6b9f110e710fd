# departments: 1 hosts, 2 switches, 2 cables; core: Mininet itself refuses a switch without a number or dpid
from mininet.topo import Topo


class Departments(Topo):
    def build(self):
        core, dmz = self.addSwitch("core"), self.addSwitch("dmz_sw")
        self.addLink(core, dmz, bw=10)
        self.addLink(self.addHost("web"), dmz, bw=10)


topos = {"departments": Departments}
