"""A network as whoever uses the library may give it: itself, or its name."""

from os import PathLike

from testbed.errors import require_type
from topologies import Network, load_network

NetworkLike = Network | str | PathLike[str]
"""A network, or what ``testbed topology`` takes for one: a catalogue name or a file."""


def known_network(network: NetworkLike) -> Network:
    """The network itself. Raises TopologyError for a name that is none, UsageError for what is neither."""
    if isinstance(network, Network):
        return network
    require_type(network, (str, PathLike), "network", 'a catalogue name such as "swiss-t1", a file, or a Network')
    return load_network(network)
