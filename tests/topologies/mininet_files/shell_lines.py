# mytopo: error: line 10 is not Python 3: 'sudo mn --custom shell_lines.py --topo mytopo'
from mininet.topo import Topo


class MyTopo(Topo):
    pass


topos = {"mytopo": MyTopo}
sudo mn --custom shell_lines.py --topo mytopo
