"""A bulk transfer as a value: who sends to whom over which links, in which time frames.

``testbed.bulk.planning`` builds plans, both fabrics (emulated and simulated) run them; nothing here knows either.
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
Pair = tuple[str, str]
"""(sending host, receiving host), by their names in the network."""
Ends = tuple[str, str, int]
"""(sending host, receiving host, part): each part of a message has a connection of its own."""
Path = tuple[LinkId, ...]
SWITCHINGS: tuple[Switching, ...] = get_args(Switching)


def over_switches(network: Network, path: Path) -> bool:
    """Whether a switch is on the path; over cables between hosts alone nothing can be held back or seen to fail."""
    return any(network.node(link[1]).kind == "switch" for link in path)


@dataclass(frozen=True, kw_only=True)
class BulkTransfer:
    """One message, or ``part`` of it, from a sending to a receiving host. ``path``: its directed links in order;
    ``alternative``: the path that takes over when a link of ``path`` is cut, None where there is none."""

    source: str
    sink: str
    path: Path
    alternative: Path | None = None
    part: int = 0

    @property
    def ends(self) -> Ends:
        return self.source, self.sink, self.part

    @property
    def name(self) -> str:
        return label_of(self.ends)


@dataclass(frozen=True, kw_only=True, repr=False)
class BulkPlan(ShortRepr):
    """Transfers, and the time frames (tuples of indices into ``transfers``) in which they are to be sent.

    ``barrier``: a time frame begins when every message of the one before has arrived; without it each sender goes
    through its own messages in the order of the frames. ``circuit`` switching: a transfer holds every link of its path
    while it sends; ``packet``: all may send at once. ``injected``: packets sent in mid-run for a transfer that has no
    circuit. ``rates``: how the rates of ``network`` follow from the user's, None for a network that is as it is. Frames must partition the transfers
    (InputError).
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
            raise InputError("bulk plan: no transfer; give a pattern with at least one")
        seen = [0] * len(self.transfers)
        for frame in self.frames:
            for index in frame:
                if not 0 <= index < len(seen):
                    raise InputError(
                        f"bulk plan: a time frame names transfer {index}; there are {len(seen)}"
                    )
                seen[index] += 1
        for index, count in enumerate(seen):
            if count != 1:
                raise InputError(
                    f"bulk plan: transfer {index} ({self.transfers[index].name}) is in {count} frames; put it in one"
                )

    @property
    def parts(self) -> int:
        """Equal parts of a message, each a transfer of ``message_bytes``; all first parts come first, and so on."""
        return 1 + max(t.part for t in self.transfers)

    @property
    def total_bytes(self) -> int:
        return self.message_bytes * len(self.transfers)

    @cached_property
    def rates_bps(self) -> Mapping[LinkId, float]:
        """Link -> its rate."""
        return {link.id: link.capacity_bps for link in self.network.links}

    @cached_property
    def link_rate_bps(self) -> float:
        """The rate of the fastest link that carries a message."""
        return max(self.rates_bps[link] for link in self.loads)

    @cached_property
    def equal_rates(self) -> bool:
        """Whether all links that carry messages have the same rate."""
        return all(self.rates_bps[link] == self.link_rate_bps for link in self.loads)

    def path_rate_bps(self, path: Path) -> float:
        """Return the rate of a circuit over the path, which is the rate of its slowest link."""
        return min(self.rates_bps[link] for link in path)

    @cached_property
    def transfer_s(self) -> tuple[float, ...]:
        """Transfer -> the time that its message takes over a circuit."""
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
        return sum(max((factors[i] for i in frame), default=1.0) for frame in self.frames)

    @property
    def receivers(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(t.sink for t in self.transfers))

    @property
    def senders(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(t.source for t in self.transfers))

    @cached_property
    def loads(self) -> Mapping[LinkId, int]:
        """Link -> transfers over it, links with none left out."""
        return Counter(link for transfer in self.transfers for link in transfer.path)

    @property
    def bottleneck_load(self) -> int:
        """Transfers over the busiest link: the time frames of a liquid schedule."""
        return max(self.loads.values())

    @cached_property
    def relative_loads(self) -> Mapping[LinkId, Fraction]:
        """Link -> the time that it needs for its messages, in times of a message over the fastest link."""
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
        """Transfer -> its time frame."""
        found = {index: number for number, frame in enumerate(self.frames) for index in frame}
        return tuple(found[index] for index in range(len(self.transfers)))
