"""The options of a simulation, for the command and the library.

They add messages, failures and seeds to the options of routers.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from testbed.errors import InputError
from testbed.interconnect.options import LINK_RATE, NAC, WITH_NAC, RouterOptions
from testbed.model.naming.names import NetworkLike
from testbed.model.options import kinds
from testbed.model.options.option import (
    Only,
    ends,
    failing,
    option,
    options,
    routed,
    running,
    sent,
)
from topologies import Json


def _uses_pattern(requested: Any) -> bool:
    return requested.traffic is None


def _has_one_load(requested: Any) -> bool:
    return not requested.loads


def _has_no_packet_rate(requested: Any) -> bool:
    return requested.packet_rate_pps is None


def _may_have_loads(requested: Any) -> bool:
    return requested.traffic is None and requested.nac_trace is None


def _uses_bursts(requested: Any) -> bool:
    return bool(requested.injection == "burst")


def _is_not_poisson(requested: Any) -> bool:
    return bool(requested.injection != "poisson")


def _uses_trace(requested: Any) -> bool:
    return "trace:" in (requested.faults or "")


# Conditions under which options have a meaning.
_PATTERN = Only(when=_uses_pattern, needs="messages made by a pattern, without --traffic")
_ONE_LOAD = Only(when=_has_one_load, needs="one load, without --loads")
_LOAD = Only(when=_has_no_packet_rate, needs="a load, without --packet-rate")
_LOADS = Only(when=_may_have_loads, needs="a pattern without --traffic and --nac-trace")
_BURST = Only(when=_uses_bursts, needs="--injection burst")
_NOT_POISSON = Only(when=_is_not_poisson, needs="--injection periodic or burst")
_TRACE = Only(when=_uses_trace, needs="--faults trace:FILE")


@options
class SimulationOptions(RouterOptions):
    """The options of a simulation; see ``Experiment``.

    ``traffic`` is a file or its document. Options that are None have a default that depends on the
    network or on other options.
    """

    network: NetworkLike = option(
        kw_only=False,
        positional=True,
        metavar="NETWORK",
        help="network: a catalogue name (torus:8x8, ring:8, fat-tree:4,3, ...) or a file",
    )
    link_bps: float | None = ends(  # type: ignore[assignment]
        flag="--link-rate",
        default=None,
        kind=LINK_RATE,
        help="rate of every link (default: its capacity in the network's file; 2 Gbit/s for a "
        "catalogue name)",
    )
    pattern: str = sent(
        default="uniform",
        only=(_PATTERN,),
        help="destinations of messages: uniform, bit-reversal, shuffle, butterfly, transpose, "
        "complement, tornado, scatter or gather",
    )
    traffic: Json | str | None = sent(
        default=None,
        metavar="FILE",
        help='messages or a schedule instead of a pattern: {"messages": [...]}, {"transfers": '
        '...} or {"frames": ...}; NAME.et: a Chakra trace (NAME.0.et, NAME.1.et, ... or '
        ".et.json) with dependent messages",
    )
    load: float = sent(
        default=0.1,
        kw_only=False,
        kind=kinds.load,
        metavar="FRACTION",
        only=(_PATTERN, _ONE_LOAD, _LOAD),
        help="mean load that every sender offers, as a fraction of its slowest link",
    )
    packet_rate_pps: float | None = sent(
        default=None,
        kind=kinds.sending_rate,
        only=(_PATTERN, _ONE_LOAD),
        help="mean packet rate of every sender, instead of --load",
    )
    loads: Sequence[float] | str | None = sent(
        default=None,
        metavar="A:B:STEP",
        only=(_LOADS,),
        help="range of loads to simulate one after another, instead of --load, as in 0.1:0.9:0.1",
    )
    injection: str = sent(
        default="poisson",
        choices=("poisson", "periodic", "burst"),
        only=(_PATTERN,),
        help="process by which messages are generated",
    )
    burst_length: int = sent(
        default=1,
        kind=kinds.count,
        only=(_PATTERN, _BURST),
        help="messages per burst (--injection burst only; default: {default})",
    )
    synchronised: bool = sent(
        default=False,
        only=(_PATTERN, _NOT_POISSON),
        help="let all senders generate messages at the same times (periodic and burst only)",
    )
    duration_s: float | None = sent(
        default=None,
        kind=kinds.simulated,
        help="time during which messages are generated (default: about 1500 messages per node, "
        "at most 1 s)",
    )
    warm_up_s: float | None = sent(
        default=None,
        kind=kinds.warm_up,
        help="time after which messages are measured (default: a fifth of the duration)",
    )
    routing: str | None = routed(
        default=None,
        metavar="METHOD",
        help="routing method: dor, d-mod-k, nca, table, shortest-path, ft-drb, up-down, "
        "odd-even, minimal-adaptive, dateline, distance-classes, valiant, ugal or one of a "
        "plug-in (default: the network's method)",
    )
    faults: str | None = failing(
        default=None,
        metavar="none|LINK@START-STOP,...|FILE",
        help="links that fail: s0_0->s0_1@0.1-0.2,... (both directions; without times: "
        "permanently, from the beginning), a JSON file as for testbed stream, random:N, "
        "transient:N, intermittent:N, line:N, square:N, L:N, U:N (legs of N links), or "
        "trace:FILE (an LANL, FTA or PNNL table, plain or .gz)",
    )
    trace_system: str | None = failing(
        default=None,
        metavar="NAME",
        only=(_TRACE,),
        help="system of the trace whose failures are used (LANL and FTA only)",
    )
    trace_rule: str | None = failing(
        default=None,
        only=(_TRACE,),
        help="rows of an LANL table that are used: interconnect-hardware (default), "
        "network-column, or either",
    )
    trace_permanent: bool = failing(
        default=False, only=(_TRACE,), help="treat all failures of the trace as permanent"
    )
    trace_skip_bad_rows: bool = failing(
        default=False,
        only=(_TRACE,),
        help="skip rows of the trace that cannot be read; they are counted",
    )
    seed: int = running(default=1, kind=kinds.seed, help="seed of all random choices")
    repetitions: int = running(
        default=1, kind=kinds.some, help="number of runs, with seeds SEED, SEED + 1, ..."
    )


@options
class TimelineOptions:
    """Options of the command for files that a run writes."""

    nac_trace: Path | None = option(
        default=None,
        group=WITH_NAC,
        metavar="FILE",
        only=(NAC,),
        help="write every identification, move and recovery as CSV (the first 100000 of each run)",
    )

    def __post_init__(self) -> None:
        if self.nac_trace is not None and not self.nac_trace.parent.is_dir():
            raise InputError(
                f"--nac-trace {self.nac_trace}: no such directory; give a file in one that exists"
            )
