# mytopo: error: it has no node; give at least one
from mininet.topo import Topo

topos = {"mytopo": Topo}
