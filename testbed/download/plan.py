"""The plan of a download, and the measurements of its run.

Source: Gabrielyan 2007, section 4.3.3 (a sender that feeds the last mile constantly at its full
rate) and equation 29.
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
# Share of the last mile's rate that is requested. More packets would only wait in its queue.
FILL = 0.95
# One label in each half of the label space: every acknowledgement is sent on two paths.
RETURN_LABELS = (LABELS // 4, LABELS * 3 // 4)


@dataclass(frozen=True, kw_only=True, repr=False)
class DownloadPlan(ShortRepr):
    """The plan of a download.

    Attributes:
        network: The network, with the host ``sink`` behind the last mile.
        method: The routing.
        code: The name of the code.
        forward: The split from source to sink.
        backward: The split from sink to source.
        last_link: The last mile.
        parameters: Sizes and rates of the sender.
        file_bytes: Size of the file.
        faults: The faults of the run.
        limit_s: Duration after which the run is aborted.
        seed: Seed of the file's content and of random losses.
        constant_rate: The sender never raises its rate to make up for losses. It is the rival of
            the sender that is predicted.
    """

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
        """The node that has the file."""
        return self.forward.source

    @property
    def sink(self) -> str:
        """The host behind the last mile."""
        return self.forward.sink

    @property
    def last_mile_rate_bps(self) -> float:
        """The capacity of the last mile."""
        return self.network.links[self.network.link_index[self.last_link]].capacity_bps

    def block_code(self) -> BlockCode:
        """Return a new code."""
        return block_code(self.code)

    def file(self) -> bytes:
        """Return the content of the file, which depends on the seed only."""
        return random.Random(self.seed).randbytes(self.file_bytes)

    def sender(self) -> LargeBlockSender:
        """Return a new sender of the file."""
        parameters = self.parameters
        if self.constant_rate:
            parameters = replace(parameters, max_pps=parameters.arrival_pps)
        return LargeBlockSender(
            self.file(), parameters, self.block_code(), StratifiedLabels().label
        )

    def receiver(self) -> LargeBlockReceiver:
        """Return a new receiver."""
        parameters = self.parameters
        return LargeBlockReceiver(
            parameters.stream_id, self.block_code(), ack_interval_s=parameters.ack_interval_s
        )


@dataclass(frozen=True, kw_only=True)
class DownloadMeasurements:
    """The measurements of a download.

    Attributes:
        fabric: The kind of network that the download ran on.
        seconds: Time from the first packet until the last block was decoded; None for never.
        sent: Number of packets sent.
        received: Number of packets that arrived.
        verified: The received file is equal to the sent one.
        arrivals_s: Time of arrival of each packet, for the figure.
        sender_lag_s: Time by which the sender fell permanently behind its schedule.
        longest_s: Maximum transit time of a packet.
        machine_drops: Number of frames dropped at a full socket of a switch or of the receiver.
        counters: Counters of both ends by name.
    """

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
