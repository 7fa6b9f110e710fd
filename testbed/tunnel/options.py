"""Options of a tunnel trial, for the command and the library."""

from __future__ import annotations

from testbed.faults.reading import FAULT_WORDS, FaultsLike
from testbed.model.naming.names import NetworkLike
from testbed.model.options import kinds
from testbed.model.options.option import (
    coded,
    ends,
    failing,
    option,
    options,
    routed,
    running,
    sent,
)

WORKLOADS = ("ping", "voip", "udp", "tcp", "video")
# One shortest path without code; the split without code; a code for the failure of any one cable; a
# code that follows the reported losses.
RIVALS = ("direct", "none", "static", "adaptive")


@options
class TunnelOptions:
    """Options of programs that run through a tunnel between two nodes; see ``TrialPlan``.

    Attributes:
        faults: None for three failures: a cable of the direct path, another one, and both together.
        mode: None for all rivals, one after another.
    """

    network: NetworkLike = option(
        kw_only=False, positional=True, metavar="NETWORK", help="catalogue name or file"
    )
    between: tuple[str, str] = ends(
        kw_only=False, metavar="NODE", help="the two ends of the tunnel"
    )
    mode: str | None = coded(
        default=None, choices=RIVALS, help="this rival alone (default: each, in a run of its own)"
    )
    flush_s: float = coded(
        default="20ms", kind=kinds.duration, help="after which a block is closed"
    )
    order_s: float | None = coded(
        default=None,
        kind=kinds.holding,
        help="for which a packet waits for one before it in its flow; 0: not at all "
        "(default: 160ms, at most the playback buffer)",
    )
    source_packets: int = coded(
        default=20, kind=kinds.block_packets, metavar="M", help="in a whole block"
    )
    playback_s: float = coded(
        default="400ms",
        flag="--playback-buffer",
        kind=kinds.duration,
        help="for which a packet is waited for",
    )
    routing: str = routed(default="capillary", metavar="METHOD", help="as of testbed route")
    workload: str = sent(
        default="ping,voip,udp",
        metavar="NAME,...",
        help="of ping, voip, udp, tcp (by itself, after the others), video",
    )
    udp_rate_bps: float = sent(default="1Mbps", kind=kinds.rate_bps, help="of udp")
    duration_s: float = sent(default="20s", kind=kinds.duration, help="of each run")
    command: tuple[str, ...] = option(
        default=(),
        listed=False,
        many=True,
        trailing=True,
        help="a program at the first end and its arguments, {peer} for the other end's address",
    )
    faults: FaultsLike | None = failing(
        default=None,
        metavar=f"none|{FAULT_WORDS}|FILE",
        help="default: three failures, the last of two cables at once",
    )
    seed: int = running(default=1, kind=kinds.seed, help="seed of labels")
