"""One download: network with its last kilometre, split there and back, coding, faults, and what theory says of its duration.

Source: Gabrielyan 2007, section 4.3.3 (a sender that feeds the last kilometre constantly at its full rate) and equation 29.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from fec.adapters.raptorq_blocks import RaptorQBlocks
from fec.code.block_codes import ReedSolomonBlocks
from fec.protocol.large_blocks import (
    HEADER,
    PREAMBLE_BYTES,
    BlockCode,
    LargeBlockParameters,
    LargeBlockReceiver,
    LargeBlockSender,
)
from fec.redundancy.labels import StratifiedLabels
from testbed.errors import InputError
from testbed.faults.fault import Fault
from testbed.model.label_split import LABELS, LabelSplit
from testbed.routing import route_by_name
from testbed.routing.label_split.spraying import disjoint_return_split, spray
from topologies.network import Link, LinkId, Network, Node, reverse_of

FRAME_OVERHEAD_BYTES = 14 + 20 + 8 + HEADER.size
FILL = 0.95
"""Share of the last kilometre's rate that is asked for: what is more would only stand in its queue."""
MAX_BYTES = 1 << 28
CODES: dict[str, type[RaptorQBlocks] | type[ReedSolomonBlocks]] = {
    "raptorq": RaptorQBlocks,
    "reed-solomon": ReedSolomonBlocks,
}
RETURN_LABELS = (LABELS // 4, LABELS * 3 // 4)
"""One label in each half of the label space: every acknowledgement goes both ways."""


@dataclass(frozen=True, kw_only=True)
class DownloadPlan:
    """``network`` with the host ``sink`` behind ``last_link``; ``limit_s``: when a fabric gives up."""

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

    @property
    def source(self) -> str:
        return self.forward.source

    @property
    def sink(self) -> str:
        return self.forward.sink

    @property
    def last_rate_bps(self) -> float:
        return self.network.links[self.network.link_index[self.last_link]].capacity_bps

    def block_code(self) -> BlockCode:
        return CODES[self.code]()

    def file(self) -> bytes:
        """The content, from the seed alone."""
        return random.Random(self.seed).randbytes(self.file_bytes)

    def sender(self) -> LargeBlockSender:
        return LargeBlockSender(self.file(), self.parameters, self.block_code(), StratifiedLabels().label)

    def receiver(self) -> LargeBlockReceiver:
        p = self.parameters
        return LargeBlockReceiver(p.stream_id, self.block_code(), ack_interval_s=p.ack_interval_s)


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """``seconds`` until the last needed symbol arrives; ``sent``: symbols sent; ``idle_s``: when no way was left."""

    seconds: float
    sent: float
    idle_s: float


@dataclass(frozen=True, kw_only=True)
class DownloadOptions:
    """What is downloaded, and how. ``last_rate_bps``: of the last kilometre; ``block_symbols`` None: 500 for RaptorQ, 128 for
    Reed-Solomon. Raises InputError for a file or a code that cannot be."""

    file_bytes: int
    last_rate_bps: float
    method: str = "capillary"
    code: str = "raptorq"
    symbol_bytes: int = 1024
    block_symbols: int | None = None
    seed: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.file_bytes <= MAX_BYTES:
            raise InputError(f"file of {self.file_bytes} bytes; give 1 to {MAX_BYTES}")
        if self.code not in CODES:
            raise InputError(f"code {self.code!r}; choose one of {', '.join(CODES)}")

    def parameters(self, slowest_bps: float) -> LargeBlockParameters:
        """Of the sender: paced to fill the last kilometre, and where packets are lost up to what the slowest link carries."""
        arrival = FILL * self.last_rate_bps / (8 * (FRAME_OVERHEAD_BYTES + self.symbol_bytes))
        return LargeBlockParameters(
            symbol_bytes=self.symbol_bytes,
            block_symbols=self.block_symbols or (500 if self.code == "raptorq" else 128),
            arrival_pps=arrival,
            most_pps=arrival * max(1.0, min(10.0, slowest_bps / self.last_rate_bps)),
        )


def build_download(
    network: Network, source: str, sink: str, options: DownloadOptions, faults: Sequence[Fault] | None = None
) -> DownloadPlan:
    """Hang a host behind the last kilometre on the sink, route to it, plan the faults.

    ``faults`` None: the most loaded link that is not the last kilometre goes down for the middle half of the download.
    Raises InputError or TopologyError for values that cannot be used.
    """
    whole, last = _with_last_kilometre(network, sink, options.last_rate_bps)
    plan = DownloadPlan(
        network=whole,
        method=options.method,
        code=options.code,
        forward=_extended(spray(route_by_name(network, source, sink, options.method)), whole, last),
        backward=_begun(disjoint_return_split(network, source, sink), whole, last),
        last_link=last,
        parameters=options.parameters(min((k.capacity_bps for k in network.links), default=options.last_rate_bps)),
        file_bytes=options.file_bytes,
        faults=(),
        limit_s=1.0,
        seed=options.seed,
    )
    chosen = tuple(faults) if faults is not None else _default_faults(plan, predict(plan).seconds)
    plan = replace(plan, faults=chosen)
    return replace(plan, limit_s=2 * predict(plan).seconds + 5)


def loss_at(plan: DownloadPlan, at_s: float) -> float:
    """Share of the labels that no way carries at this time: the union over all faults in force."""
    dead = {
        index: fault.loss_fraction
        for fault in plan.faults
        if fault.start_s <= at_s < fault.stop_s
        for index in [plan.network.link_index[fault.link]]
    }
    kept = 0.0
    for path in plan.forward.paths:
        share = 1.0
        for index in path.links:
            share *= 1 - dead.get(index, 0.0)
        kept += share * (path.stop - path.start)
    return 1 - kept / LABELS


def symbols_needed(plan: DownloadPlan) -> int:
    """Symbols that must arrive: the file's and its preamble's; a block of RaptorQ may ask for two more, which is not counted."""
    return -(-(plan.file_bytes + PREAMBLE_BYTES) // plan.parameters.symbol_bytes)


def predict(plan: DownloadPlan) -> Prediction:
    """When as many symbols have arrived as the blocks need, at the arrival rate asked for wherever a way is left."""
    need = float(symbols_needed(plan))
    moments = sorted({t for f in plan.faults for t in (f.start_s, f.stop_s)})
    now, sent, idle = 0.0, 0.0, 0.0
    for until in [*moments, float("inf")]:
        lost = loss_at(plan, now)
        pace = 0.0 if lost >= 1 else min(plan.parameters.most_pps, plan.parameters.arrival_pps / (1 - lost))
        arriving = pace * (1 - lost)
        if arriving and need <= arriving * (until - now):
            return Prediction(seconds=now + need / arriving, sent=sent + pace * need / arriving, idle_s=idle)
        if until == float("inf"):
            break  # a fault without end on the only way: never
        need -= arriving * (until - now)
        sent += (pace or plan.parameters.arrival_pps) * (until - now)
        idle += 0.0 if arriving else until - now
        now = until
    return Prediction(seconds=float("inf"), sent=float("inf"), idle_s=idle)


def _default_faults(plan: DownloadPlan, seconds: float) -> tuple[Fault, ...]:
    split = plan.forward
    others = [i for i in split.loaded if plan.network.links[i].id != plan.last_link]
    if not others:
        return ()
    worst = max(others, key=lambda i: (split.load(i), -i))
    return (Fault(link=plan.network.links[worst].id, start_s=seconds / 4, stop_s=seconds * 3 / 4),)


def _extended(split: LabelSplit, whole: Network, last: LinkId) -> LabelSplit:
    """The split with the last kilometre behind every path (its links keep their numbers: the new ones come last)."""
    index = whole.link_index[last]
    paths = tuple(replace(path, links=(*path.links, index)) for path in split.paths)
    return LabelSplit(network=whole, source=split.source, sink=last[1], paths=paths)


def _begun(split: LabelSplit, whole: Network, last: LinkId) -> LabelSplit:
    index = whole.link_index[reverse_of(last)]
    paths = tuple(replace(path, links=(index, *path.links)) for path in split.paths)
    return LabelSplit(network=whole, source=last[1], sink=split.sink, paths=paths)


def _with_last_kilometre(network: Network, sink: str, rate_bps: float) -> tuple[Network, LinkId]:
    if network.node(sink).kind == "host":
        raise InputError(f"sink {sink!r} is a host; name the switch behind which the last kilometre begins")
    name = next(n for n in ("user", *(f"user{i}" for i in range(len(network.nodes)))) if n not in network.node_index)
    links = tuple(Link(source=a, target=b, capacity_bps=rate_bps) for a, b in ((sink, name), (name, sink)))
    whole = replace(network, nodes=(*network.nodes, Node(id=name, kind="host")), links=(*network.links, *links))
    return whole, (sink, name, 0)
