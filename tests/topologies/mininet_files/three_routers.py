# routers: 6 hosts, 0 switches, 6 cables; forwarding r1 r2 r3
from mininet.net import Mininet


def routers():
    net = Mininet(controller=None)
    made = [net.addHost(f"r{i}") for i in (1, 2, 3)]
    for i, router in enumerate(made):
        router.cmd("echo 1 > /proc/sys/net/ipv4/ip_forward")
        net.addLink(net.addHost(f"pc{i + 1}"), router, bw=10)
        net.addLink(router, made[i - 1], bw=10)
    return net
