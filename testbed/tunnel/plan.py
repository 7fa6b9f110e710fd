"""The plan of a tunnel: how packets are coded and split each way. A value, without a socket or a clock."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypedDict, get_args

import numpy as np
from numpy.typing import NDArray

from fec.protocol.events.event_sender import FRAMING, PATIENCE
from fec.protocol.wire import HEADER_BYTES
from testbed.errors import InputError
from testbed.model.label_split import LabelSplit
from testbed.model.naming.names import NetworkLike, known_network
from testbed.stream.plan import StreamPlan
from testbed.stream.prediction.active_faults import cable_name
from testbed.stream.prediction.block_size_policy import MAX_SYMBOLS, link_block_size
from testbed.stream.prediction.path_delays import longest_path_delay_s
from topologies import JsonObject

Mode = Literal["adaptive", "static", "none"]
MODES: tuple[Mode, ...] = get_args(Mode)
ORDER_S = 0.16
"""In which late parity comes as well: a block of few packets waits 0.08 s for its first parity. Less than the 0.2 s
after which TCP sends again at the earliest."""
UDP_HEADERS_BYTES = 20 + 8
FRAME_HEADERS_BYTES = 14 + UDP_HEADERS_BYTES
LEAST_MTU = 576
"""Of the device: what every IPv4 host must take (RFC 791)."""
_BLOCKS_IN_PLAYBACK, _PLANNED_BYTES = 8, 256
"""A rate and a size for the planning of labels alone: packets leave when they come, as long as they are."""


class EndLog(TypedDict):
    """What one end of a tunnel counted, and a row a packet that it was offered and that it handed on, as numpy records
    (``testbed.tunnel.emulated.tunnel_end.PACKETS``)."""

    counters: Mapping[str, float]
    offered: NDArray[np.void]
    delivered: NDArray[np.void]


@dataclass(frozen=True, kw_only=True)
class TunnelPlan:
    """``there`` and ``back``: network, label split, code and labels of either direction. ``mode``: adaptive (N follows
    what is reported), static (N for the failure of any one cable), none (split, without code).

    ``flush_s``: see ``EventPolicy``; ``order_s``: for how long a packet waits for one before it in its flow. InputError
    for times that do not fit together.
    """

    there: StreamPlan
    back: StreamPlan
    mode: Mode = "adaptive"
    flush_s: float = 0.02
    order_s: float = ORDER_S

    def __post_init__(self) -> None:
        playback_s = self.there.stream.playback_s
        way_s = max(longest_path_delay_s(one) for one in (self.there, self.back))
        most_s = (playback_s - way_s) / PATIENCE
        if not 0 < self.flush_s <= most_s:
            raise InputError(
                f"tunnel: flush after {self.flush_s:g} s with playback after {playback_s:g} s; a block of few packets "
                f"waits {PATIENCE} times the flush, and its parity takes {way_s:g} s on the longest path: give a flush "
                f"of more than 0 and at most {most_s:g} s, or a playback of {PATIENCE * self.flush_s + way_s:g} s"
            )
        if not 0 <= self.order_s <= playback_s:
            raise InputError(
                f"tunnel: order for {self.order_s:g} s; give 0 (as they come) to {playback_s:g} s"
            )
        if self.mode not in MODES:
            raise InputError(f"tunnel: mode {self.mode!r}; give {', '.join(MODES)}")
        for plan in (self.there, self.back) if self.mode == "static" else ():
            longest = max(link_block_size(plan, link) or 0 for link in plan.forward.loaded)
            if longest > MAX_SYMBOLS:
                raise InputError(
                    f"tunnel: with {plan.stream.source_packets} source packets a block mode static needs blocks of "
                    f"{longest} packets, and {MAX_SYMBOLS} is the most; give fewer of them, or another mode"
                )

    @property
    def mtu(self) -> int:
        """Of its devices, bytes: one packet is one symbol."""
        return self.there.stream.symbol_bytes - FRAMING.size

    def reversed(self) -> "TunnelPlan":
        """As its other end sees it."""
        return replace(self, there=self.back, back=self.there)


def symbol_bytes_of(link_mtu: int) -> int:
    """The longest symbol that a link of that MTU carries. InputError where none of use is left."""
    size = link_mtu - UDP_HEADERS_BYTES - HEADER_BYTES
    if size - FRAMING.size < LEAST_MTU:
        overhead = link_mtu - size + FRAMING.size
        raise InputError(
            f"tunnel: links of MTU {link_mtu} leave {size - FRAMING.size} bytes; give at least {LEAST_MTU + overhead}"
        )
    return size


def shared_cables(split: LabelSplit) -> list[str]:
    """Cables that every label crosses."""
    loads = {cable_name(split.network.links[i].id): split.load(i) for i in split.loaded}
    return [name for name, load in loads.items() if load >= 1]


def report_labels(split: LabelSplit) -> tuple[int, ...]:
    """A label of each of some paths, no two of which share a cable, short ones first."""
    chosen: list[int] = []
    taken: set[str] = set()
    for path in sorted(split.paths, key=lambda path: len(path.links)):
        cables = {cable_name(split.network.links[i].id) for i in path.links}
        if not cables & taken:
            chosen.append(path.start)
            taken |= cables
    return tuple(chosen)


def report_pairs(labels: Sequence[int]) -> Iterator[set[int]]:
    """The labels of each report: two in turn, every one of them once in as many reports as there are labels, so that
    reports come as long as one of the paths is whole.

    >>> pairs = report_pairs((1, 2, 3))
    >>> next(pairs), next(pairs), next(pairs)
    ({1, 2}, {2, 3}, {1, 3})
    """
    for first, second in itertools.pairwise(itertools.cycle(labels)):
        yield {first, second}


def build_tunnel(
    network: NetworkLike, a: str, b: str, *, link_mtu: int = 1500, **options: object
) -> TunnelPlan:
    """``options``: mode, flush_s, order_s (None: ``ORDER_S``, at most the playback), source_packets (M), playback_s,
    method, seed, faults.

    InputError where one cable carries every path: no code stands its failure, and no rule is known against it.
    """
    from testbed.stream.workload import stream_plan

    known = known_network(network)
    own: JsonObject = {name: options.pop(name) for name in ("mode", "flush_s") if name in options}
    order_s = options.pop("order_s", None)
    values: JsonObject = {
        "method": "capillary",
        "faults": (),
        "source_packets": 20,
        "playback_s": 0.4,
        **options,
    }
    size = symbol_bytes_of(link_mtu)
    values["rate_pps"] = _BLOCKS_IN_PLAYBACK * values["source_packets"] / values["playback_s"]
    values["symbol_bytes"] = _PLANNED_BYTES
    plans = {}
    for name, source, sink in (("there", a, b), ("back", b, a)):
        plan: StreamPlan = stream_plan(known, source, sink, **values)
        if single := shared_cables(plan.forward):
            raise InputError(
                f"tunnel from {source} to {sink}: every path crosses {single[0]}, whose failure no code stands; choose "
                "ends with two paths that share no cable"
            )
        plans[name] = replace(plan, stream=replace(plan.stream, symbol_bytes=size))
    own["order_s"] = min(ORDER_S, plans["there"].stream.playback_s) if order_s is None else order_s
    return TunnelPlan(**plans, **own)  # type: ignore[arg-type]
