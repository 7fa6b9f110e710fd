# lab: 3 hosts, 1 switches, 2 cables; left out: the link h3-s1, which the program takes down
from mininet.net import Mininet


def lab():
    net = Mininet(controller=None, ipBase="192.168.5.0/24")
    hosts = [net.addHost(f"h{i}") for i in (1, 2, 3)]
    switch = net.addSwitch("s1")
    for host in hosts:
        net.addLink(host, switch)
    net.configLinkStatus("h3", "s1", "down")
    net.start()
    hosts[0].setIP("192.168.7.7", 24)
    hosts[1].setMAC("00:00:00:00:00:22")
    int(hosts[0].cmd("wc -l"))
