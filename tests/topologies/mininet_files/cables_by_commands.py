# __main__: error: it creates cables by commands (h1: ip link add
from mininet.net import Mininet

net = Mininet(controller=None)
h1, h2 = net.addHost("h1"), net.addHost("h2")
h1.cmd("ip link add h1-eth0 type veth peer name h2-eth0")
h1.cmd("ip link set h2-eth0 netns %s" % h2.pid)
net.start()
