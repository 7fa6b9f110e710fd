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
# The modes that a trial compares. "direct": a shortest path, without a tunnel. "none": a tunnel
# over the split, without a code. "static": a code for the failure of any one cable. "adaptive": a
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
        kw_only=False,
        positional=True,
        metavar="NETWORK",
        help="network: a catalogue name (see testbed topology list) or a file",
    )
    between: tuple[str, str] = ends(kw_only=False, metavar="NODE", help="two ends of the tunnel")
    mode: str | None = coded(
        default=None,
        choices=RIVALS,
        help="run this mode only (default: all modes, one after another)",
    )
    flush_s: float = coded(
        default="20ms", kind=kinds.duration, help="time after which a block is closed"
    )
    order_s: float | None = coded(
        default=None,
        kind=kinds.holding,
        help="maximum time for which a packet waits for an earlier one of its flow; 0: do not "
        "reorder (default: 160ms, at most the playback buffer)",
    )
    source_packets: int = coded(
        default=20, kind=kinds.block_packets, metavar="M", help="source packets per full block"
    )
    playback_s: float = coded(
        default="400ms",
        flag="--playback-buffer",
        kind=kinds.duration,
        help="maximum time for which the receiver waits for a packet",
    )
    routing: str = routed(
        default="capillary", metavar="METHOD", help="routing method, see testbed route"
    )
    workload: str = sent(
        default="ping,voip,udp",
        metavar="NAME,...",
        help="programs to run: ping, voip, udp, video, and tcp (alone, after the others)",
    )
    udp_rate_bps: float = sent(
        default="1Mbps", kind=kinds.rate_bps, help="rate of the workload udp"
    )
    duration_s: float = sent(default="20s", kind=kinds.duration, help="duration of each run")
    command: tuple[str, ...] = option(
        default=(),
        listed=False,
        many=True,
        trailing=True,
        help="program at the first end, and its arguments; {peer} stands for the address of the "
        "other end",
    )
    faults: FaultsLike | None = failing(
        default=None,
        metavar=f"none|{FAULT_WORDS}|FILE",
        help="links that fail, and when (default: three failures, the last of two cables at once)",
    )
    seed: int = running(default=1, kind=kinds.seed, help="seed of the labels")
