"""The plan of a tunnel: how packets are coded, and split over paths, in each direction.

A plan is a value; it holds neither sockets nor clocks.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypedDict, get_args

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
# Default of ``TunnelPlan.order_s``. It is sufficient for late parity, because a block of few
# packets sends its first parity after 0.08 s. It is below the shortest retransmission timeout of
# TCP, 0.2 s.
ORDER_S = 0.16
UDP_HEADERS_BYTES = 20 + 8
FRAME_HEADERS_BYTES = 14 + UDP_HEADERS_BYTES
# Minimum MTU of the tunnel's device: every IPv4 host must accept packets of this size (RFC 791).
MIN_MTU = 576
# Number of blocks per playback time, and size of a packet, from which the labels are planned. The
# packets of a tunnel leave when programs send them, and have the size that programs give them.
_PLANNED_BLOCKS_IN_PLAYBACK = 8
_PLANNED_BYTES = 256


class EndLog(TypedDict):
    """The counters and packet logs of one end of a tunnel.

    The logs are numpy records (``testbed.tunnel.emulated.tunnel_end.PACKETS``), one per packet.

    Attributes:
        counters: Counts of packets, bytes and errors by name.
        offered: The packets that programs sent into the tunnel at this end.
        delivered: The packets that this end delivered to programs.
    """

    counters: Mapping[str, float]
    offered: NDArray[np.void]
    delivered: NDArray[np.void]


@dataclass(frozen=True, kw_only=True)
class TunnelPlan:
    """A tunnel between two nodes.

    Attributes:
        there: Network, label split, code and labels of the direction from source to sink.
        back: The same for the other direction.
        mode: ``adaptive`` (N follows the loss reports), ``static`` (N tolerates the failure of any
            one cable) or ``none`` (split, without code).
        flush_s: When an incomplete block is closed; see ``EventPolicy``.
        order_s: Maximum time that a packet waits for an earlier packet of its flow.

    Raises:
        InputError: The times contradict each other, or a block would be too long.
    """

    there: StreamPlan
    back: StreamPlan
    mode: Mode = "adaptive"
    flush_s: float = 0.02
    order_s: float = ORDER_S

    def __post_init__(self) -> None:
        self._check_times()
        if self.mode not in MODES:
            raise InputError(f"tunnel: mode {self.mode!r}; give {', '.join(MODES)}")
        if self.mode == "static":
            _check_static_blocks(self.there)
            _check_static_blocks(self.back)

    def _check_times(self) -> None:
        playback_s = self.there.stream.playback_s
        delay_s = max(longest_path_delay_s(self.there), longest_path_delay_s(self.back))
        max_flush_s = (playback_s - delay_s) / PATIENCE
        if not 0 < self.flush_s <= max_flush_s:
            raise InputError(
                f"tunnel: flush after {self.flush_s:g} s with playback after {playback_s:g} s; "
                f"a block of few packets waits {PATIENCE} times the flush, and its parity takes "
                f"{delay_s:g} s on the longest path: give a flush of more than 0 and at most "
                f"{max_flush_s:g} s, or a playback of {PATIENCE * self.flush_s + delay_s:g} s"
            )
        if not 0 <= self.order_s <= playback_s:
            raise InputError(
                f"tunnel: order for {self.order_s:g} s; give 0 (as they come) to {playback_s:g} s"
            )

    @property
    def mtu(self) -> int:
        """The MTU of the tunnel's devices in bytes: one packet fills at most one symbol."""
        return self.there.stream.symbol_bytes - FRAMING.size

    def reversed(self) -> "TunnelPlan":
        """Return the plan as the other end of the tunnel sees it."""
        return replace(self, there=self.back, back=self.there)


def _check_static_blocks(plan: StreamPlan) -> None:
    """Raise InputError if the code cannot tolerate the failure of every link."""
    longest = max(link_block_size(plan, link) or 0 for link in plan.forward.loaded)
    if longest > MAX_SYMBOLS:
        raise InputError(
            f"tunnel: with {plan.stream.source_packets} source packets a block mode static needs "
            f"blocks of {longest} packets, and {MAX_SYMBOLS} is the most; give fewer of them, or "
            "another mode"
        )


