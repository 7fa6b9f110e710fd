"""What goes through a tunnel, and against which rivals, for the command and the library."""

from __future__ import annotations

from testbed.faults.reading import FAULT_WORDS, FaultsLike
from testbed.model.naming.names import NetworkLike
from testbed.model.options import kinds
from testbed.model.options.option import CODE, ENDS, FAULTS, ROUTED, RUN, SENT, option, options

WORKLOADS = ("ping", "voip", "udp", "tcp", "video")
RIVALS = ("direct", "none", "static", "adaptive")
"""One shortest path without code; split without code; code for any one cable; code for what is reported."""


@options
class TunnelOptions:
    """Programs through a tunnel between two nodes; see ``TrialPlan``. ``faults`` None: a cable of the direct path,
    another one, and two together. ``mode`` None: all rivals, one after another."""

    network: NetworkLike = option(kw_only=False, positional=True, metavar="NETWORK", help="catalogue name or file")
    between: tuple[str, str] = option(
        kw_only=False, flag="--between", group=ENDS, metavar="NODE", help="the two ends of the tunnel"
    )
    mode: str | None = option(
        default=None, choices=RIVALS, group=CODE, help="this rival alone (default: each, in a run of its own)"
    )
    flush_s: float = option(
        default="20ms", kind=kinds.duration, group=CODE, metavar="TIME", help="after which a block is closed"
    )
    order_s: float | None = option(
        default=None,
        kind=kinds.holding,
        group=CODE,
        metavar="TIME",
        help="for which a packet waits for one before it in its flow; 0: not at all (default: 160ms, at most the "
        "playback buffer)",
    )
    source_packets: int = option(
        default=20, flag="--source-packets", kind=kinds.block_packets, group=CODE, metavar="M", help="in a whole block"
    )
    playback_s: float = option(
        default="400ms",
        flag="--playback-buffer",
        kind=kinds.duration,
        group=CODE,
        metavar="TIME",
        help="for which a packet is waited for",
    )
    routing: str = option(default="capillary", group=ROUTED, metavar="METHOD", help="as of testbed route")
    workload: str = option(
        default="ping,voip,udp",
        group=SENT,
        metavar="NAME,...",
        help="of ping, voip, udp, tcp (by itself, after the others), video",
    )
    udp_rate_bps: float = option(default="1Mbps", kind=kinds.rate_bps, group=SENT, metavar="RATE", help="of udp")
    duration_s: float = option(
        default="20s", flag="--duration", kind=kinds.duration, group=SENT, metavar="TIME", help="of each run"
    )
    command: tuple[str, ...] = option(
        default=(),
        listed=False,
        many=True,
        trailing=True,
        help="a program at the first end and its arguments, {peer} for the other end's address",
    )
    faults: FaultsLike | None = option(
        default=None,
        group=FAULTS,
        metavar=f"none|{FAULT_WORDS}|FILE",
        help="default: three failures, the last of two cables at once",
    )
    seed: int = option(default=1, kind=kinds.seed, group=RUN, help="seed of labels")
