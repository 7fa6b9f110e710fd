"""The plan of bulk transfers: who sends to whom, over which links, in which time frames.

``testbed.bulk.planning`` builds plans; the emulated and the simulated fabric run them.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Literal, get_args

from testbed.bulk.link_rates import LinkRates
from testbed.errors import InputError
from testbed.faults.fault import Fault
from testbed.faults.fault import KilledProcess as KilledProcess
from testbed.model.short_repr import ShortRepr
from topologies import LinkId, Network, label_of

Switching = Literal["circuit", "packet"]
# Sending host and receiving host, by their names in the network.
Pair = tuple[str, str]
# Sending host, receiving host and part: each part of a message has its own connection.
Ends = tuple[str, str, int]
Path = tuple[LinkId, ...]
SWITCHINGS: tuple[Switching, ...] = get_args(Switching)


def over_switches(network: Network, path: Path) -> bool:
    """Return whether a switch is on the path.

    Cables between hosts have no rules, and their failures are not reported.
    """
    return any(network.node(link[1]).kind == "switch" for link in path)


@dataclass(frozen=True, kw_only=True)
class BulkTransfer:
    """One message, or a part of it, from a sending to a receiving host.

    Attributes:
        source: The sending host.
        sink: The receiving host.
        path: The directed links of the path, in order.
        alternative: The path to use after a failure of a link of ``path``; None if there is none.
        part: The number of the part.
    """

    source: str
    sink: str
    path: Path
    alternative: Path | None = None
    part: int = 0

    @property
    def ends(self) -> Ends:
        """The end points of the connection."""
        return self.source, self.sink, self.part

    @property
    def name(self) -> str:
        """The name of the transfer in messages and tables."""
        return label_of(self.ends)


@dataclass(frozen=True, kw_only=True, repr=False)
class BulkPlan(ShortRepr):
    """Transfers, and the time frames in which they are sent.

    Attributes:
        network: The network, at the rates of the run.
        transfers: The transfers.
        frames: The time frames, as indices into ``transfers``. Each transfer is in one frame.
        method: The name of the scheduling method.
        switching: ``circuit``: a transfer holds every link of its path while it sends; ``packet``:
            all transfers may send at the same time.
        barrier: A time frame begins when every message of the previous one has arrived. Without a
            barrier, each sender sends its messages in the order of the frames.
        message_bytes: Size of a message, or of a part.
        rates: How the rates of ``network`` follow from those of the user's network; None if they
            are unchanged.
        seed: Seed of all random choices of the run.
        injected: Number of packets sent during the run for a transfer without a circuit.
        faults: The link failures of the run.
        killed: The processes that are killed during the run.

    Raises:
        InputError: A transfer is not in exactly one frame, or a size is invalid.
    """

    network: Network
    transfers: tuple[BulkTransfer, ...]
    frames: tuple[tuple[int, ...], ...]
    method: str
    switching: Switching
    barrier: bool
    message_bytes: int
    rates: LinkRates | None = None
    seed: int = 1
    injected: int = 0
    faults: tuple[Fault, ...] = ()
    killed: tuple[KilledProcess, ...] = ()

    def __post_init__(self) -> None:
        if self.message_bytes < 1:
            raise InputError(f"messages of {self.message_bytes} bytes; give 1 or more")
        if not self.transfers:
            raise InputError("bulk plan: there is no transfer; give a pattern with at least one")
        frame_counts = [0] * len(self.transfers)
        for frame in self.frames:
            for index in frame:
                if not 0 <= index < len(frame_counts):
                    raise InputError(
                        f"bulk plan: a time frame names transfer {index}; there are "
                        f"{len(frame_counts)}"
                    )
                frame_counts[index] += 1
        for index, count in enumerate(frame_counts):
            if count != 1:
                raise InputError(
                    f"bulk plan: transfer {index} ({self.transfers[index].name}) is in {count} "
                    "frames; put it in one"
                )

    @property
    def parts(self) -> int:
        """The number of equal parts of a message, each a transfer of ``message_bytes``."""
        return 1 + max(transfer.part for transfer in self.transfers)

    @property
    def total_bytes(self) -> int:
        """The size of all messages together."""
        return self.message_bytes * len(self.transfers)

    @cached_property
    def rates_bps(self) -> Mapping[LinkId, float]:
        """The rate of each link."""
        return {link.id: link.capacity_bps for link in self.network.links}

    @cached_property
    def link_rate_bps(self) -> float:
        """The rate of the fastest link that carries a message."""
        return max(self.rates_bps[link] for link in self.loads)

    @cached_property
    def equal_rates(self) -> bool:
        """All links that carry messages have the same rate."""
        return all(self.rates_bps[link] == self.link_rate_bps for link in self.loads)

    def path_rate_bps(self, path: Path) -> float:
        """Return the rate of a circuit over the path, which is the rate of its slowest link."""
        return min(self.rates_bps[link] for link in path)

    @cached_property
    def transfer_s(self) -> tuple[float, ...]:
        """The time that the message of each transfer takes over a circuit."""
        bits = self.message_bytes * 8
        return tuple(bits / self.path_rate_bps(transfer.path) for transfer in self.transfers)

    @property
    def message_s(self) -> float:
        """The time that the slowest transfer takes over its circuit."""
        return max(self.transfer_s)

    @property
    def relative_duration(self) -> float:
        """The duration of all time frames, in times of a message over the fastest link.

        A time frame lasts as long as its longest transfer.
        """
        factors = [
            self.link_rate_bps / self.path_rate_bps(transfer.path) for transfer in self.transfers
        ]
        duration = 0.0
        for frame in self.frames:
            duration += max([factors[index] for index in frame], default=1.0)
        return duration

    @property
    def receivers(self) -> tuple[str, ...]:
        """The receiving hosts."""
        return tuple(dict.fromkeys(transfer.sink for transfer in self.transfers))

    @property
    def senders(self) -> tuple[str, ...]:
        """The sending hosts."""
        return tuple(dict.fromkeys(transfer.source for transfer in self.transfers))

    @cached_property
    def loads(self) -> Mapping[LinkId, int]:
        """The number of transfers over each link that carries any."""
        loads: Counter[LinkId] = Counter()
        for transfer in self.transfers:
            loads.update(transfer.path)
        return loads

    @property
    def bottleneck_load(self) -> int:
        """The number of transfers over the busiest link: the time frames of a liquid schedule."""
        return max(self.loads.values())

    @cached_property
    def relative_loads(self) -> Mapping[LinkId, Fraction]:
        """The time that each link needs, in times of a message over the fastest link."""
        fastest = Fraction(self.link_rate_bps)
        return {
            link: load * fastest / Fraction(self.rates_bps[link])
            for link, load in self.loads.items()
        }

    @property
    def liquid_links(self) -> Fraction:
        """The liquid throughput of the traffic, in links of the rate ``link_rate_bps``."""
        return len(self.transfers) / max(self.relative_loads.values())

    @cached_property
    def bottlenecks(self) -> tuple[LinkId, ...]:
        """The links that need the longest time for their messages."""
        longest = max(self.relative_loads.values())
        return tuple(link for link, load in self.relative_loads.items() if load == longest)

    @cached_property
    def frame_of(self) -> tuple[int, ...]:
        """The time frame of each transfer."""
        frame_of = [0] * len(self.transfers)
        for number, frame in enumerate(self.frames):
            for index in frame:
                frame_of[index] = number
        return tuple(frame_of)
