# mytopo: error: no node is in it; give at least one
from mininet.topo import Topo

topos = {"mytopo": Topo}
