"""Which fabric a run goes on: as requested, else real switches where this machine can have them."""

import sys

from testbed.emulation.machine import capabilities
from testbed.errors import CapabilityError
from testbed.model.naming.names import NetworkLike, known_network


def choose_fabric(requested: str | None, *networks: NetworkLike, quiet: bool = False) -> str:
    """``emulation`` or ``simulator``: as asked, else emulation where this machine can; says so in one line where not.

    ``networks``: what is to be built: a machine whose kernel cannot delay packets can build none that has delays.
    Raises CapabilityError where emulation was requested and cannot be had, TopologyError for a name that is none.
    """
    if requested == "simulator":
        return "simulator"
    obstacle = capabilities.emulation_problem()
    if obstacle is None and any(link.delay_s for one in networks for link in known_network(one).links):
        obstacle = capabilities.delay_problem()
    if obstacle is None:
        return "emulation"
    if requested == "emulation":
        raise CapabilityError(f"emulation is not possible here: {obstacle}; --fabric simulator needs nothing of this")
    if not quiet:
        print(f"testbed: running on the simulated fabric: {' '.join(obstacle.split())}", file=sys.stderr)
    return "simulator"
