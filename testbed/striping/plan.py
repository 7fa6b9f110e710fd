"""The plan of a striped-file run: its nodes, blocks, transfers and time frames.

``testbed.striping.planning`` builds plans. They run on switches or over loopback.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from testbed.bulk.link_rates import LinkRates
from testbed.bulk.plan import BulkPlan, BulkTransfer, KilledProcess, Pair, Switching
from testbed.faults.fault import Fault
from testbed.model.short_repr import ShortRepr
from testbed.striping.access import Blocks
from testbed.striping.measurements import Direction
from testbed.striping.options import StripingOptions
from testbed.striping.placement import Placement
from topologies import LinkId, Network

Schedule = Literal["none", "liquid", "file"]
# The headers of IPv4 and TCP in each packet, TCP with time stamps.
HEADERS_BYTES = 52
# The header of Ethernet, which the shapers of links count too.
FRAMING_BYTES = 14


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class StripingPlan(ShortRepr):
    """A run of striped-file accesses.

    Attributes:
        options: The options as they were requested. The other fields are derived from them.
        placement: The compute and the I/O nodes.
        file_bytes: The size of the file.
        blocks: The blocks that each compute process accesses, by rank.
        volumes: The bytes between each pair of nodes that has any.
        transfers: The transfers between different hosts.
        frames: The time frames, as indices into ``transfers``. Empty if transfers may begin at any
            time.
        schedule: Whether the time frames are from a liquid schedule or a file. "none": there are
            none or, with circuits, they are rounds in a fixed order.
        switching: Whether each transfer waits for its circuit.
        rates: How the rates of links follow from those of the user's network.
        faults: The link failures and impairments.
        killed: The listeners that are killed.
    """

    options: StripingOptions
    placement: Placement
    file_bytes: int
    blocks: tuple[Blocks, ...]
    volumes: Mapping[Pair, int]
    transfers: tuple[BulkTransfer, ...]
    frames: tuple[tuple[int, ...], ...]
    schedule: Schedule
    switching: Switching
    rates: LinkRates | None = None
    faults: tuple[Fault, ...] = ()
    killed: tuple[KilledProcess, ...] = ()

    @property
    def directions(self) -> tuple[Direction, ...]:
        """The direction of every operation, in order, with repetitions."""
        operation = self.options.operation
        repetitions = self.options.repetitions
        directions: list[Direction] = []
        if operation != "read":
            directions += ["write"] * repetitions
        if operation != "write":
            directions += ["read"] * repetitions
        return tuple(directions)

    @property
    def network(self) -> Network:
        """The network, with the rates of the run."""
        return self.placement.network

    @property
    def coordinated(self) -> bool:
        """True if transfers wait to be admitted: to a circuit, to their time frame, or to both."""
        return bool(self.frames)

    @cached_property
    def link_bytes(self) -> Mapping[LinkId, int]:
        """The bytes of the file that cross each link."""
        bytes_of_link: dict[LinkId, int] = {}
        for pair, volume in self.volumes.items():
            for link in self.placement.paths[pair]:
                bytes_of_link[link] = bytes_of_link.get(link, 0) + volume
        return bytes_of_link

    @cached_property
    def rates_bps(self) -> Mapping[LinkId, float]:
        """The rate of each link."""
        return {link.id: link.capacity_bps for link in self.network.links}

    @cached_property
    def link_rate_bps(self) -> float:
        """The rate of the fastest link that carries the file."""
        used_bps = [self.rates_bps[link] for link in self.link_bytes]
        return max(used_bps or self.rates_bps.values())

    def relative_time(self, link: LinkId) -> float:
        """Return the time that the link needs for a byte over the time of the fastest link."""
        return self.link_rate_bps / self.rates_bps[link]

    @property
    def relative_bytes(self) -> float:
        """The bytes that the fastest link could carry in the time that the busiest link needs."""
        return max(
            (size * self.relative_time(link) for link, size in self.link_bytes.items()), default=0
        )

    @property
    def liquid_links(self) -> float:
        """The liquid throughput of these volumes, in links of the rate ``link_rate_bps``.

        This is the size of the file over the bytes of the busiest link (Gabrielyan 2007, eq. 3).
        Bytes replace transfers, because volumes differ.
        """
        busiest = self.relative_bytes
        return self.file_bytes / busiest if busiest else float("inf")

    @property
    def liquid_s(self) -> float:
        """The minimum duration of one operation: the busiest link carries its bytes at its rate."""
        return self.relative_bytes * 8 / self.link_rate_bps

    def goodput_bps(self, mtu_bytes: int) -> float:
        """Return the bits of data per second over a full link of the rate ``link_rate_bps``.

        The headers of packets are not counted.

        Args:
            mtu_bytes: The size of a packet.
        """
        return self.link_rate_bps * (mtu_bytes - HEADERS_BYTES) / (mtu_bytes + FRAMING_BYTES)

    def bulk_plan(self) -> BulkPlan:
        """Return the transfers as bulk messages of their mean size.

        The coordinator and the simulated fabric of bulk transfers use it.

        Raises:
            InputError: Nothing crosses the network.
        """
        total_bytes = sum(self.volumes[t.source, t.sink] for t in self.transfers)
        mean_bytes = total_bytes // max(1, len(self.transfers))
        return BulkPlan(
            network=self.network,
            transfers=self.transfers,
            frames=self.frames or (tuple(range(len(self.transfers))),),
            method=self.schedule,
            switching=self.switching,
            barrier=self.schedule != "none" or not self.frames,
            message_bytes=max(1, mean_bytes),
            seed=self.options.seed,
        )
