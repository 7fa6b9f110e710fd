"""Chooses the fabric of a run: as requested, or real switches if this machine supports them."""

import sys

from testbed.emulation.machine import capabilities
from testbed.errors import CapabilityError, InputError
from testbed.model.naming.names import NetworkLike, known_network
from topologies import Link
from topologies.impairments import RateTrace


def require_delays(network: NetworkLike) -> None:
    """Check that this machine can delay the network's links.

    A note is printed if a process has to do it.

    Raises:
        CapabilityError: It cannot.
    """
    obstacle = _delay_obstacle(network)
    if obstacle is not None:
        raise CapabilityError(obstacle)


def _delay_obstacle(*networks: NetworkLike, quiet: bool = False) -> str | None:
    """Return why this machine cannot delay links of these networks, or None if it can.

    Args:
        networks: The networks.
        quiet: Do not print a note if a process has to do it.
    """
    delays_s = [link.delay_s for link in _links_of(*networks) if link.delay_s]
    obstacle, note = capabilities.link_delays(delays_s)
    if note is not None and not quiet:
        print(f"testbed: {note}", file=sys.stderr)
    return obstacle


def _links_of(*networks: NetworkLike) -> list[Link]:
    links: list[Link] = []
    for network in networks:
        links += known_network(network).links
    return links


def choose_fabric(requested: str | None, *networks: NetworkLike, quiet: bool = False) -> str:
    """Return the fabric of a run: ``emulation`` or ``simulator``.

    Without a request, it is emulation if this machine supports it. A line on stderr says why not,
    and also whether a process has to delay packets because the kernel cannot.

    Args:
        requested: The requested fabric, or None.
        networks: The networks that will be built.
        quiet: Print nothing.

    Raises:
        CapabilityError: Emulation was requested and is not possible.
        InputError: The simulated fabric does not support a network.
        TopologyError: A network does not exist.
    """
    if requested == "simulator":
        _refuse_queues(*networks)
        return "simulator"
    obstacle = capabilities.emulation_problem()
    if obstacle is None:
        obstacle = _delay_obstacle(*networks, quiet=quiet)
    if obstacle is None:
        return "emulation"
    if requested == "emulation":
        raise CapabilityError(
            f"emulation is not possible here: {obstacle}; give --fabric simulator"
        )
    if not quiet:
        print(
            f"testbed: running on the simulated fabric: {' '.join(obstacle.split())}",
            file=sys.stderr,
        )
    _refuse_queues(*networks)
    return "simulator"


def _refuse_queues(*networks: NetworkLike) -> None:
    """Check that no link has a queue that the simulated fabric lacks.

    It has queues only before rate traces.

    Raises:
        InputError: A link has such a queue.
    """
    for link in _links_of(*networks):
        has_rate_trace = any(isinstance(impairment, RateTrace) for impairment in link.impaired_by)
        if link.queue_packets and not has_rate_trace:
            raise InputError(
                f"{link.label}: max_queue_size {link.queue_packets}: the simulated fabric has "
                "queues before rate traces only; leave it out, or take --fabric emulation"
            )
