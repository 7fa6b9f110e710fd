"""One download: network with its last mile, split there and back, coding and faults; and what a fabric measures of it.

Source: Gabrielyan 2007, section 4.3.3 (a sender that feeds the last mile constantly at its full rate) and equation 29.
"""

import random
from dataclasses import dataclass, field, replace

from fec.protocol.large_blocks import (
    HEADER,
    BlockCode,
    LargeBlockParameters,
    LargeBlockReceiver,
    LargeBlockSender,
)
from fec.redundancy.labels import StratifiedLabels
from testbed.download.codes import block_code
from testbed.faults.fault import Fault
from testbed.model.label_split import LABELS, LabelSplit
from testbed.model.short_repr import ShortRepr
from topologies import Json, LinkId, Network

FRAME_OVERHEAD_BYTES = 14 + 20 + 8 + HEADER.size
FILL = 0.95
"""Share of the last mile's rate that is requested: what is more would only stand in its queue."""
RETURN_LABELS = (LABELS // 4, LABELS * 3 // 4)
"""One label in each half of the label space: every acknowledgement goes both ways."""


@dataclass(frozen=True, kw_only=True, repr=False)
class DownloadPlan(ShortRepr):
    """``network`` with the host ``sink`` behind ``last_link``; ``limit_s``: when a fabric gives up. ``constant_rate``:
    the sender never sends faster than what shall arrive, whatever is lost: the rival of the sender that is
    predicted."""

    network: Network
    method: str
    code: str
    forward: LabelSplit
    backward: LabelSplit
    last_link: LinkId
    parameters: LargeBlockParameters
    file_bytes: int
    faults: tuple[Fault, ...]
    limit_s: float
    seed: int = 1
    constant_rate: bool = False

    @property
    def source(self) -> str:
        return self.forward.source

    @property
    def sink(self) -> str:
        return self.forward.sink

    @property
    def last_mile_rate_bps(self) -> float:
        return self.network.links[self.network.link_index[self.last_link]].capacity_bps

    def block_code(self) -> BlockCode:
        return block_code(self.code)

    def file(self) -> bytes:
        """The content, from the seed alone."""
        return random.Random(self.seed).randbytes(self.file_bytes)

    def sender(self) -> LargeBlockSender:
        parameters = self.parameters
        if self.constant_rate:
            parameters = replace(parameters, most_pps=parameters.arrival_pps)
        return LargeBlockSender(
            self.file(), parameters, self.block_code(), StratifiedLabels().label
        )

    def receiver(self) -> LargeBlockReceiver:
        p = self.parameters
        return LargeBlockReceiver(p.stream_id, self.block_code(), ack_interval_s=p.ack_interval_s)


@dataclass(frozen=True, kw_only=True)
class DownloadMeasurements:
    """``seconds``: from the first packet until the last block was decoded (None: never); ``arrivals_s``: per packet,
    for the figure; ``sender_lag_s``: by how much the sender fell behind its schedule for good; ``longest_s``:
    that a packet was under way; ``machine_drops``: frames that found a switch's socket, or the receiver's, full."""

    fabric: str
    seconds: float | None
    sent: int
    received: int
    verified: bool
    arrivals_s: tuple[float, ...] = ()
    sender_lag_s: float = 0.0
    longest_s: float = 0.0
    machine_drops: int = 0
    counters: Json = field(default_factory=dict)
