"""Options of an uncoded stream whose routing reacts to failures."""

from __future__ import annotations

from typing import Literal, get_args

from testbed.errors import InputError
from testbed.faults.fault import FaultKind
from testbed.faults.reading import FaultsLike
from testbed.model.naming.names import NetworkLike
from testbed.model.options import kinds
from testbed.model.options.option import nested, option, options

Routing = Literal["ft-drb", "single", "recomputed"]
# FT-DRB; one fixed path; a capillary route that the controller recomputes when a port changes.
ROUTINGS: tuple[Routing, ...] = get_args(Routing)
# The value of ``faults`` for which each cable between switches of the minimal path fails alone, one
# after another.
EACH_LINK = "each-link"
Notify = Literal["both", "controller", "header"]
LinkUp = Literal["probe", "controller"]


@options
class MetapathOptions:
    """Parameters of FT-DRB's source (Zarza 2011, chapter 3).

    The defaults are explained in docs/replication/ft_drb_deviations.md.

    Attributes:
        probe_every: One of this number of diverted packets tests the minimal path.
        threshold: Target latency Thl of the metapath, as a multiple of the latency of the minimal
            path without load.
        tolerance: Tol, as a fraction of Thl. A path is added if the latency exceeds Thl + Tol, and
            removed if it is below Thl - Tol. The default is above 1/3: a second path halves the
            latency, and must not be removed at once.
        silence_s: A packet counts as missing if no report made this long after it was sent lists
            it.
        smoothing: Weight of a new latency; 1 to use only the last latency.

    Raises:
        InputError: A value is out of range.
    """

    notify: Notify = option(
        flag="--failure-notifier",
        default="both",
        choices=get_args(Notify),
        help="sender of the report about a failed link",
    )
    link_up: LinkUp = option(
        flag="--repair-detection",
        default="probe",
        choices=get_args(LinkUp),
        help="detector of a repaired link",
    )
    paths: int = option(
        flag="--max-paths",
        default=4,
        kind=kinds.metapath_paths,
        help="maximum number of paths of a metapath (default: {default})",
    )
    first_paths: int = option(
        flag="--initial-paths",
        default=1,
        kind=kinds.metapath_paths,
        help="number of paths with which a metapath starts (default: {default})",
    )
    notifications: int = option(
        default=5,
        kind=kinds.occurrences,
        help="number of consecutive notifications that mark a cable as failed (default: {default})",
    )
    probe_every: int = option(
        default=100,
        kind=kinds.probe_interval,
        help="send one diverted packet in N over the minimal path (default: {default})",
    )
    silence_s: float = option(
        default="60ms",
        kind=kinds.silence,
        flag="--loss-timeout",
        help="time after which a packet counts as missing (default: {default})",
    )
    threshold: float = option(
        default="2",
        kind=kinds.times_zero_load,
        flag="--latency-threshold",
        short=("--thl",),
        metavar="X",
        help="threshold Thl, as a multiple of the latency without load (default: {default})",
    )
    tolerance: float = option(
        default=0.4,
        kind=kinds.share,
        flag="--latency-tolerance",
        short=("--tol",),
        metavar="X",
        help="tolerance Tol, as a fraction of Thl (default: {default})",
    )
    smoothing: float = option(
        default=0.125,
        kind=kinds.fraction,
        listed=False,
        help="weight of a new latency in the estimate of its path",
    )
    always: bool = option(
        default=False,
        flag="--always-metapaths",
        help="use metapaths also without failures, as DRB does",
    )

    def __post_init__(self) -> None:
        if self.first_paths > self.paths:
            raise InputError(f"ft-drb: {self.first_paths} first paths; give 1 to {self.paths}")


@options
class MetapathPlanOptions:
    """Options of an uncoded stream; see ``MetapathPlan``.

    Attributes:
        faults: The faults, or "each-link".
        fault_kind: The kind of the faults of "each-link".
        max_faults: Maximum number of faults of "each-link".
    """

    network: NetworkLike = option(
        kw_only=False, help="network: a catalogue name (see testbed topology list) or a file"
    )
    source: str = option(kw_only=False, metavar="NODE", help="node that sends")
    sink: str = option(kw_only=False, metavar="NODE", help="node that receives")
    routing: Routing = option(
        default="ft-drb", choices=ROUTINGS, help="routing method: ft-drb, single or recomputed"
    )
    rate_pps: float = option(default=1000.0, help="packets per second (default: {default})")
    packet_bytes: int = option(
        default=256, help="payload of each packet, in bytes (default: {default})"
    )
    faults: FaultsLike = option(
        default=EACH_LINK,
        help='links that fail: "each-link" (default), "none", a file, texts or values',
    )
    fault_kind: FaultKind = option(
        default="down", help="kind of failure (each-link only; default: {default})"
    )
    max_faults: int | None = option(
        default=None,
        kind=kinds.count,
        help="maximum number of links that fail (each-link only; default: all)",
    )
    duration_s: float | None = option(
        default=None,
        kind=kinds.duration,
        help="duration of the stream (default: until the sender has reacted to the last fault)",
    )
    background_bps: float = option(default=0.0, help="rate of TCP traffic beside the stream")
    options: MetapathOptions = nested(default_factory=MetapathOptions)
    seed: int = option(default=1, kind=kinds.seed, help="seed of the random choice of paths")