def symbol_bytes_of(link_mtu: int) -> int:
    """Return the size of the longest symbol that fits in a link's MTU, in bytes.

    Raises:
        InputError: The MTU of the tunnel's device would be less than ``MIN_MTU``.
    """
    size = link_mtu - UDP_HEADERS_BYTES - HEADER_BYTES
    if size - FRAMING.size < MIN_MTU:
        overhead = link_mtu - size + FRAMING.size
        raise InputError(
            f"tunnel: links of MTU {link_mtu} leave {size - FRAMING.size} bytes; "
            f"give at least {MIN_MTU + overhead}"
        )
    return size


def shared_cables(split: LabelSplit) -> list[str]:
    """Return the names of the cables that the packets of every label cross."""
    links = split.network.links
    load_by_cable = {cable_name(links[i].id): split.load(i) for i in split.loaded}
    return [name for name, load in load_by_cable.items() if load >= 1]


def report_labels(split: LabelSplit) -> tuple[int, ...]:
    """Return one label on each of several paths that share no cable, short paths first."""
    labels: list[int] = []
    used_cables: set[str] = set()
    for path in sorted(split.paths, key=lambda path: len(path.links)):
        cables = {cable_name(split.network.links[i].id) for i in path.links}
        if not cables & used_cables:
            labels.append(path.start)
            used_cables |= cables
    return tuple(labels)


def report_pairs(labels: Sequence[int]) -> Iterator[set[int]]:
    """Yield the labels under which each report is sent: two neighbours in the cycle of labels.

    Reports arrive as long as one of the paths works, because each label is used in two of as many
    reports as there are labels.

    >>> pairs = report_pairs((1, 2, 3))
    >>> next(pairs), next(pairs), next(pairs)
    ({1, 2}, {2, 3}, {1, 3})
    """
    for first, second in itertools.pairwise(itertools.cycle(labels)):
        yield {first, second}


def build_tunnel(
    network: NetworkLike, a: str, b: str, *, link_mtu: int = 1500, **options: object
) -> TunnelPlan:
    """Plan a tunnel between two nodes.

    Args:
        network: The network, or its name.
        a: The first end of the tunnel.
        b: The other end.
        link_mtu: MTU of the network's links in bytes.
        options: mode, flush_s, order_s (None: ``ORDER_S``, at most the playback), source_packets
            (M), playback_s, method, seed, faults.

    Raises:
        InputError: One cable carries every path, so that no code can tolerate its failure; or the
            options do not fit together.
    """
    from testbed.stream.workload import stream_plan

    resolved_network = known_network(network)
    tunnel_options: JsonObject = {}
    for name in ("mode", "flush_s"):
        if name in options:
            tunnel_options[name] = options.pop(name)
    requested_order_s: Any = options.pop("order_s", None)
    stream_options: JsonObject = {
        "method": "capillary",
        "faults": (),
        "source_packets": 20,
        "playback_s": 0.4,
        **options,
    }
    symbol_bytes = symbol_bytes_of(link_mtu)
    packets_in_playback = _PLANNED_BLOCKS_IN_PLAYBACK * stream_options["source_packets"]
    stream_options["rate_pps"] = packets_in_playback / stream_options["playback_s"]
    stream_options["symbol_bytes"] = _PLANNED_BYTES

    def plan_direction(source: str, sink: str) -> StreamPlan:
        plan: StreamPlan = stream_plan(resolved_network, source, sink, **stream_options)
        shared = shared_cables(plan.forward)
        if shared:
            raise InputError(
                f"tunnel from {source} to {sink}: every path crosses {shared[0]}, whose failure no "
                "code stands; choose ends with two paths that share no cable"
            )
        return replace(plan, stream=replace(plan.stream, symbol_bytes=symbol_bytes))

    forward = plan_direction(a, b)
    back = plan_direction(b, a)
    order_s = min(ORDER_S, forward.stream.playback_s)
    if requested_order_s is not None:
        order_s = requested_order_s
    return TunnelPlan(there=forward, back=back, order_s=order_s, **tunnel_options)
