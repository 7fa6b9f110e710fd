# mytopo: 2 hosts, 1 switches, 2 cables; 2 of 2 links have no bw
from mininet.topo import SingleSwitchTopo

topos = {"mytopo": SingleSwitchTopo(2)}
