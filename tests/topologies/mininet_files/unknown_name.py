# mytopos: error: it has no topology 'mytopos'; did you mean mytopo?
from mininet.topo import Topo

topos = {"mytopo": Topo}
