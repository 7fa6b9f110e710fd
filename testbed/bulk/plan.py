"""A bulk transfer as a value: who sends to whom over which links, in which time frames.

``testbed.bulk.planning`` builds plans, both fabrics (emulated and simulated) run them; nothing here knows either.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Literal, get_args

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
    circuit. Frames must partition the transfers (InputError).
    """

    network: Network
    transfers: tuple[BulkTransfer, ...]
    frames: tuple[tuple[int, ...], ...]
    method: str
    switching: Switching
    barrier: bool
    message_bytes: int
    link_rate_bps: float
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

    @property
    def message_s(self) -> float:
        """How long a link takes for one message."""
        return self.message_bytes * 8 / self.link_rate_bps

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

    @property
    def liquid_links(self) -> Fraction:
        """The liquid throughput of the traffic, in links."""
        return Fraction(len(self.transfers), self.bottleneck_load)

    @cached_property
    def bottlenecks(self) -> tuple[LinkId, ...]:
        """The links of the greatest load."""
        most = self.bottleneck_load
        return tuple(link for link, load in self.loads.items() if load == most)

    @cached_property
    def frame_of(self) -> tuple[int, ...]:
        """Transfer -> its time frame."""
        found = {index: number for number, frame in enumerate(self.frames) for index in frame}
        return tuple(found[index] for index in range(len(self.transfers)))
