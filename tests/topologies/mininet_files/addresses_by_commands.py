# lab: 3 hosts, 1 switches, 4 cables; commands are not run: h1: ip addr add 10.9.9.9/24 dev h1-eth0
from mininet.net import Mininet


def lab():
    net = Mininet(controller=None)
    hosts = [net.addHost(f"h{i}") for i in (1, 2, 3)]
    switch = net.addSwitch("s1")
    for host in (*hosts, hosts[2]):
        net.addLink(host, switch)
    net.start()
    h1, h2, h3 = hosts
    h1.cmd("ifconfig h1-eth0 192.168.1.1 netmask 255.255.255.0 up")
    h1.cmd("ip addr add 10.9.9.9/24 dev h1-eth0")
    h2.cmd("ifconfig", "h2-eth0", "192.168.1.2")
    h3.cmd("ifconfig h3-eth0 192.168.1.3/24; ip addr add 192.168.2.3/24 dev h3-eth1")
    h2.popen(["ifconfig", "h2-eth0", "192.168.1.22/24", "up"])
