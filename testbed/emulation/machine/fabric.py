"""Which fabric a run goes on: as requested, else real switches where this machine can have them."""

import sys

from testbed.emulation.machine import capabilities
from testbed.errors import CapabilityError, InputError
from testbed.model.naming.names import NetworkLike, known_network
from topologies.impairments import RateTrace


def require_delays(network: NetworkLike) -> None:
    """CapabilityError where this machine can give the network's links no delays; one line says where a process does."""
    if (obstacle := _no_delays(network)) is not None:
        raise CapabilityError(obstacle)


def _no_delays(*networks: NetworkLike, quiet: bool = False) -> str | None:
    """Why this machine can give their links no delays; None where it can, and one line where a process does."""
    delays_s = [
        link.delay_s for one in networks for link in known_network(one).links if link.delay_s
    ]
    obstacle, note = capabilities.link_delays(delays_s)
    if note is not None and not quiet:
        print(f"testbed: {note}", file=sys.stderr)
    return obstacle


def choose_fabric(requested: str | None, *networks: NetworkLike, quiet: bool = False) -> str:
    """``emulation`` or ``simulator``: as asked, else emulation where this machine can; says so in one line where not.

    ``networks``: what is to be built; says in one line where a process has to delay their packets, because the kernel
    cannot. Raises CapabilityError where emulation was requested and cannot be had, InputError for what the simulated
    fabric has not, TopologyError for a name that is none.
    """
    if requested == "simulator":
        _refuse_queues(*networks)
        return "simulator"
    obstacle = capabilities.emulation_problem()
    if obstacle is None:
        obstacle = _no_delays(*networks, quiet=quiet)
    if obstacle is None:
        return "emulation"
    if requested == "emulation":
        raise CapabilityError(
            f"emulation is not possible here: {obstacle}; --fabric simulator needs nothing of this"
        )
    if not quiet:
        print(
            f"testbed: running on the simulated fabric: {' '.join(obstacle.split())}",
            file=sys.stderr,
        )
    _refuse_queues(*networks)
    return "simulator"


def _refuse_queues(*networks: NetworkLike) -> None:
    """InputError where a link's queue is bounded: the simulated fabric has queues before rate traces only."""
    for link in (link for one in networks for link in known_network(one).links):
        if link.queue_packets and not any(isinstance(one, RateTrace) for one in link.impaired_by):
            raise InputError(
                f"{link.label}: max_queue_size {link.queue_packets}: the simulated fabric has queues before rate "
                "traces only; leave it out, or take --fabric emulation"
            )
