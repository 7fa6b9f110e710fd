# mytopo: error: line 2: the module keras_of_somebody is missing; install it, or put it next to the file
import keras_of_somebody
from mininet.topo import Topo

topos = {"mytopo": Topo}
