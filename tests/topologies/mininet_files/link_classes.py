# lab: 2 hosts, 1 switches, 2 cables; CPULimitedHost: no CPU limits here
from functools import partial

from mininet.link import TCLink
from mininet.net import Mininet
from mininet.node import CPULimitedHost, OVSSwitch
from mininet.topo import SingleSwitchTopo


def lab():
    net = Mininet(
        topo=SingleSwitchTopo(2), host=partial(CPULimitedHost, cpu=0.5), link=partial(TCLink, bw=3), controller=None,
        switch=partial(OVSSwitch, protocols="OpenFlow13"),
    )
    net.start()
