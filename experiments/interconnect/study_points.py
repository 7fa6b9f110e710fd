"""Points of the interconnect studies, and the traffic and failures that each stands for (Zarza 2011, Tables
5.4-5.16)."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Self

from testbed.faults.cable_faults import (
    faults_from_trace,
    intermittent_faults,
    random_faults,
    shape_faults,
)
from testbed.faults.failure_traces import KNOWN_STATISTICS, FailureTrace, generate_trace
from testbed.faults.fault import Fault
from testbed.interconnect.traffic.injection import (
    DestinationPattern,
    InjectionProcess,
    Injections,
    build_injections,
    build_pattern,
    burst_at,
    merge,
    only_in_row,
    row_members,
    tornado_in_one_row,
)
from testbed.model.studies import Points, Results, Row
from topologies import Network, load_network

STRIDE = 1000  # between seeds, so that studies with neighbouring --seed share none
TEN_PERCENT = {"torus:8x8": 12, "torus:16x16": 51, "fat-tree:4,3": 12}
SYNTHETIC = ("uniform", "bit-reversal", "butterfly", "shuffle", "transpose", "complement")

FULL_AND_QUICK_S = {
    "torus:8x8": (2.0, 0.4), "fat-tree:4,3": (2.0, 0.4), "torus:16x16": (1.5, 0.15), "torus:32x32": (0.8, 0.08),
}  # fmt: skip
"""Simulated time where every node has one destination (the document does not give it): figures stand
still when it is doubled (docs/replication/chapter_5.md). A full run has 50,000 messages or more at 400 packets/s a
node.

Studies that give a time of their own have fewer: scatter (one sender) 40,000, the lone burst on a ring some 8,000."""
UNIFORM_S = {"torus:8x8": 8.0, "fat-tree:4,3": 8.0, "torus:16x16": 12.0}
"""That of a full run of uniform traffic: sources have so many destinations that it takes them longer to divert."""

RING_SHAPE, RING_ROW = (8, 8), 5
SLOT_S = 0.01
BURST_AT_S, BURST_MESSAGES = 1.18, 10
FIRST_SHOWN_SLOT = 117
"""The first of the four slots around the burst whose surface maps are shown."""


POISSON = "Messages come at random (Poisson) where the document has a constant rate"


POISSON_512 = f"{POISSON}; payloads of 512 bytes only."
"""How most of the studies deviate."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """What is simulated at a point: a network, its traffic, its failures. Without a field of its own what Zarza 2011,
    Tables 5.5 and 5.6, state: 512 B packets at 400 a second a node, 8 KB buffers, links of 2 Gbps."""

    network: str
    pattern: str
    faults: int = 0
    """How many links fail."""
    fault_kind: str = "none"
    """"start", "half", "random-start": for good from the start, half-way, a random moment; "transient": up to a tenth
    of the run; "intermittent": ten times, a tenth of the run altogether; "shape:NAME:LEG"; "trace:MACHINE",
    "trace-permanent:MACHINE"."""
    seed: int
    rate: float = 400.0
    """Messages a second a node, each of ``bytes``."""
    bytes: int = 512
    buffer_bytes: int = 8192
    paths: int = 4
    routing: str = "ft-drb"
    deadlock: str = "nac"
    seconds: float
    options: Row = field(default_factory=dict)
    """Of ``FtDrbOptions``."""
    injection: str = "poisson"
    switching: str = "cut-through"
    router_delay_s: float | None = None
    """None: that of the thesis' model."""
    traces: str = ""
    """Directory of the public tables of failures; synthetic ones where empty."""

    @classmethod
    def of(cls, point: Row) -> Self:
        """That of a point, which may say more."""
        return cls(**{each.name: point[each.name] for each in fields(cls) if each.name in point})


def seeds_of(seed: int, quick: bool, *, few: int = 2) -> range:
    """The seeds of a study's runs: 30, as the thesis has them, or few."""
    return range(seed, seed + (few if quick else 30) * STRIDE, STRIDE)


def drb_point(
    network: str,
    pattern: str,
    seed: int,
    *,
    quick: bool,
    full_s: float | None = None,
    **changed: Any,
) -> Results:
    """The point of a ``Run``. ``full_s`` is the simulated time of a full run where the study has its own; any other
    field may be changed.

    Raises TypeError for what is no field.
    """
    full, short = FULL_AND_QUICK_S[network]
    if pattern == "uniform":
        full = UNIFORM_S.get(network, full)
    run = replace(
        Run(
            network=network, pattern=pattern, seed=seed, seconds=short if quick else full_s or full
        ),
        **changed | ({} if changed.get("faults") else {"fault_kind": "none"}),
    )
    said = ("injection", "switching", "router_delay_s", "traces")  # where a study says so itself
    return {name: value for name, value in asdict(run).items() if name not in said}


