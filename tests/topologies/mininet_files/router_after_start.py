# lab: 3 hosts, 2 switches, 4 cables; forwarding r
"""The commonest form of a router: commands after the start of the network, and a loop that never ends."""
import time

from mininet.net import Mininet


def lab():
    net = Mininet(controller=None)
    r = net.addHost("r", ip="10.0.1.1/24")
    for i in (1, 2):
        switch = net.addSwitch(f"s{i}")
        net.addLink(switch, r, params2={"ip": f"10.0.{i}.1/24"})
        net.addLink(net.addHost(f"h{i}", ip=f"10.0.{i}.10/24"), switch)
    net.start()
    r.cmd("sysctl -w net.ipv4.conf.all.forwarding=1")
    while True:
        time.sleep(1)
