"""A run of striped-file accesses as a value: what was asked, who computes and keeps subfiles, the blocks, the transfers
they make.

``testbed.striping.planning`` builds plans; both ways to run them (on switches, over loopback) take one.
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
from testbed.striping.options import StripingOptions
from testbed.striping.placement import Placement
from topologies import LinkId, Network

Schedule = Literal["none", "liquid", "file"]
HEADERS_BYTES = 52
"""IPv4 and TCP with time stamps."""
FRAMING_BYTES = 14
"""Ethernet, counted by the links' shapers."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class StripingPlan(ShortRepr):
    """``blocks[k]``: what compute process ``k`` accesses; ``volumes``: pair -> bytes between them, pairs with none left
    out.

    ``transfers`` are those between different hosts, in the time frames ``frames`` (none where all may go at any time).
    ``options``: as they were requested; what the fields below say is read from them. ``rates``: how the rates of links
    follow from the user's network.
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
    def directions(self) -> tuple[Literal["write", "read"], ...]:
        """Every operation in order, each as often as asked."""
        operation = self.options.operation
        once: tuple[Literal["write", "read"], ...] = (
            ("write", "read") if operation == "both" else (operation,)
        )
        return tuple(direction for direction in once for _ in range(self.options.repetitions))

    @property
    def network(self) -> Network:
        return self.placement.network

    @property
    def coordinated(self) -> bool:
        """Whether transfers wait to be admitted: to a circuit, to their time frame, or to both."""
        return bool(self.frames)

    @cached_property
    def link_bytes(self) -> Mapping[LinkId, int]:
        """Link -> bytes of the file over it."""
        found: dict[LinkId, int] = {}
        for pair, volume in self.volumes.items():
            for link in self.placement.paths[pair]:
                found[link] = found.get(link, 0) + volume
        return found

    @cached_property
    def rates_bps(self) -> Mapping[LinkId, float]:
        """Link -> its rate."""
        return {link.id: link.capacity_bps for link in self.network.links}

    @cached_property
    def link_rate_bps(self) -> float:
        """The rate of the fastest link that carries the file."""
        used = (self.rates_bps[link] for link in self.link_bytes)
        return max(used, default=max(self.rates_bps.values()))

    def relative_time(self, link: LinkId) -> float:
        """Return the time that the link needs for a byte over the time of the fastest link."""
        return self.link_rate_bps / self.rates_bps[link]

    @property
    def relative_bytes(self) -> float:
        """The bytes that the fastest link carries while the busiest link carries its own."""
        return max(
            (size * self.relative_time(link) for link, size in self.link_bytes.items()), default=0
        )

    @property
    def liquid_links(self) -> float:
        """Liquid throughput of these volumes in links of the rate ``link_rate_bps``: bytes of the file over those of
        the busiest link (Gabrielyan 2007, eq. 3, with bytes for transfers because volumes differ)."""
        busiest = self.relative_bytes
        return self.file_bytes / busiest if busiest else float("inf")

    @property
    def liquid_s(self) -> float:
        """Least seconds of one operation: the bytes of the busiest link over its rate."""
        return self.relative_bytes * 8 / self.link_rate_bps

    def goodput_bps(self, mtu_bytes: int) -> float:
        """Bits of data a second over a full link of the rate ``link_rate_bps``, without the headers of its packets."""
        return self.link_rate_bps * (mtu_bytes - HEADERS_BYTES) / (mtu_bytes + FRAMING_BYTES)

    def bulk_plan(self) -> BulkPlan:
        """The transfers as bulk messages of their mean size: what the coordinator and the simulated fabric take.

        Raises InputError where nothing crosses the network.
        """
        return BulkPlan(
            network=self.network,
            transfers=self.transfers,
            frames=self.frames or (tuple(range(len(self.transfers))),),
            method=self.schedule,
            switching=self.switching,
            barrier=self.schedule != "none" or not self.frames,
            message_bytes=max(
                1,
                sum(self.volumes[t.source, t.sink] for t in self.transfers) // len(self.transfers),
            ),
            seed=self.options.seed,
        )
