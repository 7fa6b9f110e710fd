"""The keyword arguments of the functions that make plans: the fields of each workload's options, for type checkers and editors.

All may be left out; defaults are the workload's. A network, end points and what a function takes by itself are not among them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

from testbed.bulk.plan import KilledProcess, Pair
from testbed.faults.fault import Fault
from testbed.faults.schedules import PoissonFaults
from testbed.metapath.plan import Routing
from testbed.metapath.source import MetapathOptions
from testbed.stream.plan import Handover, LabelOrder
from testbed.stream.planning import EachLink

Faults = str | Sequence[str | Fault]
"""``"s1->s2@0.5-1 down"``, several of them, or ``Fault`` values."""


class SenderOptions(TypedDict, total=False):
    """Of a coded stream, whether its nodes move or not."""

    method: str
    layers: int | None
    seed: int
    rate_pps: float
    source_packets: int
    symbol_bytes: int
    tolerance: float
    decoding_error_rate: float
    labels: LabelOrder
    playback_s: float
    report_interval_s: float
    report_packets: int
    hold_s: float
    block_size: int | None
    most_overhead: float | None
    late_pps: float | None
    diagnosis: bool
    label_multiplier: int
    label_slots: tuple[int, ...]


class StreamOptions(SenderOptions, total=False):
    """Of ``stream_plan``. ``faults``: also "each-link", "none", ``EachLink``, or a law of random faults."""

    faults: Faults | EachLink | PoissonFaults
    duration_s: float | None


class MobilityPlanOptions(SenderOptions, total=False):
    """Of ``mobility_plan``. ``count``: frames of a mobile network; ``faults``: also a law of random faults."""

    count: int
    frame_s: float
    warm_up_s: float
    handover: Handover
    faults: Faults | PoissonFaults


class MetapathPlanOptions(TypedDict, total=False):
    """Of ``metapath_plan``. ``faults``: also "each-link" or "none"."""

    routing: Routing
    rate_pps: float
    packet_bytes: int
    faults: Faults
    duration_s: float
    options: MetapathOptions
    background_bps: float
    seed: int


class BulkPlanOptions(TypedDict, total=False):
    """Of ``bulk_plan``. ``pattern``: "all-to-all" or pairs of hosts."""

    scheduling: str
    message_bytes: int
    link_rate_bps: float
    barrier: bool
    pattern: str | tuple[Pair, ...]
    routing: str | None
    seed: int
    solver_time_limit_s: float
    inject_packets: int
    faults: Faults
    kill: tuple[KilledProcess, ...]
