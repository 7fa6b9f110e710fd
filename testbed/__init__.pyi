# ruff: noqa
"""The names of ``import testbed``, for editors and type checkers.

tools/build_stub.py writes this file.
"""

from collections.abc import Sequence
from pathlib import Path
from testbed.api.calculations import block_size as block_size
from testbed.api.calculations import network as network
from testbed.api.calculations import networks as networks
from testbed.api.calculations import route as route
from testbed.api.calculations import schedule as schedule
from testbed.api.calculations import traffic as traffic
from testbed.api.comparing import compare as compare
from testbed.api.drawing import draw as draw
from testbed.api.ratings import DemandsResult as DemandsResult
from testbed.api.ratings import RorResult as RorResult
from testbed.api.ratings import demands as demands
from testbed.api.ratings import ror as ror
from testbed.api.runs import RunResult as RunResult
from testbed.api.runs import run as run
from testbed.api.session import Session as Session
from testbed.api.session import session as session
from testbed.api.stored import load as load
from testbed.api.stored import runs as runs
from testbed.api.tables import data_frame as data_frame
from testbed.bulk.options import KilledLike
from testbed.bulk.options import PatternLike
from testbed.bulk.plan import BulkPlan
from testbed.bulk.plan import Switching
from testbed.campaigns.description import Campaign
from testbed.download.plan import DownloadPlan
from testbed.faults.fault import FaultKind
from testbed.faults.fault import KilledProcess
from testbed.faults.fault import PoissonFaults
from testbed.faults.reading import FaultsLike
from testbed.interconnect.options import FtDrbOptions
from testbed.interconnect.options import NacOptions
from testbed.interconnect.plan import SimulationPlan
from testbed.metapath.options import MetapathOptions
from testbed.metapath.options import Routing
from testbed.metapath.plan import MetapathPlan
from testbed.model.naming.names import NetworkLike
from testbed.model.naming.names import NodeName
from testbed.stream.options import EachLink
from testbed.stream.options import EachLink as EachLink
from testbed.stream.options import LabelOrder
from testbed.stream.plan import StreamPlan
from testbed.striping.options import Access
from testbed.striping.options import Operation
from testbed.striping.options import Optimisation
from testbed.striping.options import Order
from testbed.striping.plan import StripingPlan
from testbed.tunnel.trial import TrialPlan
from testbed.wavelengths.options import PatternLike as PatternLike2
from testbed.wavelengths.plan import WavelengthPlan
from topologies.text.json_types import Json
from typing import Literal

__all__ = [
    "DemandsResult",
    "EachLink",
    "RorResult",
    "RunResult",
    "Session",
    "block_size",
    "bulk_plan",
    "campaign_plan",
    "compare",
    "data_frame",
    "demands",
    "download_plan",
    "draw",
    "load",
    "metapath_plan",
    "mobility_plan",
    "network",
    "networks",
    "ror",
    "route",
    "run",
    "runs",
    "schedule",
    "session",
    "simulation_plan",
    "stream_plan",
    "striping_plan",
    "traffic",
    "tunnel_plan",
    "wavelength_plan",
]
__version__: str