def ring_point(
    part: str, rate: float, seed: int, *, seconds: float, deadlock: str, **changed: object
) -> Results:
    """One run of Zarza 2011, Table 5.4: tornado in row 5 of the 8x8 torus, 2 KB packets, 4 KB buffers.

    ``burst``: so many messages a node in phase at 1.18 s; ``others``: a pattern at 200 packets/s in all other nodes.
    """
    point = {"part": part, "rate": rate, "seed": seed, "seconds": seconds, "deadlock": deadlock}
    return point | {"burst": 0, "others": "", "bytes": 2048, "buffer_bytes": 4096} | changed


@lru_cache(maxsize=8)
def network_of(name: str) -> Network:
    """The network, built once a process."""
    return load_network(name)


def traffic_of(run: Run) -> Injections:
    """The messages of an FT-DRB run; every kind of failure meets the same."""
    process = InjectionProcess(kind=run.injection, rate_per_s=run.rate)
    return _traffic(len(network_of(run.network).hosts), run.pattern, process, run.seconds, run.seed)


@lru_cache(maxsize=1)
def _traffic(
    nodes: int, name: str, process: InjectionProcess, duration_s: float, seed: int
) -> Injections:
    return build_injections(
        build_pattern(name, nodes, root=seed % nodes), process, duration_s=duration_s, seed=seed
    )


def faults_of(run: Run) -> tuple[Fault, ...]:
    """The failures of an FT-DRB run."""
    network, seconds, seed = network_of(run.network), run.seconds, [run.seed, 7]
    kind, _, rest = run.fault_kind.partition(":")
    if kind == "none":
        return ()
    if kind == "shape":
        shape, leg = rest.split(":")
        return shape_faults(network, shape, size=int(leg), seed=seed)
    if kind == "intermittent":
        return intermittent_faults(network, run.faults, seed=seed, duration_s=seconds)
    if kind in ("trace", "trace-permanent"):
        trace = trace_of(rest, run.traces, run.seed)
        return faults_from_trace(
            network, trace, simulated_s=seconds, seed=seed, permanent=kind == "trace-permanent"
        )
    starts = {"start": (0.0, 0.0), "half": (seconds / 2, seconds / 2)}.get(kind, (0.0, seconds))
    lasts_s = (0.0, seconds / 10) if kind == "transient" else None
    return random_faults(network, run.faults, seed=seed, start_s=starts, duration_s=lasts_s)


def trace_of(machine: str, directory: str, seed: int) -> FailureTrace:
    """The machine's trace from the public tables in that directory, or ("") a synthetic one of its statistics."""
    if not directory:
        return generate_trace(KNOWN_STATISTICS[machine], seed=[seed, 11], name=machine)
    from testbed.results.trace_files import read_trace

    if machine == "pnnl-mpp2":
        return read_trace(Path(directory) / "pnnl2007.csv.gz", skip_bad_rows=True)
    return read_trace(
        Path(directory) / "lanl.csv.gz", system=machine.removeprefix("lanl-"), skip_bad_rows=True
    )


def ring_traffic(point: Row) -> Injections:
    """The messages of a run of the ring: tornado in the row, its burst, and the pattern of all other nodes."""
    seed, seconds, row = point["seed"], point["seconds"], tornado_in_one_row(RING_SHAPE, RING_ROW)
    parts = [
        build_injections(
            row, InjectionProcess(rate_per_s=point["rate"]), duration_s=seconds, seed=seed
        )
    ]
    if point["burst"]:
        parts.append(burst_at(row, time_s=BURST_AT_S, messages=point["burst"]))
    if point["others"]:
        rest, process = (
            build_pattern(point["others"], math.prod(RING_SHAPE)),
            InjectionProcess(rate_per_s=200.0),
        )
        parts.append(
            build_injections(_outside_the_row(rest), process, duration_s=seconds, seed=[seed, 3])
        )
    return merge(parts)


def _outside_the_row(pattern: DestinationPattern) -> DestinationPattern:
    inside = set(row_members(RING_SHAPE, RING_ROW))
    return only_in_row(pattern, [s for s in range(len(pattern.choices)) if s not in inside])


def drb_points(
    network: str,
    pattern: str,
    seeds: Iterable[int],
    *,
    quick: bool,
    faults: int | Sequence[int] = 0,
    **changed: Any,
) -> Points:
    """``drb_point`` of each number of faults and each seed."""
    counts = [faults] if isinstance(faults, int) else faults
    return [
        drb_point(network, pattern, s, quick=quick, faults=n, **changed)
        for n in counts
        for s in seeds
    ]
