"""Which cables work, from what switches report of their ports: a cable is up while both its ports are. No I/O."""

from dataclasses import dataclass

from testbed.model.wiring import Wiring
from topologies import LinkId


@dataclass(frozen=True, kw_only=True)
class CableChanged:
    """A cable between switches: its links (one or two directions), and whether it is up now."""

    links: tuple[LinkId, ...]
    up: bool


class CableStates:
    """All cables between switches, up at first. A switch may repeat itself, and says "up" once more before it says
    "down"."""

    def __init__(self, wiring: Wiring) -> None:
        switches = {switch.name for switch in wiring.switches}
        by_port = wiring.cables_by_port().items()
        self._links = {
            place: cable.links for place, cable in by_port if {cable.a, cable.b} <= switches
        }
        self._down: dict[tuple[LinkId, ...], set[tuple[int, int]]] = {
            links: set() for links in self._links.values()
        }

    def on_port(self, dpid: int, port: int, up: bool) -> CableChanged | None:
        """What changes by a switch's report of a port; None where nothing does, or the port is no cable's between
        switches."""
        links = self._links.get((dpid, port))
        if links is None:
            return None
        down = self._down[links]
        before = bool(down)
        if up:
            down.discard((dpid, port))
        else:
            down.add((dpid, port))
        return CableChanged(links=links, up=not down) if bool(down) != before else None

    @property
    def down(self) -> frozenset[LinkId]:
        """Links of all cables that are down."""
        return frozenset(link for links, ports in self._down.items() if ports for link in links)
