"""Tracks which cables are up, from the port status that switches report; without I/O."""

from dataclasses import dataclass

from testbed.model.wiring import Wiring
from topologies import LinkId


@dataclass(frozen=True, kw_only=True)
class CableChanged:
    """A change of the state of a cable between switches.

    Attributes:
        links: The links of the cable, one or two directions.
        up: The cable is up now.
    """

    links: tuple[LinkId, ...]
    up: bool


class CableStates:
    """The state of all cables between switches, which are up at first.

    A cable is up while both of its ports are up. A switch may report the same state repeatedly.
    """

    def __init__(self, wiring: Wiring) -> None:
        switches = {switch.name for switch in wiring.switches}
        # The links of the cable at each port, which is given by datapath id and number.
        self._links: dict[tuple[int, int], tuple[LinkId, ...]] = {}
        # The ports of each cable that are down.
        self._down_ports: dict[tuple[LinkId, ...], set[tuple[int, int]]] = {}
        for port, cable in wiring.cables_by_port().items():
            if {cable.a, cable.b} <= switches:
                self._links[port] = cable.links
                self._down_ports[cable.links] = set()

    def on_port(self, dpid: int, port: int, up: bool) -> CableChanged | None:
        """Process a port status, and return the change of the cable's state.

        Args:
            dpid: The datapath id of the switch.
            port: The number of the port.
            up: The port is up.

        Returns:
            None if the cable's state did not change, or if the port has no cable to a switch.
        """
        links = self._links.get((dpid, port))
        if links is None:
            return None
        down_ports = self._down_ports[links]
        was_up = not down_ports
        if up:
            down_ports.discard((dpid, port))
        else:
            down_ports.add((dpid, port))
        is_up = not down_ports
        if is_up == was_up:
            return None
        return CableChanged(links=links, up=is_up)

    @property
    def down(self) -> frozenset[LinkId]:
        """The links of all cables that are down."""
        down: set[LinkId] = set()
        for links, down_ports in self._down_ports.items():
            if down_ports:
                down.update(links)
        return frozenset(down)
