"""Bubble flow control (Carrion et al. 1997): the rings of a grid, and where a packet would enter one.

A packet that enters a ring, from a host or out of another ring, must leave one more slot free behind it. So the slots
of a ring are never all taken, and what is in it can always move on.
"""

from __future__ import annotations

import numpy as np

from testbed.arrays import IntArray
from testbed.errors import InputError
from testbed.interconnect.parameters import SimulationParameters
from topologies import Network


def check_rings(network: Network, parameters: SimulationParameters) -> None:
    """InputError where bubble flow control or recovery does not go with the routing, the network or the buffers."""
    if parameters.deadlock == "bubble":
        if parameters.routing != "dor" or parameters.channels != 1:
            raise InputError("--deadlock-avoidance bubble: it is for --routing dor with one virtual channel")
        if parameters.slots < 2:
            raise InputError(
                "--deadlock-avoidance bubble: it needs buffers of two packets or more; give larger --buffer-size"
            )
    if parameters.deadlock == "disha" and parameters.routing != "minimal-adaptive":
        raise InputError("--deadlock-avoidance disha: it recovers --routing minimal-adaptive")


def axes(network: Network) -> IntArray:
    """By link of a grid: twice its dimension, and one more where it leads towards -; -1: a host's link, or no grid."""
    found = np.full(len(network.links), -1, dtype=np.int32)
    shape = network.attributes.get("shape")
    if not isinstance(shape, list):
        return found
    at = {switch.id: switch.attributes.get("coordinates") for switch in network.switches}
    for i, link in enumerate(network.links):
        one, other = at.get(link.source), at.get(link.target)
        if isinstance(one, list) and isinstance(other, list):
            dimension = next(d for d in range(len(one)) if one[d] != other[d])
            forward = (other[dimension] - one[dimension]) % shape[dimension] == 1
            found[i] = 2 * dimension + (not forward)
    return found