def bulk_plan(
    network: NetworkLike,
    *,
    scheduling: str = ...,
    pattern: PatternLike = ...,
    parts: int = ...,
    schedule: str | None = ...,
    message_bytes: int = ...,
    link_rate_bps: float | None = ...,
    switching: Switching = ...,
    no_comparison: bool = ...,
    barrier: bool = ...,
    routing: str | None = ...,
    inject_packets: int = ...,
    faults: FaultsLike | None = ...,
    kill: KilledLike = ...,
    solver_time_limit_s: float = ...,
    seed: int = ...,
) -> BulkPlan: ...
def campaign_plan(
    campaign: str | None = ...,
    *,
    name: str | None = ...,
    networks: Sequence[str] | None = ...,
    methods: Sequence[str] | None = ...,
    seeds: Sequence[int] | str | None = ...,
    frames: Sequence[int] | str | None = ...,
    pairs: Sequence[Sequence[str]] | int | None = ...,
    minimum_paths: int | None = ...,
    tolerances: Sequence[float] | None = ...,
    m: Sequence[int] | None = ...,
    der: Sequence[float] | None = ...,
    large_blocks: Sequence[bool] | None = ...,
    claims: Sequence[Json] | None = ...,
) -> Campaign: ...
def download_plan(
    network: NetworkLike,
    source: NodeName,
    sink: NodeName,
    *,
    last_mile_rate_bps: float = ...,
    file_bytes: int = ...,
    constant_rate: bool = ...,
    routing: str = ...,
    code: str = ...,
    block_symbols: int | None = ...,
    symbol_bytes: int = ...,
    faults: FaultsLike | None = ...,
    seed: int = ...,
) -> DownloadPlan: ...
def metapath_plan(
    network: NetworkLike,
    source: NodeName,
    sink: NodeName,
    *,
    routing: Routing = ...,
    rate_pps: float = ...,
    packet_bytes: int = ...,
    faults: FaultsLike = ...,
    fault_kind: FaultKind = ...,
    max_faults: int | None = ...,
    duration_s: float | None = ...,
    background_bps: float = ...,
    options: MetapathOptions = ...,
    seed: int = ...,
) -> MetapathPlan: ...
def mobility_plan(
    frames: NetworkLike | Sequence[NetworkLike],
    source: NodeName,
    sink: NodeName,
    *,
    rate_pps: float = ...,
    source_packets: int = ...,
    tolerance: float = ...,
    decoding_error_rate: float = ...,
    labels: LabelOrder = ...,
    symbol_bytes: int = ...,
    playback_s: float | None = ...,
    most_overhead: float | None = ...,
    hold_s: float = ...,
    report_interval_s: float = ...,
    report_packets: int = ...,
    block_size: int | None = ...,
    late_pps: float | None = ...,
    diagnosis: bool = ...,
    label_multiplier: int | None = ...,
    label_slots: tuple[int, ...] = ...,
    profile: str | None = ...,
    code: Literal["reed-solomon", "none"] = ...,
    count: int = ...,
    frame_s: float = ...,
    warm_up_s: float = ...,
    handover: str = ...,
    method: str = ...,
    routing: str | None = ...,
    layers: int | None = ...,
    faults: FaultsLike | PoissonFaults = ...,
    seed: int = ...,
) -> StreamPlan: ...
def simulation_plan(
    network: NetworkLike,
    load: float = ...,
    *,
    model: str = ...,
    switching: str = ...,
    router_delay_s: float | None = ...,
    deadlock: str = ...,
    virtual_channels: int | None = ...,
    link_bps: float | None = ...,
    packet_bytes: int = ...,
    buffer_bytes: int = ...,
    arbitration: str = ...,
    timeout_s: float = ...,
    watchdog_s: float = ...,
    drain_s: float = ...,
    ft_drb: FtDrbOptions = ...,
    nac: NacOptions = ...,
    pattern: str = ...,
    traffic: Json | str | None = ...,
    packet_rate_pps: float | None = ...,
    loads: Sequence[float] | str | None = ...,
    injection: str = ...,
    burst_length: int = ...,
    synchronised: bool = ...,
    duration_s: float | None = ...,
    warm_up_s: float | None = ...,
    routing: str | None = ...,
    faults: str | None = ...,
    trace_system: str | None = ...,
    trace_rule: str | None = ...,
    trace_permanent: bool = ...,
    trace_skip_bad_rows: bool = ...,
    seed: int = ...,
    repetitions: int = ...,
) -> SimulationPlan: ...
def stream_plan(
    network: NetworkLike,
    source: NodeName,
    sink: NodeName,
    *,
    rate_pps: float = ...,
    source_packets: int = ...,
    tolerance: float = ...,
    decoding_error_rate: float = ...,
    labels: LabelOrder = ...,
    symbol_bytes: int = ...,
    playback_s: float | None = ...,
    most_overhead: float | None = ...,
    hold_s: float = ...,
    report_interval_s: float = ...,
    report_packets: int = ...,
    block_size: int | None = ...,
    late_pps: float | None = ...,
    diagnosis: bool = ...,
    label_multiplier: int | None = ...,
    label_slots: tuple[int, ...] = ...,
    profile: str | None = ...,
    code: Literal["reed-solomon", "none"] = ...,
    method: str = ...,
    routing: str | None = ...,
    layers: int | None = ...,
    duration_s: float | None = ...,
    faults: FaultsLike | EachLink | PoissonFaults = ...,
    fault_kind: FaultKind = ...,
    fault_loss: float = ...,
    one_way: bool = ...,
    precision: float = ...,
    links: int | None = ...,
    seed: int = ...,
) -> StreamPlan: ...
def striping_plan(
    network: NetworkLike,
    compute_nodes: int,
    io_nodes: int,
    *,
    stripe_unit: int = ...,
    file_bytes: int | None = ...,
    operation: Operation = ...,
    access: Access = ...,
    access_block_bytes: int = ...,
    optimise: bool = ...,
    disable: Sequence[Optimisation] = ...,
    scheduling: str = ...,
    schedule: str | Path | None = ...,
    switching: Switching | None = ...,
    repetitions: int = ...,
    link_rate_bps: float | None = ...,
    routing: str | None = ...,
    host_selection: Order = ...,
    faults: FaultsLike = ...,
    kill: Sequence[str | KilledProcess] = ...,
    solver_time_limit_s: float = ...,
    seed: int = ...,
) -> StripingPlan: ...
def tunnel_plan(
    network: NetworkLike,
    between: tuple[NodeName, NodeName],
    *,
    mode: str | None = ...,
    flush_s: float = ...,
    order_s: float | None = ...,
    source_packets: int = ...,
    playback_s: float = ...,
    routing: str = ...,
    workload: str = ...,
    udp_rate_bps: float = ...,
    duration_s: float = ...,
    command: tuple[str, ...] = ...,
    faults: FaultsLike | None = ...,
    seed: int = ...,
) -> TrialPlan: ...
def wavelength_plan(
    network: NetworkLike,
    pattern: PatternLike2 = ...,
    *,
    wavelengths: int | None = ...,
    switching: str | None = ...,
    method: str = ...,
    time_limit_s: float = ...,
    seed: int = ...,
) -> WavelengthPlan: ...
